//! Any bytes as an ELF file, once alone and once as its own separate debug file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_inspect::{Options, inspect_elf};

fuzz_target!(|data: &[u8]| {
    let debug = data.first().is_some_and(|b| b & 1 == 1).then_some(data);
    if let Ok(binary) = inspect_elf("input", data, &Options { debug, ..Options::on(1) }) {
        let total: u64 = binary.atomics.counts.values().sum();
        assert_eq!(total, binary.atomics.instructions.len() as u64);
        assert!(binary.bounds.covered_bytes <= binary.bounds.text_bytes);
        assert!(binary.bounds.text_bytes <= data.len() as u64);
        for pair in binary.atomics.instructions.windows(2) {
            assert!(pair[0].address < pair[1].address, "an instruction is counted twice");
        }
    }
});
