//! Whatever a file of exported tables holds, it is read or refused, with little more memory than it has bytes.
//!
//! The first byte says which table it is; that of the runs, without which no other is read, is whole beside it.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pgassay_records::{hosts, past};

const RUNS: &[u8] = include_bytes!("../seeds/tables/runs");
const TABLES: [&str; 7] = ["runs", "servers", "metrics", "hosts", "audits", "findings", "traits"];

/// One directory for all inputs of this process. scripts/fuzz.sh removes it.
fn directory() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let base = std::env::var_os("PGASSAY_FUZZ_FILES").map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = base.join(format!("tables-{}", std::process::id()));
        for table in TABLES {
            fs::create_dir_all(dir.join(table).join("date=2026-11-21")).expect("a directory");
        }
        dir
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((which, file)) = data.split_first() else { return };
    let dir = directory();
    let place = |table: &str| dir.join(format!("{table}/date=2026-11-21/{table}.parquet"));
    let table = TABLES[usize::from(*which) % TABLES.len()];
    for other in TABLES {
        fs::remove_file(place(other)).ok();
    }
    fs::write(place("runs"), &RUNS[1..]).expect("a file");
    fs::write(place(table), file).expect("a file");
    let _ = past(dir);
    let _ = hosts(dir, "fuzz");
});
