//! What was read of runs, kept for the next time in the user's cache directory.
//!
//! A file for each directory of runs: a first line that says what it is, then a line for each run. It is
//! a cache: what does not fit is read anew, and nothing is lost with it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use pgassay_analysis::summary::Summary;
use pgassay_sys::{input, output};
use serde::{Deserialize, Serialize};

/// Raised when what is kept of a run changes its form or its meaning.
const REVISION: u32 = 1;
/// Largest file that is read.
const LARGEST: u64 = 128 << 20;

/// By what it is seen that a run has changed: times in nanoseconds, a length in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::commands) struct Stamp {
    /// Its directory: a file was made, renamed into place, or removed.
    pub dir: i64,
    /// Its trials.
    pub trials: i64,
    /// Their length.
    pub length: u64,
}

/// What is known of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::commands) struct Line {
    /// Its name.
    pub run: String,
    /// When that was so.
    pub stamp: Stamp,
    /// Its summary, or why there is none.
    pub read: Result<Summary, String>,
}

#[derive(Serialize, Deserialize, PartialEq)]
struct Head {
    schema: String,
    revision: u32,
    version: String,
    dir: String,
}

impl Head {
    fn of(dir: &Path) -> Self {
        Self {
            schema: "pgassay/summaries/1".to_owned(),
            revision: REVISION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dir: dir.to_string_lossy().into_owned(),
        }
    }
}

/// The file for a directory of runs; `None` where the user has no cache directory.
pub(in crate::commands) fn file(dir: &Path) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    // FNV-1a: only to tell directories apart, and the first line says which it is.
    let bytes = dir.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    Some(cache.join(format!("pgassay/summaries/{hash:016x}.jsonl")))
}

/// What is kept of a directory's runs; nothing where it is of another version or damaged.
pub(in crate::commands) fn load(file: &Path, dir: &Path) -> Vec<Line> {
    let text = input::read(file, LARGEST).unwrap_or_default();
    let mut lines = text.split(|byte| *byte == b'\n');
    let head = lines
        .next()
        .and_then(|line| serde_json::from_slice::<Head>(line).ok());
    if head.is_none_or(|head| head != Head::of(dir)) {
        return Vec::new();
    }
    lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

/// Keeps these. Where it can't, they are read anew the next time.
pub(in crate::commands) fn save(file: &Path, dir: &Path, lines: impl Iterator<Item = Line>) {
    let mut text = serde_json::to_string(&Head::of(dir)).unwrap_or_default();
    for line in lines {
        if let Ok(line) = serde_json::to_string(&line) {
            let _ = write!(text, "\n{line}");
        }
    }
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    if made.is_ok() {
        let _ = output::replace(file, text.as_bytes());
    }
}
