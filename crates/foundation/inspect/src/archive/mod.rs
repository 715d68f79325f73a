//! Packages: finds the ELF files in .deb, .rpm, wheels, jars, zips and tars, nested in one another.
//!
//! Nothing is written to disk, so names in an archive (`../../etc/passwd`, links) can do no harm:
//! they are only shown. What costs is memory and time, and each has a limit: entries, nesting,
//! bytes of one ELF file, bytes unpacked in all, and unpacked bytes for each byte of the package.

mod budget;
mod formats;

use std::io::{Cursor, Read};

use crate::error::Error;
use budget::{Budget, Held, Metered};

/// Limits against packages made to exhaust the reader.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Archives and compressed streams inside one another.
    pub depth: u32,
    /// Members over all levels.
    pub entries: u64,
    /// Bytes of ELF files and nested zips that are held in memory at a time, over all levels.
    pub held_bytes: u64,
    /// Bytes unpacked over all levels.
    pub total_bytes: u64,
    /// Bytes unpacked for each byte of the package, once beyond 64 MiB.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 10,
            entries: 1_000_000,
            held_bytes: 1 << 30,
            total_bytes: 32 << 30,
            ratio: 500,
        }
    }
}

/// What [`walk`] comes upon.
#[derive(Debug)]
pub enum Found<'a> {
    /// An ELF file's bytes, valid during the call only.
    Elf(&'a [u8]),
    /// The bytes of another file whose name was asked for, valid during the call only.
    Wanted(&'a [u8]),
    /// Something that could not be read; the rest of the package goes on where it can.
    Problem(Error),
}

/// What the first bytes of a file say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ELF file.
    Elf,
    /// A .deb or a static library.
    Ar,
    /// A zip, wheel or jar.
    Zip,
    /// A tar.
    Tar,
    /// An .rpm.
    Rpm,
    /// A cpio archive, as in an .rpm.
    Cpio,
    /// Compressed with gzip.
    Gzip,
    /// Compressed with xz.
    Xz,
    /// Compressed with zstd.
    Zstd,
    /// Compressed in a way that is not read; the name.
    Unread(&'static str),
    /// None of these.
    Other,
}

/// Bytes that [`Kind::of`] needs: a tar says what it is at offset 257.
pub const MAGIC_BYTES: usize = 512;

impl Kind {
    /// Tells by magic numbers.
    pub fn of(start: &[u8]) -> Self {
        match start {
            [0x7F, b'E', b'L', b'F', ..] => Self::Elf,
            [b'!', b'<', b'a', b'r', b'c', b'h', b'>', b'\n', ..] => Self::Ar,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Self::Zip,
            [0xED, 0xAB, 0xEE, 0xDB, ..] => Self::Rpm,
            [b'0', b'7', b'0', b'7', b'0', b'1' | b'2', ..] => Self::Cpio,
            [0x1F, 0x8B, 8, ..] => Self::Gzip,
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, ..] => Self::Unread("bzip2"),
            [0x04, 0x22, 0x4D, 0x18, ..] => Self::Unread("lz4"),
            [b'7', b'z', 0xBC, 0xAF, 0x27, 0x1C, ..] => Self::Unread("7z"),
            [b'0', b'7', b'0', b'7', b'0', b'X', ..] => Self::Unread("rpm's stripped cpio"),
            _ if start.get(257..262) == Some(b"ustar") => Self::Tar,
            _ => Self::Other,
        }
    }

    /// An archive or compressed stream that [`walk`] descends into.
    pub fn is_package(self) -> bool {
        !matches!(self, Self::Elf | Self::Other)
    }
}

