//! Any bytes as a package, with small limits so that reaching them is tried too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_inspect::archive::{Found, Limits, walk};
use pgassay_inspect::{Options, inspect_elf};

fuzz_target!(|data: &[u8]| {
    let limits =
        Limits { depth: 6, entries: 200, held_bytes: 1 << 20, total_bytes: 4 << 20, ratio: 1000 };
    let mut held = 0;
    walk("input", data, &limits, &mut |_, found| {
        if let Found::Elf(bytes) = found {
            held += bytes.len();
            let _ = inspect_elf("member", bytes, &Options::on(1));
        }
    });
    assert!(held <= 16 << 20, "{held} bytes were handed over");
});
