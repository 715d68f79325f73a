//! Reading files that somebody else may have put there.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file, also behind a link. A FIFO or a device is refused: reading it may never end.
///
/// # Errors
/// What opening it gave, and `Other` for what is no file.
pub fn open(path: &Path) -> io::Result<File> {
    // Looked at before it is opened, as opening a FIFO waits for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    File::open(path)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open`], and `Other` for a larger file.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    if file.metadata()?.len() > most {
        let limit = most >> 20;
        return Err(io::Error::other(format!("it has more than {limit} MiB")));
    }
    let mut content = Vec::new();
    file.take(most).read_to_end(&mut content)?;
    Ok(content)
}
