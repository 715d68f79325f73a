//! AArch64's A64 (Arm Architecture Reference Manual, "Loads and Stores").

use super::{Effect, Exclusive, Flow};
use crate::recording::Kind;

/// The longest instruction.
pub const LONGEST: usize = 4;

/// Bytes that DC ZVA sets to zero on all of Arm's own processors; DCZID_EL0 could say others.
const ZEROED: u32 = 64;

/// The register that is the stack pointer as a base, and zero elsewhere.
const SP: u8 = 31;

/// An access to memory whose address the registers give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    base: u8,
    offset: Offset,
    /// The address is rounded down to so many bytes, a power of two.
    aligned: u64,
    size: u32,
    /// Whether it is read, not atomically.
    pub loads: bool,
    /// Whether it is written, and how.
    pub stores: Option<Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offset {
    Bytes(i64),
    Register { number: u8, part: Part, shift: u8 },
}

/// What of a register counts as an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    Unsigned32,
    Signed32,
}

impl Operand {
    /// Its address, by the values of registers. There are no segments.
    pub fn address(&self, register: impl Fn(usize) -> u64, _: (u64, u64)) -> u64 {
        let offset = match self.offset {
            Offset::Bytes(bytes) => bytes as u64,
            Offset::Register {
                number,
                part,
                shift,
            } => {
                let value = register(usize::from(number));
                let value = match part {
                    Part::Whole => value,
                    Part::Unsigned32 => u64::from(value as u32),
                    Part::Signed32 => i64::from(value as i32) as u64,
                };
                value << shift
            }
        };
        let address = register(usize::from(self.base)).wrapping_add(offset);
        // The top byte may be a tag, which addressing ignores.
        (address << 8 >> 8) & !(self.aligned - 1)
    }

    /// Its length in bytes, whatever the registers are.
    pub fn size(&self, _: impl Fn(usize) -> u64) -> Option<u32> {
        Some(self.size)
    }
}

/// Decodes instructions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decode;

impl Decode {
    /// What the instruction at `address` does; `None` where there are no four bytes.
    pub fn effect(&mut self, bytes: &[u8], address: u64) -> Option<Effect<Operand>> {
        let word = u32::from_le_bytes(*bytes.first_chunk()?);
        let mut effect = Effect {
            flow: flow(word),
            ..Effect::none(address.wrapping_add(4))
        };
        // DC ZVA.
        if word & !31 == 0xd50b_7420 {
            effect.operands.push(Operand {
                base: field(word, 0),
                offset: Offset::Bytes(0),
                aligned: u64::from(ZEROED),
                size: ZEROED,
                loads: false,
                stores: Some(Kind::Store),
            });
        }
        // op0 of the top level: x1x0 are loads and stores.
        if word >> 25 & 0b0101 == 0b0100 {
            match access(word) {
                Some(Found::Operand(operand)) => effect.operands.push(operand),
                Some(Found::Exclusive(half)) => effect.exclusive = Some(half),
                Some(Found::Unresolved) => effect.unresolved = true,
                None => {}
            }
            effect.operands.retain(|operand| operand.base != SP);
        }
        Some(effect)
    }
}

