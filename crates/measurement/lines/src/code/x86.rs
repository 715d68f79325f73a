//! x86-64, by `iced-x86`.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, Register, UsedMemory,
};

use super::{Effect, Flow};
use crate::recording::Kind;

/// The longest instruction.
pub const LONGEST: usize = 15;

/// An access to memory whose address the registers give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    base: Option<u8>,
    index: Option<(u8, u8)>,
    displacement: u64,
    segment: Segment,
    short: bool,
    size: u32,
    /// Whether it is read, not atomically.
    pub loads: bool,
    /// Whether it is written, and how.
    pub stores: Option<Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    Flat,
    Fs,
    Gs,
}

impl Operand {
    /// Its address, by the values of registers and the bases of fs and gs.
    pub fn address(&self, register: impl Fn(usize) -> u64, bases: (u64, u64)) -> u64 {
        let mut address = self.displacement;
        if let Some(base) = self.base {
            address = address.wrapping_add(register(usize::from(base)));
        }
        if let Some((index, scale)) = self.index {
            let scaled = register(usize::from(index)).wrapping_mul(u64::from(scale));
            address = address.wrapping_add(scaled);
        }
        if self.short {
            address &= 0xffff_ffff;
        }
        address.wrapping_add(match self.segment {
            Segment::Flat => 0,
            Segment::Fs => bases.0,
            Segment::Gs => bases.1,
        })
    }

    /// Its length in bytes, whatever the registers are.
    pub fn size(&self, _: impl Fn(usize) -> u64) -> Option<u32> {
        Some(self.size)
    }
}

/// Decodes instructions.
pub struct Decode {
    factory: InstructionInfoFactory,
}

impl Default for Decode {
    fn default() -> Self {
        Self {
            factory: InstructionInfoFactory::new(),
        }
    }
}

impl Decode {
    /// What the instruction at `address` does; `None` where the bytes are none.
    pub fn effect(&mut self, bytes: &[u8], address: u64) -> Option<Effect<Operand>> {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        let mut effect = Effect {
            repeated: instruction.has_rep_prefix() || instruction.has_repne_prefix(),
            flow: flow(&instruction),
            ..Effect::none(instruction.next_ip())
        };
        if uses_no_memory(&instruction) {
            return Some(effect);
        }
        let atomic = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
        for used in self.factory.info(&instruction).used_memory() {
            match operand(used, atomic, instruction.memory_size().size()) {
                Some(Ok(operand)) => effect.operands.push(operand),
                Some(Err(())) => effect.unresolved = true,
                None => {}
            }
        }
        Some(effect)
    }
}

fn flow(instruction: &Instruction) -> Flow {
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => match instruction.code() {
            Code::Syscall => Flow::System,
            _ => Flow::Call,
        },
        FlowControl::Return => Flow::Return,
        _ => Flow::On,
    }
}

/// Instructions that name memory and do not touch it.
fn uses_no_memory(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Lea
            | Mnemonic::Nop
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetchw
            | Mnemonic::Endbr64
    )
}

