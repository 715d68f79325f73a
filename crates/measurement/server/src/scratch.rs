//! The place on disk for what launched servers read and write.
//!
//! ```text
//! /var/tmp/pgassay-UID/            ours, others may enter but not write
//!   lock                           held while clusters are made or swept
//!   clusters/ID/                   one launched cluster, see [`Home`]
//!   prepared/                      data directories to copy, see [`super::prepared`]
//!   archives/, builds/             what else servers read
//! /tmp/pga-ID/                     that cluster's socket, private
//! ```
//! A user's home would not do: where pgassay runs as root the server is another
//! user, who may not enter it.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, IFlags, flock, ioctl_getflags, ioctl_setflags, statfs};

use super::TargetError;
use super::account::Account;

/// What the path of a Unix socket can hold, in bytes (Linux, unix(7): 108 with
/// the closing NUL).
const SOCKET_PATH_MAX: usize = 107;

/// How long what was killed may take until it writes no more.
const SETTLING: Duration = Duration::from_secs(5);

/// File systems that live in memory, by statfs(2)'s f_type (linux/magic.h).
const IN_MEMORY: &[(u64, &str)] = &[(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// The kind of a file system that lives in memory; none for one that does not.
///
/// # Errors
/// If the path can't be examined.
pub fn memory_kind(path: &Path) -> std::io::Result<Option<&'static str>> {
    // f_type's width and sign differ between architectures; the magic
    // numbers have 32 bits.
    let magic = u64::from(statfs(path)?.f_type as u32);
    let known = IN_MEMORY.iter().find(|(number, _)| *number == magic);
    Ok(known.map(|(_, name)| *name))
}

/// Asks the file system to place each subdirectory in a block group of its own, where it can.
///
/// ext4 does not use an inode again for minutes after its file was removed (fs/ext4/ialloc.c,
/// `recently_deleted`), and looks at each such inode of the group when it creates a file. Data
/// directories of a thousand files that come and go in one group take seconds of CPU time.
fn spread(dir: &Path) {
    let flagged = || -> rustix::io::Result<()> {
        let dir = File::open(dir).map_err(|_| rustix::io::Errno::NOENT)?;
        let flags = ioctl_getflags(&dir)?;
        if flags.contains(IFlags::TOPDIR) {
            return Ok(());
        }
        ioctl_setflags(&dir, flags | IFlags::TOPDIR)
    };
    // Other file systems have no such flag, and need none.
    let _ = flagged();
}

/// The scratch directory's path where no other was asked for.
pub fn default_root() -> PathBuf {
    root_under(Path::new("/var/tmp"))
}

/// Where builds are looked for: root's are made by the user that servers run as, and lie
/// in that one's scratch directory; before, they were in root's own.
pub fn build_dirs() -> Vec<PathBuf> {
    let us = rustix::process::geteuid().as_raw();
    let lent = Account::for_servers().ok().flatten();
    lent.map(|account| account.uid)
        .into_iter()
        .chain([us])
        .map(|uid| (root_of(Path::new("/var/tmp"), uid), uid))
        // In /var/tmp anybody can have made it.
        .filter(|(root, uid)| check_owner(root, *uid).is_ok())
        .map(|(root, _)| root.join("builds"))
        .collect()
}

/// Ours under `base`: each user has an own one, so that nobody meets another's.
fn root_under(base: &Path) -> PathBuf {
    root_of(base, rustix::process::geteuid().as_raw())
}

fn root_of(base: &Path, uid: u32) -> PathBuf {
    base.join(format!("pgassay-{uid}"))
}

/// The scratch directory, made and found safe.
#[derive(Debug, Clone)]
pub struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// Opens ours under `base` (`None`: /var/tmp), making it where it is missing.
    ///
    /// # Errors
    /// Where it can't be made, belongs to somebody else, or others may write.
    pub fn open(base: Option<&Path>) -> Result<Self, TargetError> {
        let root = match base {
            Some(base) => root_under(&fs::canonicalize(base).map_err(|error| {
                TargetError::place(
                    base,
                    "can't be used for temporary clusters (--scratch)",
                    &error,
                )
            })?),
            None => default_root(),
        };
        make_dir(&root, 0o755)?;
        check_owner(&root, rustix::process::geteuid().as_raw())?;
        let scratch = Self { root };
        make_dir(&scratch.clusters(), 0o755)?;
        spread(&scratch.root);
        spread(&scratch.clusters());
        // An earlier version left them as the umask of that time made them.
        for dir in [scratch.root.clone(), scratch.clusters()] {
            let mode = fs::symlink_metadata(&dir).map_or(0o755, |meta| meta.mode() & 0o7777);
            if mode & 0o755 != 0o755 {
                fs::set_permissions(&dir, Permissions::from_mode(mode | 0o755)).map_err(
                    |error| TargetError::place(&dir, "can't be opened to the server", &error),
                )?;
            }
        }
        Ok(scratch)
    }

    /// Opens ours where it exists; makes nothing.
    ///
    /// # Errors
    /// As for [`Scratch::open`].
    pub fn existing(base: Option<&Path>) -> Result<Option<Self>, TargetError> {
        let root = base.map_or_else(default_root, root_under);
        if !root.join("clusters").is_dir() {
            return Ok(None);
        }
        check_owner(&root, rustix::process::geteuid().as_raw())?;
        Ok(Some(Self { root }))
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the clusters are.
    pub fn clusters(&self) -> PathBuf {
        self.root.join("clusters")
    }

    /// Refuses a file system that lives in memory: a cluster there measures no
    /// disk, and takes the memory that it is to be measured with.
    ///
    /// # Errors
    /// Names the file system and the remedy.
    pub fn refuse_memory(&self) -> Result<(), TargetError> {
        let kind = memory_kind(&self.root)
            .map_err(|error| TargetError::place(&self.root, "can't be examined", &error))?;
        match kind {
            Some(name) => {
                // Ours, made a moment ago; what holds anything stays.
                if fs::remove_dir(self.clusters()).is_ok() {
                    fs::remove_dir(&self.root).ok();
                }
                Err(TargetError::Place {
                    path: self.root.clone(),
                    reason: format!(
                        "is on {name}, in memory, where a cluster would measure no disk and take the \
                     server's own memory; choose a directory on a disk with --scratch DIR"
                    ),
                })
            }
            None => Ok(()),
        }
    }

    /// Held while clusters are made or swept, so that a sweep never meets one
    /// that is half made; released on drop.
    pub(super) fn lock(&self) -> Result<File, TargetError> {
        let path = self.root.join("lock");
        let file = open_lock(&path)
            .map_err(|error| TargetError::place(&path, "can't be opened", &error))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| TargetError::place(&path, "can't be locked", &error.into()))?;
        Ok(file)
    }
}

