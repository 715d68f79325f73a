//! A server's memory, as far as it can be read.

use std::cell::RefCell;
use std::collections::HashMap;

/// Bytes that are read at once.
const CHUNK: u64 = 1 << 16;

/// Reads memory of the server; false where not all of it is there.
pub type Read<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

/// Memory that is read in large parts and kept: what is read twice is the same twice.
pub struct Memory<'a> {
    read: &'a Read<'a>,
    chunks: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
}

impl<'a> Memory<'a> {
    /// Memory behind a function that reads it.
    pub fn new(read: &'a Read<'a>) -> Self {
        Self {
            read,
            chunks: RefCell::default(),
        }
    }

    fn byte(&self, address: u64) -> Option<u8> {
        let at = address / CHUNK * CHUNK;
        let mut chunks = self.chunks.borrow_mut();
        let chunk = chunks.entry(at).or_insert_with(|| {
            let mut bytes = vec![0; CHUNK as usize].into_boxed_slice();
            if (self.read)(at, &mut bytes) {
                return Some(bytes);
            }
            // A part of it may be there: page by page.
            let mut any = false;
            for (page, into) in bytes.chunks_mut(4096).enumerate() {
                let there = (self.read)(at + page as u64 * 4096, into);
                any |= there;
            }
            any.then_some(bytes)
        });
        chunk.as_ref().map(|bytes| bytes[(address - at) as usize])
    }

    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(address.checked_add(at as u64)?)?;
        }
        Some(bytes)
    }

    /// An unsigned number of two bytes.
    pub fn u16(&self, address: u64) -> Option<u16> {
        self.bytes(address).map(u16::from_ne_bytes)
    }

    /// Of four bytes.
    pub fn u32(&self, address: u64) -> Option<u32> {
        self.bytes(address).map(u32::from_ne_bytes)
    }

    /// Of eight bytes, or a pointer.
    pub fn u64(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_ne_bytes)
    }

    /// A text that ends with a zero, of at most 64 bytes.
    pub fn text(&self, address: u64) -> Option<String> {
        let bytes: [u8; 64] = self.bytes(address)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&bytes[..end]).ok()?;
        text.chars()
            .all(|c| !c.is_control())
            .then(|| text.to_owned())
    }
}
