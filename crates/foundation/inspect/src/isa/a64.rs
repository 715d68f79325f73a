//! A64: exclusives, LSE, LSE128, and the hints that tell how a build waits and checks.
//!
//! Encodings from the Arm Architecture Reference Manual, section C4.1.94 "Loads and Stores":
//! bits 29:24 = 001000 is the exclusive group (with CAS and CASP in it), bits 29:24 = 111000 with
//! bit 21 set and bits 11:10 clear the atomic memory operations.

use std::borrow::Cow;

use super::{Found, Range};
use crate::model::{Class, Hint, Ordering};

/// `ret`.
pub const RET: u32 = 0xD65F_03C0;

/// One decoded atomic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Class.
    pub class: Class,
    /// Stem with ordering and size suffixes, as in `ldaddal` or `casab`.
    pub mnemonic: Cow<'static, str>,
    /// Bits in memory.
    pub width_bits: u16,
    /// Ordering.
    pub ordering: Ordering,
}

/// The words of a range, little-endian as instructions always are.
pub fn words(data: &[u8]) -> impl Iterator<Item = u32> + '_ {
    data.as_chunks::<4>()
        .0
        .iter()
        .map(|b| u32::from_le_bytes(*b))
}

/// What the top byte of a word leaves possible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Nothing sought.
    Nothing,
    /// The exclusive group.
    Exclusive,
    /// Loads and stores with the atomic memory operations among them.
    MemoryOperation,
    /// LSE128.
    Wide,
    /// Barriers and hints.
    System,
    /// CRC, PMULL, CNT.
    Arithmetic,
}

/// One look at the top byte turns most words away.
const GROUPS: [Group; 256] = {
    let mut groups = [Group::Nothing; 256];
    let mut size = 0;
    while size < 4 {
        groups[size << 6 | 0x08] = Group::Exclusive;
        groups[size << 6 | 0x38] = Group::MemoryOperation;
        size += 1;
    }
    groups[0x19] = Group::Wide;
    groups[0xD5] = Group::System;
    groups[0x1A] = Group::Arithmetic;
    groups[0x9A] = Group::Arithmetic;
    groups[0x0E] = Group::Arithmetic;
    groups[0x4E] = Group::Arithmetic;
    groups[0x04] = Group::Arithmetic;
    groups
};

/// Words looked at together: a compiler turns the questions asked of all of them into vector code.
const BLOCK_WORDS: usize = 16;

/// A block of code.
type Block = [u8; 4 * BLOCK_WORDS];

/// Whether a block may hold anything that [`scan`] seeks. Errs on the side of yes.
fn may_hold(block: &Block) -> bool {
    let mut seen = false;
    for word in block.as_chunks::<4>().0 {
        let w = u32::from_le_bytes(*word);
        // The exclusive group and LSE128; literal loads come with them.
        seen |= w & 0x2E00_0000 == 0x0800_0000;
        seen |= w & 0x3F20_0C00 == 0x3820_0000;
        seen |= w & 0xFFFF_0000 == 0xD503_0000;
        seen |= w & 0x7FE0_F000 == 0x1AC0_5000;
        // PMULL and CNT, of SVE too.
        seen |= w & 0xB500_0000 == 0x0400_0000;
    }
    seen
}

/// Scans a range, whose address is a multiple of four.
pub fn scan(range: Range<'_>, found: &mut Found) {
    let (blocks, rest) = range.data.as_chunks();
    for (i, block) in blocks.iter().enumerate() {
        if may_hold(block) {
            let address = range.address + (i * size_of::<Block>()) as u64;
            scan_words(address, block, found);
        }
    }
    let address = range.address + (range.data.len() - rest.len()) as u64;
    scan_words(address, rest, found);
}

/// The branches, `b` and `bl`, of a range whose targets may lie between `low` and `high`, with their
/// addresses. Errs on the side of more.
pub fn branches_between(range: Range<'_>, low: u64, high: u64, mut take: impl FnMut(u64, u32)) {
    // In units of an instruction, above the six bits of an opcode: where the distance of a branch,
    // in its lower 26 bits, wraps as the word does.
    let position = |address: u64| (address / 4) as u32;
    let span = u32::try_from(high / 4 - low / 4)
        .ok()
        .filter(|s| *s < 1 << 26)
        .map_or(u32::MAX, |s| s << 6);
    let (blocks, rest) = range.data.as_chunks::<{ size_of::<Block>() }>();
    let from_low = position(range.address).wrapping_sub(position(low));
    for (i, block) in blocks.iter().enumerate() {
        let first = from_low.wrapping_add((i * BLOCK_WORDS) as u32);
        let mut seen = false;
        for (k, word) in block.as_chunks::<4>().0.iter().enumerate() {
            let w = u32::from_le_bytes(*word);
            let target = (w << 6).wrapping_add(first.wrapping_add(k as u32) << 6);
            seen |= (w & 0x7C00_0000 == 0x1400_0000) & (target <= span);
        }
        if seen {
            let address = range.address + (i * size_of::<Block>()) as u64;
            branches(address, block, &mut take);
        }
    }
    let address = range.address + (range.data.len() - rest.len()) as u64;
    branches(address, rest, &mut take);
}