/// Refuses a directory that somebody else may have prepared: /var/tmp is
/// everybody's, and we remove things in here, as root perhaps.
fn check_owner(root: &Path, owner: u32) -> Result<(), TargetError> {
    let refuse = |reason: &str| {
        Err(TargetError::Place {
            path: root.to_path_buf(),
            reason: format!("{reason}; remove it, or choose another place with --scratch DIR"),
        })
    };
    let meta = fs::symlink_metadata(root)
        .map_err(|error| TargetError::place(root, "can't be read", &error))?;
    if !meta.is_dir() {
        return refuse("is not a directory");
    }
    if meta.uid() != owner {
        return refuse("belongs to another user");
    }
    if meta.mode() & 0o022 != 0 {
        return refuse("can be written by other users");
    }
    Ok(())
}

/// The directories of one cluster, removed on drop.
///
/// ```text
/// clusters/ID/lock        flock held by the living owner; the server has no copy
/// clusters/ID/postmaster  pid and start time of the server, for a sweep
/// clusters/ID/log         what the server says
/// clusters/ID/data/       the data directory, the server user's
/// /tmp/pga-ID/            its socket
/// ```
#[derive(Debug)]
pub(super) struct Home {
    pub(super) dir: PathBuf,
    pub(super) socket_dir: PathBuf,
    /// Its flock says that the owner lives.
    _lock: File,
}

