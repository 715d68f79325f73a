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
            found.hint(address, Hint::Pause);
        } else if w & 0xFFF0_707F == 0x6020_1013 {
            // cpop of Zbb
            found.hint(address, Hint::Popcnt);
        }
        at += 4;
    }
}

/// The targets of JAL and C.J, and of AUIPC with the JALR behind it, which linkers leave where a
/// function is further away than JAL reaches.
pub fn branch_targets(data: &[u8], start: u64) -> Vec<u64> {
    let mut targets = Vec::new();
    // Address, register and upper part of the AUIPC just before.
    let mut upper: Option<(u64, u32, i64)> = None;
    let mut at = 0;
    while let Some(low) = data.get(at..at + 2) {
        let here = start + at as u64;
        let half = u32::from(u16::from_le_bytes([low[0], low[1]]));
        if half & 3 != 3 {
            // C.J: quadrant 1, funct3 101.
            if half & 0xE003 == 0xA001 {
                targets.push(here.wrapping_add_signed(compressed_distance(half)));
            }
            (at, upper) = (at + 2, None);
            continue;
        }
        if half & 0x1F == 0x1F {
            (at, upper) = (at + long_length(low), None);
            continue;
        }
        let Some(word) = data.get(at..at + 4) else {
            break;
        };
        let w = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let before = upper.take();
        match w & 0x7F {
            0x6F => targets.push(here.wrapping_add_signed(jal_distance(w))),
            0x17 => upper = Some((here, w >> 7 & 31, i64::from((w & 0xFFFF_F000) as i32))),
            0x67 if w >> 12 & 7 == 0 => {
                if let Some((address, register, upper)) = before
                    && register == w >> 15 & 31
                {
                    let distance = upper + i64::from(w as i32 >> 20);
                    targets.push(address.wrapping_add_signed(distance));
                }
            }
            _ => {}
        }
        at += 4;
    }
    targets
}

/// JAL's distance: bits 20, 10:1, 11, 19:12 of it from bit 31 down.
fn jal_distance(w: u32) -> i64 {
    let bits =
        (w >> 31) << 20 | (w >> 12 & 0xFF) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 0x3FF) << 1;
    i64::from((bits << 11) as i32 >> 11)
}

/// C.J's distance: bits 11, 4, 9:8, 10, 6, 7, 3:1, 5 of it from bit 12 down.
fn compressed_distance(half: u32) -> i64 {
    let bit = |from: u32, to: u32| (half >> from & 1) << to;
    let bits = bit(12, 11)
        | bit(11, 4)
        | bit(10, 9)
        | bit(9, 8)
        | bit(8, 10)
        | bit(7, 6)
        | bit(6, 7)
        | (half >> 3 & 7) << 1
        | bit(2, 5);
    i64::from((bits << 20) as i32 >> 20)
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
