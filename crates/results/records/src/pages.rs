//! What the pages of a column claim of themselves, looked at before they are read.
//!
//! The crate that reads them gives a page the memory that its header asks for, and a dictionary that of as many values
//! as its header counts: a file of two kilobytes can ask for 64 GiB. It has no limit for that and shows no header, so
//! headers are read here first. Only those pass that are as [`crate::file`] has them written, whose sizes can be true.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::basic::{Compression, Type as Physical};
use parquet::file::metadata::ColumnChunkMetaData;

/// Bytes of a page before they are compressed. Ours have a megabyte, and what the last rows bring.
const MOST_OF_PAGE: u64 = 64 << 20;
/// Bytes of a row group before they are compressed: as much as is in memory at a time.
pub(crate) const MOST_OF_GROUP: u64 = 1 << 30;
/// Snappy's shortest copy of 64 bytes takes three, so it makes no more than this of one.
const EXPANDS: u64 = 22;
/// The longest header of a page: ours have thirty bytes.
const LONGEST: usize = 64;

/// Thrift's kinds of fields in its compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Parquet's kinds of pages and encodings, those that we write.
const DATA: u32 = 0;
const DICTIONARY: u32 = 2;
const PLAIN: u32 = 0;
const PLAIN_DICTIONARY: u32 = 2;
const RLE: u32 = 3;
const RLE_DICTIONARY: u32 = 8;

/// What a page's header says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Header {
    kind: u32,
    /// Bytes before they are compressed.
    size: u64,
    /// Bytes in the file.
    stored: u64,
    values: u64,
    encoding: u32,
    /// Bytes of the header itself.
    length: usize,
}

/// The fields of structures, in Thrift's compact protocol.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    /// A number of 32 bits that is not negative.
    fn number(&mut self) -> Option<u32> {
        let mut zigzag = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            zigzag |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let number = i32::try_from(zigzag >> 1).ok()?;
                return (zigzag & 1 == 0).then_some(number.unsigned_abs());
            }
        }
        None
    }

    /// The structure's next field and its kind; its end is field 0. Each is numbered by how far it is from the one
    /// before, so that none is there twice.
    fn next(&mut self, before: u8) -> Option<(u8, u8)> {
        let byte = self.byte()?;
        match (byte >> 4, byte & 0xf) {
            (0, 0) => Some((0, 0)),
            (0, _) | (_, 0) => None,
            (further, kind) => Some((before.checked_add(further)?, kind)),
        }
    }

    /// A header; none where it is not as ours are.
    fn header(&mut self) -> Option<Header> {
        let mut header = Header::default();
        let mut seen = [false; 8];
        let mut field = 0;
        loop {
            let kind;
            (field, kind) = self.next(field)?;
            match (field, kind) {
                (0, _) => break,
                (1, I32) => header.kind = self.number()?,
                (2, I32) => header.size = self.number()?.into(),
                (3, I32) => header.stored = self.number()?.into(),
                (5, STRUCT) if header.kind == DATA => self.of_data(&mut header)?,
                (7, STRUCT) if header.kind == DICTIONARY => self.of_dictionary(&mut header)?,
                _ => return None,
            }
            *seen.get_mut(usize::from(field))? = true;
        }
        header.length = self.at;
        let whole = seen[1] && seen[2] && seen[3] && (seen[5] || seen[7]);
        whole.then_some(header)
    }

    fn of_data(&mut self, header: &mut Header) -> Option<()> {
        let mut field = 0;
        loop {
            let kind;
            (field, kind) = self.next(field)?;
            match (field, kind) {
                (0, _) => return Some(()),
                (1, I32) => header.values = self.number()?.into(),
                (2, I32) => header.encoding = self.number()?,
                // Of the levels.
                (3 | 4, I32) if self.number()? == RLE => {}
                _ => return None,
            }
        }
    }

    fn of_dictionary(&mut self, header: &mut Header) -> Option<()> {
        let mut field = 0;
        loop {
            let kind;
            (field, kind) = self.next(field)?;
            match (field, kind) {
                (0, _) => return Some(()),
                (1, I32) => header.values = self.number()?.into(),
                (2, I32) => header.encoding = self.number()?,
                (3, TRUE | FALSE) => {}
                _ => return None,
            }
        }
    }
}

/// Bytes that the shortest value of a dictionary takes; none where such columns of ours have no dictionary.
fn shortest(physical: Physical) -> Option<u64> {
    match physical {
        Physical::BYTE_ARRAY => Some(4),
        Physical::INT64 | Physical::DOUBLE => Some(8),
        _ => None,
    }
}

/// Looks at all pages of a column in a row group. What they hold before they are compressed is taken off `left`.
///
/// # Errors
/// Where a header is none of ours, or claims what can't be.
pub(crate) fn check(
    file: &File,
    chunk: &ColumnChunkMetaData,
    left: &mut u64,
) -> Result<(), String> {
    let within = || "a column in it is not within the file".to_owned();
    let start = chunk.dictionary_page_offset();
    let start = start.unwrap_or_else(|| chunk.data_page_offset());
    let start = u64::try_from(start).map_err(|_| within())?;
    let length = u64::try_from(chunk.compressed_size()).map_err(|_| within())?;
    let whole = file.metadata().map_err(|error| error.to_string())?.len();
    let end = start.checked_add(length).filter(|end| *end <= whole);
    let end = end.ok_or_else(within)?;
    if chunk.compression() != Compression::SNAPPY {
        return Err("a column in it is not compressed as pgassay does".to_owned());
    }
    let (mut at, mut dictionary) = (start, false);
    while at < end {
        let mut bytes = [0; LONGEST];
        let most = usize::try_from(end - at).map_or(LONGEST, |left| left.min(LONGEST));
        let read = file.read_at(&mut bytes[..most], at);
        let read = read.map_err(|error| error.to_string())?;
        let mut fields = Fields {
            bytes: &bytes[..read],
            at: 0,
        };
        let header = fields.header();
        let header = header.ok_or("the header of a page in it is none of pgassay's")?;
        at += header.length as u64;
        if header.stored > end - at {
            return Err("a page in it is longer than its column".to_owned());
        }
        if header.size > MOST_OF_PAGE.min(header.stored * EXPANDS + LONGEST as u64) {
            let (size, stored) = (header.size, header.stored);
            return Err(format!("a page in it claims {size} bytes, of {stored}"));
        }
        *left = left
            .checked_sub(header.size)
            .ok_or_else(|| format!("a group of its rows has more than {MOST_OF_GROUP} bytes"))?;
        let fits = match (header.kind, header.encoding) {
            (DATA, PLAIN) => true,
            (DATA, PLAIN_DICTIONARY | RLE_DICTIONARY) => dictionary,
            (DICTIONARY, PLAIN | PLAIN_DICTIONARY) if at - header.length as u64 == start => {
                dictionary = true;
                shortest(chunk.column_type()).is_some_and(|one| header.values * one <= header.size)
            }
            _ => false,
        };
        if !fits {
            return Err("the header of a page in it contradicts its contents".to_owned());
        }
        at += header.stored;
    }
    Ok(())
}
