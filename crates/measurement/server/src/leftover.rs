//! What a killed run left: found, ended and removed, and nothing else.
//!
//! A cluster is left over when nobody holds the flock of its directory: its
//! owner ended without cleaning up, for a flock ends with the process. Its
//! server has normally died with it (parent-death signal); one that still runs
//! is only touched when the recorded pid has the recorded start time, works in
//! that data directory and runs as the data's owner.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::scratch::{self, Scratch};
use super::{TargetError, huge_pages, read_ahead, unfinished};

/// A cluster, or another directory of one run, that was removed because its owner is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its directory, now gone.
    pub dir: PathBuf,
    /// The server that was still running and was ended.
    pub ended: Option<u32>,
    /// Why it could not be removed whole, where it could not.
    pub failed: Option<String>,
}

/// Removes the clusters and other directories of dead owners, and gives back the read-ahead that
/// they set; a living owner's are not touched.
///
/// # Errors
/// Where the scratch directory's lock can't be had. What can't be removed is no
/// error: it is in the list, with the reason.
pub fn sweep(scratch: &Scratch) -> Result<Vec<Leftover>, TargetError> {
    let mut dead = Vec::new();
    let mut removed: Vec<Leftover>;
    {
        let _held = scratch.lock()?;
        read_ahead::sweep(scratch);
        removed = unfinished::sweep(scratch, &std::env::temp_dir())
            .into_iter()
            .map(|(dir, failed)| Leftover {
                dir,
                ended: None,
                failed,
            })
            .collect();
        for entry in fs::read_dir(scratch.clusters())
            .into_iter()
            .flatten()
            .flatten()
        {
            let dir = entry.path();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_dir || !looks_like_id(&dir) {
                continue;
            }
            // The lock is kept until the removal is done, so that no second
            // sweep begins with the same one.
            if let Ok(lock) = scratch::open_lock(&dir.join("lock"))
                && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            {
                dead.push((dir, lock));
            }
        }
    }
    // The devices are the machine's: their notes are in one place, wherever the clusters are.
    if let Ok(Some(usual)) = Scratch::existing(None)
        && usual.root() != scratch.root()
        && let Ok(_held) = usual.lock()
    {
        read_ahead::sweep(&usual);
    }
    removed.extend(dead.into_iter().map(|(dir, _lock)| remove_one(dir)));
    Ok(removed)
}

/// Whether a directory's name is one that clusters are given.
fn looks_like_id(dir: &Path) -> bool {
    dir.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| {
            name.len() == 6
                && name
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        })
}

fn remove_one(dir: PathBuf) -> Leftover {
    let data = dir.join("data");
    let ended = living_server(&dir, &data).and_then(|pid| end(pid, &data));
    huge_pages::sweep(&dir.join("huge_pages"));
    let failed = remove_files(&dir, &data).err();
    Leftover { dir, ended, failed }
}

fn remove_files(dir: &Path, data: &Path) -> Result<(), String> {
    let id = dir
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let socket_dir = scratch::socket_dir_of(id);
    // /tmp is everybody's: a directory there is only ours to remove when it
    // belongs to the server's user, who owns the data directory.
    let ours = match (fs::symlink_metadata(&socket_dir), fs::metadata(data)) {
        (Ok(socket), Ok(data)) => socket.is_dir() && socket.uid() == data.uid(),
        (Ok(socket), Err(_)) => {
            socket.is_dir() && socket.uid() == rustix::process::geteuid().as_raw()
        }
        (Err(_), _) => false,
    };
    let socket_dir = if ours {
        socket_dir
    } else {
        dir.join("no-socket")
    };
    scratch::remove(dir, &socket_dir).map_err(|error| error.to_string())
}

/// The server of a dead owner's cluster, where it still runs and is surely it.
fn living_server(dir: &Path, data: &Path) -> Option<u32> {
    let noted = fs::read_to_string(dir.join("postmaster")).ok()?;
    let mut words = noted.split_whitespace();
    let pid: u32 = words.next()?.parse().ok()?;
    let ticks: u64 = words.next()?.parse().ok()?;
    (start_ticks(pid)? == ticks && is_server_of(pid, data)).then_some(pid)
}

/// Whether `pid` works in `data` as the user who owns it: a server changes
/// into its data directory and stays there.
fn is_server_of(pid: u32, data: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let (Ok(cwd), Ok(process), Ok(owner)) = (
        fs::metadata(process.join("cwd")),
        fs::metadata(&process),
        fs::metadata(data),
    ) else {
        return false;
    };
    (cwd.dev(), cwd.ino()) == (owner.dev(), owner.ino()) && process.uid() == owner.uid()
}

/// Ends a server at once; its pid where it is gone.
fn end(pid: u32, data: &Path) -> Option<u32> {
    let process = Pid::from_raw(i32::try_from(pid).ok()?)?;
    // Held open, the descriptor means this process even if the number is used
    // again; so the identity is looked at once more after opening.
    let fd = pidfd_open(process, PidfdFlags::empty()).ok()?;
    if !is_server_of(pid, data) {
        return None;
    }
    for signal in [Signal::QUIT, Signal::KILL] {
        pidfd_send_signal(&fd, signal).ok()?;
        let until = Instant::now() + Duration::from_secs(5);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let timeout = Timespec::try_from(left).ok()?;
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            // Readable when the process has ended.
            match poll(&mut fds, Some(&timeout)) {
                Ok(ready) if ready > 0 => return Some(pid),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
    None
}

/// When a process started, in clock ticks since boot: field 22 of
/// /proc/PID/stat (proc(5)). With the pid it names one process for ever.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses can hold anything; the fields follow its end.
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Home;

    #[test]
    fn ones_own_start_is_found() {
        let own = start_ticks(std::process::id()).unwrap();
        assert!(own > 0);
        assert_eq!(start_ticks(u32::MAX), None);
    }

    #[test]
    fn only_the_dead_are_swept() {
        let base = PathBuf::from(format!(
            "/var/tmp/pgassay-test-sweep-{}",
            std::process::id()
        ));
        fs::create_dir(&base).unwrap();
        let scratch = Scratch::open(Some(&base)).unwrap();
        let living = Home::make(&scratch, None).unwrap();
        // What a killed run leaves: the files, and no lock held.
        let dead = scratch.clusters().join("dead00");
        fs::create_dir_all(dead.join("data/base")).unwrap();
        // A pid that lives but is no server of this data directory: ourselves.
        let own = std::process::id();
        let note = format!("{own} {}\n", start_ticks(own).unwrap());
        fs::write(dead.join("postmaster"), note).unwrap();
        // Not a cluster's name: somebody's, left alone.
        let foreign = scratch.clusters().join("my-notes");
        fs::create_dir(&foreign).unwrap();

        // Not what another run of another time left among the temporary files.
        let swept = || -> Vec<Leftover> {
            let swept = sweep(&scratch).unwrap().into_iter();
            swept.filter(|l| l.dir.starts_with(&base)).collect()
        };
        assert_eq!(
            swept(),
            [Leftover {
                dir: dead.clone(),
                ended: None,
                failed: None
            }]
        );
        assert!(!dead.exists());
        assert!(foreign.exists() && living.data().exists());
        assert!(swept().is_empty());
        drop(living);
        fs::remove_dir_all(&base).unwrap();
    }
}
