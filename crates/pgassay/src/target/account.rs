//! The unprivileged user that a launched server runs as.
//!
//! PostgreSQL refuses to run as root, so root lends its servers to the user
//! `postgres`, or else `nobody`; everybody else's run as themselves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::TargetError;

/// A user of this machine, from /etc/passwd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: String,
    /// The user's id.
    pub uid: u32,
    /// The id of the user's main group.
    pub gid: u32,
}

impl Account {
    /// Who a server is launched as: `None` for oneself.
    ///
    /// # Errors
    /// Where we are root and the machine has neither `postgres` nor `nobody`.
    pub fn for_servers() -> Result<Option<Self>, TargetError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = fs::read_to_string("/etc/passwd")
            .map_err(|error| TargetError::place("/etc/passwd", "can't be read", &error))?;
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| Self::in_passwd(&passwd, name))
            .map(Some)
            .ok_or_else(|| TargetError::NotStarted {
                message: "PostgreSQL refuses to run as root, and /etc/passwd has neither the \
                              user postgres nor nobody; run pgassay as an ordinary user, or add \
                              one (useradd --system postgres)"
                    .into(),
            })
    }

    /// The entry of `name` in passwd(5)'s text, unless it is root by another name.
    fn in_passwd(passwd: &str, name: &str) -> Option<Self> {
        let line = passwd.lines().find(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(':'))
        })?;
        let mut fields = line.split(':').skip(2);
        let uid = fields.next()?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        (uid != 0).then(|| Self {
            name: name.to_owned(),
            uid,
            gid,
        })
    }

    /// Makes `command` run as this user, without root's further groups.
    pub fn apply(&self, command: &mut Command) {
        // The standard library drops the supplementary groups where root
        // changes the user (setgroups(0, NULL)).
        command.uid(self.uid).gid(self.gid);
    }

    /// Hands `path` to this user.
    ///
    /// # Errors
    /// Where it can't be handed over.
    pub fn give(&self, path: &Path) -> Result<(), TargetError> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid)).map_err(|error| {
            TargetError::place(path, "can't be given to the server's user", &error)
        })
    }

    /// The directory on the way to `path`, or `path` itself, that this user may
    /// not enter or execute; `None` where the way is free.
    ///
    /// Permission bits are what is looked at: an access list can make it wrong
    /// in either direction, and then the server's own message tells.
    pub fn barrier(&self, path: &Path) -> Option<PathBuf> {
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        way.into_iter()
            .find(|part| {
                fs::metadata(part).is_ok_and(|meta| {
                    let shift = if meta.uid() == self.uid {
                        6
                    } else if meta.gid() == self.gid {
                        3
                    } else {
                        0
                    };
                    meta.mode() >> shift & 1 == 0
                })
            })
            .map(Path::to_path_buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn found_by_the_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:7:::\npostgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash\nnobody:x:0:0:::\n";
        let postgres = Account::in_passwd(passwd, "postgres").unwrap();
        assert_eq!((postgres.uid, postgres.gid), (101, 104));
        // A 'nobody' that is root would not be unprivileged.
        assert_eq!(Account::in_passwd(passwd, "nobody"), None);
        assert_eq!(Account::in_passwd(passwd, "absent"), None);
    }

    #[test]
    fn a_private_directory_on_the_way_is_named() {
        let root = std::env::temp_dir().join(format!("pgassay-barrier-{}", std::process::id()));
        let deep = root.join("private/bin");
        fs::create_dir_all(&deep).unwrap();
        let stranger = Account {
            name: "stranger".into(),
            uid: 4_000_000,
            gid: 4_000_000,
        };
        fs::set_permissions(root.join("private"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(stranger.barrier(&deep), None);
        fs::set_permissions(root.join("private"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(stranger.barrier(&deep), Some(root.join("private")));
        fs::remove_dir_all(&root).unwrap();
    }
}
