//! x86-64: lock-prefixed instructions, `xchg` with memory, and the hints.
//!
//! Lengths are known only by decoding from a known start, so a range is decoded from its start by
//! `iced-x86`; but only when a cheap look at its bytes shows that it can hold anything of interest,
//! and only as far as the last such byte. The look errs on one side: it may see an instruction in
//! the middle of another (the decoder then says no), never miss one.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

use super::{Found, Range};
use crate::model::{Class, Hint, Ordering};

/// Bytes that can start (after legacy and REX prefixes) what is sought.
const INTERESTING: [bool; 256] = {
    let mut table = [false; 256];
    table[0xF0] = true; // lock
    table[0x86] = true; // xchg r/m8, r8
    table[0x87] = true; // xchg r/m, r
    table[0xF2] = true; // crc32
    table[0xF3] = true; // pause, popcnt
    table[0x62] = true; // EVEX: vpopcnt
    table[0x44] = true; // PCLMULQDQ's last opcode byte
    table
};

/// Scans a range that starts at an instruction.
pub fn scan(range: Range<'_>, found: &mut Found) {
    let Some(last) = last_candidate(range.data) else {
        return;
    };
    decode(range, last, found);
}

/// The last offset at which something of interest may start.
fn last_candidate(data: &[u8]) -> Option<usize> {
    let mut at = data.len();
    while let Some(i) = data[..at]
        .iter()
        .rposition(|b| INTERESTING[usize::from(*b)])
    {
        if is_candidate(data, i) {
            return Some(i);
        }
        at = i;
    }
    None
}

/// Whether the bytes from `i` can be part of an instruction that is sought.
fn is_candidate(data: &[u8], i: usize) -> bool {
    let next = |n: usize| data.get(i + n).copied().unwrap_or(0);
    match data[i] {
        0xF0 => {
            // Skip further prefixes to the opcode, which must take a lock.
            let mut n = 1;
            while n < 14
                && matches!(next(n), 0x26 | 0x2E | 0x36 | 0x3E | 0x40..=0x4F | 0x64..=0x67 | 0xF0 | 0xF2 | 0xF3)
            {
                n += 1;
            }
            match next(n) {
                op @ 0x00..=0x31 => op & 7 <= 1 || op == 0x0F && lockable_0f(next(n + 1)),
                0x80 | 0x81 | 0x83 | 0x86 | 0x87 | 0xF6 | 0xF7 | 0xFE | 0xFF => true,
                _ => false,
            }
        }
        0x86 | 0x87 => next(1) < 0xC0,
        0xF2 | 0xF3 => {
            let mut n = 1;
            while n < 14
                && matches!(next(n), 0x40..=0x4F | 0x64..=0x67 | 0x2E | 0x36 | 0x3E | 0x26 | 0xF2 | 0xF3)
            {
                n += 1;
            }
            match (next(n), next(n + 1), next(n + 2)) {
                (0x90 | 0x86 | 0x87, _, _) | (0x0F, 0xB8, _) => true,
                (0x0F, 0x38, op) => op == 0xF0 || op == 0xF1,
                _ => false,
            }
        }
        0x62 => matches!(next(4), 0x44 | 0x54 | 0x55),
        // 66 [REX] 0F 3A 44, and VEX.0F3A 44: C4, two bytes, 44.
        0x44 => {
            i >= 2 && (data[i - 1] == 0x3A && data[i - 2] == 0x0F || i >= 3 && data[i - 3] == 0xC4)
        }
        _ => false,
    }
}

fn lockable_0f(op: u8) -> bool {
    matches!(
        op,
        0xAB | 0xB0 | 0xB1 | 0xB3 | 0xBA | 0xBB | 0xC0 | 0xC1 | 0xC7
    )
}

fn decode(range: Range<'_>, last: usize, found: &mut Found) {
    let mut decoder = Decoder::with_ip(64, range.data, range.address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.position() <= last {
        let position = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            // As disassemblers do: one byte further.
            let next = position + 1;
            if next >= range.data.len() || decoder.set_position(next).is_err() {
                break;
            }
            decoder.set_ip(range.address + next as u64);
            continue;
        }
        if instruction.has_lock_prefix() {
            atomic(&instruction, found);
            continue;
        }
        let address = instruction.ip();
        match instruction.mnemonic() {
            Mnemonic::Xchg
                if instruction.op0_kind() == OpKind::Memory
                    || instruction.op1_kind() == OpKind::Memory =>
            {
                atomic(&instruction, found);
            }
            Mnemonic::Pause => found.hint(address, Hint::Pause),
            Mnemonic::Crc32 => found.hint(address, Hint::Crc32c),
            Mnemonic::Popcnt => found.hint(address, Hint::Popcnt),
            Mnemonic::Pclmulqdq | Mnemonic::Vpclmulqdq => {
                found.hint(address, Hint::CarrylessMultiply);
            }
            Mnemonic::Vpopcntb | Mnemonic::Vpopcntw | Mnemonic::Vpopcntd | Mnemonic::Vpopcntq => {
                found.hint(address, Hint::VectorPopcnt);
            }
            _ => {}
        }
    }
}

fn atomic(instruction: &Instruction, found: &mut Found) {
    let (class, mnemonic) = match instruction.mnemonic() {
        Mnemonic::Cmpxchg => (Class::LockCmpxchg, "lock cmpxchg"),
        Mnemonic::Cmpxchg8b => (Class::LockCmpxchgWide, "lock cmpxchg8b"),
        Mnemonic::Cmpxchg16b => (Class::LockCmpxchgWide, "lock cmpxchg16b"),
        Mnemonic::Xadd => (Class::LockXadd, "lock xadd"),
        Mnemonic::Add => (Class::LockAdd, "lock add"),
        Mnemonic::Sub => (Class::LockAdd, "lock sub"),
        Mnemonic::Inc => (Class::LockAdd, "lock inc"),
        Mnemonic::Dec => (Class::LockAdd, "lock dec"),
        Mnemonic::Adc => (Class::LockAdd, "lock adc"),
        Mnemonic::Sbb => (Class::LockAdd, "lock sbb"),
        Mnemonic::Neg => (Class::LockAdd, "lock neg"),
        Mnemonic::And => (Class::LockLogic, "lock and"),
        Mnemonic::Or => (Class::LockLogic, "lock or"),
        Mnemonic::Xor => (Class::LockLogic, "lock xor"),
        Mnemonic::Not => (Class::LockLogic, "lock not"),
        Mnemonic::Bts => (Class::LockBit, "lock bts"),
        Mnemonic::Btr => (Class::LockBit, "lock btr"),
        Mnemonic::Btc => (Class::LockBit, "lock btc"),
        Mnemonic::Xchg if instruction.has_lock_prefix() => (Class::Xchg, "lock xchg"),
        Mnemonic::Xchg => (Class::Xchg, "xchg"),
        // Old processors take a lock before `mov cr8`; nothing else is left that decodes.
        _ => return,
    };
    let width = match instruction.code() {
        // A bit-test with a register index may touch any word; its operand size is still the width.
        Code::Cmpxchg8b_m64 => 64,
        Code::Cmpxchg16b_m128 => 128,
        _ => (instruction.memory_size().size() * 8) as u16,
    };
    found.atomic(instruction.ip(), class, mnemonic, width, Ordering::Full);
}