fn branches(address: u64, data: &[u8], take: &mut impl FnMut(u64, u32)) {
    for (i, w) in words(data).enumerate() {
        if w & 0x7C00_0000 == 0x1400_0000 {
            take(address + 4 * i as u64, w);
        }
    }
}

fn scan_words(start: u64, data: &[u8], found: &mut Found) {
    for (i, w) in words(data).enumerate() {
        let group = GROUPS[(w >> 24) as usize];
        if group == Group::Nothing {
            continue;
        }
        let address = start + 4 * i as u64;
        match group {
            Group::Nothing => {}
            Group::MemoryOperation if w & 0x0020_0C00 != 0x0020_0000 => {}
            Group::Exclusive | Group::MemoryOperation | Group::Wide => {
                if let Some(d) = decode(w) {
                    found.atomic(address, d.class, d.mnemonic, d.width_bits, d.ordering);
                }
            }
            Group::System => match w {
                0xD503_203F => found.hint(address, Hint::Yield),
                0xD503_205F => found.hint(address, Hint::Wfe),
                0xD503_233F | 0xD503_237F => found.pac += 1,
                _ if w & 0xFFFF_F0FF == 0xD503_30DF => found.hint(address, Hint::Isb),
                _ => {}
            },
            Group::Arithmetic => {
                if w & 0x7FE0_F000 == 0x1AC0_5000 {
                    found.hint(address, Hint::Crc32c);
                } else if w & 0xBFE0_FC00 == 0x0EE0_E000 {
                    found.hint(address, Hint::CarrylessMultiply);
                } else if w & 0xBFFF_FC00 == 0x0E20_5800 || w & 0xFF3F_E000 == 0x041A_A000 {
                    found.hint(address, Hint::VectorPopcnt);
                }
            }
        }
    }
}

/// The atomic that a word is, if it is one.
pub fn decode(w: u32) -> Option<Decoded> {
    match w & 0x3F00_0000 {
        0x0800_0000 => exclusive_group(w),
        0x3800_0000 if w & 0x0020_0C00 == 0x0020_0000 => memory_operation(w),
        0x1900_0000 if w & 0xFF20_0C00 == 0x1920_0000 => wide_operation(w),
        _ => None,
    }
}

fn bit(w: u32, n: u32) -> bool {
    w >> n & 1 == 1
}

fn width(size: u32) -> u16 {
    8 << size
}

/// `b`, `h` or nothing: how A64 marks the narrow forms.
fn size_suffix(size: u32) -> &'static str {
    match size {
        0 => "b",
        1 => "h",
        _ => "",
    }
}

fn ordering(acquire: bool, release: bool) -> (Ordering, &'static str) {
    match (acquire, release) {
        (false, false) => (Ordering::Relaxed, ""),
        (true, false) => (Ordering::Acquire, "a"),
        (false, true) => (Ordering::Release, "l"),
        (true, true) => (Ordering::AcqRel, "al"),
    }
}

/// LDXR, STXR, LDXP, STXP, CAS, CASP; the ordered loads and stores of the group are not atomics.
fn exclusive_group(w: u32) -> Option<Decoded> {
    let size = w >> 30;
    let (o2, load, o1, o0) = (bit(w, 23), bit(w, 22), bit(w, 21), bit(w, 15));
    let rt2_is_31 = w >> 10 & 31 == 31;
    let make = |class, mnemonic: String, width_bits, ordering| {
        Some(Decoded {
            class,
            mnemonic: mnemonic.into(),
            width_bits,
            ordering,
        })
    };
    match (o2, o1) {
        (false, false) => {
            let suffix = size_suffix(size);
            if load {
                let stem = if o0 { "ldaxr" } else { "ldxr" };
                let order = if o0 {
                    Ordering::Acquire
                } else {
                    Ordering::Relaxed
                };
                make(
                    Class::LoadExclusive,
                    format!("{stem}{suffix}"),
                    width(size),
                    order,
                )
            } else {
                let stem = if o0 { "stlxr" } else { "stxr" };
                let order = if o0 {
                    Ordering::Release
                } else {
                    Ordering::Relaxed
                };
                make(
                    Class::StoreExclusive,
                    format!("{stem}{suffix}"),
                    width(size),
                    order,
                )
            }
        }
        (false, true) if size >= 2 => {
            let bits = 2 * width(size);
            if load {
                let (stem, order) = if o0 {
                    ("ldaxp", Ordering::Acquire)
                } else {
                    ("ldxp", Ordering::Relaxed)
                };
                make(Class::LoadExclusive, stem.into(), bits, order)
            } else {
                let (stem, order) = if o0 {
                    ("stlxp", Ordering::Release)
                } else {
                    ("stxp", Ordering::Relaxed)
                };
                make(Class::StoreExclusive, stem.into(), bits, order)
            }
        }
        (false, true) if rt2_is_31 => {
            let (order, mark) = ordering(load, o0);
            make(
                Class::LseCasp,
                format!("casp{mark}"),
                64 << (size & 1),
                order,
            )
        }
        (true, true) if rt2_is_31 => {
            let (order, mark) = ordering(load, o0);
            make(
                Class::LseCas,
                format!("cas{mark}{}", size_suffix(size)),
                width(size),
                order,
            )
        }
        _ => None,
    }
}

