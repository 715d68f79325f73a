//! x86-64 (System V ABI).

use std::io;

use libc::{pid_t, user_regs_struct};

use crate::ptrace::request;

/// General registers of a stopped process.
#[derive(Debug, Clone, Copy)]
pub struct Registers(user_regs_struct);

/// Instructions begin anywhere.
pub const ALIGNMENT: usize = 1;
/// The bytes of `ret`.
pub const RET: &[u8] = &[0xc3];
/// The bytes of `syscall`.
pub const SYSCALL: &[u8] = &[0x0f, 0x05];

impl Registers {
    /// Those of a standing process.
    pub(crate) fn read(pid: pid_t) -> io::Result<Self> {
        // SAFETY: user_regs_struct is plain data, for which zeros are a value.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        let at = (&raw mut registers) as usize;
        request(libc::PTRACE_GETREGS, pid, 0, at)?;
        Ok(Self(registers))
    }

    /// Gives them to a standing process.
    pub(crate) fn write(&self, pid: pid_t) -> io::Result<()> {
        let at = (&raw const self.0) as usize;
        request(libc::PTRACE_SETREGS, pid, 0, at)
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.0.rip
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.0.rsp
    }

    /// The value of a general register, by its number in encodings: rax, rcx, rdx, rbx, rsp, rbp, rsi,
    /// rdi, r8 … r15.
    pub fn get(&self, number: usize) -> u64 {
        let r = &self.0;
        match number & 15 {
            0 => r.rax,
            1 => r.rcx,
            2 => r.rdx,
            3 => r.rbx,
            4 => r.rsp,
            5 => r.rbp,
            6 => r.rsi,
            7 => r.rdi,
            8 => r.r8,
            9 => r.r9,
            10 => r.r10,
            11 => r.r11,
            12 => r.r12,
            13 => r.r13,
            14 => r.r14,
            _ => r.r15,
        }
    }

    /// The bases of the segments fs and gs.
    pub fn segment_bases(&self) -> (u64, u64) {
        (self.0.fs_base, self.0.gs_base)
    }

    /// Calls and returns have no conditions.
    pub fn conditions(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Whether it executes 64-bit code; a 32-bit program does not.
    pub fn is_64_bit(&self) -> bool {
        // The kernel's __USER_CS.
        self.0.cs == 0x33
    }

    /// The number of the system call that it stands before.
    pub fn call_number(&self) -> u64 {
        self.0.rax
    }

    /// The first three arguments of a system call or a function, from 0.
    pub fn argument(&self, number: usize) -> u64 {
        [self.0.rdi, self.0.rsi, self.0.rdx]
            .get(number)
            .copied()
            .unwrap_or_default()
    }

    /// What the last system call gave.
    pub(crate) fn result(&self) -> u64 {
        self.0.rax
    }

    /// Where a system call was broken off that the kernel would begin again on its own: standing before it.
    pub(crate) fn before_broken_call(self) -> Option<Self> {
        let mut registers = self.0;
        let broken_off = matches!(-(registers.rax as i64), 512..=514 | 516);
        if !broken_off || registers.orig_rax as i64 == -1 {
            return None;
        }
        registers.rax = registers.orig_rax;
        registers.orig_rax = u64::MAX;
        registers.rip -= SYSCALL.len() as u64;
        Some(Self(registers))
    }

    /// About to make a system call, by the instruction at `at`.
    pub(crate) fn with_call(self, at: u64, number: u64, arguments: [u64; 4]) -> Self {
        let mut call = self.0;
        call.rip = at;
        call.rax = number;
        // Not within a system call: nothing is to be begun again.
        call.orig_rax = u64::MAX;
        [call.rdi, call.rsi, call.rdx, call.r10] = arguments;
        Self(call)
    }

    /// Behind the system call that it stood before, which has given `result`.
    pub(crate) fn behind_call(
        self,
        result: i64,
        _: impl Fn(u64) -> io::Result<u64>,
    ) -> io::Result<Self> {
        let mut registers = self.0;
        registers.rax = result as u64;
        registers.rip += SYSCALL.len() as u64;
        Ok(Self(registers))
    }

    /// Returned with 0 from the function that it has just entered. `word` reads the stack.
    pub(crate) fn returned(self, word: impl Fn(u64) -> io::Result<u64>) -> io::Result<Self> {
        let mut registers = self.0;
        registers.rip = word(registers.rsp)?;
        registers.rsp += 8;
        registers.rax = 0;
        Ok(Self(registers))
    }
}
