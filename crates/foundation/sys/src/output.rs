//! Files written for a user: whole or not at all, and only a regular file is replaced.
//!
//! [`write()`] is for a path that a user named; [`replace`] for a file in a directory of ours. Both
//! write a temporary file beside the destination and rename it, so that a crash or a full disk
//! leaves the old content. What is no regular file (a device, a FIFO, the process's own output) is
//! written to, since a rename would remove it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More links than this in one path are a loop (the kernel's own limit, path_resolution(7)).
const MOST_LINKS: usize = 40;

/// A file could not be written.
#[derive(Debug)]
pub struct WriteError {
    /// The path as it was given.
    pub path: PathBuf,
    /// What is in the way.
    pub cause: WriteCause,
}

/// What is in the way of a file.
#[derive(Debug)]
pub enum WriteCause {
    /// A directory is there.
    Directory,
    /// A block device is there: writing to it would destroy a file system.
    BlockDevice,
    /// In a directory where everybody may write, somebody else made what is there.
    Foreign,
    /// The system refused.
    Io(io::Error),
}

impl WriteError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match &self.cause {
            WriteCause::Io(e) if e.kind() == ErrorKind::FileTooLarge => {
                "raise the limit (ulimit -f), or name another file"
            }
            WriteCause::Io(e) if no_room(e).is_some() => {
                "free some space, or name a file on another disk"
            }
            WriteCause::Io(e) if e.kind() == ErrorKind::NotFound => {
                "create the directory, or name another file"
            }
            WriteCause::Foreign => "remove it, or name a file in a directory of your own",
            _ => "name another file",
        }
    }

    /// Whether the reader of a pipe has gone.
    pub fn closed_pipe(&self) -> bool {
        matches!(&self.cause, WriteCause::Io(e) if e.kind() == ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {}: ", self.path.display())?;
        match &self.cause {
            WriteCause::Directory => f.write_str("it is a directory"),
            WriteCause::BlockDevice => f.write_str("it is a block device"),
            WriteCause::Foreign => f.write_str(
                "it belongs to another user, in a directory where everybody may create files",
            ),
            WriteCause::Io(e) => match no_room(e) {
                Some(why) => f.write_str(why),
                None => e.fmt(f),
            },
        }
    }
}

impl std::error::Error for WriteError {}

impl From<io::Error> for WriteCause {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a file takes no more: the disk, the user's share of it, or a limit of the process.
pub fn no_room(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("the disk is full"),
        ErrorKind::FileTooLarge => Some("the limit on the size of files (ulimit -f) is reached"),
        _ => None,
    }
}

/// Makes a write beyond the limit on the size of files fail with EFBIG: by default SIGXFSZ ends the process without a word.
///
/// The signal is caught rather than ignored: in a program that this one starts it has its default action again. One that
/// is ignored already stays so.
///
/// # Errors
/// What sigaction(2) gave.
pub fn report_file_size_limit() -> io::Result<()> {
    if crate::stop::is_ignored(libc::SIGXFSZ) {
        return Ok(());
    }
    signal_hook::flag::register(libc::SIGXFSZ, Arc::default()).map(drop)
}

/// Writes a file that a user named.
///
/// A regular file is replaced by a rename and keeps its owner and mode; a symbolic link is
/// resolved, and its target is written; a character device, a FIFO and anything behind
/// /proc/PID/fd is opened and written to. Where the directory takes no new file, the file that is
/// there is overwritten in place.
///
/// # Errors
/// Names the path and what is in the way; the file that was there is unchanged unless it could
/// only be overwritten in place.
pub fn write(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let written = match place(path) {
        Ok(Place::Through(at)) => through(&at, content, Start::Append),
        Ok(Place::New(at)) => aside(&at, None, content),
        Ok(Place::File(at, meta)) => match aside(&at, Some(&meta), content) {
            Err(e) if refused(&e) => through(&at, content, Start::Truncate(&meta)),
            written => written,
        },
        Err(cause) => Err(cause),
    };
    written.map_err(|cause| WriteError {
        path: path.to_owned(),
        cause,
    })
}

/// Writes a file in a directory of ours: whatever has the name is replaced, and no link followed.
///
/// # Errors
/// Names the path; what was there is unchanged.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    aside(path, None, content).map_err(|cause| WriteError {
        path: path.to_owned(),
        cause,
    })
}

/// Makes a file beside `path`, of a name that nobody can foresee and that only we may read: for what is written piece by
/// piece, and renamed when it is whole.
///
/// # Errors
/// Where the directory takes no file.
pub fn beside(path: &Path) -> io::Result<(File, PathBuf)> {
    temporary(&directory(path), true)
}

/// The same, that others may read as far as the process's mask lets them.
///
/// # Errors
/// As for [`beside`].
pub fn beside_readable(path: &Path) -> io::Result<(File, PathBuf)> {
    temporary(&directory(path), false)
}

/// Whether a name is that of a file that [`beside`] and its like make.
pub fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_str();
    name.and_then(|name| name.strip_prefix(".pgassay-")?.strip_suffix(".tmp"))
        .is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Where content goes.
