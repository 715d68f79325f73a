//! Directories of one process only: filled before they are put in place, or used for one
//! measurement. Each is named after its process and locked by it, so that a later run
//! removes what a killed one left.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::scratch::Scratch;

/// The name of a directory of this process.
pub fn name(prefix: &str, number: u32) -> String {
    match number {
        0 => format!("{prefix}{}", std::process::id()),
        n => format!("{prefix}{}-{n}", std::process::id()),
    }
}

/// Locks a directory until the result is dropped or the process ends.
///
/// # Errors
/// If it can't be opened, or another process holds it.
pub fn hold(dir: &Path) -> io::Result<File> {
    let file = open(dir)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn open(dir: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?.into())
}

/// Removes what killed runs left below a scratch directory and among temporary files.
/// Each with the reason if it could not be removed whole.
pub(super) fn sweep(scratch: &Scratch, temporary: &Path) -> Vec<(PathBuf, Option<String>)> {
    let root = scratch.root();
    [
        (root.to_path_buf(), "counting-"),
        (root.to_path_buf(), "emulated-"),
        (root.to_path_buf(), "kernels-"),
        (root.join("extensions"), "building-"),
        (root.join("archives"), ".unpacking-"),
        (temporary.to_path_buf(), "pgassay-perf-"),
        (temporary.to_path_buf(), "pgassay-query-"),
    ]
    .iter()
    .flat_map(|(parent, prefix)| sweep_in(parent, prefix))
    .collect()
}

/// Removes the directories below `parent` named `prefix`PID or `prefix`PID-NUMBER that are ours
/// and whose process has ended. The lock counts beside the number: in another container the
/// same number is another process.
fn sweep_in(parent: &Path, prefix: &str) -> Vec<(PathBuf, Option<String>)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|dir| process_of(dir, prefix).is_some_and(|pid| !lives(pid)))
        .filter(|dir| is_ours(dir))
        .filter_map(|dir| {
            let _held = hold(&dir).ok()?;
            let failed = fs::remove_dir_all(&dir).err().map(|e| e.to_string());
            Some((dir, failed))
        })
        .collect()
}

fn lives(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// The process that a directory is named after.
fn process_of(dir: &Path, prefix: &str) -> Option<u32> {
    let rest = dir.file_name()?.to_str()?.strip_prefix(prefix)?;
    let (pid, number) = rest.split_once('-').unwrap_or((rest, "0"));
    let digits = |text: &str, hex: bool| {
        let fits = |b: u8| b.is_ascii_digit() || (hex && b.is_ascii_hexdigit());
        !text.is_empty() && text.bytes().all(fits)
    };
    (digits(pid, false) && digits(number, true)).then(|| pid.parse().ok())?
}

/// In /tmp others may have given a directory such a name.
fn is_ours(dir: &Path) -> bool {
    fs::symlink_metadata(dir)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack D19: after kill -9 counting-*, building-*, .unpacking-* and the directories of
    /// perf stayed for ever.
    #[test]
    fn only_what_a_dead_process_left_is_removed() {
        let base = PathBuf::from(format!(
            "/var/tmp/pgassay-test-unfinished-{}",
            std::process::id()
        ));
        drop(fs::remove_dir_all(&base));
        fs::create_dir(&base).unwrap();
        let scratch = Scratch::open(Some(&base)).unwrap();
        let root = scratch.root().to_path_buf();
        let temporary = base.join("tmp");
        // The kernel gives no number as high as this (PID_MAX_LIMIT is 4194304).
        let dead = 4_194_305;
        let left = [
            root.join(format!("counting-{dead}-3")),
            root.join(format!("kernels-{dead}-00c0ffee00c0ffee")),
            root.join(format!("extensions/building-{dead}")),
            root.join(format!("archives/.unpacking-{dead}")),
            temporary.join(format!("pgassay-perf-{dead}-00c0ffee00c0ffee")),
            temporary.join(format!("pgassay-query-{dead}-00c0ffee00c0ffee")),
        ];
        let held = root.join(format!("counting-{dead}-4"));
        let stay = [
            root.join(name("counting-", 1)),
            root.join("counting-notes"),
            root.join(format!("extensions/other-{dead}")),
            held.clone(),
        ];
        for dir in left.iter().chain(&stay) {
            fs::create_dir_all(dir.join("bin")).unwrap();
        }
        let lock = hold(&held).unwrap();
        let swept: Vec<PathBuf> = sweep(&scratch, &temporary)
            .into_iter()
            .map(|(dir, _)| dir)
            .collect();
        for dir in &left {
            assert!(!dir.exists() && swept.contains(dir), "{}", dir.display());
        }
        for dir in &stay {
            assert!(dir.join("bin").exists(), "{}", dir.display());
        }
        drop(lock);
        assert_eq!(sweep(&scratch, &temporary).len(), 1);
        assert!(!held.exists());
        fs::remove_dir_all(&base).unwrap();
    }
}
