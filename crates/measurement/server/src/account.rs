//! The unprivileged user that a launched server runs as.
//!
//! PostgreSQL refuses to run as root, so root lends its servers to the user
//! `postgres`, or else `nobody`; everybody else's run as themselves.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

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

    /// Does `work` in this thread with this user's rights instead of root's.
    ///
    /// Linux keeps users by the thread: the others go on as they are. What `work`
    /// runs has this user for good, as a new program forgets what it could go back to.
    ///
    /// # Errors
    /// If the system does not let us change, or change back.
    pub fn lend<T>(&self, work: impl FnOnce() -> T) -> Result<T, TargetError> {
        let refused = |error: io::Error| TargetError::NotStarted {
            message: format!(
                "root may not act as the user {} here ({error}); a container needs the \
                 capabilities SETUID and SETGID for that, or run pgassay as an ordinary user",
                self.name
            ),
        };
        // The thread that spawns must not be started with the lesser rights.
        pgassay_sys::bound::ready().map_err(refused)?;
        let mut rights = Rights::held().map_err(refused)?;
        rights.give_up(self).map_err(refused)?;
        let done = work();
        rights.take_back().map_err(refused)?;
        Ok(done)
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

/// The rights that a thread had; it has them again on drop.
struct Rights {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    given_up: bool,
}

impl Rights {
    fn held() -> io::Result<Self> {
        Ok(Self {
            uid: rustix::process::geteuid(),
            gid: rustix::process::getegid(),
            groups: rustix::process::getgroups()?,
            given_up: false,
        })
    }

    fn give_up(&mut self, to: &Account) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(to.uid), Gid::from_raw(to.gid));
        self.given_up = true;
        set_thread_groups(&[gid])?;
        set_thread_res_gid(gid, gid, gid)?;
        // The saved one is the way back; an exec overwrites it with the effective one.
        set_thread_res_uid(uid, uid, self.uid)?;
        Ok(())
    }

    fn take_back(&mut self) -> io::Result<()> {
        if self.given_up {
            set_thread_res_uid(self.uid, self.uid, self.uid)?;
            set_thread_res_gid(self.gid, self.gid, self.gid)?;
            set_thread_groups(&self.groups)?;
            self.given_up = false;
        }
        Ok(())
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        // After a panic; with too few rights what follows fails, and that is safe.
        self.take_back().ok();
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

    /// Files that are made, programs that are run and those that the spawning thread runs are
    /// the account's, and afterwards all is as before.
    #[test]
    fn rights_are_given_up_for_a_while() {
        let Some(account) = Account::for_servers().unwrap() else {
            // Without root there is nothing to give up.
            return;
        };
        let dir = pgassay_sys::private::Directory::make(&std::env::temp_dir(), "pgassay-lend");
        let dir = dir.unwrap();
        account.give(dir.path()).unwrap();
        let id = |command: &mut Command| {
            let said = command.output().unwrap();
            String::from_utf8(said.stdout).unwrap().trim().to_owned()
        };
        let [made, run, groups, spawned, read] = account
            .lend(|| {
                let file = dir.path().join("made");
                fs::write(&file, "").unwrap();
                let mut status = Command::new("cat");
                status
                    .arg("/proc/self/status")
                    .stdout(std::process::Stdio::piped());
                let spawned =
                    pgassay_sys::bound::spawn(status, rustix::process::Signal::KILL).unwrap();
                let status = spawned.wait_with_output().unwrap().stdout;
                let status = String::from_utf8(status).unwrap();
                let uids = status
                    .lines()
                    .find(|line| line.starts_with("Uid:"))
                    .unwrap();
                [
                    fs::metadata(file).unwrap().uid().to_string(),
                    id(Command::new("id").arg("-u")),
                    id(Command::new("id").arg("-G")),
                    uids.split_whitespace()
                        .skip(1)
                        .collect::<Vec<_>>()
                        .join(" "),
                    fs::read("/etc/shadow").is_ok().to_string(),
                ]
            })
            .unwrap();
        let uid = account.uid.to_string();
        assert_eq!((made, run), (uid.clone(), uid.clone()));
        assert_eq!(groups, account.gid.to_string());
        // Real, effective, saved and of the file system: none leads back.
        assert_eq!(spawned, [uid.as_str(); 4].join(" "));
        assert_eq!(read, "false");
        assert!(rustix::process::geteuid().is_root());
        assert_eq!(id(Command::new("id").arg("-u")), "0");
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
