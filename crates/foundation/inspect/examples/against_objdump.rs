//! Holds one ELF file against a disassembler's list: the addresses of atomics, in hexadecimal, one a
//! line on standard input. Prints one line of counts; exit code 1 where they differ inside function
//! bounds. `scripts/corpus.sh` runs it over everything.
#![allow(clippy::print_stdout, reason = "an example is a program")]

use std::collections::BTreeSet;
use std::io::BufRead;
use std::process::ExitCode;

use pgassay_inspect::{Options, function_bounds, inspect_elf};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: against_objdump FILE < ADDRESSES")?;
    let bytes = std::fs::read(&path)?;
    let bounds = function_bounds(&bytes)?;
    let inside = |address: &u64| {
        let behind = bounds.partition_point(|b| b.0 <= *address);
        behind > 0 && *address < bounds[behind - 1].1
    };
    let mut theirs = BTreeSet::new();
    for line in std::io::stdin().lock().lines() {
        theirs.insert(u64::from_str_radix(line?.trim(), 16)?);
    }
    let binary = inspect_elf(&path, &bytes, &Options::default())?;
    let ours: BTreeSet<u64> = binary
        .atomics
        .instructions
        .iter()
        .map(|a| a.address)
        .collect();
    // What mapping symbols mark as data is set apart although a function surrounds it.
    let apart: BTreeSet<u64> = binary.atomics.outside.iter().map(|a| a.address).collect();
    let expected: BTreeSet<u64> = theirs
        .iter()
        .copied()
        .filter(|a| inside(a) && !apart.contains(a))
        .collect();
    let missed: Vec<_> = expected.difference(&ours).collect();
    let invented: Vec<_> = ours.difference(&expected).collect();
    println!(
        "{:9} inside {:5} objdump {:5} missed {} invented {} | outside {:4} objdump {:4} | calls {:4} | {path}",
        binary.machine.name(),
        ours.len(),
        expected.len(),
        missed.len(),
        invented.len(),
        apart.len(),
        theirs.len() - expected.len(),
        binary.atomics.outline_calls(),
    );
    for address in missed.iter().take(5) {
        println!("    missed {address:#x}");
    }
    for address in invented.iter().take(5) {
        println!("    invented {address:#x}");
    }
    Ok(if missed.is_empty() && invented.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
