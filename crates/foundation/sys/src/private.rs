//! A directory that nobody else has prepared and nobody else may enter.
//!
//! In /tmp anybody can make what we are about to make, if its name can be
//! guessed. So the name is random, the directory must be new, and it is looked
//! at once more: others can't have put a link into it beforehand.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::trust::{self, STICKY};

/// How often a name that is taken is replaced by another.
const TRIES: usize = 16;

/// A private directory, removed with all in it on drop. Its name has our process's number and we
/// hold its flock, so that a later run can remove it if this one is killed.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Open as long as we live; nobody reads it.
    _held: Option<File>,
}

impl Directory {
    /// Makes a new one below `base`: its name begins with `name`, its mode is 0700.
    ///
    /// # Errors
    /// If it can't be made, or `base` lets others swap it.
    pub fn make(base: &Path, name: &str) -> io::Result<Self> {
        let base = fs::canonicalize(base)?;
        let around = fs::symlink_metadata(&base)?;
        let us = rustix::process::geteuid().as_raw();
        let open = around.mode() & STICKY == 0 && trust::others_write(&base, &around);
        if open || ![0, us].contains(&around.uid()) {
            return Err(refused(&base, "others can replace what is made in it"));
        }
        for _ in 0..TRIES {
            let path = base.join(format!("{name}-{}-{}", std::process::id(), random()?));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let mut directory = Self { path, _held: None };
                    directory.verify(us)?;
                    let lock = File::open(&directory.path)?;
                    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
                    directory._held = Some(lock);
                    return Ok(directory);
                }
            }
        }
        Err(refused(&base, "every name that was tried in it is taken"))
    }

    fn verify(&self, us: u32) -> io::Result<()> {
        let meta = fs::symlink_metadata(&self.path)?;
        if !meta.is_dir() || meta.uid() != us {
            return Err(refused(&self.path, "it is not the directory that was made"));
        }
        // A umask of 0700 would keep even us out.
        fs::set_permissions(&self.path, Permissions::from_mode(0o700))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Links in it are removed, not followed.
        fs::remove_dir_all(&self.path).ok();
    }
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{}: {why}", path.display()),
    )
}

/// Sixteen digits that nobody can guess.
fn random() -> io::Result<String> {
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_new_private_and_removed() {
        let base = std::env::temp_dir();
        let one = Directory::make(&base, "pgassay-private").unwrap();
        let two = Directory::make(&base, "pgassay-private").unwrap();
        assert_ne!(one.path(), two.path());
        let meta = fs::symlink_metadata(one.path()).unwrap();
        assert_eq!(meta.mode() & 0o7777, 0o700);
        fs::write(one.path().join("x"), "x").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && two.path().is_dir());
    }

    #[test]
    fn a_place_where_others_can_swap_it_is_refused() {
        let own = Directory::make(&std::env::temp_dir(), "pgassay-private").unwrap();
        let open = own.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let why = Directory::make(&open, "x").unwrap_err().to_string();
        assert!(why.contains("others can replace"), "{why}");
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        assert!(Directory::make(&open, "x").is_ok());
    }
}
