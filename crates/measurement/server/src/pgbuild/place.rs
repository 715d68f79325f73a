//! Where builds lie.
//!
//! ```text
//! /var/tmp/pgassay-UID/
//!   builds/NAME/            the installation, with pgassay-build.json in it
//!   build-trees/
//!     sources/HASH/         sources, unpacked and patched
//!     trees/NAME/           object files, kept for a build that goes on and for relinking
//!     repos/HASH/           clones of remote repositories
//!     shared/HASH/          sources and object files in which neighbouring commits are built
//!     logs/NAME.log         everything that configure and the compiler said
//!     locks/NAME            held while NAME is built
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock, statvfs};

use crate::scratch::Scratch;
use pgassay_model::Failure;

/// The directories of all builds.
#[derive(Debug, Clone)]
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// The place that targets `build:NAME` are looked for in, made where missing.
    ///
    /// # Errors
    /// Where it can't be made, or is somebody else's.
    pub fn open() -> anyhow::Result<Self> {
        let scratch = Scratch::open(None).map_err(|error| Failure::target(error.to_string()))?;
        Self::of(scratch.root().to_path_buf())
    }

    /// The one in which root itself built, as it did before; `None` if there is none.
    pub fn left_by_root() -> Option<Self> {
        let root = Scratch::existing(None).ok().flatten()?.root().to_path_buf();
        (rustix::process::geteuid().is_root() && root.join("builds").is_dir())
            .then_some(Self { root })
    }

    /// A place below any directory, for tests.
    ///
    /// # Errors
    /// Where it can't be made.
    pub fn of(root: PathBuf) -> anyhow::Result<Self> {
        let place = Self { root };
        for dir in [
            place.builds(),
            place.trees(),
            place.sources(),
            place.below("repos"),
            place.shared(),
            place.below("logs"),
            place.below("locks"),
        ] {
            make_dir(&dir)?;
        }
        Ok(place)
    }

    fn below(&self, name: &str) -> PathBuf {
        self.root.join("build-trees").join(name)
    }

    /// Where installations are.
    pub fn builds(&self) -> PathBuf {
        self.root.join("builds")
    }

    /// The installation of a build.
    pub fn prefix(&self, name: &str) -> PathBuf {
        self.builds().join(name)
    }

    /// Where unpacked sources are.
    pub fn sources(&self) -> PathBuf {
        self.below("sources")
    }

    /// Where object files are.
    fn trees(&self) -> PathBuf {
        self.below("trees")
    }

    /// The object files of a build.
    pub fn tree(&self, name: &str) -> PathBuf {
        self.trees().join(name)
    }

    /// Where clones of remote repositories are.
    pub fn repos(&self) -> PathBuf {
        self.below("repos")
    }

    /// Where the trees are in which neighbouring commits are built.
    pub fn shared(&self) -> PathBuf {
        self.below("shared")
    }

    /// The log of a build.
    pub fn log(&self, name: &str) -> PathBuf {
        self.below("logs").join(format!("{name}.log"))
    }

    /// Keeps a second pgassay from the same build; released on drop.
    ///
    /// # Errors
    /// Where another one is at it.
    pub fn lock(&self, name: &str) -> anyhow::Result<File> {
        let path = self.below("locks").join(name);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("{} can't be opened", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                Failure::target(format!("another pgassay is building {name}"))
                    .with_remedy("wait for it, or build under another --name")
            );
        }
        Ok(file)
    }

    /// Refuses to begin what the disk has no room for.
    ///
    /// # Errors
    /// With the figures.
    pub fn need(&self, bytes: u64, what: &str) -> anyhow::Result<()> {
        let stat = statvfs(&self.root)
            .with_context(|| format!("{} can't be examined", self.root.display()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free >= bytes {
            return Ok(());
        }
        bail!(
            Failure::target(format!(
                "{what} takes about {} MB below {}, and {} MB are free there",
                bytes >> 20,
                self.root.display(),
                free >> 20
            ))
            .with_remedy(
                "free some; pgassay build --list shows what is there, \
                 --remove NAME and --clean take it away"
            )
        );
    }

    /// Removes a build: its installation, object files and log.
    ///
    /// # Errors
    /// Where something is in the way; what is not there is no error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        remove(&self.prefix(name))?;
        remove(&self.tree(name))?;
        match fs::remove_file(self.log(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Removes sources, object files and clones; installations stay.
    ///
    /// # Errors
    /// Where something is in the way.
    pub fn clean(&self) -> io::Result<()> {
        for dir in [self.sources(), self.trees(), self.repos(), self.shared()] {
            remove(&dir)?;
            make_dir(&dir).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// Makes a directory, and what leads to it, that the server's user may enter.
pub(super) fn make_dir(path: &Path) -> anyhow::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.exists()).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        // Whatever the umask: the server's user has to enter it.
        .and_then(|()| {
            missing
                .iter()
                .try_for_each(|dir| fs::set_permissions(dir, Permissions::from_mode(0o755)))
        })
        .with_context(|| format!("{} can't be made", path.display()))
}

/// Removes a directory and all in it; none there is no error.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Lets everybody read below `path`: the server runs as another user where
/// pgassay is root, and the umask of whoever builds may be tight.
pub(super) fn publish(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let mode = meta.permissions().mode();
    let wanted = if meta.is_dir() || mode & 0o100 != 0 {
        mode | 0o555
    } else {
        mode | 0o444
    };
    if wanted != mode {
        fs::set_permissions(path, Permissions::from_mode(wanted))?;
    }
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            publish(&entry?.path())?;
        }
    }
    Ok(())
}
