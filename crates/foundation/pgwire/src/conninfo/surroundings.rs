//! What a connection string leaves open comes from the surroundings:
//! environment variables, files in the home directory, the user's name.
//! They are behind one trait so that tests bring their own.

use std::io;
use std::path::{Path, PathBuf};

/// A file as the conninfo code sees it.
#[derive(Debug, Clone)]
pub struct FileSeen {
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Permission bits.
    pub mode: u32,
    /// A plain file, as a password file must be.
    pub is_file: bool,
}

/// Where variables, files and the user's name come from.
pub trait Surroundings {
    /// An environment variable; an empty one counts as absent, as in libpq.
    fn var(&self, name: &str) -> Option<String>;
    /// Reads a file; `NotFound` where there is none.
    fn read(&self, path: &Path) -> io::Result<FileSeen>;
    /// Whether anything is at that path.
    fn exists(&self, path: &Path) -> bool;
    /// The operating system's name of the effective user.
    fn user_name(&self) -> Option<String>;

    /// The home directory, where `.pgpass` and the like lie.
    fn home(&self) -> Option<PathBuf> {
        self.var("HOME").map(PathBuf::from)
    }
}

/// None: no variable, no file, no user's name.
#[derive(Debug, Clone, Copy)]
pub struct NoSurroundings;

impl Surroundings for NoSurroundings {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn read(&self, _: &Path) -> io::Result<FileSeen> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn exists(&self, _: &Path) -> bool {
        false
    }

    fn user_name(&self) -> Option<String> {
        None
    }
}

/// The surroundings of this process.
#[derive(Debug, Clone, Copy)]
pub struct ThisProcess;

/// More than this of a password or service file is not read: they are lists
/// of lines, and a mistaken path must not fill the memory.
const FILE_LIMIT: u64 = 8 << 20;

impl Surroundings for ThisProcess {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn read(&self, path: &Path) -> io::Result<FileSeen> {
        use std::io::Read;
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path)?;
        let mut bytes = Vec::new();
        if metadata.is_file() {
            std::fs::File::open(path)?
                .take(FILE_LIMIT)
                .read_to_end(&mut bytes)?;
        }
        Ok(FileSeen {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            mode: metadata.mode() & 0o7777,
            is_file: metadata.is_file(),
        })
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn user_name(&self) -> Option<String> {
        whoami::username().ok()
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir()
    }
}