fn flow(word: u32) -> Flow {
    // BL; BLR and BLRAA, BLRAB …; RET, RETAA, RETAB; SVC.
    match word {
        _ if word >> 26 == 0b10_0101 || word & 0xfeff_f000 == 0xd63f_0000 => Flow::Call,
        _ if word & 0xffff_f000 == 0xd65f_0000 => Flow::Return,
        _ if word & 0xffe0_001f == 0xd400_0001 => Flow::System,
        _ => Flow::On,
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

fn bit(word: u32, at: u32) -> bool {
    word >> at & 1 == 1
}

/// `length` bits from `low` on as a signed number.
fn signed(word: u32, low: u32, length: u32) -> i64 {
    let up = 64 - length;
    (i64::from(word >> low) << up) >> up
}

/// How an access uses its memory.
#[derive(Clone, Copy)]
enum Way {
    Load,
    Store,
    Atomic,
}

fn found(word: u32, offset: Offset, size: u32, way: Way) -> Option<Found> {
    Some(Found::Operand(Operand {
        base: field(word, 5),
        offset,
        aligned: 1,
        size,
        loads: matches!(way, Way::Load),
        stores: match way {
            Way::Load => None,
            Way::Store => Some(Kind::Store),
            Way::Atomic => Some(Kind::Atomic),
        },
    }))
}

/// Load where the bit at `at` is set.
fn by_bit(word: u32, at: u32) -> Way {
    match bit(word, at) {
        true => Way::Load,
        false => Way::Store,
    }
}

/// `None` for what touches no memory that is shared: literals, prefetches.
fn access(word: u32) -> Option<Found> {
    let here = Offset::Bytes(0);
    let vector = bit(word, 26);
    match word >> 28 & 3 {
        // Structures of vectors; exclusives, ordered ones and compare-and-swap.
        0b00 if vector => structures(word),
        0b00 => ordered(word),
        // Literals; those of RCpc with an offset; copies and sets of memory.
        0b01 if bit(word, 24) && !vector => match word >> 10 & 3 {
            0 if !bit(word, 21) => {
                let way = match word >> 22 & 3 {
                    0 => Way::Store,
                    _ => Way::Load,
                };
                found(
                    word,
                    Offset::Bytes(signed(word, 12, 9)),
                    1 << (word >> 30),
                    way,
                )
            }
            // Tags of memory are not memory.
            _ if word >> 30 == 3 && bit(word, 21) => None,
            1 => Some(Found::Unresolved),
            _ => None,
        },
        0b01 => None,
        0b10 => pair(word, vector),
        _ if bit(word, 24) => {
            let (size, way) = single(word, vector)?;
            let offset = i64::from(word >> 10 & 0xfff) * i64::from(size);
            found(word, Offset::Bytes(offset), size, way)
        }
        _ => match (bit(word, 21), word >> 10 & 3) {
            // Unscaled, unprivileged, before the base changes; behind.
            (false, at) => {
                let (size, way) = single(word, vector)?;
                let bytes = match at {
                    0b01 => 0,
                    _ => signed(word, 12, 9),
                };
                found(word, Offset::Bytes(bytes), size, way)
            }
            (true, 0b10) => {
                let (size, way) = single(word, vector)?;
                let offset = Offset::Register {
                    number: field(word, 16),
                    part: match word >> 13 & 7 {
                        0b010 => Part::Unsigned32,
                        0b110 => Part::Signed32,
                        _ => Part::Whole,
                    },
                    shift: match bit(word, 12) {
                        true => size.trailing_zeros() as u8,
                        false => 0,
                    },
                };
                found(word, offset, size, way)
            }
            (true, 0b00) if !vector => {
                let size = 1 << (word >> 30);
                // LDAPR is a load; ST64B and its like are of accelerators.
                match (bit(word, 15), word >> 12 & 7) {
                    (true, 0b100) => found(word, here, size, Way::Load),
                    (true, 1..) => Some(Found::Unresolved),
                    _ => found(word, here, size, Way::Atomic),
                }
            }
            // LDRAA and LDRAB: ten bits of offset, of eight bytes.
            (true, _) if !vector && word >> 30 == 3 => {
                let offset = (i64::from(bit(word, 22)) * -512 + i64::from(word >> 12 & 0x1ff)) * 8;
                found(word, Offset::Bytes(offset), 8, Way::Load)
            }
            _ => None,
        },
    }
}

/// Length and kind of an access by one register; `None` for a prefetch.
fn single(word: u32, vector: bool) -> Option<(u32, Way)> {
    let (size, opcode) = (word >> 30, word >> 22 & 3);
    if vector {
        let way = by_bit(word, 22);
        return match (size, opcode >> 1) {
            (0, 1) => Some((16, way)),
            (_, 1) => None,
            _ => Some((1 << size, way)),
        };
    }
    match (size, opcode) {
        (3, 2 | 3) => None,
        (_, 0) => Some((1 << size, Way::Store)),
        _ => Some((1 << size, Way::Load)),
    }
}

fn pair(word: u32, vector: bool) -> Option<Found> {
    let opcode = word >> 30;
    let size: u32 = match (vector, opcode) {
        (_, 3) => return None,
        (true, _) => 4 << opcode,
        (false, 0) => 4,
        // LDPSW; STGP, whose offset counts in granules of a tag.
        (false, 1) if bit(word, 22) => 4,
        (false, 1) => 16,
        (false, _) => 8,
    };
    let bytes = match word >> 23 & 3 {
        0b01 => 0,
        _ => signed(word, 15, 7) * i64::from(size),
    };
    let both = match (vector, opcode, bit(word, 22)) {
        (false, 1, false) => 16,
        _ => 2 * size,
    };
    found(word, Offset::Bytes(bytes), both, by_bit(word, 22))
}

/// Exclusive loads and stores, loads that acquire and stores that release, compare-and-swap.
fn ordered(word: u32) -> Option<Found> {
    let size: u32 = 1 << (word >> 30);
    let here = Offset::Bytes(0);
    match (bit(word, 23), bit(word, 21)) {
        (true, false) => found(word, here, size, by_bit(word, 22)),
        (true, true) => found(word, here, size, Way::Atomic),
        // CASP: two words of 4 or 8 bytes.
        (false, true) if !bit(word, 31) => found(word, here, 8 * size, Way::Atomic),
        (false, pair) => Some(Found::Exclusive(Exclusive {
            base: field(word, 5),
            index: None,
            size,
            pair,
            value: field(word, 0),
            status: (!bit(word, 22)).then(|| field(word, 16)),
        })),
    }
}

/// LD1 to LD4, ST1 to ST4.
fn structures(word: u32) -> Option<Found> {
    if bit(word, 31) {
        return None;
    }
    let way = by_bit(word, 22);
    let here = Offset::Bytes(0);
    if !bit(word, 24) {
        let registers = match word >> 12 & 15 {
            0b0000 | 0b0010 => 4,
            0b0100 | 0b0110 => 3,
            0b1000 | 0b1010 => 2,
            0b0111 => 1,
            _ => return None,
        };
        let bytes = if bit(word, 30) { 16 } else { 8 };
        return found(word, here, registers * bytes, way);
    }
    let registers = (u32::from(bit(word, 13)) << 1 | u32::from(bit(word, 21))) + 1;
    let element = match word >> 14 & 3 {
        0 => 1,
        1 => 2,
        2 if bit(word, 10) => 8,
        2 => 4,
        _ => 1 << (word >> 10 & 3),
    };
    found(word, here, registers * element, way)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: u32) -> Effect<Operand> {
        Decode.effect(&word.to_le_bytes(), 0x1000).unwrap()
    }

    /// Address, length and kind, where a register's value is 0x1000 times its number.
    fn one(word: u32) -> (u64, u32, &'static str) {
        let effect = of(word);
        assert_eq!(effect.operands.len(), 1, "{word:08x}: {effect:?}");
        let operand = effect.operands[0];
        let kind = match (operand.loads, operand.stores) {
            (true, None) => "load",
            (false, Some(Kind::Store)) => "store",
            (false, Some(Kind::Atomic)) => "atomic",
            other => panic!("{word:08x}: {other:?}"),
        };
        let register = |number| match number {
            31 => 0,
            number => number as u64 * 0x1000,
        };
        (operand.address(register, (0, 0)), operand.size, kind)
    }

    /// Words as GNU as makes them of the text behind.
    #[test]
    fn loads_stores_and_atomics() {
        let cases = [
            (0xf940_0020, (0x1000, 8, "load")),    // ldr x0, [x1]
            (0xb940_1020, (0x1010, 4, "load")),    // ldr w0, [x1, #0x10]
            (0xf81f_8c20, (0xff8, 8, "store")),    // str x0, [x1, #-8]!
            (0xf801_0420, (0x1000, 8, "store")),   // str x0, [x1], #16
            (0xb85f_c040, (0x1ffc, 4, "load")),    // ldur w0, [x2, #-4]
            (0x3864_6860, (0x7000, 1, "load")),    // ldrb w0, [x3, x4]
            (0x78a4_7860, (0xb000, 2, "load")),    // ldrsh x0, [x3, x4, lsl #1]
            (0xf864_5860, (0x23000, 8, "load")),   // ldr x0, [x3, w4, uxtw #3]
            (0xb824_c860, (0x7000, 4, "store")),   // str w0, [x3, w4, sxtw]
            (0xb980_04a0, (0x5004, 4, "load")),    // ldrsw x0, [x5, #4]
            (0x7900_00a0, (0x5000, 2, "store")),   // strh w0, [x5]
            (0x3dc0_08c0, (0x6020, 16, "load")),   // ldr q0, [x6, #32]
            (0xfd00_00c0, (0x6000, 8, "store")),   // str d0, [x6]
            (0x3d00_0cc1, (0x6003, 1, "store")),   // str b1, [x6, #3]
            (0x3ce3_6841, (0x5000, 16, "load")),   // ldr q1, [x2, x3]
            (0xa941_0440, (0x2010, 16, "load")),   // ldp x0, x1, [x2, #16]
            (0x293f_0440, (0x1ff8, 8, "store")),   // stp w0, w1, [x2, #-8]
            (0xad81_0440, (0x2020, 32, "store")),  // stp q0, q1, [x2, #32]!
            (0xa8c2_0440, (0x2000, 16, "load")),   // ldp x0, x1, [x2], #32
            (0x6941_0440, (0x2008, 8, "load")),    // ldpsw x0, x1, [x2, #8]
            (0x6c41_0440, (0x2010, 16, "load")),   // ldnp d0, d1, [x2, #16]
            (0xa800_0460, (0x3000, 16, "store")),  // stnp x0, x1, [x3]
            (0x88df_fc20, (0x1000, 4, "load")),    // ldar w0, [x1]
            (0xc89f_fc20, (0x1000, 8, "store")),   // stlr x0, [x1]
            (0x089f_fc20, (0x1000, 1, "store")),   // stlrb w0, [x1]
            (0xb8bf_c020, (0x1000, 4, "load")),    // ldapr w0, [x1]
            (0xd95f_8020, (0xff8, 8, "load")),     // ldapur x0, [x1, #-8]
            (0x9900_4020, (0x1004, 4, "store")),   // stlur w0, [x1, #4]
            (0xb820_0041, (0x2000, 4, "atomic")),  // ldadd w0, w1, [x2]
            (0xf8e0_0041, (0x2000, 8, "atomic")),  // ldaddal x0, x1, [x2]
            (0xb820_005f, (0x2000, 4, "atomic")),  // stadd w0, [x2]
            (0xb8e0_1041, (0x2000, 4, "atomic")),  // ldclral w0, w1, [x2]
            (0xb8e0_8041, (0x2000, 4, "atomic")),  // swpal w0, w1, [x2]
            (0x3820_8041, (0x2000, 1, "atomic")),  // swpb w0, w1, [x2]
            (0x88e0_fc41, (0x2000, 4, "atomic")),  // casal w0, w1, [x2]
            (0xc8a0_7c41, (0x2000, 8, "atomic")),  // cas x0, x1, [x2]
            (0x4860_fc82, (0x4000, 16, "atomic")), // caspal x0, x1, x2, x3, [x4]
            (0x0820_7c82, (0x4000, 8, "atomic")),  // casp w0, w1, w2, w3, [x4]
            (0x4c40_7020, (0x1000, 16, "load")),   // ld1 {v0.16b}, [x1]
            (0x4cdf_2020, (0x1000, 64, "load")), // ld1 {v0.16b, v1.16b, v2.16b, v3.16b}, [x1], #64
            (0x0c00_a020, (0x1000, 16, "store")), // st1 {v0.8b, v1.8b}, [x1]
            (0x4c40_0820, (0x1000, 64, "load")), // ld4 {v0.4s, v1.4s, v2.4s, v3.4s}, [x1]
            (0x4c00_4420, (0x1000, 48, "store")), // st3 {v0.8h, v1.8h, v2.8h}, [x1]
            (0x0d00_9020, (0x1000, 4, "store")), // st1 {v0.s}[1], [x1]
            (0x4d9f_8420, (0x1000, 8, "store")), // st1 {v0.d}[1], [x1], #8
            (0x0d60_5820, (0x1000, 4, "load")),  // ld2 {v0.h, v1.h}[3], [x1]
            (0x4d40_c820, (0x1000, 4, "load")),  // ld1r {v0.4s}, [x1]
            (0x0d40_e020, (0x1000, 3, "load")),  // ld3r {v0.8b, v1.8b, v2.8b}, [x1]
            (0xd50b_7423, (0x3000, 64, "store")), // dc zva, x3
            (0xb840_8820, (0x1008, 4, "load")),  // ldtr w0, [x1, #8]
            (0xf87f_e420, (0xff0, 8, "load")),   // ldraa x0, [x1, #-16]
        ];
        for (word, expected) in cases {
            assert_eq!(one(word), expected, "{word:08x}");
        }
    }

    #[test]
    fn what_touches_no_shared_memory_has_no_operands() {
        for word in [
            0xf980_0020, // prfm pldl1keep, [x1]
            0xf89f_8020, // prfum pldl1keep, [x1, #-8]
            0xf8a2_6831, // prfm pstl1strm, [x1, x2]
            0x5800_0080, // ldr x0, .+16
            0x9c00_0100, // ldr q0, .+32
            0x8b02_0020, // add x0, x1, x2
            0xf940_07e0, // ldr x0, [sp, #8]
            0xa9be_7bfd, // stp x29, x30, [sp, #-32]!
            0xd503_201f, // nop
            0x3d80_07e0, // str q0, [sp, #16]
            0xb8e0_03e1, // ldaddal w0, w1, [sp]
            0x1400_0002, // b .+8
            0x1e62_2820, // fadd d0, d1, d2
            0x4f00_e400, // movi v0.16b, #0
            0xd53b_d040, // mrs x0, tpidr_el0
        ] {
            let effect = of(word);
            assert!(
                effect.operands.is_empty() && !effect.unresolved,
                "{word:08x}: {effect:?}"
            );
        }
    }

    #[test]
    fn calls_returns_and_system_calls() {
        let cases = [
            (0x9400_0002, Flow::Call),   // bl .+8
            (0xd63f_0060, Flow::Call),   // blr x3
            (0xd73f_0822, Flow::Call),   // blraa x1, x2
            (0xd63f_083f, Flow::Call),   // blraaz x1
            (0xd65f_03c0, Flow::Return), // ret
            (0xd65f_0060, Flow::Return), // ret x3
            (0xd65f_0bff, Flow::Return), // retaa
            (0xd400_0001, Flow::System), // svc #0
            (0x1400_0002, Flow::On),     // b .+8
            (0xd61f_0060, Flow::On),     // br x3
            (0xb400_0040, Flow::On),     // cbz x0, .+8
            (0xd420_0000, Flow::On),     // brk #0
            (0xd400_0002, Flow::On),     // hvc #0
        ];
        for (word, flow) in cases {
            assert_eq!(of(word).flow, flow, "{word:08x}");
        }
        assert_eq!(of(0).next, 0x1004);
        assert!(Decode.effect(&[0, 0, 0], 0).is_none());
    }

    #[test]
    fn copies_and_sets_of_memory_have_no_address() {
        // cpyfp [x0]!, [x1]!, x2!; setp [x0]!, x1!, x2
        for word in [0x1901_0440, 0x19c2_0420] {
            let effect = of(word);
            assert!(
                effect.unresolved && effect.operands.is_empty(),
                "{word:08x}"
            );
        }
    }

    #[test]
    fn exclusive_halves() {
        let cases = [
            (0x885f_7c20, (1, 4, false, 0, None)),     // ldxr w0, [x1]
            (0xc85f_fc83, (4, 8, false, 3, None)),     // ldaxr x3, [x4]
            (0x8802_7c20, (1, 4, false, 0, Some(2))),  // stxr w2, w0, [x1]
            (0xc809_fc20, (1, 8, false, 0, Some(9))),  // stlxr w9, x0, [x1]
            (0x085f_fc20, (1, 1, false, 0, None)),     // ldaxrb w0, [x1]
            (0xc87f_1420, (1, 8, true, 0, None)),      // ldxp x0, x5, [x1]
            (0x8802_fc3f, (1, 4, false, 31, Some(2))), // stlxr w2, wzr, [x1]
        ];
        for (word, expected) in cases {
            let half = of(word).exclusive.unwrap();
            assert_eq!(
                (half.base, half.size, half.pair, half.value, half.status),
                expected,
                "{word:08x}"
            );
        }
    }

    #[test]
    fn offsets_of_32_bits_have_a_sign_where_they_are_said_to() {
        let at = |word: u32| {
            of(word).operands[0].address(|n| if n == 4 { 0x1_ffff_fff8 } else { 0x5000 }, (0, 0))
        };
        assert_eq!(at(0xb824_c860), 0x4ff8);
        assert_eq!(at(0xb824_4860), 0x1_0000_4ff8);
        assert_eq!(at(0xf864_6860), 0x2_0000_4ff8);
        // The top byte is a tag.
        let tagged = of(0xf864_6860).operands[0]
            .address(|n| if n == 4 { 0 } else { 0x5a00_ffff_0000_1000 }, (0, 0));
        assert_eq!(tagged, 0xffff_0000_1000);
    }
}
