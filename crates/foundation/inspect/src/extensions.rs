//! Which instruction-set extensions the functions of a file use, and how the file asks for them.
//!
//! An extension is what not every processor of the architecture has, and NEON, which all aarch64 have.
//! Whether a function may use it is decided elsewhere: at run time, by a check that this module looks
//! for (CPUID, HWCAP, ID registers, ifuncs), or at build time, for the whole file.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object, ObjectSection as _, ObjectSymbol as _};

use crate::bounds::{Bounds, Function};
use crate::calls::callees;
use crate::compressed;
use crate::elf::{self, Image, Parsed};
use crate::error::Error;
use crate::facts;
use crate::isa::extensions::{Asked, a64, x86};
use crate::model::Machine;

/// A function that uses extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Special {
    /// Its name, if a symbol tells it.
    pub name: Option<String>,
    /// Address of its first byte.
    pub address: u64,
    /// Instructions by extension.
    pub extensions: BTreeMap<&'static str, u64>,
    /// Functions for the baseline that call it directly, with no check in sight, by name or address.
    pub called_from: Vec<String>,
    /// It asks the processor itself.
    pub asks: bool,
}

/// What the functions of a file use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// The architecture.
    pub machine: Machine,
    /// Functions that were read.
    pub functions: usize,
    /// Those that use extensions, by address.
    pub special: Vec<Special>,
    /// How the file asks for extensions at run time, such as `CPUID in f`.
    pub checks: BTreeSet<String>,
}

/// Whether every processor of an architecture has an extension.
pub fn is_baseline(extension: &str) -> bool {
    extension == "NEON"
}

/// Callers named for one function.
const CALLERS: usize = 4;

/// What the functions of an ELF file use. Machines other than x86-64 and aarch64 have none here.
///
/// # Errors
/// As for [`crate::inspect_elf`].
pub fn extensions(bytes: &[u8]) -> Result<Extensions, Error> {
    let image = match elf::parse(bytes)? {
        Parsed::Image(image) => image,
        Parsed::Foreign(foreign) => {
            return Ok(Extensions {
                machine: foreign.machine,
                functions: 0,
                special: Vec::new(),
                checks: BTreeSet::new(),
            });
        }
    };
    let mini = compressed::mini_debug_info(&image, &mut Vec::new());
    let mini = mini.as_deref().and_then(crate::mini_image);
    let extra = mini.iter().map(|m| (crate::Source::DebugData, m.symtab()));
    let bounds = Bounds::gather(&image, extra.collect(), 1, &mut Vec::new());
    let mut found = Extensions {
        machine: image.machine.clone(),
        functions: bounds.functions.len(),
        special: Vec::new(),
        checks: of_symbols(&image),
    };
    // Who asks the processor itself.
    let mut asking = BTreeSet::new();
    for function in &bounds.functions {
        let mut asked = Asked::default();
        let code = code(&image, function);
        match image.machine {
            Machine::X86_64 => x86(code, function.start, &mut asked),
            Machine::Aarch64 => a64(code, &mut asked),
            _ => return Ok(found),
        }
        if let Some(how) = asked.check {
            asking.insert(function.start);
            found.checks.insert(format!("{how} in {}", named(function)));
        }
        if !asked.extensions.is_empty() {
            found.special.push(Special {
                name: function.name.map(|name| facts::clean(name.as_bytes())),
                address: function.start,
                extensions: asked.extensions,
                called_from: Vec::new(),
                asks: asked.check.is_some(),
            });
        }
    }
    callers(&image, &bounds, &asking, &mut found.special);
    Ok(found)
}

/// The same of a module of PostgreSQL, with the functions that the server calls by name: those with a
/// `pg_finfo_` next to them, and `_PG_init`.
///
/// # Errors
/// As for [`crate::inspect_elf`].
pub fn extensions_of_module(bytes: &[u8]) -> Result<(Extensions, BTreeSet<String>), Error> {
    let mut entries = BTreeSet::from(["_PG_init".to_owned()]);
    if let Parsed::Image(image) = elf::parse(bytes)? {
        let symbols = image.file.dynamic_symbols();
        let named = symbols.filter_map(|symbol| Some(symbol.name().ok()?.to_owned()));
        entries.extend(named.filter_map(|n| Some(n.strip_prefix("pg_finfo_")?.to_owned())));
    }
    Ok((extensions(bytes)?, entries))
}

