//! What an instruction does to memory, from its bytes.
//!
//! All decoders are compiled everywhere, so that all are tested everywhere; a session is stepped by that
//! of the processor it runs on.

pub mod a64;
pub mod power;
pub mod x86;

#[cfg(target_arch = "aarch64")]
pub use a64::{Decode, LONGEST, Operand};
#[cfg(target_arch = "powerpc64")]
pub use power::{Decode, LONGEST, Operand};
#[cfg(target_arch = "x86_64")]
pub use x86::{Decode, LONGEST, Operand};

/// What is to be known of an instruction before it is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect<O> {
    /// Its accesses to memory, those by the stack pointer left out: stacks are private.
    pub operands: Vec<O>,
    /// A call's or a return's part in the chain of callers.
    pub flow: Flow,
    /// When a call or a return happens; `None` is always.
    pub condition: Option<power::Condition>,
    /// The address behind it.
    pub next: u64,
    /// Whether it does nothing when rcx is 0.
    pub repeated: bool,
    /// Accesses whose address is not computed.
    pub unresolved: bool,
    /// A half of a pair of an exclusive load and an exclusive store.
    pub exclusive: Option<Exclusive>,
}

impl<O> Effect<O> {
    /// One that touches no memory.
    fn none(next: u64) -> Self {
        Self {
            operands: Vec::new(),
            flow: Flow::On,
            condition: None,
            next,
            repeated: false,
            unresolved: false,
            exclusive: None,
        }
    }
}

/// An exclusive load or store. Each stop of a stepped process ends what an exclusive load has begun, so that the
/// store would never succeed: neither can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exclusive {
    /// The register with the address; 31 is arm64's stack pointer, 0 POWER's zero.
    pub base: u8,
    /// A register to be added to it.
    pub index: Option<u8>,
    /// Bytes of a word.
    pub size: u32,
    /// Two words.
    pub pair: bool,
    /// The register that is loaded, or stored; 31 is arm64's zero.
    pub value: u8,
    /// Of a store, the register that tells whether it failed; on POWER, the field of the condition register.
    pub status: Option<u8>,
}

/// What it does to the chain of callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flow {
    /// Nothing.
    #[default]
    On,
    /// Enters a function.
    Call,
    /// Leaves one.
    Return,
    /// A system call.
    System,
}
