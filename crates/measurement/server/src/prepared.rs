//! Data directories that initdb made once and that later launches copy: initdb takes most of the time of a short run.
//!
//! ```text
//! prepared/KEY/          a data directory on which no server has run, mode 0700, the server user's
//! prepared/KEY.new-PID/  one that is being copied there
//! ```
//! KEY is a hash of everything that decides what initdb makes: the executables `postgres` and `initdb` and the files
//! beside postgres.bki, each by name, inode, size and times, and initdb's arguments. Only executables of the ELF
//! format count: what a script starts is not seen here.
//!
//! They are read and written with the server user's rights alone, never with root's. The copy is plain, without shared
//! extents (reflinks), whose first change would cost the measured server a copy of the block.

use std::fs::{self, File, FileTimes};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use ring::digest::{Context, SHA256};

use super::TargetError;
use super::account::Account;
use super::find::Installation;
use super::scratch::{Scratch, make_dir};

/// Prepared directories that are kept, of 40 MB each, the last used.
const KEPT: usize = 8;
/// For how long one stays without being used.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);
/// For how long a copy that nobody completes stays.
const INCOMPLETE: Duration = Duration::from_secs(3600);

/// The place of the data directory prepared for one build, whether it is there or not.
#[derive(Debug)]
pub(super) struct Prepared {
    all: PathBuf,
    pub(super) dir: PathBuf,
    owner: u32,
}

impl Prepared {
    /// The place for what `installation` makes with these arguments of initdb; `show` is `initdb --show`, which prints
    /// where its files are.
    ///
    /// # Errors
    /// Where the installation's files are not to be seen, an executable is a script, or the place can't be made.
    pub(super) fn at(
        scratch: &Scratch,
        installation: &Installation,
        arguments: &[&str],
        mut show: Command,
        account: Option<&Account>,
    ) -> io::Result<Self> {
        let mut hash = Context::new(&SHA256);
        for tool in ["postgres", "initdb"].map(|tool| installation.tool(tool)) {
            let mut magic = [0; 4];
            File::open(&tool)?.read_exact(&mut magic)?;
            if magic != *b"\x7fELF" {
                return Err(io::ErrorKind::InvalidData.into());
            }
            identify(&mut hash, &tool)?;
        }
        let shown = show.output()?;
        let shown = [shown.stdout, shown.stderr].concat();
        let shown = String::from_utf8_lossy(&shown);
        let catalog = shown
            .lines()
            .find_map(|line| line.strip_prefix("POSTGRES_BKI="))
            .and_then(|path| Path::new(path).parent())
            .ok_or(io::ErrorKind::NotFound)?;
        let mut files: Vec<PathBuf> = fs::read_dir(catalog)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        files.sort();
        for file in files.iter().filter(|file| file.is_file()) {
            identify(&mut hash, file)?;
        }
        hash.update(arguments.join("\0").as_bytes());
        let owner = account.map_or(rustix::process::geteuid().as_raw(), |account| account.uid);
        hash.update(&owner.to_le_bytes());
        let key: String = hash.finish().as_ref()[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let all = scratch.root().join("prepared");
        make_dir(&all, 0o755).map_err(io::Error::other)?;
        Ok(Self {
            dir: all.join(key),
            all,
            owner,
        })
    }

    /// Whether it is there, and nobody else's.
    pub(super) fn usable(&self) -> bool {
        let meta = fs::symlink_metadata(&self.dir);
        meta.is_ok_and(|meta| {
            meta.is_dir() && meta.uid() == self.owner && meta.mode() & 0o7777 == 0o700
        })
    }

    /// Notes that it is used, and removes those of no more use.
    pub(super) fn used(&self) {
        let now = SystemTime::now();
        let times = FileTimes::new().set_modified(now);
        File::open(&self.dir)
            .and_then(|dir| dir.set_times(times))
            .ok();
        self.sweep(now);
    }

    /// Puts a copy here, which `copy` makes in the empty directory that it is given.
    ///
    /// # Errors
    /// Where the copy can't be made; nothing of it stays.
    pub(super) fn keep(
        &self,
        account: Option<&Account>,
        copy: impl FnOnce(&Path) -> Result<(), TargetError>,
    ) -> Result<(), TargetError> {
        self.sweep(SystemTime::now());
        let new = self
            .dir
            .with_extension(format!("new-{}", std::process::id()));
        make_dir(&new, 0o700)?;
        let made = account
            .map_or(Ok(()), |account| account.give(&new))
            .and_then(|()| copy(&new))
            .and_then(|()| {
                fs::rename(&new, &self.dir)
                    .map_err(|error| TargetError::place(&self.dir, "can't be made", &error))
            });
        if made.is_err() {
            fs::remove_dir_all(&new).ok();
        }
        made
    }

    fn sweep(&self, now: SystemTime) {
        let mut found: Vec<(Duration, PathBuf)> = fs::read_dir(&self.all)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let used = entry.metadata().and_then(|meta| meta.modified()).ok()?;
                Some((now.duration_since(used).unwrap_or_default(), entry.path()))
            })
            .collect();
        found.sort();
        let (new, complete): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(_, dir)| dir.extension().is_some());
        let old = new.into_iter().filter(|(age, _)| *age > INCOMPLETE);
        let surplus = complete
            .into_iter()
            .enumerate()
            .filter(|(i, (age, _))| *i >= KEPT || *age > UNUSED)
            .map(|(_, found)| found);
        for (_, dir) in old.chain(surplus) {
            fs::remove_dir_all(dir).ok();
        }
    }
}

