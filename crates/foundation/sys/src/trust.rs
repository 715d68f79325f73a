//! Whose a file is: what another user could have put there is not run.
//!
//! A path is trusted if neither it nor any directory on the way to it can be
//! changed or swapped by anybody but root and the caller.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory in which only its owner may rename or remove an entry.
pub(crate) const STICKY: u32 = 0o1000;

/// Why a path is not trusted.
#[derive(Debug)]
pub enum Distrust {
    /// It can't be examined.
    Unreadable(PathBuf, io::Error),
    /// Its owner is neither root nor the caller.
    Foreign(PathBuf, String),
    /// Other users may write to it.
    Writable(PathBuf),
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Foreign(path, owner) => {
                write!(f, "{} belongs to {owner}", path.display())
            }
            Self::Writable(path) => write!(f, "other users may write to {}", path.display()),
        }
    }
}

impl std::error::Error for Distrust {}

/// The path without links, if only root and the caller can change what it names.
///
/// # Errors
/// The first part of the path, from the root on, that others can change.
pub fn check(path: &Path) -> Result<PathBuf, Distrust> {
    let users = Users::of_this_machine();
    let real =
        fs::canonicalize(path).map_err(|error| Distrust::Unreadable(path.to_owned(), error))?;
    let mut way: Vec<&Path> = real.ancestors().collect();
    way.reverse();
    for part in way {
        let meta = fs::symlink_metadata(part)
            .map_err(|error| Distrust::Unreadable(part.to_owned(), error))?;
        if !users.trusts(meta.uid()) {
            return Err(Distrust::Foreign(
                part.to_owned(),
                users.name_of(meta.uid()),
            ));
        }
        // What lies in a sticky directory can't be swapped by others, and is itself
        // looked at next; into the last one they could still put a file.
        let held = part != real && meta.mode() & STICKY != 0;
        if !held && users.others_write(part, &meta) {
            return Err(Distrust::Writable(part.to_owned()));
        }
    }
    Ok(real)
}

/// Whether anybody but root and the caller may write to what `meta` was read of.
pub(crate) fn others_write(path: &Path, meta: &Metadata) -> bool {
    Users::of_this_machine().others_write(path, meta)
}

/// A user's name by passwd(5); none where it has no entry.
pub fn user_name(uid: u32) -> Option<String> {
    let users = Users::of_this_machine();
    let mut accounts = users.accounts();
    accounts
        .find(|(_, id, _)| *id == uid)
        .map(|(name, ..)| name.to_owned())
}

/// The users and groups of the machine, as far as they decide whom to trust.
struct Users {
    caller: u32,
    passwd: String,
    group: String,
}

impl Users {
    fn of_this_machine() -> Self {
        // What can't be read names nobody: then no group is private.
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            caller: rustix::process::geteuid().as_raw(),
            passwd: read("/etc/passwd"),
            group: read("/etc/group"),
        }
    }

    fn trusts(&self, uid: u32) -> bool {
        uid == 0 || uid == self.caller
    }

    /// Name, user and group of each entry of passwd(5).
    fn accounts(&self) -> impl Iterator<Item = (&str, u32, u32)> {
        self.passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let mut numbers = fields.skip(1).map(str::parse);
            Some((name, numbers.next()?.ok()?, numbers.next()?.ok()?))
        })
    }

    fn name_of(&self, uid: u32) -> String {
        self.accounts().find(|(_, id, _)| *id == uid).map_or_else(
            || format!("the user with the id {uid}"),
            |(name, ..)| format!("the user {name}"),
        )
    }

    fn others_write(&self, path: &Path, meta: &Metadata) -> bool {
        let by_group = meta.mode() & 0o020 != 0;
        meta.mode() & 0o002 != 0 || by_group && (!self.private(meta.gid()) || has_acl(path))
    }

    /// Whether nobody but the caller and root is in the group, as in those that
    /// useradd makes with each user: with umask 002 such a group may write.
    fn private(&self, gid: u32) -> bool {
        let Some(members) = self.group.lines().find_map(|line| {
            let mut fields = line.split(':').skip(2);
            (fields.next()?.parse() == Ok(gid)).then(|| fields.next().unwrap_or_default())
        }) else {
            return false;
        };
        let trusted = |name: &str| {
            self.accounts()
                .any(|(known, uid, _)| known == name && self.trusts(uid))
        };
        members
            .split(',')
            .filter(|name| !name.is_empty())
            .all(trusted)
            && self
                .accounts()
                .all(|(_, uid, group)| group != gid || self.trusts(uid))
    }
}

/// Whether an access list may let others write: the group's bits are then its mask.
fn has_acl(path: &Path) -> bool {
    rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut [0_u8; 0]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private::Directory;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_only_we_and_root_can_change_is_trusted() {
        let sh = check(Path::new("/bin/sh")).unwrap();
        assert_eq!(sh, fs::canonicalize("/bin/sh").unwrap());
        // Our own directory in the sticky /tmp.
        let own = Directory::make(&std::env::temp_dir(), "pgassay-trust").unwrap();
        let file = own.path().join("program");
        fs::write(&file, "").unwrap();
        mode(&file, 0o755);
        assert!(check(&file).is_ok());
    }

    #[test]
    fn each_part_of_the_way_is_looked_at() {
        let own = Directory::make(&std::env::temp_dir(), "pgassay-trust").unwrap();
        let inner = own.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let file = inner.join("program");
        fs::write(&file, "").unwrap();
        mode(&own.path().join("a"), 0o777);
        let why = check(&file).unwrap_err();
        assert!(matches!(&why, Distrust::Writable(path) if path.ends_with("a")));
        assert!(why.to_string().contains("other users may write to"));
        // Sticky, it protects what is in it, but not the directory itself.
        mode(&own.path().join("a"), 0o1777);
        assert!(check(&file).is_ok());
        assert!(check(&own.path().join("a")).is_err());
        mode(&file, 0o666);
        assert!(check(&file).is_err());
        assert!(check(&own.path().join("absent")).is_err());
    }

    #[test]
    fn a_link_does_not_lend_its_owners_name() {
        if !rustix::process::geteuid().is_root() {
            // Only root can give a file away; the texts below are read all the same.
            return;
        }
        let own = Directory::make(&std::env::temp_dir(), "pgassay-trust").unwrap();
        let theirs = own.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("program"), "").unwrap();
        chown(&theirs, Some(4_000_000), Some(4_000_000)).unwrap();
        symlink(&theirs, own.path().join("ours")).unwrap();
        let why = check(&own.path().join("ours/program")).unwrap_err();
        assert!(why.to_string().contains("id 4000000"), "{why}");
    }

    #[test]
    fn a_group_is_private_if_nobody_else_is_in_it() {
        let users = Users {
            caller: 1000,
            passwd: "root:x:0:0::/:\nann:x:1000:1000::/:\nbob:x:1001:1001::/:\neve:x:1002:50::/:\n"
                .into(),
            group: "root:x:0:\nann:x:1000:\nteam:x:60:ann,bob\nstaff:x:50:\nadm:x:70:root,ann\n"
                .into(),
        };
        assert!(users.private(0) && users.private(1000) && users.private(70));
        // bob is a member, eve by her main group; 99 is unknown.
        assert!(!users.private(60) && !users.private(50) && !users.private(99));
        assert_eq!(users.name_of(1002), "the user eve");
        assert!(users.trusts(0) && users.trusts(1000) && !users.trusts(1001));
    }
}
