//! The archive formats, each as a walk over its members.

use std::cell::Cell;
use std::io::{self, Cursor, Read};

use super::budget::Metered;
use super::{Found, Kind, Walker};
use crate::error::Error;
use crate::facts::clean;

/// Longest member name, and longest tar header that carries one.
const NAME_BYTES: u64 = 64 << 10;

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Archive(error.to_string())
}

fn join(name: &str, member: &[u8]) -> String {
    let member = &member[..member.len().min(1024)];
    format!("{name}!{}", clean(member).trim_start_matches("./"))
}

/// A decompressor over `reader` whose window is at most so large.
pub fn decompress<'r>(
    kind: Kind,
    reader: &'r mut dyn Read,
    window_bytes: u64,
) -> Result<Box<dyn Read + 'r>, Error> {
    Ok(match kind {
        Kind::Gzip => Box::new(flate2::read::MultiGzDecoder::new(reader)),
        Kind::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(
            reader,
            true,
            (window_bytes / 1024) as u32,
        )),
        _ => {
            let source = Peeked {
                ahead: None,
                inner: reader,
            };
            Box::new(ZstdFrames {
                frame: Some(zstd_frame(source, window_bytes).map_err(damaged)?),
                window_bytes,
            })
        }
    })
}

type ZstdFrame<R> = ruzstd::decoding::StreamingDecoder<R, ruzstd::decoding::FrameDecoder>;

fn zstd_frame<R: Read>(reader: R, window_bytes: u64) -> io::Result<ZstdFrame<R>> {
    ZstdFrame::new_with_max_window_size(reader, window_bytes).map_err(io::Error::other)
}

/// Zstandard frames one after another, as `pzstd` writes them.
struct ZstdFrames<R: Read> {
    frame: Option<ZstdFrame<Peeked<R>>>,
    window_bytes: u64,
}

/// A stream with a byte that was read ahead.
struct Peeked<R> {
    ahead: Option<u8>,
    inner: R,
}

impl<R: Read> Read for Peeked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match (buffer.first_mut(), self.ahead) {
            (Some(first), Some(byte)) => {
                *first = byte;
                self.ahead = None;
                Ok(1)
            }
            _ => self.inner.read(buffer),
        }
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.frame {
            let got = frame.read(buffer)?;
            if got > 0 || buffer.is_empty() {
                return Ok(got);
            }
            // At the end of a frame: another, or the end of the stream.
            let Some(mut source) = self.frame.take().map(ZstdFrame::into_inner) else {
                break;
            };
            let mut first = [0];
            if source.read(&mut first)? == 1 {
                source.ahead = Some(first[0]);
                self.frame = Some(zstd_frame(source, self.window_bytes)?);
            }
        }
        Ok(0)
    }
}

/// `ar`, the outer shell of a .deb: headers of 60 bytes. Read here and not by a library because the
/// one there is reserves as much memory as a member's header claims.
pub fn ar(
    walker: &mut Walker<'_>,
    name: &str,
    reader: &mut dyn Read,
    depth: u32,
) -> Result<(), Error> {
    let mut magic = [0; 8];
    reader.read_exact(&mut magic).map_err(damaged)?;
    let mut objects = false;
    loop {
        let mut header = [0; 60];
        let got = super::fill(reader, &mut header).map_err(|e| walker.budget.explain(e))?;
        if got == 0 {
            return Ok(());
        }
        let size = std::str::from_utf8(&header[48..58])
            .ok()
            .and_then(|s| s.trim().parse::<u64>().ok());
        let (true, Some(size)) = (got == 60 && header[58..] == *b"`\n", size) else {
            return Err(Error::Archive("a damaged ar header".into()));
        };
        let member = &header[..16];
        let member = clean(member);
        let member = member.trim_end().trim_end_matches('/');
        // Read to its end whatever becomes of it, to stand at the next header.
        let mut body = reader.take(size + (size & 1));
        if member.ends_with(".o") || header.starts_with(b"/") {
            objects |= member.ends_with(".o");
        } else {
            let full = join(name, member.as_bytes());
            walker.member(&full, &mut body, depth)?;
        }
        io::copy(&mut body, &mut io::sink()).map_err(|e| walker.budget.explain(e))?;
        if objects {
            return Err(Error::Unlinked);
        }
    }
}