/// LD<op> and SWP. LDAPR, LD64B, ST64B and the RCW instructions share the group and are not ours.
fn memory_operation(w: u32) -> Option<Decoded> {
    let size = w >> 30;
    let (order, mark) = ordering(bit(w, 23), bit(w, 22));
    let (class, stem) = match (bit(w, 15), w >> 12 & 7) {
        (false, 0) => (Class::LseLdadd, "ldadd"),
        (false, 1) => (Class::LseLdclr, "ldclr"),
        (false, 2) => (Class::LseLdeor, "ldeor"),
        (false, 3) => (Class::LseLdset, "ldset"),
        (false, 4) => (Class::LseMinmax, "ldsmax"),
        (false, 5) => (Class::LseMinmax, "ldsmin"),
        (false, 6) => (Class::LseMinmax, "ldumax"),
        (false, 7) => (Class::LseMinmax, "ldumin"),
        (true, 0) => (Class::LseSwp, "swp"),
        _ => return None,
    };
    let mnemonic = format!("{stem}{mark}{}", size_suffix(size)).into();
    Some(Decoded {
        class,
        mnemonic,
        width_bits: width(size),
        ordering: order,
    })
}

/// LSE128: SWPP, LDCLRP, LDSETP.
fn wide_operation(w: u32) -> Option<Decoded> {
    let (order, mark) = ordering(bit(w, 23), bit(w, 22));
    let stem = match (bit(w, 15), w >> 12 & 7) {
        (true, 0) => "swpp",
        (false, 1) => "ldclrp",
        (false, 3) => "ldsetp",
        _ => return None,
    };
    Some(Decoded {
        class: Class::Lse128,
        mnemonic: format!("{stem}{mark}").into(),
        width_bits: 128,
        ordering: order,
    })
}

/// The target of a `b` or `bl` at `address`.
pub fn branch_target(w: u32, address: u64) -> Option<u64> {
    if w & 0x7C00_0000 != 0x1400_0000 {
        return None;
    }
    let words = ((w << 6) as i32) >> 6;
    Some(address.wrapping_add_signed(i64::from(words) * 4))
}

/// The page and register of an `adrp` at `address`.
pub fn adrp(w: u32, address: u64) -> Option<(u64, u32)> {
    if w & 0x9F00_0000 != 0x9000_0000 {
        return None;
    }
    let immediate = ((w >> 5 & 0x7_FFFF) << 2 | w >> 29 & 3) << 11;
    let pages = i64::from(immediate as i32 >> 11);
    Some(((address & !0xFFF).wrapping_add_signed(pages << 12), w & 31))
}

/// The target of a `cbz` with a 32-bit register, and that register.
pub fn cbz(w: u32, address: u64) -> Option<(u64, u32)> {
    if w & 0xFF00_0000 != 0x3400_0000 {
        return None;
    }
    let words = ((w << 8) as i32) >> 13;
    Some((address.wrapping_add_signed(i64::from(words) * 4), w & 31))
}

/// The target of a `cbz` with a 32-bit register or of a `tbz` of bit 0, and that register.
pub fn branch_if_clear(w: u32, address: u64) -> Option<(u64, u32)> {
    if w & 0xFFF8_0000 != 0x3600_0000 {
        return cbz(w, address);
    }
    let words = ((w << 13) as i32) >> 18;
    Some((address.wrapping_add_signed(i64::from(words) * 4), w & 31))
}

/// The immediate of `ldrb Wt, [Xn, #imm]`, with n and t.
pub fn ldrb(w: u32) -> Option<(u64, u32, u32)> {
    (w & 0xFFC0_0000 == 0x3940_0000).then_some((u64::from(w >> 10 & 0xFFF), w >> 5 & 31, w & 31))
}

/// A landing pad: `bti` in any of its forms.
pub fn is_bti(w: u32) -> bool {
    w & 0xFFFF_FF3F == 0xD503_241F
}

/// `dmb` of any sort.
pub fn is_dmb(w: u32) -> bool {
    w & 0xFFFF_F0FF == 0xD503_30BF
}
