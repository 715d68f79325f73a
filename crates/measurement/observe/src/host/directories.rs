//! How the directories of a server's files are mounted, and the attributes of their inodes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

use pgassay_model::storage::{Directory, Holds};
use rustix::fs::{IFlags, ioctl_getflags, statvfs};
use rustix::io::Errno;

use super::mount::Mount;
use super::place::{mount_line, unescaped};

/// Attributes that bear on how files are written, by their letters (chattr(1)).
const LETTERS: &[(IFlags, char)] = &[
    (IFlags::SYNC, 'S'),
    (IFlags::DIRSYNC, 'D'),
    (IFlags::JOURNALING, 'j'),
];
/// Directories that are looked at: a server of very many databases has more.
const MOST: usize = 256;

/// The directories of the files of a server that runs here.
pub fn of_server(postmaster: u32) -> Vec<Directory> {
    let mountinfo = fs::read_to_string(format!("/proc/{postmaster}/mountinfo"));
    // The server works in its data directory.
    let seen = PathBuf::from(format!("/proc/{postmaster}/cwd"));
    if fs::metadata(&seen).is_err() {
        return Vec::new();
    }
    of(Some(postmaster), &seen, &mountinfo.unwrap_or_default())
}

/// The data directory, its log, and its tablespaces. `seen` is the data directory as it can be
/// opened from here; `pid` is a process of the server, whose view of the file systems `mountinfo` is.
pub(super) fn of(pid: Option<u32>, seen: &Path, mountinfo: &str) -> Vec<Directory> {
    let look = Look { pid, mountinfo };
    let named = fs::read_link(seen).or_else(|_| fs::canonicalize(seen));
    let named = named.unwrap_or_else(|_| seen.to_owned());
    let below = [
        vec![seen.to_owned(), seen.join("base"), seen.join("global")],
        within(&seen.join("base")),
    ];
    let mut found: Vec<Directory> = look
        .at(Holds::Data, &named, below.concat())
        .into_iter()
        .collect();
    let (wal, wal_named) = ["pg_wal", "pg_xlog"]
        .map(|name| look.followed(&seen.join(name), &named.join(name)))
        .into_iter()
        .find(|(wal, _)| wal.is_dir())
        .unwrap_or_default();
    found.extend(look.at(Holds::Wal, &wal_named, vec![wal]));
    for link in within(&seen.join("pg_tblspc")) {
        let (real, named) = look.followed(&link, &link);
        let versions = within(&real);
        let databases = versions.iter().flat_map(|version| within(version));
        let all = [real].into_iter().chain(versions.clone()).chain(databases);
        found.extend(look.at(Holds::Tablespace, &named, all.collect()));
    }
    found
}

/// The directories within one.
fn within(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_file()))
        .map(|entry| entry.path())
        .take(MOST)
        .collect();
    dirs.sort();
    dirs
}

struct Look<'a> {
    pid: Option<u32>,
    mountinfo: &'a str,
}

impl Look<'_> {
    /// A directory of files, and those in which its files are made.
    fn at(&self, holds: Holds, named: &Path, dirs: Vec<PathBuf>) -> Option<Directory> {
        let line = mount_line(self.mountinfo, named)?;
        let mount = Mount::parse(&line)?;
        Some(Directory {
            holds,
            path: named.display().to_string(),
            mounted_at: unescaped(mount.at),
            file_system: mount.kind.to_owned(),
            options: format!("{},{}", mount.own, mount.options),
            attributes: attributes(&dirs, named),
            free_bytes: dirs.first().and_then(|dir| free_bytes(dir)),
        })
    }

    /// Where a link leads, as it can be opened from here and as the server sees it; the directory itself where it is
    /// none.
    fn followed(&self, link: &Path, named: &Path) -> (PathBuf, PathBuf) {
        let Ok(target) = fs::read_link(link) else {
            return (link.to_owned(), named.to_owned());
        };
        // A link's absolute target is one in the server's own root.
        let real = match (self.pid, target.strip_prefix("/")) {
            (Some(pid), Ok(below)) => Path::new(&format!("/proc/{pid}/root")).join(below),
            _ => link.parent().unwrap_or(link).join(&target),
        };
        // As mounts are named: absolute, and without steps up.
        let mut seen = PathBuf::new();
        for part in named.parent().unwrap_or(named).join(&target).components() {
            match part {
                Component::ParentDir => {
                    seen.pop();
                }
                Component::CurDir => {}
                part => seen.push(part),
            }
        }
        (real, seen)
    }
}

