//! RISC-V: the A extension (lr, sc, amo), Zacas and Zabha.
//!
//! The RISC-V Instruction Set Manual, volume I: major opcode 0101111, width in funct3, operation in
//! bits 31:27, aq and rl in bits 26 and 25. An instruction whose two low bits are not 11 is 16 bits
//! long.

use super::{Found, Range};
use crate::model::{Class, Hint, Ordering};

/// Scans a range that starts at an instruction.
pub fn scan(range: Range<'_>, found: &mut Found) {
    let mut at = 0;
    while let Some(low) = range.data.get(at..at + 2) {
        if low[0] & 3 != 3 {
            at += 2;
            continue;
        }
        if low[0] & 0x1F == 0x1F {
            at += long_length(low);
            continue;
        }
        let Some(word) = range.data.get(at..at + 4) else {
            break;
        };
        let w = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let address = range.address + at as u64;
        if w & 0x7F == 0x2F {
            if let Some((class, mnemonic, width, ordering)) = decode(w) {
                found.atomic(address, class, mnemonic, width, ordering);
            }
        } else if w == 0x0100_000F {
            found.hints.push((address, Hint::Pause));
        } else if w & 0xFFF0_707F == 0x6020_1013 {
            // cpop of Zbb
            found.hints.push((address, Hint::Popcnt));
        }
        at += 4;
    }
}

/// Lengths beyond 32 bits, as the manual reserves them; none is in use today.
fn long_length(low: &[u8]) -> usize {
    match low[0] & 0x7F {
        b if b & 0x3F == 0x1F => 6,
        b if b & 0x7F == 0x3F => 8,
        _ => match low[1] >> 4 & 7 {
            7 => 2,
            n => 10 + 2 * usize::from(n),
        },
    }
}

/// The atomic that a word of major opcode AMO is.
pub fn decode(w: u32) -> Option<(Class, String, u16, Ordering)> {
    if w & 0x7F != 0x2F {
        return None;
    }
    let (width, width_mark) = match w >> 12 & 7 {
        0 => (8, "b"),
        1 => (16, "h"),
        2 => (32, "w"),
        3 => (64, "d"),
        4 => (128, "q"),
        _ => return None,
    };
    let (class, stem) = match w >> 27 {
        0b00010 if w >> 20 & 31 == 0 && width >= 32 => (Class::LoadReserved, "lr"),
        0b00011 if width >= 32 => (Class::StoreConditional, "sc"),
        0b00001 => (Class::AmoSwap, "amoswap"),
        0b00000 => (Class::AmoAdd, "amoadd"),
        0b00100 => (Class::AmoLogic, "amoxor"),
        0b01100 => (Class::AmoLogic, "amoand"),
        0b01000 => (Class::AmoLogic, "amoor"),
        0b10000 => (Class::AmoOther, "amomin"),
        0b10100 => (Class::AmoOther, "amomax"),
        0b11000 => (Class::AmoOther, "amominu"),
        0b11100 => (Class::AmoOther, "amomaxu"),
        0b00101 => (Class::AmoCas, "amocas"),
        _ => return None,
    };
    // The quad width exists for compare and swap only.
    if width == 128 && class != Class::AmoCas {
        return None;
    }
    let (ordering, mark) = match (w >> 26 & 1 == 1, w >> 25 & 1 == 1) {
        (false, false) => (Ordering::Relaxed, ""),
        (true, false) => (Ordering::Acquire, ".aq"),
        (false, true) => (Ordering::Release, ".rl"),
        (true, true) => (Ordering::AcqRel, ".aqrl"),
    };
    Some((class, format!("{stem}.{width_mark}{mark}"), width, ordering))
}