/// tar, with GNU and pax long names. The library's own handling of long names reads them whole
/// whatever length they claim, so its raw entries are used.
pub fn tar(
    walker: &mut Walker<'_>,
    name: &str,
    reader: &mut dyn Read,
    depth: u32,
) -> Result<(), Error> {
    let mut archive = ::tar::Archive::new(reader);
    let mut long: Option<Vec<u8>> = None;
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(|e| walker.budget.explain(e))?;
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            let mut text = Vec::new();
            entry
                .by_ref()
                .take(NAME_BYTES)
                .read_to_end(&mut text)
                .map_err(|e| walker.budget.explain(e))?;
            let text = if kind.is_gnu_longname() {
                text.split(|b| *b == 0).next().map(<[u8]>::to_vec)
            } else {
                ::tar::PaxExtensions::new(&text)
                    .flatten()
                    .find(|e| e.key_bytes() == b"path")
                    .map(|e| e.value_bytes().to_vec())
            };
            long = text.or(long);
            continue;
        }
        let member = long
            .take()
            .unwrap_or_else(|| entry.path_bytes().into_owned());
        if !(kind.is_file() || kind.is_contiguous()) {
            // Links, directories, devices: what a link names is read where it stands.
            continue;
        }
        walker.member(&join(name, &member), &mut entry, depth)?;
    }
    Ok(())
}

/// zip: by its central directory, so the whole file must be at hand.
pub fn zip(
    walker: &mut Walker<'_>,
    name: &str,
    file: Cursor<&[u8]>,
    depth: u32,
) -> Result<(), Error> {
    let mut archive = ::zip::ZipArchive::new(file).map_err(damaged)?;
    for i in 0..archive.len() {
        let budget = walker.budget.clone();
        let mut member = match archive.by_index(i) {
            Ok(member) => member,
            Err(error) => {
                budget.entry()?;
                (walker.visit)(
                    name,
                    Found::Problem(Error::Archive(format!("member {i}: {error}"))),
                );
                continue;
            }
        };
        if member.is_dir() || member.is_symlink() {
            continue;
        }
        let full = join(name, member.name_raw());
        let mut metered = Metered::new(&mut member, budget);
        walker.member(&full, &mut metered, depth)?;
    }
    Ok(())
}

/// cpio as rpm uses it. The allowance keeps a header from claiming a name of gigabytes.
pub fn cpio(
    walker: &mut Walker<'_>,
    name: &str,
    reader: &mut dyn Read,
    depth: u32,
) -> Result<(), Error> {
    let allowance = Cell::new(u64::MAX);
    let mut reader = Bounded {
        inner: reader,
        allowance: &allowance,
    };
    loop {
        allowance.set(NAME_BYTES);
        let mut entry =
            ::cpio::newc::Reader::new(&mut reader).map_err(|e| walker.budget.explain(e))?;
        allowance.set(u64::MAX);
        if entry.entry().is_trailer() {
            return Ok(());
        }
        let full = join(name, entry.entry().name().as_bytes());
        if entry.entry().mode() & 0o170_000 == 0o100_000 {
            walker.member(&full, &mut entry, depth)?;
        }
        entry.finish().map_err(|e| walker.budget.explain(e))?;
    }
}

/// A reader that stops when an allowance is used up.
struct Bounded<'r> {
    inner: &'r mut dyn Read,
    allowance: &'r Cell<u64>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.allowance.get();
        let most = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::other("a name of absurd length"));
        }
        let got = self.inner.read(&mut buffer[..most])?;
        self.allowance.set(left - got as u64);
        Ok(got)
    }
}

/// .rpm: a lead of 96 bytes, two header structures, and the compressed cpio.
///
/// A header structure is the magic 8E AD E8 01, four reserved bytes, the number of index entries of
/// 16 bytes each and the length of the data behind them (RPM package format, version 4); the first
/// (the signature) is padded to eight bytes.
pub fn rpm(
    walker: &mut Walker<'_>,
    name: &str,
    reader: &mut dyn Read,
    depth: u32,
) -> Result<(), Error> {
    skip(walker, reader, 96)?;
    for signature in [true, false] {
        let mut head = [0; 16];
        reader
            .read_exact(&mut head)
            .map_err(|e| walker.budget.explain(e))?;
        if head[..3] != [0x8E, 0xAD, 0xE8] {
            return Err(Error::Archive("a damaged rpm header".into()));
        }
        let number = |at: usize| {
            u64::from(u32::from_be_bytes([
                head[at],
                head[at + 1],
                head[at + 2],
                head[at + 3],
            ]))
        };
        let length = number(8) * 16 + number(12);
        skip(
            walker,
            reader,
            if signature {
                length.next_multiple_of(8)
            } else {
                length
            },
        )?;
    }
    let mut first = [0];
    let got = super::fill(reader, &mut first).map_err(|e| walker.budget.explain(e))?;
    if got == 0 {
        return Err(Error::Archive("cut off before its payload".into()));
    }
    walker.stream(name, &mut first.chain(reader), depth)
}

fn skip(walker: &Walker<'_>, reader: &mut dyn Read, bytes: u64) -> Result<(), Error> {
    let skipped =
        io::copy(&mut reader.take(bytes), &mut io::sink()).map_err(|e| walker.budget.explain(e))?;
    if skipped < bytes {
        return Err(Error::Archive("cut off".into()));
    }
    Ok(())
}