/// Bytes that are free on the file system of a directory for those who are not root.
fn free_bytes(dir: &Path) -> Option<u64> {
    let file_system = statvfs(dir).ok()?;
    Some(file_system.f_bavail.saturating_mul(file_system.f_frsize))
}

/// Attributes of directories by their paths as the server sees them; none where none of them can be asked.
fn attributes(dirs: &[PathBuf], named: &Path) -> Option<BTreeMap<String, String>> {
    let first = dirs.first()?;
    let mut asked = false;
    let mut found = BTreeMap::new();
    for dir in dirs.iter().take(MOST) {
        let Ok(file) = File::open(dir) else {
            continue;
        };
        let flags = match ioctl_getflags(&file) {
            Ok(flags) => flags,
            // A file system without attributes has none of these.
            Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL) => IFlags::empty(),
            Err(_) => continue,
        };
        asked = true;
        let has = LETTERS.iter().filter(|(flag, _)| flags.contains(*flag));
        let letters: String = has.map(|(_, letter)| letter).collect();
        if !letters.is_empty() {
            let below = dir.strip_prefix(first).unwrap_or(dir);
            found.insert(named.join(below).display().to_string(), letters);
        }
    }
    asked.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::ioctl_setflags;

    /// A data directory with a log behind a link.
    fn made(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("pgassay-{name}-{}", std::process::id()));
        fs::remove_dir_all(&root).ok();
        for dir in ["data/base/5", "data/global", "data/pg_tblspc", "log"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("log"), root.join("data/pg_wal")).unwrap();
        root
    }

    #[test]
    fn each_directory_has_the_options_of_its_own_mount() {
        let root = made("mounts");
        let at = root.display();
        let mountinfo = format!(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
             30 27 254:1 / {at}/log rw,noatime shared:3 - xfs /dev/vdb rw,sync,attr2"
        );
        let found = of(None, &root.join("data"), &mountinfo);
        let short = |d: &Directory| (d.holds, d.file_system.clone(), d.options.clone());
        assert_eq!(
            found.iter().map(short).collect::<Vec<_>>(),
            [
                (
                    Holds::Data,
                    "ext4".to_owned(),
                    "rw,relatime,rw,discard".to_owned()
                ),
                (
                    Holds::Wal,
                    "xfs".to_owned(),
                    "rw,noatime,rw,sync,attr2".to_owned()
                ),
            ]
        );
        assert_eq!(found[1].path, root.join("log").display().to_string());
        assert_eq!(found[1].mounted_at, found[1].path);
        assert!(of(None, &root.join("data"), "").is_empty());
        fs::remove_dir_all(&root).unwrap();
    }

    /// Where the file system of temporary files has attributes, they are read.
    #[test]
    fn attributes_are_those_of_the_directories_of_files() {
        let root = made("attributes");
        let base = root.join("data/base");
        let dirs = [root.join("data"), base.clone(), base.join("5")];
        let named = Path::new("/srv/pg");
        assert_eq!(attributes(&dirs, named), Some(BTreeMap::new()));
        let file = File::open(base.join("5")).unwrap();
        let own = ioctl_getflags(&file).unwrap_or(IFlags::empty());
        if ioctl_setflags(&file, own | IFlags::SYNC).is_ok() {
            let expected = [("/srv/pg/base/5".to_owned(), "S".to_owned())];
            assert_eq!(attributes(&dirs, named), Some(expected.into()));
        }
        assert_eq!(attributes(&[root.join("none")], named), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
