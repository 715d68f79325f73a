//! What a binary's locks and buffer pins compile to.
//!
//! Bytes in, an account of the code out: this crate opens no file and starts no process, so that it
//! can be fuzzed whole and used from anywhere. [`inspect_elf`] reads one ELF image; [`archive`]
//! walks packages and hands over the images in them.
//!
//! ```
//! use pgassay_inspect::{Options, inspect_elf};
//!
//! let bytes = std::fs::read("/proc/self/exe")?;
//! let binary = inspect_elf("this program", &bytes, &Options::default())?;
//! println!("{} for {}: {:?}", binary.path, binary.machine.name(), binary.atomics.counts);
//! assert!(!binary.atomics.functions.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod annobin;
pub mod archive;
mod bounds;
mod by_callers;
mod calls;
mod checked;
mod compressed;
pub mod cpu;
pub mod diff;
mod dwarf;
mod elf;
mod error;
pub mod extensions;
mod facts;
mod gopclntab;
pub mod hotpath;
pub mod inspection;
mod isa;
pub mod loading;
pub mod model;
pub mod modules;
mod outline;
mod page_sizes;
mod process;
pub mod recommend;
pub mod require;
mod scan;
mod side_by_side;
pub mod symbols;

use std::collections::BTreeMap;

pub use crate::error::Error;
pub use crate::model::{Atomic, Atomics, Binary, Class, Counts, FileKind, Hint, Machine, Ordering};
pub use crate::process::{FlagByte, ProcessFacts};

use crate::bounds::{Bounds, ExtraSymbols, Source};
use crate::elf::{Image, Parsed};
use crate::model::{BuildFacts, FunctionAtomics, FunctionBounds, Hardening, HintCount};
use crate::page_sizes::Loading;

/// Choices of an inspection.
#[derive(Clone, Debug)]
pub struct Options<'d> {
    /// Threads for one file; 1 where many files are inspected side by side.
    pub threads: usize,
    /// The separate debug file, where there is one (see [`debug_wanted`]).
    pub debug: Option<&'d [u8]>,
    /// The file that DWARF of the file or of its debug file refers to for what several programs
    /// share, where there is one (see [`supplement_wanted`]).
    pub supplement: Option<&'d [u8]>,
    /// Told of parts of the file that will not be read again soon.
    pub read: Option<Read<'d>>,
    /// Instructions and call sites that are listed one by one; beyond, they are counted only.
    pub most_listed: usize,
}

/// Instructions listed of one file, or of all that are inspected together: about half a gigabyte. A
/// browser of 200 MB has a tenth of it.
pub const MOST_LISTED: usize = 4_000_000;

impl Options<'_> {
    /// The choices for so many threads, with nothing besides the file.
    pub const fn on(threads: usize) -> Self {
        Self {
            threads,
            debug: None,
            supplement: None,
            read: None,
            most_listed: MOST_LISTED,
        }
    }

    /// Passes on that `bytes` were read.
    fn was_read(&self, bytes: &[u8]) {
        if let Some(Read(tell)) = self.read {
            tell(bytes);
        }
    }
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self::on(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

/// A caller that mapped the file may let go of the pages it is told of, so that the memory taken does
/// not grow to the length of the file.
#[derive(Clone, Copy)]
pub struct Read<'d>(pub &'d (dyn Fn(&[u8]) + Sync));

impl std::fmt::Debug for Read<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Read")
    }
}

/// What names a file's separate debug file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugWanted {
    /// Build id in hexadecimal: `/usr/lib/debug/.build-id/xx/rest.debug`.
    pub build_id: Option<String>,
    /// File name from `.gnu_debuglink`.
    pub debuglink: Option<String>,
}

/// Tells whether a stripped file names a separate debug file that would name its functions.
pub fn debug_wanted(bytes: &[u8]) -> Option<DebugWanted> {
    match elf::parse(bytes) {
        Ok(Parsed::Image(image)) => {
            let facts = facts::build_facts(&image);
            (facts.stripped && (facts.build_id.is_some() || facts.debuglink.is_some())).then_some(
                DebugWanted {
                    build_id: facts.build_id,
                    debuglink: facts.debuglink,
                },
            )
        }
        _ => None,
    }
}

/// What names the file of DWARF that several programs share (`.gnu_debugaltlink`, which dwz writes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplementWanted {
    /// Its path, beside the file that names it if it is no absolute one.
    pub path: Vec<u8>,
    /// Its build id.
    pub build_id: Vec<u8>,
}

