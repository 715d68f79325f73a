//! The paths that are told by an instruction made for the purpose: the wait of a spin loop, CRC-32C and
//! population count.

use memchr::memmem;

use super::{HotFunction, HotPath, Technique};
use crate::bounds::Bounds;
use crate::model::Hint;

/// `pg_crc32c_table[0]` of slicing-by-8 starts so, in either byte order (pg_crc32c_sb8.c stores the
/// big-endian table swapped).
const CRC32C_TABLE: &[u8] = &[0, 0, 0, 0, 0x03, 0x83, 0x6B, 0xF2, 0xF7, 0x70, 0x3B, 0xE1];

/// The functions that hold any of the instructions, at most sixteen.
fn holders(bounds: &Bounds<'_>, hints: &[(u64, Hint)], wanted: &[Hint]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (address, hint) in hints {
        if wanted.contains(hint)
            && let Some(i) = bounds.find(*address)
        {
            let function = &bounds.functions[i];
            let name = function
                .name
                .map_or_else(|| format!("<{:#x}>", function.start), Into::into);
            if !names.contains(&name) && names.len() < 16 {
                names.push(name);
            }
        }
    }
    names
}

/// How the spin loop waits: `isb`, `yield`, `pause` or nothing.
pub fn delay(bounds: &Bounds<'_>, functions: Vec<HotFunction>, hints: &[(u64, Hint)]) -> HotPath {
    let inside = |hint: &&(u64, Hint)| {
        functions.iter().any(|f| {
            bounds
                .find(hint.0)
                .is_some_and(|i| bounds.functions[i].start == f.address)
        })
    };
    let mut kinds: Vec<&str> = Vec::new();
    for (_, hint) in hints.iter().filter(inside) {
        let kind = match hint {
            Hint::Isb => "isb",
            Hint::Yield => "yield",
            Hint::Wfe => "wfe",
            Hint::Pause => "pause",
            _ => continue,
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let (technique, detail) = if functions.is_empty() {
        (
            Technique::Unnamed,
            "perform_spin_delay and s_lock can't be named here".to_string(),
        )
    } else if kinds.is_empty() {
        (
            Technique::None,
            "no delay instruction: it spins at full speed between sleeps".to_string(),
        )
    } else {
        (Technique::Instruction, kinds.join(", "))
    };
    HotPath {
        id: "spin-delay".into(),
        title: "spin delay".into(),
        technique,
        functions,
        detail,
    }
}

/// How CRC-32C is computed.
pub fn crc(bounds: &Bounds<'_>, hints: &[(u64, Hint)], data: &[(u64, &[u8])]) -> HotPath {
    let by_instruction = hints.iter().any(|(_, h)| *h == Hint::Crc32c);
    let folded = hints.iter().any(|(_, h)| *h == Hint::CarrylessMultiply);
    let table = data
        .iter()
        .any(|(_, d)| memmem::find(d, CRC32C_TABLE).is_some());
    let functions = holders(bounds, hints, &[Hint::Crc32c]);
    let names = functions.join(", ");
    let (technique, mut detail) = match (by_instruction, table) {
        (true, true) => (
            Technique::RunTimeChosen,
            format!("CRC instruction in {names}; table kept for CPUs without it"),
        ),
        (true, false) => (
            Technique::Instruction,
            format!("CRC instruction, no table: {names}"),
        ),
        (false, true) => (Technique::Software, "table only (slicing by 8)".into()),
        (false, false) => (Technique::None, "no CRC-32C found".into()),
    };
    if folded {
        let names = holders(bounds, hints, &[Hint::CarrylessMultiply]).join(", ");
        detail.push_str(&format!("; carry-less multiplication in {names}"));
    }
    HotPath {
        id: "crc32c".into(),
        title: "CRC-32C (WAL records, checksums of files)".into(),
        technique,
        functions: Vec::new(),
        detail,
    }
}

/// How bits are counted.
pub fn popcount(bounds: &Bounds<'_>, hints: &[(u64, Hint)]) -> HotPath {
    let wanted = [Hint::Popcnt, Hint::VectorPopcnt];
    let names = holders(bounds, hints, &wanted);
    let chosen = bounds.functions.iter().any(|f| {
        f.name.is_some_and(|n| {
            n.starts_with("pg_popcount")
                && (n.contains("choose")
                    || n.contains("slow")
                    || n.contains("portable")
                    || n.contains("generic"))
        })
    });
    let (technique, detail) = match (names.is_empty(), chosen) {
        (true, _) => (
            Technique::Software,
            "no population-count instruction".into(),
        ),
        (false, true) => (
            Technique::RunTimeChosen,
            format!("instruction in {}; a table besides", names.join(", ")),
        ),
        (false, false) => (
            Technique::Instruction,
            format!("instruction in {}", names.join(", ")),
        ),
    };
    HotPath {
        id: "popcount".into(),
        title: "population count".into(),
        technique,
        functions: Vec::new(),
        detail,
    }
}