enum Place {
    /// Nothing is there.
    New(PathBuf),
    /// A regular file.
    File(PathBuf, Metadata),
    /// Something to open and write to.
    Through(PathBuf),
}

/// Follows the links of a path to what is written in the end.
fn place(path: &Path) -> Result<Place, WriteCause> {
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let meta = match fs::symlink_metadata(&at) {
            Ok(meta) => meta,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Place::New(at)),
            Err(e) => return Err(e.into()),
        };
        let dir = directory(&at);
        refuse_foreign(&dir, &meta)?;
        if !meta.is_symlink() {
            return of_kind(at, meta);
        }
        // A link of /proc/PID/fd is the open file itself, whatever its text says: a pipe has no
        // path, and a file that a shell has opened must not be renamed away from under it.
        if fs::canonicalize(&dir)?.starts_with("/proc") {
            let behind = fs::metadata(&at)?;
            return match of_kind(at.clone(), behind)? {
                Place::New(at) | Place::File(at, _) | Place::Through(at) => Ok(Place::Through(at)),
            };
        }
        at = dir.join(fs::read_link(&at)?);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP).into())
}

fn of_kind(at: PathBuf, meta: Metadata) -> Result<Place, WriteCause> {
    let kind = meta.file_type();
    if kind.is_dir() {
        Err(WriteCause::Directory)
    } else if kind.is_block_device() {
        Err(WriteCause::BlockDevice)
    } else if kind.is_file() {
        // A rename needs no leave of the file itself; one that is write-protected stays.
        rustix::fs::access(&at, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)?;
        Ok(Place::File(at, meta))
    } else {
        Ok(Place::Through(at))
    }
}

/// The rule of fs.protected_symlinks and its like (proc_sys_fs(5)), also where the system does not
/// keep it and where we read the link ourselves: in /tmp nobody else chooses what we write.
fn refuse_foreign(dir: &Path, meta: &Metadata) -> Result<(), WriteCause> {
    let dir = fs::metadata(dir)?;
    let own = rustix::process::geteuid().as_raw();
    match foreign(dir.mode(), dir.uid(), own, meta.uid()) {
        true => Err(WriteCause::Foreign),
        false => Ok(()),
    }
}

/// Whether what `owner` made in a directory is neither ours nor that of the directory's owner,
/// and the directory sticky and writable by everybody.
fn foreign(dir_mode: u32, dir_owner: u32, own: u32, owner: u32) -> bool {
    const STICKY_AND_EVERYBODYS: u32 = 0o1002;
    dir_mode & STICKY_AND_EVERYBODYS == STICKY_AND_EVERYBODYS && owner != own && owner != dir_owner
}

/// The directory of a path; `.` of a bare name.
fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(dir) if dir != OsStr::new("") => dir.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Whether the directory refused a new file or a rename, so that the old file may still be written.
fn refused(cause: &WriteCause) -> bool {
    matches!(cause, WriteCause::Io(e) if matches!(
        e.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::ResourceBusy
    ))
}

/// Writes a temporary file beside the destination and renames it; `old` is the file that is
/// replaced, whose owner and mode are kept.
fn aside(path: &Path, old: Option<&Metadata>, content: &[u8]) -> Result<(), WriteCause> {
    let (mut file, temporary) = temporary(&directory(path), old.is_some())?;
    let mut write = || -> io::Result<()> {
        file.write_all(content)?;
        if let Some(old) = old {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o777))?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|e| {
        drop(fs::remove_file(&temporary));
        e.into()
    })
}

/// A new file of a name that nobody can foresee. O_EXCL follows no link (open(2)).
fn temporary(dir: &Path, private: bool) -> io::Result<(File, PathBuf)> {
    loop {
        // RandomState is seeded by the operating system.
        let number = RandomState::new().build_hasher().finish();
        let path = dir.join(format!(".pgassay-{number:016x}.tmp"));
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(if private { 0o600 } else { 0o666 })
            .open(&path);
        match opened {
            Ok(file) => return Ok((file, path)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

/// How the content of what is opened is treated.
enum Start<'a> {
    /// Kept: what a shell has opened for us may hold something already.
    Append,
    /// Removed, if it still is this file.
    Truncate(&'a Metadata),
}

/// Opens what is there and writes to it.
fn through(path: &Path, content: &[u8], start: Start<'_>) -> Result<(), WriteCause> {
    let mut options = OpenOptions::new();
    options.write(true);
    let mut file = match start {
        Start::Append => options
            .append(true)
            .custom_flags(libc::O_NOCTTY)
            .open(path)?,
        Start::Truncate(meta) => {
            let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
            let opened = file.metadata()?;
            if (opened.dev(), opened.ino()) != (meta.dev(), meta.ino()) {
                return Err(io::Error::other("it was replaced meanwhile").into());
            }
            file.set_len(0)?;
            file
        }
    };
    file.write_all(content)?;
    if file.metadata()?.is_file() {
        file.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