/// Tells whether a file's DWARF refers to a supplementary file.
pub fn supplement_wanted(bytes: &[u8]) -> Option<SupplementWanted> {
    match elf::parse(bytes) {
        Ok(Parsed::Image(image)) => image.supplement_wanted(),
        _ => None,
    }
}

/// The processor that an ELF file is for; none where it is none, or can't be read.
pub fn machine(bytes: &[u8]) -> Option<Machine> {
    match elf::parse(bytes).ok()? {
        Parsed::Image(image) => Some(image.machine),
        Parsed::Foreign(foreign) => Some(foreign.machine),
    }
}

/// Inspects one ELF file. `name` is what the result is called: a path, or `package!member`.
///
/// # Errors
/// Where the bytes are not a linked ELF file or its headers can't be followed. A fault further in
/// costs what stands there only, and is told in [`Binary::warnings`].
pub fn inspect_elf(name: &str, bytes: &[u8], options: &Options<'_>) -> Result<Binary, Error> {
    match elf::parse(bytes)? {
        Parsed::Image(image) => Ok(inspect_image(name, &image, options)),
        Parsed::Foreign(foreign) => Ok(Binary {
            path: name.into(),
            warnings: vec![format!(
                "instructions of {} are not read; x86-64, aarch64, ppc64le, riscv64 and s390x are",
                foreign.machine.name()
            )],
            machine: foreign.machine,
            kind: foreign.kind,
            size_bytes: bytes.len() as u64,
            build: BuildFacts::default(),
            postgres: None,
            hardening: Hardening::default(),
            bounds: FunctionBounds::default(),
            loading: Loading::default(),
            atomics: Atomics::default(),
            hints: Vec::new(),
            hot_paths: Vec::new(),
            process: None,
        }),
    }
}

/// The address ranges of the functions of an ELF file, by start: where instructions are counted, and
/// outside which what reads as an atomic is listed apart. For holding the result against a
/// disassembler.
///
/// # Errors
/// As for [`inspect_elf`].
pub fn function_bounds(bytes: &[u8]) -> Result<Vec<(u64, u64)>, Error> {
    match elf::parse(bytes)? {
        Parsed::Image(image) => {
            let mini = compressed::mini_debug_info(&image, &mut Vec::new());
            let mini = mini.as_deref().and_then(mini_image);
            let extra = mini.iter().map(|m| (Source::DebugData, m.symtab()));
            let bounds = Bounds::gather(&image, extra.collect(), 1, &mut Vec::new());
            Ok(bounds.functions.iter().map(|f| (f.start, f.end)).collect())
        }
        Parsed::Foreign(_) => Ok(Vec::new()),
    }
}

/// The symbols of `.gnu_debugdata` as an ELF file: it has no code, only the table.
fn mini_image(bytes: &[u8]) -> Option<Box<Image<'_>>> {
    match elf::parse(bytes) {
        Ok(Parsed::Image(image)) => Some(image),
        _ => None,
    }
}

