//! Reading files that somebody else may have put there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file, also behind a link. A FIFO or a device is refused: reading it may never end.
///
/// # Errors
/// What opening it gave, and `Other` for what is no file.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a FIFO would wait for its writer otherwise; reading a file is not changed by it.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a file")),
    }
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
