//! CPU samples with their call chains, from wherever they come, in one form.
//!
//! Three ways lead here: the text of `perf script` ([`script`]), the text of
//! `perf report --stdio` or of a `perf top` copied by hand ([`listing`]), and
//! pgassay's own samples. All three are foreign or large, so what a [`Profile`]
//! takes is bounded: a name, a chain, the number of different ones. What was
//! left out is counted and told.
//!
//! A chain stands from the outermost caller to the sampled function.

pub mod listing;
pub mod script;

use std::collections::{BTreeMap, HashMap};

use pgassay_model::observed::stacks::KERNEL;
use thiserror::Error;

/// Longest name of a function or an object, in bytes; C++ symbols can be longer and are cut.
const LONGEST_NAME: usize = 300;
/// Most frames of a chain: the kernel keeps 127 (perf_event_max_stack).
const DEEPEST: usize = 512;
/// Most different functions.
const MOST_FRAMES: usize = 200_000;
/// Most different chains.
const MOST_STACKS: usize = 500_000;

/// A function as a sample saw it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The function, without offset and without the compiler's suffixes; `[unknown]` where
    /// nothing names it.
    pub symbol: String,
    /// File name of the program or library; `[kernel]` for the kernel.
    pub object: String,
}

/// What a function is called that nothing names.
pub const UNKNOWN: &str = "[unknown]";

impl Frame {
    /// A frame with names made harmless: one line, bounded, offsets and suffixes gone.
    pub fn new(symbol: &str, object: &str) -> Self {
        let object = match object_name(object) {
            "" => UNKNOWN.to_owned(),
            name => bounded(name),
        };
        Self {
            symbol: bounded(plain_symbol(symbol)),
            object,
        }
    }

    /// Whether the kernel ran.
    pub fn is_kernel(&self) -> bool {
        self.object == KERNEL
    }
}

/// What the weights of a profile are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Samples, counted.
    Samples,
    /// Per cent of all samples, as a listing printed them.
    Percent,
}

/// Samples folded by call chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// What the weights are.
    pub unit: Unit,
    /// The different functions.
    frames: Vec<Frame>,
    known: HashMap<Frame, u32>,
    /// Chains of indices into `frames`, outermost first, with their weight.
    stacks: BTreeMap<Vec<u32>, f64>,
    /// Weight that carries no chain beyond the function itself.
    lone: f64,
    /// Weight that came in; what was left out included.
    pub total: f64,
    /// What was left out or not understood, in words.
    pub remarks: Vec<String>,
}

/// Why a text gives no profile.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    /// Neither of the two forms.
    #[error("this is neither the output of `perf script` nor of `perf report --stdio`")]
    Unknown,
    /// The form is right, and there is not one sample in it.
    #[error("there is no sample in it")]
    Empty,
}

impl Profile {
    /// An empty profile.
    pub fn new(unit: Unit) -> Self {
        Self {
            unit,
            frames: Vec::new(),
            known: HashMap::new(),
            stacks: BTreeMap::new(),
            lone: 0.0,
            total: 0.0,
            remarks: Vec::new(),
        }
    }

    /// Reads the text of `perf script` or of `perf report --stdio`.
    ///
    /// # Errors
    /// Where it is neither, or holds no sample.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile = if script::looks_like(text) {
            script::parse(text)
        } else if listing::looks_like(text) {
            listing::parse(text)
        } else {
            return Err(ProfileError::Unknown);
        };
        if profile.total > 0.0 {
            Ok(profile)
        } else {
            Err(ProfileError::Empty)
        }
    }

    /// Adds a chain, outermost caller first. A weight that is no positive number is ignored.
    pub fn add(&mut self, chain: impl IntoIterator<Item = Frame>, weight: f64) {
        if !(weight.is_finite() && weight > 0.0) {
            return;
        }
        self.total += weight;
        let mut stack: Vec<u32> = Vec::new();
        for frame in chain {
            let Some(index) = self.intern(frame) else {
                return self.remark("too many different functions; the rest is left out");
            };
            stack.push(index);
        }
        if stack.len() > DEEPEST {
            // The sampled end tells more than the outermost callers.
            stack.drain(..stack.len() - DEEPEST);
            self.remark("very deep call chains were cut at their outer end");
        }
        if stack.is_empty() {
            return;
        }
        if stack.len() == 1 {
            self.lone += weight;
        }
        if self.stacks.len() >= MOST_STACKS && !self.stacks.contains_key(&stack) {
            return self.remark("too many different call chains; the rest is left out");
        }
        *self.stacks.entry(stack).or_default() += weight;
    }

    fn intern(&mut self, frame: Frame) -> Option<u32> {
        if let Some(index) = self.known.get(&frame) {
            return Some(*index);
        }
        if self.frames.len() >= MOST_FRAMES {
            return None;
        }
        let index = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.known.insert(frame, index);
        Some(index)
    }

    /// Notes something once.
    pub fn remark(&mut self, text: &str) {
        if self.remarks.len() < 20 && !self.remarks.iter().any(|r| r == text) {
            self.remarks.push(text.to_owned());
        }
    }

    /// All chains, outermost caller first, with their weight.
    pub fn stacks(&self) -> impl Iterator<Item = (Vec<&Frame>, f64)> {
        self.stacks.iter().map(|(stack, weight)| {
            let frames = stack.iter().filter_map(|i| self.frames.get(*i as usize));
            (frames.collect(), *weight)
        })
    }

    /// Whether most samples carry callers.
    pub fn has_call_chains(&self) -> bool {
        self.total > 0.0 && self.lone < self.total * 0.5
    }

    /// The folded form that flame graph programs read: `a;b;c 12`, a line a chain.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for (frames, weight) in self.stacks() {
            let names: Vec<String> = frames.iter().map(|f| f.symbol.replace(';', ":")).collect();
            text.push_str(&format!("{} {weight}\n", names.join(";")));
        }
        text
    }

    /// Adds all of another profile, each weight times `factor`.
    pub fn merge(&mut self, other: &Self, factor: f64) {
        for (frames, weight) in other.stacks() {
            self.add(frames.into_iter().cloned(), weight * factor);
        }
        for remark in &other.remarks {
            self.remark(remark);
        }
    }
}

