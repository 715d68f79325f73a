//! Files of a source: found, copied with what counts, hashed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ring::digest;

/// The regular files and links below `dir`, git's own directory left out.
pub(super) fn walk(dir: &Path, below: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if path == Path::new(".git") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(dir, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Copies a file with its mode and time, or a link as a link. Times matter: a
/// tarball's grammar is older than the parser made from it.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let meta = fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if !meta.is_file() {
        return Ok(());
    }
    fs::copy(from, to)?;
    File::options()
        .write(true)
        .open(to)
        .and_then(|file| file.set_modified(meta.modified()?))
        // A file that may only be read keeps the time of the copy.
        .or_else(|error| match error.kind() {
            ErrorKind::PermissionDenied => Ok(()),
            _ => Err(error),
        })
}

/// SHA-256 over names, modes and contents.
pub(super) fn hash_files(dir: &Path, files: &[PathBuf]) -> io::Result<String> {
    let mut all = digest::Context::new(&digest::SHA256);
    for name in files {
        let path = dir.join(name);
        let meta = fs::symlink_metadata(&path)?;
        let (kind, inner) = if meta.is_symlink() {
            let to = fs::read_link(&path)?;
            ("link", hash_of(to.as_os_str().as_encoded_bytes())?)
        } else if meta.is_file() {
            let runs = meta.permissions().mode() & 0o100 != 0;
            (
                if runs { "run" } else { "file" },
                hash_of(File::open(&path)?)?,
            )
        } else {
            continue;
        };
        let name = name.display();
        all.update(format!("{kind} {inner} {name}\n").as_bytes());
    }
    Ok(hex(all.finish().as_ref()))
}

/// SHA-256 of what is read, in hexadecimal.
pub(super) fn hash_of(mut from: impl Read) -> io::Result<String> {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hex(context.finish().as_ref())),
            n => context.update(&buffer[..n]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
