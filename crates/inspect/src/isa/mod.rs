//! Instruction sets: bytes of one range of code in, the instructions of interest out.
//!
//! A scanner never asks what a function is; it is given ranges that start at an instruction and
//! reports addresses. `x86` decodes with `iced-x86`; the others are fixed-width or coded by length
//! and need masks only, each checked against an assembler in the tests.

pub mod a64;
pub mod power;
pub mod riscv;
pub mod s390x;
pub mod x86;

use std::borrow::Cow;

use crate::model::{Atomic, Class, Hint, Ordering};

/// What scanning a range found, by address.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Atomics; [`Atomic::function`] is not yet set.
    pub atomics: Vec<Atomic>,
    /// Delay, CRC and popcount instructions.
    pub hints: Vec<(u64, Hint)>,
    /// A64 only: instructions that sign the return address.
    pub pac: u64,
}

impl Found {
    fn atomic(
        &mut self,
        address: u64,
        class: Class,
        mnemonic: impl Into<Cow<'static, str>>,
        width_bits: u16,
        ordering: Ordering,
    ) {
        self.atomics.push(Atomic {
            address,
            class,
            mnemonic: mnemonic.into(),
            width_bits,
            ordering,
            function: None,
            inlined: Vec::new(),
        });
    }

    /// Joins what another range gave.
    pub fn append(&mut self, mut other: Self) {
        self.atomics.append(&mut other.atomics);
        self.hints.append(&mut other.hints);
        self.pac += other.pac;
    }
}

/// A range of code to scan: it starts at an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Range<'d> {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes.
    pub data: &'d [u8],
}
