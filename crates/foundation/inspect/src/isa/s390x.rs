//! z/Architecture: compare and swap, load and operate, test and set.
//!
//! z/Architecture Principles of Operation, chapter 7 and appendix B. The two top bits of the first
//! byte give the length: 00 two bytes, 01 and 10 four, 11 six. An immediate operation on storage
//! (ASI, NI, OI, XI) is not listed: compilers use it for ordinary variables too, so it does not
//! tell that an atomic was meant.

use super::{Found, Range};
use crate::model::{Class, Hint, Ordering};

/// Scans a range that starts at an instruction.
pub fn scan(range: Range<'_>, found: &mut Found) {
    let mut at = 0;
    while let Some(first) = range.data.get(at) {
        let length = match first >> 6 {
            0 => 2,
            3 => 6,
            _ => 4,
        };
        let Some(bytes) = range.data.get(at..at + length) else {
            break;
        };
        let address = range.address + at as u64;
        if let Some((class, mnemonic, width)) = decode(bytes) {
            found.atomic(address, class, mnemonic, width, Ordering::Full);
        } else if bytes.starts_with(&[0xB9, 0xE1]) {
            found.hint(address, Hint::Popcnt);
        }
        at += length;
    }
}

/// The atomic that one instruction is.
pub fn decode(bytes: &[u8]) -> Option<(Class, &'static str, u16)> {
    Some(match (bytes[0], bytes.get(5)) {
        (0xBA, _) => (Class::CompareAndSwap, "cs", 32),
        (0xBB, _) => (Class::CompareAndSwap, "cds", 64),
        (0x93, _) => (Class::TestAndSet, "ts", 8),
        (0xEE, _) => (Class::PerformLockedOperation, "plo", 64),
        (0xC8, _) if bytes[1] & 15 == 2 => (Class::CompareAndSwapAndStore, "csst", 64),
        (0xEB, Some(op)) => match op {
            0x14 => (Class::CompareAndSwap, "csy", 32),
            0x30 => (Class::CompareAndSwap, "csg", 64),
            0x31 => (Class::CompareAndSwap, "cdsy", 64),
            0x3E => (Class::CompareAndSwap, "cdsg", 128),
            0xF8 => (Class::LoadAndOp, "laa", 32),
            0xE8 => (Class::LoadAndOp, "laag", 64),
            0xFA => (Class::LoadAndOp, "laal", 32),
            0xEA => (Class::LoadAndOp, "laalg", 64),
            0xF4 => (Class::LoadAndOp, "lan", 32),
            0xE4 => (Class::LoadAndOp, "lang", 64),
            0xF6 => (Class::LoadAndOp, "lao", 32),
            0xE6 => (Class::LoadAndOp, "laog", 64),
            0xF7 => (Class::LoadAndOp, "lax", 32),
            0xE7 => (Class::LoadAndOp, "laxg", 64),
            _ => return None,
        },
        _ => return None,
    })
}
