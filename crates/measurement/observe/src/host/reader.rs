//! Reading small files of /proc and /sys, under another root in tests.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pgassay_model::reading::Reading;

/// More than this is not read of any file: /proc/cpuinfo of the largest
/// machines is under 1 MiB.
const LIMIT: u64 = 4 << 20;

/// Reads files below a root directory.
pub(super) struct Reader {
    root: PathBuf,
}

impl Reader {
    pub(super) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where the file is that `path` (absolute) names.
    pub(super) fn real(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The file's text, or why there is none. A device tree's strings end in
    /// NUL, which becomes a line's end.
    pub(super) fn read(&self, path: &str) -> Reading {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            File::open(self.real(path))?
                .take(LIMIT)
                .read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Reading::Text(String::from_utf8_lossy(&bytes).replace('\0', "\n")),
            Err(error) => Reading::Unavailable(error.to_string()),
        }
    }

    /// The file's text without the line's end, where it can be read.
    pub(super) fn value(&self, path: &str) -> Option<String> {
        self.read(path).text().map(|text| text.trim().to_owned())
    }

    /// Names in a directory that fit a pattern with one `*`, sorted.
    pub(super) fn entries(&self, dir: &str, pattern: &str) -> Vec<String> {
        let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
        let mut names: Vec<String> = std::fs::read_dir(self.real(dir))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| {
                name.strip_prefix(before)
                    .is_some_and(|rest| rest.ends_with(after))
            })
            .collect();
        names.sort();
        names
    }

    /// Where a link below the root leads, as an absolute path of that root.
    pub(super) fn resolve(&self, path: &str) -> Option<String> {
        let real = std::fs::canonicalize(self.real(path)).ok()?;
        let root = std::fs::canonicalize(&self.root).ok()?;
        let below = real.strip_prefix(root).ok()?;
        Some(Path::new("/").join(below).to_string_lossy().into_owned())
    }
}
