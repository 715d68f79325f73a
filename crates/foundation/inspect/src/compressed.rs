//! Sections that are stored compressed: DWARF (`SHF_COMPRESSED` with zlib or zstd, the older
//! `.zdebug_*`), and the symbol table in `.gnu_debugdata`.
//!
//! What a header claims to unpack to is not believed: memory is taken as bytes arrive, and ends at a
//! limit that real sections do not reach.

use std::borrow::Cow;
use std::io::Read;

use object::{CompressionFormat, Object, ObjectSection};

use crate::elf::Image;

/// Unpacked bytes for each stored byte: DWARF compresses to a third or a quarter, and to a tenth at
/// the most; zlib reaches a thousand on purpose only.
const RATIO: u64 = 32;

/// Unpacked bytes of one section.
const MOST_BYTES: u64 = 1 << 30;

/// A zstd frame that asks for a larger window than this is not unpacked.
const WINDOW_BYTES: u64 = 128 << 20;

/// A section by its plain name, unpacked where it is compressed. `None` where it is not there or
/// can't be read, the latter with a warning.
pub fn section<'d>(
    image: &Image<'d>,
    name: &str,
    warnings: &mut Vec<String>,
) -> Option<Cow<'d, [u8]>> {
    let Some(section) = image.file.section_by_name(name) else {
        return older(image, name, warnings);
    };
    let stored = match section.compressed_data() {
        Ok(stored) => stored,
        Err(error) => {
            warnings.push(format!("section {name} can't be read: {error}"));
            return None;
        }
    };
    let unpacked = match stored.format {
        CompressionFormat::None => return Some(Cow::Borrowed(stored.data)),
        CompressionFormat::Zlib => limited(
            flate2::read::ZlibDecoder::new(stored.data),
            stored.data.len(),
        ),
        CompressionFormat::Zstandard => {
            let mut data = stored.data;
            match ruzstd::decoding::StreamingDecoder::new_with_max_window_size(
                &mut data,
                WINDOW_BYTES,
            ) {
                Ok(reader) => limited(reader, stored.data.len()),
                Err(error) => Err(error.to_string()),
            }
        }
        _ => Err("its compression is not known".into()),
    };
    match unpacked {
        Ok(bytes) => Some(Cow::Owned(bytes)),
        Err(error) => {
            warnings.push(format!("section {name} can't be unpacked: {error}"));
            None
        }
    }
}

/// `.zdebug_info` for `.debug_info` and the like: "ZLIB", the length in eight bytes, the stream.
fn older<'d>(image: &Image<'d>, name: &str, warnings: &mut Vec<String>) -> Option<Cow<'d, [u8]>> {
    let name = format!(".z{}", name.strip_prefix('.')?);
    let (_, data) = image.section(&name)?;
    let stream = data.strip_prefix(b"ZLIB").and_then(|rest| rest.get(8..));
    let unpacked = match stream {
        Some(stream) => limited(flate2::read::ZlibDecoder::new(stream), stream.len()),
        None => Err("its compression is not known".into()),
    };
    match unpacked {
        Ok(bytes) => Some(Cow::Owned(bytes)),
        Err(error) => {
            warnings.push(format!("section {name} can't be unpacked: {error}"));
            None
        }
    }
}

/// The ELF file in `.gnu_debugdata`: the symbols that Fedora and Red Hat leave in a stripped program
/// ("MiniDebugInfo" in gdb's manual), compressed with xz.
pub fn mini_debug_info(image: &Image<'_>, warnings: &mut Vec<String>) -> Option<Vec<u8>> {
    let (_, data) = image.section(".gnu_debugdata")?;
    let reader = lzma_rust2::XzReader::new_mem_limit(data, true, (WINDOW_BYTES / 1024) as u32);
    match limited(reader, data.len()) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            warnings.push(format!("section .gnu_debugdata can't be unpacked: {error}"));
            None
        }
    }
}

fn limited(reader: impl Read, stored: usize) -> Result<Vec<u8>, String> {
    let limit = (stored as u64)
        .saturating_mul(RATIO)
        .saturating_add(64 << 10)
        .min(MOST_BYTES);
    let mut bytes = Vec::new();
    reader
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| e.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(format!("it is more than {limit} bytes from {stored}"));
    }
    Ok(bytes)
}
