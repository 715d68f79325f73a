//! Unpacking an archive: a jar with a `.txz`, whose files become an installation.

use std::fs;
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lzma_rust2::XzReader;
use tar::{Archive, EntryType};
use zip::ZipArchive;

use super::TargetError;
use crate::unfinished;

/// More than any PostgreSQL unpacks to; those that are pinned come to 40 to 90 MB.
const MOST_BYTES: u64 = 1 << 30;

/// More files than any PostgreSQL has.
const MOST_FILES: usize = 100_000;

/// Memory for the decompressor's window, in KiB: xz -9 takes 65 MiB.
const WINDOW_KIB: u32 = 128 << 10;

/// What is read at a time, in bytes.
const BUFFER: usize = 256 << 10;

/// Unpacks beside `prefix` and puts it there whole, or not at all.
///
/// # Errors
/// Why it can't be unpacked, or not there.
pub(super) fn unpack(
    description: &str,
    jar: &[u8],
    inner: &str,
    archives: &Path,
    prefix: &Path,
) -> Result<(), TargetError> {
    let place = |doing: &str, error: io::Error| TargetError::place(archives, doing, &error);
    make_readable(archives).map_err(|error| place("can't be made", error))?;
    // An own directory for each attempt: two at once do not meet, and one that
    // is cut short is not taken for whole.
    let attempt = archives.join(unfinished::name(".unpacking-", 0));
    fs::remove_dir_all(&attempt).ok();
    make_readable(&attempt).map_err(|error| place("can't be made", error))?;
    let _held = unfinished::hold(&attempt).map_err(|error| place("can't be locked", error))?;
    let unpacked = attempt.join("prefix");
    let result = extract(jar, inner, &unpacked)
        .map_err(|error| place(&format!("{description} can't be unpacked"), error))
        .and_then(|()| {
            let_others_read(&unpacked)
                .and_then(|()| match fs::rename(&unpacked, prefix) {
                    // Another pgassay was faster, with the same files.
                    Err(_) if prefix.is_dir() => Ok(()),
                    other => other,
                })
                .map_err(|error| place("can't be put in place", error))
        });
    fs::remove_dir_all(&attempt).ok();
    result
}

fn damaged(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// Writes the files of the `.txz` that the jar has by the name of `inner` below `into`.
fn extract(jar: &[u8], inner: &str, into: &Path) -> io::Result<()> {
    let mut jar = ZipArchive::new(Cursor::new(jar)).map_err(damaged)?;
    let inner = jar
        .index_for_name(inner)
        .ok_or_else(|| damaged(format!("there is no {inner} in it")))?;
    let inner = BufReader::with_capacity(BUFFER, jar.by_index(inner).map_err(damaged)?);
    extract_tar(XzReader::new_mem_limit(inner, true, WINDOW_KIB), into)
}

/// Writes the files of a tar below `into`, and nowhere else.
fn extract_tar(plain: impl Read, into: &Path) -> io::Result<()> {
    // One byte more than is allowed, so that the end tells one from the other.
    let limited = plain.take(MOST_BYTES + 1);
    let mut tar = Archive::new(BufReader::with_capacity(BUFFER, limited));
    tar.set_preserve_mtime(false);
    fs::create_dir_all(into)?;
    for (number, entry) in tar.entries()?.enumerate() {
        let mut entry = entry?;
        if number >= MOST_FILES {
            return Err(damaged(format!("more than {MOST_FILES} files")));
        }
        let name = entry.path()?.display().to_string();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Directory | EntryType::Symlink | EntryType::Link => {}
            other => return Err(damaged(format!("{name:?} is no file: {other:?}"))),
        }
        if !entry.unpack_in(into)? {
            return Err(damaged(format!("{name:?} leads out of the archive")));
        }
    }
    // To the end, where the checksums are.
    let mut rest = tar.into_inner();
    io::copy(&mut rest, &mut io::sink())?;
    if rest.get_ref().limit() == 0 {
        return Err(damaged(format!(
            "it unpacks to more than {MOST_BYTES} bytes"
        )));
    }
    Ok(())
}

