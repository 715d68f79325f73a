//! Whatever the files of a run directory hold, the run is read or refused, concluded and rendered.
//!
//! The input is the directory: each file's text begins behind a line `== NAME`.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pgassay_analysis::analyse::analyse;
use pgassay_engine::rundir;
use pgassay_report::TextStyle;

/// The files of a run; nothing else is written, whatever the input names.
const FILES: &[&str] = &[
    "run.json",
    "end.json",
    "trials.jsonl",
    "events.jsonl",
    "facts/host.json",
    "facts/check.json",
    "facts/comparison.json",
    "facts/server-0.json",
    "facts/binary-0.json",
    "facts/storage-0.json",
    "facts/arm-0.json",
    "facts/symbols-0.json",
    "facts/query-cost.json",
    "facts/pgio-counters.json",
];

/// One directory for all inputs of this process, in memory where there is such a place.
fn directory() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let dir = base.join(format!("pgassay-fuzz-{}", std::process::id()));
        fs::create_dir_all(dir.join("facts")).expect("a directory");
        dir
    })
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let dir = directory();
    for name in FILES {
        fs::remove_file(dir.join(name)).ok();
    }
    for part in text.split("\n== ").skip(1) {
        let (name, content) = part.split_once('\n').unwrap_or((part, ""));
        if FILES.contains(&name) {
            fs::write(dir.join(name), content).expect("a file");
        }
    }
    rundir::catalogue::describe(dir).ok();
    let Ok(run) = rundir::read(dir) else { return };
    let analysis = analyse(&run);
    let style = TextStyle {
        width: 80,
        color: false,
        unicode: true,
    };
    let shown = pgassay_report::text(&analysis, &style);
    assert!(
        shown.chars().all(|c| c == '\n' || !c.is_control()),
        "a control character is printed"
    );
    assert!(!pgassay_report::html(&analysis).is_empty());
    assert!(!pgassay_report::markdown(&analysis).is_empty());
    assert!(pgassay_report::csv(&analysis).is_none_or(|csv| !csv.is_empty()));
    assert!(serde_json::from_str::<serde_json::Value>(&pgassay_report::json(&analysis)).is_ok());
});
