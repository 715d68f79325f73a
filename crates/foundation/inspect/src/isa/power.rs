//! POWER (little-endian ELFv2): reservations and the memory operations of Power ISA 3.0.
//!
//! Power ISA 3.1, Book II, section 4.6: primary opcode 31, extended opcode in bits 10:1.

use super::{Found, Range};
use crate::model::{Class, Hint, Ordering};

/// Scans a range, whose address is a multiple of four.
pub fn scan(range: Range<'_>, found: &mut Found) {
    let mut skip = false;
    for (i, bytes) in range.data.as_chunks::<4>().0.iter().enumerate() {
        // The second word of a prefixed (Power ISA 3.1) instruction is not an instruction.
        if std::mem::take(&mut skip) {
            continue;
        }
        let w = u32::from_le_bytes(*bytes);
        match w >> 26 {
            1 => skip = true,
            31 => {
                let address = range.address + 4 * i as u64;
                if let Some((class, mnemonic, width)) = decode(w) {
                    found.atomic(address, class, mnemonic, width, Ordering::Relaxed);
                } else if matches!(w >> 1 & 0x3FF, 506 | 378) {
                    // popcntd, popcntw
                    found.hint(address, Hint::Popcnt);
                }
            }
            _ => {}
        }
    }
}

/// The atomic that a word of primary opcode 31 is.
pub fn decode(w: u32) -> Option<(Class, &'static str, u16)> {
    if w >> 26 != 31 {
        return None;
    }
    let record = w & 1 == 1;
    Some(match w >> 1 & 0x3FF {
        // Bit 0 of a load is its lock hint (EH), so both values are valid.
        52 => (Class::LoadReserved, "lbarx", 8),
        116 => (Class::LoadReserved, "lharx", 16),
        20 => (Class::LoadReserved, "lwarx", 32),
        84 => (Class::LoadReserved, "ldarx", 64),
        276 => (Class::LoadReserved, "lqarx", 128),
        // A store must record whether it stored.
        694 if record => (Class::StoreConditional, "stbcx.", 8),
        726 if record => (Class::StoreConditional, "sthcx.", 16),
        150 if record => (Class::StoreConditional, "stwcx.", 32),
        214 if record => (Class::StoreConditional, "stdcx.", 64),
        182 if record => (Class::StoreConditional, "stqcx.", 128),
        op @ (582 | 614) if !record => {
            let mnemonic = if op == 582 { "lwat" } else { "ldat" };
            (
                memory_operation(w >> 11 & 31),
                mnemonic,
                if op == 582 { 32 } else { 64 },
            )
        }
        op @ (710 | 742) if !record => {
            let mnemonic = if op == 710 { "stwat" } else { "stdat" };
            (
                memory_operation(w >> 11 & 31),
                mnemonic,
                if op == 710 { 32 } else { 64 },
            )
        }
        _ => return None,
    })
}

/// The function code of lwat, ldat, stwat and stdat.
fn memory_operation(code: u32) -> Class {
    match code {
        0 => Class::AmoAdd,
        1..=3 => Class::AmoLogic,
        8 => Class::AmoSwap,
        _ => Class::AmoOther,
    }
}
