//! The general registers of an x86-64 process that ptrace(2) has stopped.

use libc::user_regs_struct;

/// General registers of a stopped process.
#[derive(Debug, Clone, Copy)]
pub struct Registers(pub(crate) user_regs_struct);

/// A register by its number in x86-64 encodings: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15.
pub type Number = usize;

/// rax, the number and the result of a system call.
pub const RAX: Number = 0;
/// rcx, the count of repeated string instructions.
pub const RCX: Number = 1;
/// rdx, the third argument.
pub const RDX: Number = 2;
/// rsp, the stack.
pub const RSP: Number = 4;
/// rsi, the second argument.
pub const RSI: Number = 6;
/// rdi, the first argument.
pub const RDI: Number = 7;

impl Registers {
    /// The address of the next instruction.
    pub fn rip(&self) -> u64 {
        self.0.rip
    }

    /// The value of a general register.
    pub fn get(&self, number: Number) -> u64 {
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

    /// Whether it executes 64-bit code; a 32-bit program does not.
    pub fn is_64_bit(&self) -> bool {
        // The kernel's __USER_CS.
        self.0.cs == 0x33
    }
}