/// Makes a directory that others may read, whatever the umask.
fn make_readable(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Lets others read and execute what the owner may: the server can be another user.
fn let_others_read(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let owners = meta.permissions().mode() >> 6 & 0o5;
    let mode = meta.permissions().mode() & 0o755 | owners << 3 | owners;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            let_others_read(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use tar::{Builder, Header};
    use zip::write::SimpleFileOptions;

    /// A member of an archive: kind, name, and its text or where it points.
    type Member<'a> = (EntryType, &'a str, &'a str);

    fn tarred(members: &[Member<'_>]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (kind, name, text) in members {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o4700);
            // Written by hand: the library's own writer refuses names like `../up`.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            let mut body: &[u8] = text.as_bytes();
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                let link = &mut header.as_gnu_mut().unwrap().linkname;
                link[..text.len()].copy_from_slice(text.as_bytes());
                body = &[];
            }
            header.set_size(body.len() as u64);
            header.set_cksum();
            tar.append(&header, body).unwrap();
        }
        tar.into_inner().unwrap()
    }

    /// A jar of a manifest and a `.txz` with `bin/`, `bin/postgres` (mode 4700, "program"), a symbolic
    /// and a hard link to it; made with Python's zipfile, lzma and tarfile.
    const SMALL: &[u8] = include_bytes!("small.jar");

    struct Room(PathBuf);

    impl Room {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("pgassay-{name}-{}", std::process::id()));
            fs::remove_dir_all(&dir).ok();
            fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }

        fn unpack(&self, jar: &[u8]) -> Result<(), TargetError> {
            let archives = self.0.join("archives");
            let inner = "postgres-linux-x86_64.txz";
            unpack("it", jar, inner, &archives, &archives.join("18"))
        }

        /// What a hostile tar comes to.
        fn untar(&self, members: &[Member<'_>]) -> io::Result<()> {
            fs::remove_dir_all(self.0.join("in")).ok();
            extract_tar(Cursor::new(tarred(members)), &self.0.join("in"))
        }

        /// What lies there afterwards.
        fn names(&self) -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(self.0.join("archives"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Room {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn files_links_and_modes_are_unpacked_for_every_user() {
        let room = Room::new("unpack-good");
        room.unpack(SMALL).unwrap();
        assert_eq!(room.names(), ["18"]);
        let bin = room.0.join("archives/18/bin");
        for name in ["postgres", "postmaster", "pg"] {
            assert_eq!(fs::read_to_string(bin.join(name)).unwrap(), "program");
        }
        // Readable and executable by all, without the set-user-id bit.
        let mode = fs::metadata(bin.join("postgres")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o7777, 0o755);
    }

    #[test]
    fn what_is_cut_short_is_refused_and_leaves_nothing() {
        let room = Room::new("unpack-short");
        for length in [0, 10, SMALL.len() / 2, SMALL.len() - 1] {
            let error = room.unpack(&SMALL[..length]).unwrap_err().to_string();
            assert!(error.contains("it can't be unpacked"), "{error}");
            assert!(room.names().is_empty());
        }
        // Each byte of the compressed archive counts: none may be another.
        let start = SMALL.windows(6).position(|w| w == b"\xfd7zXZ\0");
        for at in start.map_or(200, |s| s + 6)..SMALL.len() / 2 {
            let mut flipped = SMALL.to_vec();
            flipped[at] ^= 0x55;
            assert!(room.unpack(&flipped).is_err(), "byte {at}");
            assert!(room.names().is_empty());
        }
        let tar = tarred(&[(EntryType::Regular, "postgres", "program")]);
        let error = extract_tar(&tar[..515], &room.0.join("in")).unwrap_err();
        assert!(error.to_string().contains("unpack"), "{error}");
        // A jar without an archive.
        let mut empty = zip::ZipWriter::new(Cursor::new(Vec::new()));
        empty
            .start_file("readme", SimpleFileOptions::default())
            .unwrap();
        let error = room
            .unpack(&empty.finish().unwrap().into_inner())
            .unwrap_err();
        assert!(
            error.to_string().contains("no postgres-linux-x86_64.txz"),
            "{error}"
        );
        assert!(room.names().is_empty());
    }

    #[test]
    fn nothing_is_written_outside() {
        let room = Room::new("unpack-hostile");
        let outside = room.0.join("outside");
        fs::create_dir(&outside).unwrap();
        let target = outside.to_str().unwrap();
        let planted = format!("{target}/planted");
        for members in [
            &[(EntryType::Regular, "../../../outside/planted", "x")][..],
            &[
                (EntryType::Symlink, "way", target),
                (EntryType::Regular, "way/planted", "x"),
            ],
            &[(EntryType::Link, "pg", planted.as_str())],
            &[(EntryType::Fifo, "pipe", "")],
            &[(EntryType::Char, "device", "")],
        ] {
            assert!(room.untar(members).is_err(), "{members:?}");
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{members:?}");
        }
        // An absolute name is taken as one inside.
        room.untar(&[(EntryType::Regular, &planted, "x")]).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}
