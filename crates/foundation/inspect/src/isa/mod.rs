//! Instruction sets: bytes of one range of code in, the instructions of interest out.
//!
//! A scanner never asks what a function is; it is given ranges that start at an instruction and
//! reports addresses. `x86` decodes with `iced-x86`; the others are fixed-width or coded by length
//! and need masks only, each checked against an assembler in the tests.

pub mod a64;
pub mod extensions;
pub mod power;
pub mod riscv;
pub mod s390x;
pub mod x86;

use std::borrow::Cow;

use crate::model::{Atomic, Class, Counts, Hint, Ordering};

/// What scanning a range found, by address.
#[derive(Clone, Debug)]
pub struct Found {
    /// Atomics; [`Atomic::function`] is not yet set.
    pub atomics: Vec<Atomic>,
    /// Delay, CRC and popcount instructions.
    pub hints: Vec<(u64, Hint)>,
    /// A64 only: instructions that sign the return address.
    pub pac: u64,
    /// Atomics for which there was no room in `atomics`.
    pub not_listed: Counts,
    /// Hints for which there was no room in `hints`.
    pub hints_left_out: u64,
    /// How many atomics are listed at most, and how many hints.
    room: usize,
}

impl Default for Found {
    fn default() -> Self {
        Self::with_room(usize::MAX)
    }
}

impl Found {
    /// Lists at most `room` atomics and as many hints; what comes after is counted only. A file of
    /// nothing but locked instructions would take memory without end.
    pub fn with_room(room: usize) -> Self {
        Self {
            atomics: Vec::new(),
            hints: Vec::new(),
            pac: 0,
            not_listed: Counts::new(),
            hints_left_out: 0,
            room,
        }
    }

    fn hint(&mut self, address: u64, hint: Hint) {
        if self.hints.len() < self.room {
            self.hints.push((address, hint));
        } else {
            self.hints_left_out += 1;
        }
    }

    fn atomic(
        &mut self,
        address: u64,
        class: Class,
        mnemonic: impl Into<Cow<'static, str>>,
        width_bits: u16,
        ordering: Ordering,
    ) {
        if self.atomics.len() >= self.room {
            *self.not_listed.entry(class).or_insert(0) += 1;
            return;
        }
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
        self.hints_left_out += other.hints_left_out;
        for (class, n) in other.not_listed {
            *self.not_listed.entry(class).or_insert(0) += n;
        }
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
