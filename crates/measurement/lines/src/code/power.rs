//! POWER, little-endian (Power ISA 3.1, Book I and II: fixed-point, floating-point, vector and VSX storage access;
//! atomic memory operations; prefixed instructions).

use super::{Effect, Exclusive, Flow};
use crate::recording::Kind;

mod indexed;
mod prefixed;

/// The longest instruction: a prefix and its suffix.
pub const LONGEST: usize = 8;

/// Bytes that dcbz sets to zero, and that copy moves, on server processors since POWER4.
const BLOCK: u32 = 128;

/// The register that is the stack pointer by the ABI.
const SP: u8 = 1;

/// An access to memory whose address the registers give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    /// `None` is zero.
    base: Option<u8>,
    index: Option<u8>,
    offset: u64,
    /// The address is rounded down to so many bytes, a power of two.
    aligned: u32,
    /// A register whose first byte has the length, if that is shorter.
    length: Option<u8>,
    size: u32,
    /// Whether it is read, not atomically.
    pub loads: bool,
    /// Whether it is written, and how.
    pub stores: Option<Kind>,
}

impl Operand {
    /// Its address, by the values of registers. There are no segments.
    pub fn address(&self, register: impl Fn(usize) -> u64, _: (u64, u64)) -> u64 {
        let of = |number: Option<u8>| number.map_or(0, |number| register(usize::from(number)));
        let address = of(self.base).wrapping_add(of(self.index));
        address.wrapping_add(self.offset) & !u64::from(self.aligned - 1)
    }

    /// Its length in bytes; none where it is nothing.
    pub fn size(&self, register: impl Fn(usize) -> u64) -> Option<u32> {
        let said = self
            .length
            .map(|number| (register(usize::from(number)) >> 56) as u32);
        Some(said.map_or(self.size, |said| said.min(self.size))).filter(|size| *size > 0)
    }
}

/// When a branch is taken (BO and BI).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    options: u8,
    bit: u8,
}

impl Condition {
    fn of(word: u32) -> Option<Self> {
        let condition = Self {
            options: field(word, 21),
            bit: field(word, 16),
        };
        // Neither the counter nor a bit decides.
        (condition.options & 0b10100 != 0b10100).then_some(condition)
    }

    /// Whether it is, by the condition register and the counter as they stand before it.
    pub fn holds(self, condition: u64, counter: u64) -> bool {
        let option = |bit: u8| self.options >> bit & 1 == 1;
        let counted = option(2) || (counter.wrapping_sub(1) != 0) != option(1);
        let set = condition >> (31 - self.bit) & 1 == 1;
        counted && (option(4) || set == option(3))
    }
}

/// Decodes instructions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decode;

impl Decode {
    /// What the instruction at `address` does; `None` where its bytes are not all there.
    pub fn effect(&mut self, bytes: &[u8], address: u64) -> Option<Effect<Operand>> {
        let word = u32::from_le_bytes(*bytes.first_chunk()?);
        if word >> 26 == 1 {
            let suffix = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
            let mut effect = Effect::none(address.wrapping_add(8));
            effect
                .operands
                .extend(prefixed::access(word, suffix, address));
            effect.operands.retain(|operand| operand.base != Some(SP));
            return Some(effect);
        }
        let (flow, condition) = flow(word);
        let mut effect = Effect {
            flow,
            condition,
            ..Effect::none(address.wrapping_add(4))
        };
        match access(word) {
            Some(Found::Operand(operand)) if operand.base != Some(SP) => {
                effect.operands.push(operand);
            }
            Some(Found::Exclusive(half)) => effect.exclusive = Some(half),
            Some(Found::Unresolved) => effect.unresolved = true,
            Some(Found::Operand(_)) | None => {}
        }
        Some(effect)
    }
}

fn flow(word: u32) -> (Flow, Option<Condition>) {
    let links = word & 1 == 1;
    match (word >> 26, word >> 1 & 0x3ff) {
        (17, _) if matches!(word & 3, 1 | 2) => (Flow::System, None),
        (18, _) if links => (Flow::Call, None),
        // To what stands behind it: how code asks where it is.
        (16, _) if word == 0x429f_0005 => (Flow::On, None),
        (16, _) | (19, 16 | 528 | 560) if links => (Flow::Call, Condition::of(word)),
        (19, 16) => (Flow::Return, Condition::of(word)),
        _ => (Flow::On, None),
    }
}

