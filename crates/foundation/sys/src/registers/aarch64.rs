//! AArch64 (Procedure Call Standard; the kernel's struct user_pt_regs).

use std::io;

use libc::{iovec, pid_t, user_regs_struct};

use crate::ptrace::request;

/// General registers of a stopped process.
#[derive(Debug, Clone, Copy)]
pub struct Registers {
    of: user_regs_struct,
    /// Bytes that the kernel gave: of a 32-bit process there are fewer.
    length: usize,
}

/// Bytes of `svc #0`.
const SYSCALL: u64 = 4;

/// PSTATE.BTYPE: what an indirect branch has left for the instruction that it leads to.
const BRANCH_TYPE: u64 = 0b11 << 10;
/// The return address of a function.
const LINK: usize = 30;

impl Registers {
    /// Those of a standing process.
    pub(crate) fn read(pid: pid_t) -> io::Result<Self> {
        // SAFETY: user_regs_struct is plain data, for which zeros are a value.
        let mut of: user_regs_struct = unsafe { std::mem::zeroed() };
        let mut part = iovec {
            iov_base: (&raw mut of).cast(),
            iov_len: size_of::<user_regs_struct>(),
        };
        let set = libc::NT_PRSTATUS as usize;
        request(libc::PTRACE_GETREGSET, pid, set, (&raw mut part) as usize)?;
        Ok(Self {
            of,
            length: part.iov_len,
        })
    }

    /// Gives them to a standing process.
    pub(crate) fn write(&self, pid: pid_t) -> io::Result<()> {
        let mut of = self.of;
        let mut part = iovec {
            iov_base: (&raw mut of).cast(),
            iov_len: self.length,
        };
        let set = libc::NT_PRSTATUS as usize;
        request(libc::PTRACE_SETREGSET, pid, set, (&raw mut part) as usize)
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.of.pc
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.of.sp
    }

    /// The value of a general register: x0 to x30; 31 is the zero register.
    pub fn get(&self, number: usize) -> u64 {
        self.of.regs.get(number).copied().unwrap_or_default()
    }

    /// Changes a general register; the zero register stays.
    pub fn set(&mut self, number: usize, value: u64) {
        if let Some(register) = self.of.regs.get_mut(number) {
            *register = value;
        }
    }

    /// The value of a register as the base of an address, where 31 is the stack pointer.
    pub fn base(&self, number: usize) -> u64 {
        match number {
            31 => self.sp(),
            number => self.get(number),
        }
    }

    /// Tells in a register whether an exclusive store was done: 0 where it was.
    pub fn set_stored(&mut self, register: u8, stored: bool) {
        self.set(usize::from(register), u64::from(!stored));
    }

    /// Goes on `bytes` behind where it stands.
    pub fn skip(&mut self, bytes: u64) {
        self.of.pc = self.of.pc.wrapping_add(bytes);
        self.of.pstate &= !BRANCH_TYPE;
    }

    /// There are no segments.
    pub fn segment_bases(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Calls and returns have no conditions.
    pub fn conditions(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Whether it executes 64-bit code; a 32-bit program does not.
    pub fn is_64_bit(&self) -> bool {
        self.length == size_of::<user_regs_struct>()
    }

    /// The number of the system call that it stands before.
    pub fn call_number(&self) -> u64 {
        self.get(8)
    }

    /// The first arguments of a system call or a function, from 0.
    pub fn argument(&self, number: usize) -> u64 {
        match number {
            0..8 => self.get(number),
            _ => 0,
        }
    }

    /// The kernel has it stand before a call that it will begin again already when it stops.
    pub(crate) fn before_broken_call(self) -> Option<Self> {
        None
    }

    /// Behind the system call that it stood before, which has given `result`.
    pub(crate) fn behind_call(
        mut self,
        result: i64,
        _: impl Fn(u64) -> io::Result<u64>,
    ) -> io::Result<Self> {
        self.set(0, result as u64);
        self.skip(SYSCALL);
        Ok(self)
    }

    /// Returned with 0 from the function that it has just entered.
    pub(crate) fn returned(mut self, _: impl Fn(u64) -> io::Result<u64>) -> io::Result<Self> {
        self.of.pc = self.get(LINK);
        self.of.pstate &= !BRANCH_TYPE;
        self.set(0, 0);
        Ok(self)
    }
}
