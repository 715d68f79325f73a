//! Times the inspection of files already in memory: the best and the median of repetitions.
#![allow(clippy::print_stdout, reason = "an example is a program")]

use std::time::Instant;

use pgassay_inspect::{Options, inspect_elf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let mut times = Vec::new();
        for _ in 0..21 {
            let start = Instant::now();
            std::hint::black_box(inspect_elf(&path, &bytes, &Options::default())?);
            times.push(start.elapsed());
        }
        times.sort();
        println!("best {:?} median {:?} {path}", times[0], times[10]);
    }
    Ok(())
}