/// One line without control characters, of bounded length.
fn bounded(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    match clean.char_indices().find(|(at, _)| *at >= LONGEST_NAME) {
        Some((at, _)) => format!("{}…", &clean[..at]),
        None => clean,
    }
}

/// `/usr/lib/postgresql/15/bin/postgres` is `postgres`; all of the kernel is one object.
fn object_name(path: &str) -> &str {
    let path = path.trim();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    if path.starts_with("[kernel") || path.starts_with("[guest.kernel") || path.ends_with(".ko") {
        return KERNEL;
    }
    match path.strip_prefix('[').and_then(|p| p.strip_suffix(']')) {
        // A kernel module, as perf script prints it; `[vdso]` and `[unknown]` are none.
        Some(module) if !matches!(module, "vdso" | "unknown" | "heap" | "stack" | "vsyscall") => {
            KERNEL
        }
        Some(_) => path,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

/// A function's name as its source has it: no offset, no version, no suffix of a clone.
fn plain_symbol(symbol: &str) -> &str {
    let mut name = symbol.trim();
    if let Some((before, offset)) = name.rsplit_once("+0x")
        && offset.chars().all(|c| c.is_ascii_hexdigit())
    {
        name = before;
    }
    let end = name.find('@').filter(|at| *at > 0).unwrap_or(name.len());
    name = &name[..end];
    for suffix in [
        ".constprop",
        ".isra",
        ".part",
        ".cold",
        ".lto_priv",
        ".llvm",
    ] {
        if let Some(at) = name.find(suffix).filter(|at| *at > 0) {
            name = &name[..at];
        }
    }
    // An address is no name.
    let digits = name.strip_prefix("0x").unwrap_or(name);
    if name.is_empty()
        || (digits.len() >= 3
            && digits.chars().all(|c| c.is_ascii_hexdigit())
            && digits.chars().any(|c| c.is_ascii_digit()))
    {
        return UNKNOWN;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        for (written, plain) in [
            ("LWLockAcquire+0x5c", "LWLockAcquire"),
            ("PinBuffer.isra.0", "PinBuffer"),
            (
                "hash_search_with_hash_value.constprop.1.cold",
                "hash_search_with_hash_value",
            ),
            ("cfree@GLIBC_2.2.5", "cfree"),
            ("recv@plt", "recv"),
            ("0x0000000000073502", UNKNOWN),
            ("7f33a0", UNKNOWN),
            ("abc", "abc"),
            ("add", "add"),
            ("[unknown]", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(Frame::new(written, "postgres").symbol, plain, "{written}");
        }
        for (written, plain) in [
            ("/usr/lib/postgresql/15/bin/postgres", "postgres"),
            ("[kernel.kallsyms]", KERNEL),
            ("[k3d]", KERNEL),
            ("[vdso]", "[vdso]"),
            ("/tmp/x (deleted)", "x"),
            ("", UNKNOWN),
        ] {
            assert_eq!(Frame::new("f", written).object, plain, "{written}");
        }
        assert!(Frame::new(&"x".repeat(9000), "o").symbol.len() < 310);
        assert_eq!(Frame::new("a\x1b[31mb", "o").symbol, "a [31mb");
    }

    #[test]
    fn what_is_no_weight_is_not_counted() {
        let mut profile = Profile::new(Unit::Samples);
        for weight in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            profile.add([Frame::new("f", "o")], weight);
        }
        assert_eq!(profile.total, 0.0);
        profile.add([Frame::new("main", "o"), Frame::new("f;g", "o")], 2.0);
        assert_eq!(profile.folded(), "main;f:g 2\n");
        assert!(profile.has_call_chains());
    }
}