/// `None` for no access, or one to the stack; an error for one by a vector of addresses.
fn operand(used: &UsedMemory, atomic: bool, element: usize) -> Option<Result<Operand, ()>> {
    let (loads, stores) = match used.access() {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    if used.base() == Register::RSP {
        return None;
    }
    let number = |register: Register| match register {
        Register::None => Some(None),
        _ if register.is_gpr64() || register.is_gpr32() => Some(Some(register.number() as u8)),
        _ => None,
    };
    let (Some(base), Some(index)) = (number(used.base()), number(used.index())) else {
        return Some(Err(()));
    };
    let segment = match used.segment() {
        Register::FS => Segment::Fs,
        Register::GS => Segment::Gs,
        _ => Segment::Flat,
    };
    Some(Ok(Operand {
        base,
        index: index.map(|index| (index, used.scale() as u8)),
        displacement: used.displacement(),
        segment,
        short: used.address_size() == iced_x86::CodeSize::Code32,
        // Unknown for repeated ones: with the trap flag set, they stop after each element.
        size: match used.memory_size().size() {
            0 => element.max(1) as u32,
            size => size as u32,
        },
        loads: loads && !(stores && atomic),
        stores: match (stores, atomic) {
            (true, true) => Some(Kind::Atomic),
            (true, false) => Some(Kind::Store),
            _ => None,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Effect<Operand> {
        Decode::default().effect(bytes, 0x1000).unwrap()
    }

    fn one(bytes: &[u8]) -> Operand {
        let effect = of(bytes);
        assert_eq!(effect.operands.len(), 1, "{effect:?}");
        effect.operands[0]
    }

    /// A register's value is 0x100 times its number.
    fn address(operand: &Operand) -> u64 {
        operand.address(|number| number as u64 * 0x100, (0x10_0000, 0x20_0000))
    }

    #[test]
    fn addresses_are_those_of_the_manual() {
        // mov eax, [rbx+rcx*4+0x10]
        assert_eq!(
            address(&one(&[0x8b, 0x44, 0x8b, 0x10])),
            0x300 + 0x400 + 0x10
        );
        // mov rax, [rip+0x20], seven bytes long
        assert_eq!(address(&one(&[0x48, 0x8b, 0x05, 0x20, 0, 0, 0])), 0x1027);
        // mov rax, fs:[0x28]
        let bytes = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
        assert_eq!(address(&one(&bytes)), 0x10_0028);
        // mov eax, [r12d-8]: 32 bits of address
        let operand = one(&[0x67, 0x41, 0x8b, 0x44, 0x24, 0xf8]);
        assert_eq!(address(&operand), 0xbf8);
        assert_eq!(operand.address(|_| 4, (0, 0)), 0xffff_fffc);
    }

    #[test]
    fn loads_stores_and_atomics() {
        let kinds = |bytes: &[u8]| {
            let operand = one(bytes);
            (operand.loads, operand.stores, operand.size)
        };
        assert_eq!(kinds(&[0x8b, 0x03]), (true, None, 4)); // mov eax, [rbx]
        assert_eq!(kinds(&[0x88, 0x03]), (false, Some(Kind::Store), 1)); // mov [rbx], al
        assert_eq!(kinds(&[0xff, 0x03]), (true, Some(Kind::Store), 4)); // inc dword [rbx]
        assert_eq!(kinds(&[0xf0, 0xff, 0x03]), (false, Some(Kind::Atomic), 4)); // lock inc
        assert_eq!(kinds(&[0x87, 0x03]), (false, Some(Kind::Atomic), 4)); // xchg [rbx], eax
        // lock cmpxchg [rbx], ecx
        assert_eq!(
            kinds(&[0xf0, 0x0f, 0xb1, 0x0b]),
            (false, Some(Kind::Atomic), 4)
        );
        // movups [rbx], xmm0; vmovdqu ymm0, [rbx]
        assert_eq!(kinds(&[0x0f, 0x11, 0x03]), (false, Some(Kind::Store), 16));
        assert_eq!(kinds(&[0xc5, 0xfe, 0x6f, 0x03]), (true, None, 32));
    }

    #[test]
    fn what_touches_no_shared_memory_has_no_operands() {
        for bytes in [
            &[0x48, 0x8d, 0x03][..],      // lea rax, [rbx]
            &[0x0f, 0x18, 0x0b],          // prefetcht0 [rbx]
            &[0x0f, 0x1f, 0x00],          // nop [rax]
            &[0x55],                      // push rbp
            &[0x48, 0x8b, 0x44, 0x24, 8], // mov rax, [rsp+8]
            &[0x01, 0xd8],                // add eax, ebx
        ] {
            assert!(of(bytes).operands.is_empty(), "{bytes:x?}");
        }
        assert!(Decode::default().effect(&[0x06], 0).is_none());
    }

    #[test]
    fn string_instructions_have_an_element_for_each_side() {
        let movs = of(&[0xf3, 0xa5]); // rep movsd
        assert!(movs.repeated);
        let mut sides: Vec<_> = movs
            .operands
            .iter()
            .map(|o| (address(o), o.size, o.loads, o.stores))
            .collect();
        sides.sort_by_key(|side| side.0);
        assert_eq!(
            sides,
            [(0x600, 4, true, None), (0x700, 4, false, Some(Kind::Store))]
        );
    }

    #[test]
    fn calls_returns_and_system_calls() {
        assert_eq!(of(&[0xe8, 0, 0, 0, 0]).flow, Flow::Call);
        assert_eq!(of(&[0xff, 0x13]).flow, Flow::Call); // call [rbx]
        assert_eq!(of(&[0xff, 0x13]).operands.len(), 1);
        assert_eq!(of(&[0xc3]).flow, Flow::Return);
        assert_eq!(of(&[0x0f, 0x05]).flow, Flow::System);
        assert_eq!(of(&[0xeb, 0]).flow, Flow::On);
        // vpgatherdd xmm0, [rax+xmm1*4], xmm2
        assert!(of(&[0xc4, 0xe2, 0x69, 0x90, 0x04, 0x88]).unresolved);
    }
}