impl Home {
    /// Makes the directories, the data's and the socket's for `account`.
    pub(super) fn make(scratch: &Scratch, account: Option<&Account>) -> Result<Self, TargetError> {
        let _held = scratch.lock()?;
        loop {
            let id = random_id();
            let dir = scratch.clusters().join(&id);
            let socket_dir = socket_dir_of(&id);
            check_socket_path(&socket_dir)?;
            match DirBuilder::new().mode(0o755).create(&dir) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(TargetError::place(&dir, "can't be made", &error)),
                Ok(()) => {}
            }
            match DirBuilder::new().mode(0o700).create(&socket_dir) {
                // Somebody's already: it stays theirs.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    fs::remove_dir(&dir).ok();
                    continue;
                }
                Err(error) => {
                    fs::remove_dir(&dir).ok();
                    return Err(TargetError::place(&socket_dir, "can't be made", &error));
                }
                Ok(()) => {}
            }
            let lock_path = dir.join("lock");
            let lock = open_lock(&lock_path).and_then(|file| {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                Ok(file)
            });
            let lock = match lock {
                Ok(lock) => lock,
                Err(error) => {
                    remove(&dir, &socket_dir).ok();
                    return Err(TargetError::place(&lock_path, "can't be locked", &error));
                }
            };
            // From here on a failure drops `home`, which removes it all.
            let home = Self {
                dir,
                socket_dir,
                _lock: lock,
            };
            // Made above, with what the umask left of its mode: the server has to enter it.
            fs::set_permissions(&home.dir, Permissions::from_mode(0o755))
                .map_err(|error| TargetError::place(&home.dir, "can't be made", &error))?;
            home.make_data(account)?;
            if let Some(account) = account {
                account.give(&home.socket_dir)?;
            }
            return Ok(home);
        }
    }

    fn make_data(&self, account: Option<&Account>) -> Result<(), TargetError> {
        make_dir(&self.data(), 0o700)?;
        account.map_or(Ok(()), |account| account.give(&self.data()))
    }

    /// Makes the data directory anew, with nothing in it.
    pub(super) fn empty(&self, account: Option<&Account>) -> Result<(), TargetError> {
        let data = self.data();
        fs::remove_dir_all(&data)
            .map_err(|error| TargetError::place(&data, "can't be emptied", &error))?;
        self.make_data(account)
    }

    /// The data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The server's log.
    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Removes everything; what is in the way is the error.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.dir, &self.socket_dir)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Whoever needs to know has called remove() before; what stays is
        // swept by the next run.
        self.remove().ok();
    }
}

/// Where the socket of the cluster `id` is.
pub(super) fn socket_dir_of(id: &str) -> PathBuf {
    Path::new("/tmp").join(format!("pga-{id}"))
}

/// Removes a cluster's directories; none there is no error.
pub(super) fn remove(dir: &Path, socket_dir: &Path) -> io::Result<()> {
    once_settled(|| remove_once(dir, socket_dir))
}

/// Tries again where a directory is not empty after all: a server's last processes, killed a moment
/// ago, may still complete what they were writing.
fn once_settled(mut remove: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let until = Instant::now() + SETTLING;
    loop {
        match remove() {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                if Instant::now() >= until {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            done => return done,
        }
    }
}

fn remove_once(dir: &Path, socket_dir: &Path) -> io::Result<()> {
    let absent_is_fine = |result: io::Result<()>| match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    absent_is_fine(fs::remove_dir_all(socket_dir))?;
    // The lock goes last: a removal that is cut short is found by the next sweep.
    absent_is_fine(fs::remove_dir_all(dir.join("data")))?;
    absent_is_fine(fs::remove_dir_all(dir))
}

/// Opens a lock file; a child never inherits it (the standard library sets
/// close-on-exec), so the lock ends with this process.
pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

/// Makes a directory of exactly this mode, whatever the umask; one that exists
/// keeps its own.
pub(super) fn make_dir(path: &Path, mode: u32) -> Result<(), TargetError> {
    let made = match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    };
    made.map_err(|error| TargetError::place(path, "can't be made", &error))
}

/// Refuses a socket path that the system could not hold.
fn check_socket_path(socket_dir: &Path) -> Result<(), TargetError> {
    let socket = socket_dir.join(".s.PGSQL.65535");
    let length = socket.as_os_str().len();
    if length <= SOCKET_PATH_MAX {
        return Ok(());
    }
    Err(TargetError::Place {
        path: socket,
        reason: format!(
            "is too long for a Unix socket: {length} bytes of at most {SOCKET_PATH_MAX}"
        ),
    })
}

