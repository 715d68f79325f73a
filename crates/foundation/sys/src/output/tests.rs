use std::io::Read;
use std::os::unix::fs::symlink;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// A directory that goes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let name = format!("pgassay-test-output-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&dir));
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names in it, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|e| e.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Attack D1: what was written as FILE.tmp took the place of a file of that name.
#[test]
fn neighbours_are_left_alone() {
    let dir = Dir::new("neighbours");
    fs::write(dir.path("notes.tmp"), "precious").unwrap();
    write(&dir.path("notes.html"), b"first").unwrap();
    write(&dir.path("notes.html"), b"second").unwrap();
    replace(&dir.path("notes.html"), b"third").unwrap();
    assert_eq!(fs::read(dir.path("notes.html")).unwrap(), b"third");
    assert_eq!(fs::read(dir.path("notes.tmp")).unwrap(), b"precious");
    assert_eq!(dir.names(), ["notes.html", "notes.tmp"]);
}

/// Attack D1: as root, `-o /dev/null` made a regular file of the device.
#[test]
fn a_device_stays_a_device() {
    let dir = Dir::new("device");
    // Root tries it on a copy; others can do no harm to the real one.
    let null = if is_root() {
        let path = dir.path("null");
        let device = rustix::fs::makedev(1, 3);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::RWXU, device).unwrap();
        path
    } else {
        PathBuf::from("/dev/null")
    };
    let before = fs::metadata(&null).unwrap();
    write(&null, b"gone").unwrap();
    let after = fs::metadata(&null).unwrap();
    assert!(after.file_type().is_char_device());
    assert_eq!(before.ino(), after.ino());

    let full = write(Path::new("/dev/full"), b"x").unwrap_err();
    assert!(
        full.to_string().contains("/dev/full: the disk is full"),
        "{full}"
    );
}

/// Attack D1: a FIFO was replaced, and its reader got nothing.
#[test]
fn the_reader_of_a_fifo_gets_the_content() {
    let dir = Dir::new("fifo");
    let fifo = dir.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = {
        let fifo = fifo.clone();
        thread::spawn(move || fs::read(fifo).unwrap())
    };
    write(&fifo, b"for the reader").unwrap();
    assert_eq!(reader.join().unwrap(), b"for the reader");
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    assert_eq!(dir.names(), ["fifo"]);
}

/// Attack D1: a symbolic link was replaced instead of its target.
#[test]
fn links_stay_and_their_targets_are_written() {
    let dir = Dir::new("links");
    fs::create_dir(dir.path("sub")).unwrap();
    fs::write(dir.path("sub/target"), "old").unwrap();
    symlink("sub/target", dir.path("one")).unwrap();
    symlink("one", dir.path("two")).unwrap();
    symlink("sub/new", dir.path("dangling")).unwrap();
    symlink("round", dir.path("round")).unwrap();

    write(&dir.path("two"), b"new").unwrap();
    write(&dir.path("dangling"), b"made").unwrap();
    assert_eq!(fs::read(dir.path("sub/target")).unwrap(), b"new");
    assert_eq!(fs::read(dir.path("sub/new")).unwrap(), b"made");
    for link in ["one", "two", "dangling"] {
        assert!(dir.path(link).is_symlink(), "{link} is no link any more");
    }
    let error = write(&dir.path("round"), b"x").unwrap_err().to_string();
    assert!(error.contains("symbolic links"), "{error}");

    // In a directory of ours no link is followed.
    replace(&dir.path("one"), b"ours").unwrap();
    assert!(!dir.path("one").is_symlink());
    assert_eq!(fs::read(dir.path("sub/target")).unwrap(), b"new");
}

/// Attack D1: `-o /dev/stdout` replaced the link /dev/stdout itself.
#[test]
fn an_open_file_is_appended_to() {
    let dir = Dir::new("open");
    let path = dir.path("log");
    let mut log = File::create(&path).unwrap();
    log.write_all(b"before\n").unwrap();
    let inode = log.metadata().unwrap().ino();
    let number = std::os::fd::AsRawFd::as_raw_fd(&log);
    symlink(format!("/proc/self/fd/{number}"), dir.path("stdout")).unwrap();
    write(&dir.path("stdout"), b"content\n").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before\ncontent\n");
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    assert!(dir.path("stdout").is_symlink());

    // A pipe has no path at all.
    let (mut read, write_end) = io::pipe().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&write_end);
    write(Path::new(&format!("/proc/self/fd/{number}")), b"piped").unwrap();
    drop(write_end);
    let mut got = String::new();
    read.read_to_string(&mut got).unwrap();
    assert_eq!(got, "piped");
}

#[test]
fn owner_and_mode_are_kept() {
    let dir = Dir::new("mode");
    let path = dir.path("shared");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
    }
    let before = fs::metadata(&path).unwrap();
    write(&path, b"new").unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(after.mode(), before.mode());
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
}

/// Root is not stopped by permissions: the same is tried as an ordinary user from outside.
#[test]
fn what_is_no_file_is_refused_with_a_remedy() {
    let dir = Dir::new("refused");
    let error = write(&dir.0, b"x").unwrap_err();
    assert!(error.to_string().contains("is a directory"), "{error}");
    let error = write(&dir.path("missing/file"), b"x").unwrap_err();
    assert!(
        error.remedy().contains("create the directory"),
        "{error}: {}",
        error.remedy()
    );
    assert!(dir.names().is_empty());
}

/// The temporary file of a write that fails is removed, and the old content stays.
#[test]
fn a_failed_write_leaves_nothing() {
    let dir = Dir::new("failed");
    // A directory takes no file's place: the rename fails after everything was written.
    fs::create_dir(dir.path("report.html")).unwrap();
    fs::write(dir.path("report.html/inside"), "").unwrap();
    replace(&dir.path("report.html"), b"x").unwrap_err();
    assert_eq!(dir.names(), ["report.html"]);
}

/// Attack D1: in /tmp another user's symbolic link chose what root wrote.
#[test]
fn nobody_else_chooses_what_is_written() {
    assert!(foreign(0o41777, 0, 1000, 1001));
    assert!(foreign(0o41777, 0, 0, 1001), "root is asked, too");
    assert!(!foreign(0o41777, 0, 1000, 1000), "one's own");
    assert!(!foreign(0o41777, 0, 1000, 0), "the directory's owner's");
    assert!(!foreign(0o40755, 0, 1000, 1001), "not everybody's");

    if !is_root() {
        return;
    }
    let dir = Dir::new("foreign");
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(dir.path("victim"), "precious").unwrap();
    symlink("victim", dir.path("report")).unwrap();
    std::os::unix::fs::lchown(dir.path("report"), Some(65534), None).unwrap();
    let error = write(&dir.path("report"), b"x").unwrap_err();
    assert!(matches!(error.cause, WriteCause::Foreign), "{error}");
    assert_eq!(fs::read(dir.path("victim")).unwrap(), b"precious");
    assert_eq!(dir.names(), ["report", "victim"]);
}
