//! Finds what may be a host's below a directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_analysis::fleet::{Gathering, Unused};
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

/// Directories within directories that are looked into.
const DEEPEST: usize = 16;

/// What may be a host's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The file, or a run's directory.
    pub(super) path: PathBuf,
    /// Whether it is a run's.
    pub(super) is_run: bool,
    /// What its host is called.
    pub(super) name: String,
    /// How large it is; of a run its trials.
    pub(super) bytes: u64,
}

impl Item {
    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Adds what is below a path that the user named. A link that was named is followed, one below is not.
///
/// # Errors
/// Where the path is not there or can't be read.
pub(super) fn find(
    root: &Path,
    items: &mut Vec<Item>,
    gathering: &mut Gathering,
    stop: &Stop,
) -> anyhow::Result<()> {
    let meta = fs::metadata(root).map_err(|e| {
        Failure::usage(format!("cannot read {}: {e}", root.display()))
            .with_remedy("name a directory of files that pgassay collect wrote, or of runs")
    })?;
    let mut finding = Finding {
        root,
        items,
        gathering,
        stop,
    };
    if meta.is_dir() {
        if fs::read_dir(root).is_err() {
            bail!(
                Failure::usage(format!("{} may not be read", root.display()))
                    .with_remedy("call pgassay fleet as the user who owns it")
            );
        }
        return finding.directory(root, 0);
    }
    finding.file(root, &meta);
    Ok(())
}

struct Finding<'a> {
    root: &'a Path,
    items: &'a mut Vec<Item>,
    gathering: &'a mut Gathering,
    stop: &'a Stop,
}

impl Finding<'_> {
    fn directory(&mut self, dir: &Path, depth: usize) -> anyhow::Result<()> {
        if self.stop.asked() {
            bail!(Failure::interrupted());
        }
        if fs::symlink_metadata(dir.join("run.json")).is_ok_and(|meta| meta.is_file()) {
            let trials = fs::symlink_metadata(dir.join("trials.jsonl"));
            self.items.push(Item {
                path: dir.to_owned(),
                is_run: true,
                name: name_of(self.root, dir, true),
                bytes: trials.map_or(0, |meta| meta.len()),
            });
            return Ok(());
        }
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) => {
                self.leave_out(dir, Unused::Unreadable, &e.to_string());
                return Ok(());
            }
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            // As in a listing, hidden ones are nobody's.
            let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
            if path.file_name().is_none_or(hidden) {
                continue;
            }
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            match meta.file_type() {
                kind if kind.is_dir() && depth < DEEPEST => self.directory(&path, depth + 1)?,
                kind if kind.is_dir() => {
                    let why = format!("it lies in more than {DEEPEST} directories");
                    self.leave_out(&path, Unused::TooDeep, &why);
                }
                kind if kind.is_file() => self.file(&path, &meta),
                kind if kind.is_symlink() => {
                    self.leave_out(&path, Unused::NoFile, "a link, which may lead elsewhere");
                }
                _ => self.leave_out(&path, Unused::NoFile, "neither a file nor a directory"),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, meta: &fs::Metadata) {
        self.items.push(Item {
            path: path.to_owned(),
            is_run: false,
            name: name_of(self.root, path, false),
            bytes: meta.size(),
        });
    }

    fn leave_out(&mut self, path: &Path, because: Unused, why: &str) {
        let place = path.display().to_string();
        self.gathering.leave_out(place, because, why.to_owned());
    }
}

/// What a host is called: its file without `.json`, or the directory in which its facts or runs lie.
fn name_of(root: &Path, path: &Path, is_run: bool) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let (directory, common) = match is_run {
        true => (below.parent().map(Path::to_owned), "runs"),
        false => (Some(below.with_extension("")), "facts"),
    };
    let mut name = directory.unwrap_or_default();
    if name.file_name().is_some_and(|last| last == common) && name.components().count() > 1 {
        name.pop();
    } else if is_run && name.file_name().is_some_and(|last| last == common) {
        name.clear();
    }
    if name.as_os_str().is_empty() {
        // It was named itself, or lies in what was.
        let whole = match is_run {
            true => path.to_owned(),
            false => path.with_extension(""),
        };
        let last = whole
            .file_name()
            .map(|last| last.to_string_lossy().into_owned());
        return last.unwrap_or_else(|| whole.display().to_string());
    }
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_called_as_its_file_or_its_directory() {
        for (path, is_run, name) in [
            ("/f/db1.json", false, "db1"),
            ("/f/eu/db1.json", false, "eu/db1"),
            ("/f/db1/facts.json", false, "db1"),
            ("/f/eu/db1/facts.json", false, "eu/db1"),
            ("/f/db1.example.com.json", false, "db1.example.com"),
            ("/f/facts.json", false, "facts"),
            ("/f/db1/runs/20261121T031500Z-x-abcd", true, "db1"),
            ("/f/db1/20261121T031500Z-x-abcd", true, "db1"),
            (
                "/f/runs/20261121T031500Z-x-abcd",
                true,
                "20261121T031500Z-x-abcd",
            ),
            (
                "/f/20261121T031500Z-x-abcd",
                true,
                "20261121T031500Z-x-abcd",
            ),
            ("/f", true, "f"),
            ("/f", false, "f"),
        ] {
            assert_eq!(
                name_of(Path::new("/f"), Path::new(path), is_run),
                name,
                "{path}"
            );
        }
    }
}
