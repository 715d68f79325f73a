//! Why a file could not be inspected.

use thiserror::Error;

/// Why a file could not be inspected. The caller knows the file's name and adds it.
#[derive(Debug, Error)]
pub enum Error {
    /// It does not start with the ELF magic.
    #[error("not an ELF file")]
    NotElf,
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// ELF, but what its headers say can't be followed.
    #[error("damaged ELF file: {0}")]
    Damaged(String),
    /// A core dump: it holds memory, not a program.
    #[error("a core dump; inspect the executable that it came from")]
    CoreDump,
    /// An object file or a static library: the linker's part (helpers, veneers) is not there yet.
    #[error("not linked yet; inspect the program or library that it is linked into")]
    Unlinked,
    /// A container could not be read.
    #[error("damaged or unreadable archive: {0}")]
    Archive(String),
    /// A limit against hostile input was reached.
    #[error("{what} exceeds the limit of {limit}; the rest was not read")]
    Limit {
        /// What grew.
        what: String,
        /// The limit with its unit.
        limit: String,
    },
}

impl From<object::read::Error> for Error {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}
