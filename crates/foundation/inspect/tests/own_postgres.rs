//! The PostgreSQL of this machine against this machine's own objdump: every address, both ways.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use pgassay_inspect::{Machine, Options, inspect_elf};

/// The newest server among the distribution's versioned directories.
fn postgres() -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .flatten()
        .filter_map(|e| {
            Some((
                e.file_name().to_str()?.parse().ok()?,
                e.path().join("bin/postgres"),
            ))
        })
        .filter(|(_, p)| p.is_file())
        .collect();
    found.sort();
    found.pop().map(|(_, p)| p)
}

/// Whether objdump's text of one instruction is an atomic, by the disassembler's own spelling.
fn is_atomic(machine: &Machine, text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    match machine {
        Machine::X86_64 => {
            let operands = text.rsplit(' ').next().unwrap_or_default();
            text.split(' ').any(|w| w == "lock")
                || first.starts_with("xchg") && operands.contains('(')
        }
        Machine::Aarch64 => {
            let stems = [
                "ldxr", "ldaxr", "ldxp", "ldaxp", "stxr", "stlxr", "stxp", "stlxp", "cas", "swp",
                "ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin",
                "stadd", "stclr", "steor", "stset", "stsmax", "stsmin", "stumax", "stumin",
            ];
            stems.iter().any(|s| first.starts_with(s))
        }
        _ => false,
    }
}

#[test]
fn agrees_with_objdump_to_the_last_address() {
    let path =
        postgres().expect("a PostgreSQL under /usr/lib/postgresql: apt-get install postgresql");
    let bytes = std::fs::read(&path).expect("a readable server");
    let binary = inspect_elf("postgres", &bytes, &Options::default()).expect("an inspection");
    let facts = binary
        .postgres
        .as_ref()
        .expect("recognised as a PostgreSQL server");
    assert_eq!(
        facts.block_size_bytes,
        Some(8192),
        "Debian builds with 8 KiB blocks"
    );
    let major = path
        .components()
        .rev()
        .nth(2)
        .expect("versioned directory")
        .as_os_str();
    assert!(
        facts.version.starts_with(major.to_str().expect("a number")),
        "{facts:?}"
    );

    let output = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(&path)
        .output()
        .expect("objdump: apt-get install binutils");
    let listing = String::from_utf8_lossy(&output.stdout);
    let theirs: BTreeSet<u64> = listing
        .lines()
        .filter_map(|line| line.split_once(":\t"))
        .filter(|(_, text)| is_atomic(&binary.machine, text))
        .filter_map(|(address, _)| u64::from_str_radix(address.trim(), 16).ok())
        .collect();
    let ours: BTreeSet<u64> = binary
        .atomics
        .instructions
        .iter()
        .map(|a| a.address)
        .collect();
    let outside: BTreeSet<u64> = binary.atomics.outside.iter().map(|a| a.address).collect();
    assert!(
        theirs.len() > 10,
        "objdump showed only {} atomics",
        theirs.len()
    );
    assert!(
        ours.is_subset(&theirs),
        "ours only: {:x?}",
        ours.difference(&theirs)
    );
    let all: BTreeSet<u64> = ours.union(&outside).copied().collect();
    assert!(
        theirs.is_subset(&all),
        "objdump only: {:x?}",
        theirs.difference(&all)
    );
    assert_eq!(binary.atomics.total(), ours.len() as u64);
}
