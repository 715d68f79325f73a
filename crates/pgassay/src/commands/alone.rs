//! Whether somebody else measures on this machine: two at once disturb each other.
//!
//! Each user has a lock file of its own, which nobody else may open: a lock needs
//! no more than the right to read, and whoever holds a common one could have
//! every run say that it is not alone. Looked at are the caller's own lock and
//! root's; that of any other user is not, and his runs are not noticed.

use pgassay_engine::rundir::RunWriter;
use pgassay_model::run::EventKind;
use pgassay_model::warning::Warning;

use crate::terminal::Terminal;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Where the lock files are; they hold nothing, only their locks count.
const PLACE: &str = "/var/tmp";

/// What is known of other measurements.
#[derive(Debug)]
pub enum Company {
    /// None, and others will see that we measure while this is kept.
    Alone(File),
    /// Another pgassay measures now.
    Another,
    /// It can't be told, and that is no reason not to measure.
    Unknown,
}

/// Looks for another measurement of ours or root's and announces this one.
pub fn look() -> Company {
    look_in(Path::new(PLACE))
}

/// Warns of another measurement.
pub fn warn(company: &Company, terminal: &mut Terminal) {
    if let Company::Another = company {
        terminal.warn("another pgassay measures on this machine: they disturb each other");
    }
}

/// Warns of another measurement, and writes it down in the run.
///
/// # Errors
/// Where the run can't be written.
pub fn record(
    company: &Company,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    warn(company, terminal);
    let Company::Another = company else {
        return Ok(());
    };
    let warning = Warning::new(
        "not-alone",
        "Another pgassay measured on this machine at the same time: they disturbed each other.",
    )
    .with_remedy("measure again when it is done");
    writer.append_event(EventKind::Warned { warning })
}

fn look_in(place: &Path) -> Company {
    let us = rustix::process::geteuid().as_raw();
    if us != 0 && locked_by_owner(&lock_file(place, 0), 0) {
        return Company::Another;
    }
    let Ok(file) = open(&lock_file(place, us), us) else {
        return Company::Unknown;
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Company::Alone(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Company::Another,
        Err(_) => Company::Unknown,
    }
}

fn lock_file(place: &Path, uid: u32) -> PathBuf {
    place.join(format!("pgassay-measuring-{uid}.lock"))
}

/// Opens the user's own file, making it where it is missing. One that somebody else has
/// put there is an error, and so is a link.
fn open(path: &Path, us: u32) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let open = |create_new| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(create_new)
            .mode(0o600)
            .custom_flags(no_follow.bits().cast_signed())
            .open(path)
    };
    let file = match open(false) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => open(true),
        opened => opened,
    }?;
    if is_private(&file.metadata()?, us) {
        return Ok(file);
    }
    Err(io::Error::from(io::ErrorKind::PermissionDenied))
}

fn is_private(meta: &fs::Metadata, owner: u32) -> bool {
    meta.is_file() && meta.uid() == owner && meta.mode() & 0o077 == 0
}

/// Whether a file that only its owner may open is locked: the kernel lists all locks.
fn locked_by_owner(path: &Path, owner: u32) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return false;
    };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    is_private(&meta, owner) && lists(&locks, meta.dev(), meta.ino())
}

/// Whether /proc/locks (proc(5)) has a lock by flock(2) on this file.
fn lists(locks: &str, device: u64, inode: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // A line with an arrow is somebody who waits.
        words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&file.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_sys::private::Directory;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn place() -> Directory {
        Directory::make(&std::env::temp_dir(), "pgassay-alone").unwrap()
    }

    #[test]
    fn a_second_measurement_sees_the_first() {
        let place = place();
        let first = look_in(place.path());
        assert!(matches!(first, Company::Alone(_)));
        assert!(matches!(look_in(place.path()), Company::Another));
        // Without opening it, as another user looks for root's. /proc/locks is not read in one
        // piece, and can lack a lock while others come and go; and a child that another test
        // starts has our files until it executes its program.
        let us = rustix::process::geteuid().as_raw();
        let becomes = |locked: bool| {
            (0..1000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                locked_by_owner(&lock_file(place.path(), us), us) == locked
            })
        };
        assert!(becomes(true));
        drop(first);
        assert!(becomes(false));
        assert!(matches!(look_in(place.path()), Company::Alone(_)));
    }

    /// Attack D19: a lock file for all users could be opened, and held, by each of them:
    /// then every run said that another pgassay measured.
    #[test]
    fn a_lock_that_another_user_can_hold_counts_for_nothing() {
        let place = place();
        let us = rustix::process::geteuid().as_raw();
        let path = lock_file(place.path(), us);
        let held = |path: &Path| {
            let file = File::open(path).unwrap();
            flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
            file
        };
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let lock = held(&path);
        assert!(matches!(look_in(place.path()), Company::Unknown));
        assert!(!locked_by_owner(&path, us));
        drop(lock);
        fs::remove_file(&path).unwrap();
        // A link to a file of ours that somebody can hold.
        let elsewhere = place.path().join("elsewhere");
        fs::write(&elsewhere, "").unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(matches!(look_in(place.path()), Company::Unknown));
        fs::remove_file(&path).unwrap();
        if us == 0 {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            chown(&path, Some(4_000_000), None).unwrap();
            let _lock = held(&path);
            assert!(matches!(look_in(place.path()), Company::Unknown));
            assert!(!locked_by_owner(&path, 0));
        }
    }

    #[test]
    fn the_kernels_list_is_read() {
        let locks = "1: POSIX  ADVISORY  WRITE 77 fd:01:12 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 78 fd:01:4711 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 79 fd:01:99 0 EOF\n";
        let device = rustix::fs::makedev(0xfd, 1);
        assert!(lists(locks, device, 4711));
        assert!(!lists(locks, device, 12) && !lists(locks, device, 99));
        assert!(!lists(locks, rustix::fs::makedev(0xfd, 2), 4711));
    }
}