fn inspect_image(name: &str, image: &Image<'_>, options: &Options<'_>) -> Binary {
    let mut warnings = image.warnings.clone();
    let debug_image = options.debug.and_then(|debug| match elf::parse(debug) {
        Ok(Parsed::Image(other)) => {
            let (ours, theirs) = (image.build_id(), other.build_id());
            if ours.is_some() && theirs.is_some() && ours != theirs {
                warnings
                    .push("the separate debug file is of another build and was not used".into());
                None
            } else {
                Some(other)
            }
        }
        _ => {
            warnings.push("the separate debug file can't be read".into());
            None
        }
    });
    let mut extra: ExtraSymbols<'_> = Vec::new();
    extra.extend(debug_image.iter().map(|d| (Source::DebugFile, d.symtab())));
    let mini = compressed::mini_debug_info(image, &mut warnings);
    let mini = mini.as_deref().and_then(mini_image);
    extra.extend(mini.iter().map(|m| (Source::DebugData, m.symtab())));
    let threads = options.threads;
    // Texts and code have nothing to do with one another.
    let ((bounds, scan), (mut build, (postgres, flags))) = side_by_side::both(
        threads,
        || {
            let bounds = Bounds::gather(image, extra, threads, &mut warnings);
            let scan = scan::scan(image, &bounds, options);
            (bounds, scan)
        },
        || (facts::build_facts(image), facts::postgres_facts(image)),
    );
    build.flags.extend(flags);
    // The server's own word goes first: `.comment` names the start-up files' compiler too.
    if let Some(text) = postgres.as_ref().and_then(|p| p.version_text.as_deref())
        && let Some((_, compiler)) = text.split_once("compiled by ")
    {
        build
            .compilers
            .insert(0, compiler.trim_end_matches(", 64-bit").to_string());
    }

    let not_listed = scan.not_listed();
    let mut atomics = account(image, &bounds, scan.inside.atomics, scan.outside, options);
    for (class, n) in &scan.inside.not_listed {
        *atomics.counts.entry(*class).or_insert(0) += n;
    }
    atomics.outside_count += scan.outside_not_listed;
    let not_listed = not_listed + atomics.call_sites_not_listed();
    if not_listed > 0 {
        warnings.push(format!(
            "{not_listed} instructions or call sites are counted in the totals only, not by function: \
             at most {} are listed",
            options.most_listed
        ));
    }
    if scan.inside.hints_left_out > 0 {
        warnings.push(format!(
            "{} delay, CRC and popcount instructions were left out: at most {} are read",
            scan.inside.hints_left_out, options.most_listed
        ));
    }
    // DWARF of the file itself, else of its separate debug file.
    let has_dwarf = |image: &&Image<'_>| image.has_dwarf();
    let described = [Some(image), debug_image.as_deref()];
    if let Some(described) = described.into_iter().flatten().find(has_dwarf) {
        let supplement = supplement(described, options, &mut warnings);
        let told = dwarf::read(
            described,
            supplement.as_ref(),
            &atomics.addresses(),
            &mut warnings,
        );
        facts::add_producers(&mut build, &told.producers);
        name_inlined(&mut atomics, &told.inlined);
    }
    let hints = hint_counts(&bounds, &scan.inside.hints);
    let hot_paths = match &postgres {
        Some(postgres) => {
            let told = by_callers::names(image, &bounds, &atomics);
            for function in &mut atomics.functions {
                if let Some(name) = told.get(&function.address) {
                    function.name = Some(name.clone());
                    function.named_by_callers = true;
                }
            }
            hotpath::hot_paths(
                image,
                postgres.major(),
                &bounds,
                &atomics,
                &scan.inside.hints,
            )
        }
        None => Vec::new(),
    };
    if image.kind == FileKind::DebugInfo {
        warnings.push(
            "holds symbols and DWARF only; the code is in the file it was stripped from".into(),
        );
    }
    Binary {
        path: name.into(),
        machine: image.machine.clone(),
        kind: image.kind,
        size_bytes: image.bytes.len() as u64,
        build,
        postgres,
        hardening: facts::hardening(image, scan.inside.pac),
        bounds: bounds.summary(image),
        loading: loading::loading(image),
        atomics,
        hints,
        hot_paths,
        process: None,
        warnings,
    }
}

/// The supplementary file of DWARF, if it is the one that `described` names; else why not.
fn supplement<'d>(
    described: &Image<'_>,
    options: &Options<'d>,
    warnings: &mut Vec<String>,
) -> Option<Image<'d>> {
    let wanted = described.supplement_wanted()?;
    let path = facts::clean(&wanted.path);
    let Some(bytes) = options.supplement else {
        warnings.push(format!(
            "names of inlined functions may be in {path}, which is not there: they read <inlined>"
        ));
        return None;
    };
    match elf::parse_supplement(bytes) {
        Ok(image) if image.build_id() == Some(wanted.build_id.as_slice()) => Some(image),
        Ok(_) => {
            warnings.push(format!("{path} is of another build and was not used"));
            None
        }
        Err(error) => {
            warnings.push(format!("{path} can't be read: {error}"));
            None
        }
    }
}

