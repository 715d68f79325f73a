//! Lists the atomics of ELF files, one a line, to hold against a disassembler.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example is a program"
)]

use std::time::Instant;

use pgassay_inspect::{Options, inspect_elf};

fn main() {
    let quiet = std::env::var_os("QUIET").is_some();
    for path in std::env::args().skip(1) {
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                eprintln!("{path}: {error}");
                continue;
            }
        };
        let start = Instant::now();
        match inspect_elf(&path, &bytes, &Options::default()) {
            Ok(binary) => {
                eprintln!("{path}: {:?}", start.elapsed());
                if quiet {
                    let mut small = binary.clone();
                    small.atomics.instructions.clear();
                    small.atomics.functions.clear();
                    println!("{small:#?}");
                    continue;
                }
                for (atomic, place) in binary
                    .atomics
                    .instructions
                    .iter()
                    .map(|a| (a, "in"))
                    .chain(binary.atomics.outside.iter().map(|a| (a, "out")))
                {
                    println!("{:x} {place} {}", atomic.address, atomic.mnemonic);
                }
            }
            Err(error) => eprintln!("{path}: {error}"),
        }
    }
}