/// Six characters that nobody else has likely taken; making the directory
/// tells whether it is so.
fn random_id() -> String {
    // RandomState is seeded by the operating system.
    let mut number = RandomState::new().build_hasher().finish();
    (0..6)
        .map(|_| {
            let digit = (number % 36) as u32;
            number /= 36;
            char::from_digit(digit, 36).unwrap_or('0')
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::FailureKind;

    fn temporary(name: &str) -> PathBuf {
        let path = PathBuf::from(format!(
            "/var/tmp/pgassay-test-{name}-{}",
            std::process::id()
        ));
        fs::remove_dir_all(&path).ok();
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_directory_that_others_prepared_is_refused() {
        let base = temporary("prepared");
        let root = root_under(&base);
        std::os::unix::fs::symlink("/tmp", &root).unwrap();
        let error = Scratch::open(Some(&base)).unwrap_err().to_string();
        assert!(
            error.contains("not a directory") && error.contains("--scratch"),
            "{error}"
        );
        fs::remove_file(&root).unwrap();
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(0o777)).unwrap();
        let error = Scratch::open(Some(&base)).unwrap_err();
        assert!(
            error.to_string().contains("written by other users"),
            "{error}"
        );
        assert_eq!(error.kind(), FailureKind::Target);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_home_is_made_and_removed_whole() {
        let base = temporary("home");
        let scratch = Scratch::open(Some(&base)).unwrap();
        scratch.refuse_memory().unwrap();
        let home = Home::make(&scratch, None).unwrap();
        let (dir, socket_dir) = (home.dir.clone(), home.socket_dir.clone());
        assert_eq!(fs::metadata(home.data()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&socket_dir).unwrap().mode() & 0o777, 0o700);
        fs::write(home.data().join("x"), "x").unwrap();
        drop(home);
        assert!(!dir.exists() && !socket_dir.exists());
        fs::remove_dir_all(&base).unwrap();
    }

    /// Attack D11: a process that is killed may still complete what it writes, into a directory that
    /// is just being removed; that was left, without a word.
    #[test]
    fn a_directory_that_is_still_written_to_is_removed() {
        let base = temporary("settling");
        let (dir, written) = (base.join("abcdef"), base.join("abcdef/data"));
        fs::create_dir_all(&written).unwrap();
        let mut last_words = [written.join("a"), written.join("b")].into_iter();
        once_settled(|| match last_words.next() {
            Some(file) => fs::write(file, "").and_then(|()| fs::remove_dir(&written)),
            None => remove_once(&dir, &base.join("no-socket")),
        })
        .unwrap();
        assert!(last_words.next().is_none() && !dir.exists());
        // Another reason is told at once.
        let mut tries = 0;
        let error = once_settled(|| {
            tries += 1;
            fs::remove_dir(&written)
        });
        assert_eq!((error.unwrap_err().kind(), tries), (ErrorKind::NotFound, 1));
        fs::remove_dir_all(&base).unwrap();
    }

    /// What the test below has a process of its own do: the umask is the whole process's.
    #[test]
    fn helper_under_a_umask() {
        let Some(base) = std::env::var_os("PGASSAY_UMASK_HELPER") else {
            return;
        };
        let scratch = Scratch::open(Some(Path::new(&base))).unwrap();
        let home = Home::make(&scratch, None).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        for dir in [scratch.root(), &scratch.clusters(), &home.dir] {
            assert_eq!(mode(dir), 0o755, "{}", dir.display());
        }
        assert_eq!(mode(&home.data()), 0o700);
    }

    /// Attack D9: with a umask of 077 root's server could not enter its own directory.
    #[test]
    fn the_umask_keeps_nobody_out() {
        let base = temporary("umask");
        // As an earlier version has left it.
        fs::create_dir(root_under(&base)).unwrap();
        fs::set_permissions(root_under(&base), Permissions::from_mode(0o700)).unwrap();
        let module = module_path!().split_once("::").unwrap().1;
        for umask in ["077", "027"] {
            let done = std::process::Command::new("sh")
                .args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", &format!("{module}::helper_under_a_umask")])
                .env("PGASSAY_UMASK_HELPER", &base)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(
                done.status.success() && said.contains("1 passed"),
                "{umask}: {said}"
            );
        }
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn memory_and_long_paths_are_refused() {
        if let Ok(scratch) = Scratch::open(Some(Path::new("/dev/shm"))) {
            let error = scratch.refuse_memory().unwrap_err().to_string();
            assert!(
                error.contains("tmpfs") && error.contains("--scratch"),
                "{error}"
            );
            assert!(!scratch.root().exists() || scratch.root().join("lock").exists());
        }
        assert!(check_socket_path(&socket_dir_of("abcdef")).is_ok());
        let long = Path::new("/tmp").join("x".repeat(100));
        let error = check_socket_path(&long).unwrap_err().to_string();
        assert!(error.contains("107"), "{error}");
    }
}