/// Attributes instructions and outline calls to functions.
fn account(
    image: &Image<'_>,
    bounds: &Bounds<'_>,
    mut instructions: Vec<Atomic>,
    outside: Vec<Atomic>,
    options: &Options<'_>,
) -> Atomics {
    instructions.sort_by_key(|a| a.address);
    let mut outline = (image.machine == Machine::Aarch64)
        .then(|| outline::find(image, bounds, instructions.iter().chain(&outside), options))
        .flatten();
    let mut by_start: BTreeMap<u64, FunctionAtomics> = BTreeMap::new();
    let mut entry = |address: u64| -> Option<u64> {
        let function = &bounds.functions[bounds.find(address)?];
        by_start
            .entry(function.start)
            .or_insert_with(|| FunctionAtomics {
                name: function.name.map(|n| facts::clean(n.as_bytes())),
                address: function.start,
                size_bytes: function.end - function.start,
                ..FunctionAtomics::default()
            });
        Some(function.start)
    };
    let starts: Vec<Option<u64>> = instructions.iter().map(|a| entry(a.address)).collect();
    let calls: Vec<Option<u64>> = outline
        .iter()
        .flat_map(|o| &o.calls)
        .map(|c| entry(c.address))
        .collect();

    let mut counts = Counts::new();
    for (atomic, start) in instructions.iter().zip(&starts) {
        *counts.entry(atomic.class).or_insert(0) += 1;
        if let Some(function) = start.and_then(|s| by_start.get_mut(&s)) {
            *function.counts.entry(atomic.class).or_insert(0) += 1;
        }
    }
    if let Some(outline) = &outline {
        for (call, start) in outline.calls.iter().zip(&calls) {
            let helper = outline.helpers[call.helper as usize].name.clone();
            if let Some(function) = start.and_then(|s| by_start.get_mut(&s)) {
                *function.outline_calls.entry(helper).or_insert(0) += 1;
            }
        }
        for helper in &outline.helpers {
            if let Some(function) = by_start.get_mut(&helper.address) {
                function.is_outline_helper = true;
                function.name.get_or_insert_with(|| helper.name.clone());
            }
        }
    }
    let order: BTreeMap<u64, u32> = by_start
        .keys()
        .enumerate()
        .map(|(i, s)| (*s, i as u32))
        .collect();
    for (atomic, start) in instructions.iter_mut().zip(&starts) {
        atomic.function = start.and_then(|s| order.get(&s).copied());
    }
    let functions: Vec<FunctionAtomics> = by_start.into_values().collect();
    if let Some(outline) = &mut outline {
        for (call, start) in outline.calls.iter_mut().zip(&calls) {
            call.function = start.and_then(|s| order.get(&s).copied());
        }
        for atomic in &instructions {
            if atomic
                .function
                .is_some_and(|f| functions[f as usize].is_outline_helper)
            {
                if atomic.class.is_lse() {
                    outline.lse_in_helpers += 1;
                } else if atomic.class.is_llsc() {
                    outline.exclusive_in_helpers += 1;
                }
            }
        }
    }
    let checked = match image.machine {
        Machine::Aarch64 => checked::count(image, &instructions, &functions),
        _ => checked::Checked::default(),
    };
    Atomics {
        counts,
        checked_lse: checked.lse,
        checked_exclusive: checked.exclusive,
        functions,
        instructions,
        outside_count: outside.len() as u64,
        outside,
        outline,
    }
}

/// Adds to instructions, call sites and functions what was inlined around them.
fn name_inlined(atomics: &mut Atomics, inlined: &BTreeMap<u64, Vec<String>>) {
    let functions = &mut atomics.functions;
    let mut add = |address: u64, function: Option<u32>, chain: &mut Vec<String>| {
        let Some(names) = inlined.get(&address) else {
            return;
        };
        chain.clone_from(names);
        if let Some(function) = function.and_then(|f| functions.get_mut(f as usize)) {
            *function.inlined.entry(names.join(" > ")).or_insert(0) += 1;
        }
    };
    for a in &mut atomics.instructions {
        add(a.address, a.function, &mut a.inlined);
    }
    for call in atomics.outline.iter_mut().flat_map(|o| &mut o.calls) {
        add(call.address, call.function, &mut call.inlined);
    }
}

fn hint_counts(bounds: &Bounds<'_>, hints: &[(u64, Hint)]) -> Vec<HintCount> {
    let mut counts: BTreeMap<Hint, HintCount> = BTreeMap::new();
    for (address, hint) in hints {
        let count = counts.entry(*hint).or_insert_with(|| HintCount {
            hint: *hint,
            count: 0,
            functions: Vec::new(),
        });
        count.count += 1;
        if count.functions.len() < 16
            && let Some(i) = bounds.find(*address)
        {
            let function = &bounds.functions[i];
            let name = function
                .name
                .map_or_else(|| format!("<{:#x}>", function.start), Into::into);
            if !count.functions.contains(&name) {
                count.functions.push(name);
            }
        }
    }
    counts.into_values().collect()
}
