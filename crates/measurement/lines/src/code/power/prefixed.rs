//! Prefixed loads and stores of ISA 3.1: an offset of 34 bits, from a register or from the instruction itself.

use super::{Operand, Way, operand};

/// What it does; `None` for what touches no memory.
pub(super) fn access(prefix: u32, suffix: u32, address: u64) -> Option<Operand> {
    let opcode = suffix >> 26;
    let (size, way) = match prefix >> 24 & 3 {
        // 8LS: opcodes of its own.
        0 => match opcode {
            41 | 43 => (4, Way::Load),        // plwa, plxssp
            42 | 57 => (8, Way::Load),        // plxsd, pld
            50 | 51 | 56 => (16, Way::Load),  // plxv, plq
            58 => (32, Way::Load),            // plxvp
            47 => (4, Way::Store),            // pstxssp
            46 | 61 => (8, Way::Store),       // pstxsd, pstd
            54 | 55 | 60 => (16, Way::Store), // pstxv, pstq
            62 => (32, Way::Store),           // pstxvp
            _ => return None,
        },
        // MLS: those of the instructions without a prefix.
        2 => match opcode {
            34 => (1, Way::Load),       // plbz
            40 | 42 => (2, Way::Load),  // plhz, plha
            32 | 48 => (4, Way::Load),  // plwz, plfs
            50 => (8, Way::Load),       // plfd
            38 => (1, Way::Store),      // pstb
            44 => (2, Way::Store),      // psth
            36 | 52 => (4, Way::Store), // pstw, pstfs
            54 => (8, Way::Store),      // pstfd
            _ => return None,
        },
        _ => return None,
    };
    let offset = i64::from(prefix & 0x3_ffff) << 16 | i64::from(suffix & 0xffff);
    let offset = offset << 30 >> 30;
    let found = operand(suffix, offset, size, way);
    Some(match prefix >> 20 & 1 {
        1 => Operand {
            base: None,
            offset: address.wrapping_add(offset as u64),
            ..found
        },
        _ => found,
    })
}
