//! Reading files that somebody else may have put there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file, also behind a link. A FIFO or a device is refused: reading it may never end.
///
/// # Errors
/// What opening it gave, and `Other` for what is no file.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a device can act on it: a watchdog starts, a tape rewinds when it is closed.
    regular(&fs::metadata(path)?)?;
    // The path can lead to something else by now. Opening a FIFO would wait for its writer otherwise, and a terminal
    // would become ours; reading a file is not changed by these flags.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::private::Directory;

    /// Opening a socket fails with ENXIO, so that this error says that it was not tried.
    #[test]
    fn what_is_no_file_is_not_opened() {
        let dir = Directory::make(&std::env::temp_dir(), "pgassay-input").unwrap();
        let (socket, link) = (dir.path().join("socket"), dir.path().join("link"));
        let _listener = UnixListener::bind(&socket).unwrap();
        symlink(&socket, &link).unwrap();
        for path in [&socket, &link, Path::new("/dev/null"), dir.path()] {
            let why = open(path).unwrap_err().to_string();
            assert_eq!(why, "it is not a file", "{}", path.display());
        }
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        fs::remove_file(&link).unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read(&link, 4).unwrap(), b"text");
    }
}
