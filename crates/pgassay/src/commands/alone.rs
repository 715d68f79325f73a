//! Whether somebody else measures on this machine: two at once disturb each other.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// One for all users of the machine. It holds nothing; only its lock counts.
const LOCK: &str = "/var/tmp/pgassay-measuring.lock";

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

/// Looks for another measurement and announces this one.
pub fn look() -> Company {
    let file = match open(Path::new(LOCK)) {
        Ok(file) => file,
        Err(_) => return Company::Unknown,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Company::Alone(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Company::Another,
        Err(_) => Company::Unknown,
    }
}

/// Opens the file whoever made it; a lock needs no right to write. Links are not followed.
fn open(path: &Path) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    match OpenOptions::new()
        .read(true)
        .custom_flags(no_follow)
        .open(path)
    {
        Err(e) if e.kind() == io::ErrorKind::NotFound => OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(path),
        opened => opened,
    }
}