/// What a load or store comes to.
enum Found {
    Operand(Operand),
    Exclusive(Exclusive),
    Unresolved,
}

/// A register's number, from its lowest bit on.
fn field(word: u32, low: u32) -> u8 {
    (word >> low & 31) as u8
}

/// How an access uses its memory.
#[derive(Clone, Copy)]
enum Way {
    Load,
    Store,
    Atomic,
}

/// An operand at an offset from RA, which is zero for 0.
fn operand(word: u32, offset: i64, size: u32, way: Way) -> Operand {
    Operand {
        base: Some(field(word, 16)).filter(|base| *base != 0),
        index: None,
        offset: offset as u64,
        aligned: 1,
        length: None,
        size,
        loads: matches!(way, Way::Load),
        stores: match way {
            Way::Load => None,
            Way::Store => Some(Kind::Store),
            Way::Atomic => Some(Kind::Atomic),
        },
    }
}

/// `None` for what touches no memory: prefetches and barriers, too.
fn access(word: u32) -> Option<Found> {
    let opcode = word >> 26;
    if opcode == 31 {
        return indexed::access(word);
    }
    let (size, way) = displaced(word, opcode)?;
    // D; DS and DQ have an opcode in the lowest bits.
    let opcodes = match opcode {
        57 | 58 => 3,
        6 | 56 => 15,
        61 if matches!(word & 7, 1 | 5) => 15,
        61 | 62 => 3,
        _ => 0,
    };
    let offset = i64::from((word & 0xffff & !opcodes) as u16 as i16);
    Some(Found::Operand(operand(word, offset, size, way)))
}

/// Length and way of an access by a displacement in the instruction.
fn displaced(word: u32, opcode: u32) -> Option<(u32, Way)> {
    // Those that change RA have the next opcode.
    let many = 4 * (32 - u32::from(field(word, 21)));
    Some(match (opcode, word & 3) {
        (32 | 33, _) => (4, Way::Load),               // lwz, lwzu
        (34 | 35, _) => (1, Way::Load),               // lbz, lbzu
        (36 | 37, _) => (4, Way::Store),              // stw, stwu
        (38 | 39, _) => (1, Way::Store),              // stb, stbu
        (40..=43, _) => (2, Way::Load),               // lhz, lhzu, lha, lhau
        (44 | 45, _) => (2, Way::Store),              // sth, sthu
        (46, _) => (many, Way::Load),                 // lmw
        (47, _) => (many, Way::Store),                // stmw
        (48 | 49, _) => (4, Way::Load),               // lfs, lfsu
        (50 | 51, _) => (8, Way::Load),               // lfd, lfdu
        (52 | 53, _) => (4, Way::Store),              // stfs, stfsu
        (54 | 55, _) => (8, Way::Store),              // stfd, stfdu
        (56, _) => (16, Way::Load),                   // lq
        (57, 0) => (16, Way::Load),                   // lfdp
        (57, 2) => (8, Way::Load),                    // lxsd
        (57, 3) => (4, Way::Load),                    // lxssp
        (58, 0 | 1) => (8, Way::Load),                // ld, ldu
        (58, 2) => (4, Way::Load),                    // lwa
        (61, 0) => (16, Way::Store),                  // stfdp
        (61, 2) => (8, Way::Store),                   // stxsd
        (61, 3) => (4, Way::Store),                   // stxssp
        (61, _) if word & 7 == 1 => (16, Way::Load),  // lxv
        (61, _) => (16, Way::Store),                  // stxv
        (62, 0 | 1) => (8, Way::Store),               // std, stdu
        (62, 2) => (16, Way::Store),                  // stq
        (6, _) if word & 15 == 0 => (32, Way::Load),  // lxvp
        (6, _) if word & 15 == 1 => (32, Way::Store), // stxvp
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
