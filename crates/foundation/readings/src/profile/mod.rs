//! CPU samples with their call chains, from wherever they come, in one form.
//!
//! Four ways lead here: the text of `perf script` ([`script`]), the text of
//! `perf report --stdio` or of a `perf top` copied by hand ([`listing`]), folded
//! stacks ([`folded`]), and pgassay's own samples. All are foreign or large, so
//! what a [`Profile`] takes is bounded: a name, a chain, the number of different
//! ones. What was left out is counted and reported.
//!
//! A chain stands from the outermost caller to the sampled function.

mod columns;
pub mod folded;
pub mod listing;
mod pasted;
mod programs;
pub mod script;
mod tree;

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
    /// Per cent of all samples in a function and what it called, where a listing prints them.
    inclusive: BTreeMap<Frame, f64>,
    /// Weight of other programs on the machine, the largest first; not in `total`.
    pub others: Vec<(String, f64)>,
    /// Weight of CPUs that had nothing to run; not in `total`.
    pub idle: f64,
    /// What was left out or not understood, in words.
    pub remarks: Vec<String>,
}

/// Why a text gives no profile.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    /// None of the forms.
    #[error(
        "this is neither the output of `perf script`, `perf report` or `perf top` nor folded stacks"
    )]
    Unknown,
    /// The form is right, and there is not one sample in it.
    #[error("there is no sample in it")]
    Empty,
    /// There are samples, and none is of PostgreSQL.
    #[error("no sample in it is of a PostgreSQL server; it has {0}")]
    NoServer(String),
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
            inclusive: BTreeMap::new(),
            others: Vec::new(),
            idle: 0.0,
            remarks: Vec::new(),
        }
    }

    /// Reads the text of `perf script`, `perf report` or `perf top`, or folded stacks.
    ///
    /// # Errors
    /// Where it is none of them, or holds no sample of a PostgreSQL server.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile = if script::looks_like(text) {
            script::parse(text)
        } else if listing::looks_like(text) {
            listing::parse(text)
        } else if folded::looks_like(text) {
            folded::parse(text)
        } else {
            return Err(ProfileError::Unknown);
        };
        if profile.total > 0.0 || !profile.inclusive.is_empty() {
            return Ok(profile);
        }
        let mut found: Vec<&str> = profile
            .others
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        found.truncate(5);
        if profile.idle > 0.0 {
            found.push("idle CPUs");
        }
        match found.is_empty() {
            true => Err(ProfileError::Empty),
            false => Err(ProfileError::NoServer(found.join(", "))),
        }
    }

    /// The weight of all of the server's samples, those that a listing leaves out included.
    ///
    /// The percentages of a listing of one program are of its samples. On a whole machine, what a
    /// listing leaves out is divided as what it shows, unless that is at least nine tenths.
    pub fn whole(&self) -> f64 {
        let listed = self.machine();
        match self.unit {
            Unit::Samples => self.total,
            Unit::Percent if listed <= self.total => self.total.max(100.0),
            Unit::Percent if listed >= 90.0 => self.total,
            Unit::Percent => self.total * 100.0 / listed,
        }
    }

    /// The weight of all samples of the machine that were read.
    pub fn machine(&self) -> f64 {
        let others = self.others.iter().map(|(_, weight)| weight);
        self.total + self.idle + others.sum::<f64>()
    }

    /// Notes the weight of a function with all that it calls.
    fn add_inclusive(&mut self, frame: &Frame, weight: f64) {
        if weight.is_finite() && weight > 0.0 && self.inclusive.len() < MOST_FRAMES {
            let known = self.inclusive.entry(frame.clone()).or_default();
            *known += weight;
        }
    }

    /// Functions with the weight of all samples in them or in what they called, as a listing
    /// prints them in a column of its own.
    pub fn inclusive(&self) -> impl Iterator<Item = (&Frame, f64)> {
        self.inclusive
            .iter()
            .map(|(frame, weight)| (frame, *weight))
    }

    /// Whether a function of such an object was seen.
    fn has_object(&self, is: impl Fn(&str) -> bool) -> bool {
        self.frames.iter().any(|f| is(&f.object))
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
        for (frame, weight) in other.inclusive() {
            self.add_inclusive(frame, weight * factor);
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