/// Walks a package held in memory (or mapped), calling `visit` with the name and bytes of each ELF
/// file, and with what could not be read. Names are `package!member!member`.
pub fn walk(name: &str, package: &[u8], limits: &Limits, visit: &mut dyn FnMut(&str, Found<'_>)) {
    walk_with(name, package, limits, &|_| false, visit);
}

/// The same; files that are neither ELF files nor packages are handed over, too, if `wanted` says so of
/// their names.
pub fn walk_with(
    name: &str,
    package: &[u8],
    limits: &Limits,
    wanted: &dyn Fn(&str) -> bool,
    visit: &mut dyn FnMut(&str, Found<'_>),
) {
    let mut walker = Walker {
        budget: Budget::new(*limits, package.len() as u64),
        wanted,
        visit,
    };
    // A zip needs its end first; it is at hand here.
    let result = if Kind::of(package) == Kind::Zip {
        formats::zip(&mut walker, name, Cursor::new(package), 0)
    } else {
        walker.stream(name, &mut Cursor::new(package), 0)
    };
    if let Err(error) = result {
        (walker.visit)(name, Found::Problem(error));
    }
}

/// The state of one walk.
struct Walker<'v> {
    budget: Budget,
    wanted: &'v dyn Fn(&str) -> bool,
    visit: &'v mut dyn FnMut(&str, Found<'_>),
}

impl Walker<'_> {
    /// Looks at what a stream starts with, and reads it if it is of use.
    ///
    /// # Errors
    /// Only where the stream around it can't go on either (a limit over the whole walk).
    fn member(&mut self, name: &str, reader: &mut dyn Read, depth: u32) -> Result<(), Error> {
        self.budget.entry()?;
        match self.stream(name, reader, depth) {
            Err(error @ Error::Limit { .. }) if self.budget.is_spent() => Err(error),
            Err(error) => {
                (self.visit)(name, Found::Problem(error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn stream(&mut self, name: &str, reader: &mut dyn Read, depth: u32) -> Result<(), Error> {
        let mut start = [0; MAGIC_BYTES];
        let got = fill(reader, &mut start).map_err(|e| self.budget.explain(e))?;
        let kind = Kind::of(&start[..got]);
        let mut whole = start[..got].chain(reader);
        let deeper = depth + 1;
        if kind.is_package() && depth >= self.budget.limits.depth {
            return Err(Error::Limit {
                what: "nesting of archives".into(),
                limit: format!("{} levels", self.budget.limits.depth),
            });
        }
        match kind {
            Kind::Other if (self.wanted)(name) => {
                let bytes = self.hold(&mut whole)?;
                (self.visit)(name, Found::Wanted(&bytes.bytes));
                Ok(())
            }
            Kind::Other => Ok(()),
            Kind::Unread(what) => Err(Error::Archive(format!("{what} compression is not read"))),
            Kind::Elf => {
                let bytes = self.hold(&mut whole)?;
                (self.visit)(name, Found::Elf(&bytes.bytes));
                Ok(())
            }
            Kind::Zip => {
                let bytes = self.hold(&mut whole)?;
                formats::zip(self, name, Cursor::new(bytes.bytes.as_slice()), deeper)
            }
            Kind::Ar => formats::ar(self, name, &mut whole, deeper),
            Kind::Tar => formats::tar(self, name, &mut whole, deeper),
            Kind::Rpm => formats::rpm(self, name, &mut whole, deeper),
            Kind::Cpio => formats::cpio(self, name, &mut whole, deeper),
            Kind::Gzip | Kind::Xz | Kind::Zstd => {
                let window = self.budget.window();
                let mut unpacked = formats::decompress(kind, &mut whole, window.bytes)?;
                let mut metered = Metered::new(&mut *unpacked, self.budget.clone());
                self.stream(name, &mut metered, deeper)
            }
        }
    }

    /// Reads a member whole, as far as what is held already leaves room for it.
    fn hold(&self, reader: &mut dyn Read) -> Result<Held, Error> {
        let room = self.budget.room();
        let mut bytes = Vec::new();
        reader
            .take(room.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| self.budget.explain(e))?;
        if bytes.len() as u64 > room {
            return Err(Error::Limit {
                what: "a member's size, with the archives around it that are held in memory,"
                    .into(),
                limit: format!("{} MiB", self.budget.limits.held_bytes >> 20),
            });
        }
        Ok(self.budget.hold(bytes))
    }
}

/// Reads until the buffer is full or the stream ends.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match reader.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