fn code<'d>(image: &Image<'d>, function: &Function<'_>) -> &'d [u8] {
    let length = usize::try_from(function.end - function.start).unwrap_or(0);
    let bytes = image.at(function.start).unwrap_or_default();
    &bytes[..bytes.len().min(length)]
}

fn named(function: &Function<'_>) -> String {
    match function.name {
        Some(name) => facts::clean(name.as_bytes()),
        None => format!("{:#x}", function.start),
    }
}

/// Checks that symbols, imports and relocations tell of.
fn of_symbols(image: &Image<'_>) -> BTreeSet<String> {
    const FUNCTIONS: [&str; 6] = [
        "getauxval",
        "__getauxval",
        "elf_aux_info",
        "__cpu_indicator_init",
        "__init_cpu_features",
        "__init_cpu_features_resolver",
    ];
    let mut checks = BTreeSet::new();
    for name in FUNCTIONS {
        if image.mentions(|symbol| symbol == name) {
            checks.insert(name.to_owned());
        }
    }
    if relocates_by_ifunc(image) {
        checks.insert("ifunc".to_owned());
    }
    checks
}

/// Whether a relocation asks a resolver: IRELATIVE, 37 on x86-64 and 1032 on aarch64.
fn relocates_by_ifunc(image: &Image<'_>) -> bool {
    const ENTRY: usize = 24;
    let wanted = match image.machine {
        Machine::X86_64 => 37,
        Machine::Aarch64 => 1032,
        _ => return false,
    };
    let sections = image.file.sections();
    let mut tables = sections.filter(|section| {
        section
            .name()
            .is_ok_and(|name| name == ".rela.plt" || name == ".rela.dyn")
    });
    tables.any(|section| {
        let data = section.data().unwrap_or_default();
        data.chunks_exact(ENTRY)
            .any(|entry| entry[8..12] == u32::to_le_bytes(wanted) && entry[16..24] != [0; 8])
    })
}

/// Finds the functions for the baseline that call special ones directly, and neither ask the processor
/// nor call a function that does.
fn callers(
    image: &Image<'_>,
    bounds: &Bounds<'_>,
    asking: &BTreeSet<u64>,
    special: &mut [Special],
) {
    let beyond = |special: &Special| special.extensions.keys().any(|name| !is_baseline(name));
    let special_at: BTreeMap<u64, usize> = special
        .iter()
        .enumerate()
        .filter(|(_, special)| beyond(special))
        .map(|(n, special)| (special.address, n))
        .collect();
    if special_at.is_empty() {
        return;
    }
    for function in &bounds.functions {
        if special_at.contains_key(&function.start) || asking.contains(&function.start) {
            continue;
        }
        let callees = callees(image, bounds, function);
        if callees.iter().any(|callee| asking.contains(callee)) {
            continue;
        }
        for callee in callees {
            let Some(special) = special_at.get(&callee).and_then(|n| special.get_mut(*n)) else {
                continue;
            };
            if special.called_from.len() < CALLERS {
                special.called_from.push(named(function));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Extensions {
        let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        extensions(&std::fs::read(path).expect("a fixture")).expect("an ELF file")
    }

    #[test]
    fn a_build_for_the_baseline_needs_nothing() {
        for name in ["x86-gcc.so", "a64-gcc-llsc.so"] {
            let found = fixture(name);
            let beyond = found
                .special
                .iter()
                .flat_map(|special| special.extensions.keys());
            let beyond: Vec<_> = beyond.filter(|name| !is_baseline(name)).collect();
            assert!(
                found.functions > 0 && beyond.is_empty(),
                "{name}: {beyond:?}"
            );
        }
    }

    #[test]
    fn what_is_no_elf_file_is_an_error() {
        assert!(extensions(b"").is_err());
        assert!(extensions(b"\x7fELF").is_err());
    }
}