/// Adds what tells a file from another, and from itself after a change.
fn identify(hash: &mut Context, file: &Path) -> io::Result<()> {
    let meta = fs::metadata(file)?;
    let words = format!(
        "{}\0{} {} {} {}.{} {}.{}\0",
        file.display(),
        meta.dev(),
        meta.ino(),
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec()
    );
    hash.update(words.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = PathBuf::from(format!(
                "/var/tmp/pgassay-test-prepared-{name}-{}",
                std::process::id()
            ));
            fs::remove_dir_all(&path).ok();
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn a_change_of_any_file_or_argument_has_a_place_of_its_own() {
        let place = Place::new("key");
        let dir = &place.0;
        let scratch = Scratch::open(Some(dir)).unwrap();
        for (file, text) in [
            ("postgres", "\x7fELF 1"),
            ("initdb", "\x7fELF 2"),
            ("postgres.bki", "# 1"),
            ("system_views.sql", "CREATE VIEW"),
        ] {
            fs::write(dir.join(file), text).unwrap();
        }
        let installation = Installation {
            bin_dir: dir.clone(),
            banner: String::new(),
            version: crate::Version::parse("15.20").unwrap(),
            tools: BTreeSet::new(),
            found_by: String::new(),
            caveat: None,
        };
        let at = |arguments: &[&str]| {
            let mut show = Command::new("echo");
            show.arg(format!(
                "POSTGRES_BKI={}",
                dir.join("postgres.bki").display()
            ));
            Prepared::at(&scratch, &installation, arguments, show, None).map(|place| place.dir)
        };
        let mut seen = BTreeSet::from([at(&["--locale=C"]).unwrap()]);
        assert!(!seen.insert(at(&["--locale=C"]).unwrap()));
        assert!(seen.insert(at(&["--locale=de_DE"]).unwrap()));
        for file in ["postgres", "initdb", "postgres.bki", "system_views.sql"] {
            // Replaced by one of the same length, as a new build does.
            let path = dir.join(file);
            fs::copy(&path, dir.join("new")).unwrap();
            fs::rename(dir.join("new"), &path).unwrap();
            assert!(seen.insert(at(&["--locale=C"]).unwrap()), "{file}");
        }
        fs::write(dir.join("initdb"), "#!/bin/sh\n").unwrap();
        assert!(at(&["--locale=C"]).is_err());
    }

    #[test]
    fn the_last_used_stay() {
        let place = Place::new("sweep");
        let now = SystemTime::now();
        let made = |name: &str, age: Duration| {
            let dir = place.0.join(name);
            fs::create_dir(&dir).unwrap();
            let times = FileTimes::new().set_modified(now - age);
            File::open(&dir).unwrap().set_times(times).unwrap();
        };
        for hours in 0..10 {
            made(&format!("{hours}"), Duration::from_secs(3600 * hours));
        }
        made("0.new-1", Duration::from_secs(60));
        made("0.new-2", INCOMPLETE * 2);
        let one = Prepared {
            all: place.0.clone(),
            dir: place.0.join("0"),
            owner: 0,
        };
        let left = || -> BTreeSet<String> {
            fs::read_dir(&place.0)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        };
        one.sweep(now);
        let kept: BTreeSet<String> = (0..KEPT).map(|hours| hours.to_string()).collect();
        let copying = BTreeSet::from(["0.new-1".to_owned()]);
        assert_eq!(left(), &kept | &copying);
        one.sweep(now + UNUSED);
        assert_eq!(left(), BTreeSet::from(["0".to_owned()]));
    }
}
