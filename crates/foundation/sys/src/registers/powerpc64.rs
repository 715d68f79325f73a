//! POWER, 64 bits (ELF ABI; the kernel's struct user_pt_regs).

use std::io;

use libc::{iovec, pid_t};

use crate::ptrace::request;

/// The kernel's ELF_NGREG.
const WORDS: usize = 48;
/// The address of the next instruction; the machine state; the first argument as it was before a system call.
const NIP: usize = 32;
const MSR: usize = 33;
const FIRST: usize = 34;
const CTR: usize = 35;
const LINK: usize = 36;
const XER: usize = 37;
const CCR: usize = 38;
/// What the kernel was entered by.
const TRAP: usize = 40;

/// The machine computes with 64 bits (MSR).
const SF: u64 = 1 << 63;
/// The overflow that stays (XER), and its copy in CR0, where `sc` and the vDSO tell errors.
const OVERFLOWN: u64 = 1 << 31;
const FAILED: u64 = 1 << 28;
/// Where instructions begin.
pub const ALIGNMENT: usize = 4;
/// The bytes of `blr`.
pub const RET: &[u8] = &0x4e80_0020_u32.to_ne_bytes();
/// The bytes of `sc`.
pub const SYSCALL: &[u8] = &0x4400_0002_u32.to_ne_bytes();
/// `scv 0`, whose errors are negative.
const SCV: u32 = 0x4400_0001;
/// What the kernel was entered by at `sc` and at `scv`.
const BY_SC: u64 = 0xc00;
const BY_SCV: u64 = 0x3000;

/// General registers of a stopped process.
#[derive(Debug, Clone, Copy)]
pub struct Registers {
    of: [u64; WORDS],
    /// Bytes that the kernel gave.
    length: usize,
}

impl Registers {
    /// Those of a standing process.
    pub(crate) fn read(pid: pid_t) -> io::Result<Self> {
        let mut of = [0_u64; WORDS];
        let mut part = iovec {
            iov_base: of.as_mut_ptr().cast(),
            iov_len: size_of_val(&of),
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
        // A system call that was broken off is not to be begun again from where it stands now.
        of[TRAP] = u64::MAX;
        let mut part = iovec {
            iov_base: of.as_mut_ptr().cast(),
            iov_len: self.length,
        };
        let set = libc::NT_PRSTATUS as usize;
        request(libc::PTRACE_SETREGSET, pid, set, (&raw mut part) as usize)
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.of[NIP]
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.of[1]
    }

    /// The value of a general register, r0 to r31.
    pub fn get(&self, number: usize) -> u64 {
        self.of[number & 31]
    }

    /// Changes a general register.
    pub fn set(&mut self, number: usize, value: u64) {
        self.of[number & 31] = value;
    }

    /// The value of a register as the base of an address, where 0 is zero.
    pub fn base(&self, number: usize) -> u64 {
        match number {
            0 => 0,
            number => self.get(number),
        }
    }

    /// The condition register and the counter, by which branches decide.
    pub fn conditions(&self) -> (u64, u64) {
        (self.of[CCR], self.of[CTR])
    }

    /// Tells in a field of the condition register whether an exclusive store was done.
    pub fn set_stored(&mut self, field: u8, stored: bool) {
        let shift = 28 - 4 * u32::from(field & 7);
        let bits = u64::from(stored) << 1 | u64::from(self.of[XER] & OVERFLOWN != 0);
        self.of[CCR] = self.of[CCR] & !(0xf << shift) | bits << shift;
    }

    /// Goes on `bytes` behind where it stands.
    pub fn skip(&mut self, bytes: u64) {
        self.of[NIP] = self.of[NIP].wrapping_add(bytes);
    }

    /// There are no segments.
    pub fn segment_bases(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Whether it executes 64-bit code.
    pub fn is_64_bit(&self) -> bool {
        self.of[MSR] & SF != 0
    }

    /// The number of the system call that it stands before.
    pub fn call_number(&self) -> u64 {
        self.get(0)
    }

    /// The first arguments of a system call or a function, from 0.
    pub fn argument(&self, number: usize) -> u64 {
        match number {
            0..6 => self.get(3 + number),
            _ => 0,
        }
    }

    /// What the last system call, by `sc`, gave.
    pub(crate) fn result(&self) -> u64 {
        match self.of[CCR] & FAILED {
            0 => self.get(3),
            _ => self.get(3).wrapping_neg(),
        }
    }

    /// About to make a system call, by the `sc` at `at`.
    pub(crate) fn with_call(mut self, at: u64, number: u64, arguments: [u64; 4]) -> Self {
        self.of[NIP] = at;
        self.set(0, number);
        for (register, argument) in (3..).zip(arguments) {
            self.set(register, argument);
        }
        self
    }

    /// Where a system call was broken off that the kernel would begin again on its own: standing before it.
    pub(crate) fn before_broken_call(mut self) -> Option<Self> {
        let result = self.get(3);
        let error = match self.of[TRAP] & !0xf {
            BY_SC if self.of[CCR] & FAILED != 0 => result,
            BY_SCV => result.wrapping_neg(),
            _ => return None,
        };
        if !matches!(error, 512..=514 | 516) {
            return None;
        }
        self.set(3, self.of[FIRST]);
        self.of[NIP] = self.of[NIP].wrapping_sub(SYSCALL.len() as u64);
        Some(self)
    }

    /// Behind the system call that it stood before, which has given `result`. `word` reads memory.
    pub(crate) fn behind_call(
        mut self,
        result: i64,
        word: impl Fn(u64) -> io::Result<u64>,
    ) -> io::Result<Self> {
        // Aligned, so that it lies within a page.
        let both = word(self.pc() & !7)?.to_ne_bytes();
        let at = (self.pc() & 4) as usize;
        let instruction = [both[at], both[at + 1], both[at + 2], both[at + 3]];
        if u32::from_ne_bytes(instruction) == SCV {
            self.set(3, result as u64);
        } else {
            self.set(3, result.unsigned_abs());
            self.of[CCR] &= !FAILED;
            self.of[CCR] |= FAILED * u64::from(result < 0);
        }
        self.skip(SYSCALL.len() as u64);
        Ok(self)
    }

    /// Returned with 0, and no error, from the function that it has just entered.
    pub(crate) fn returned(mut self, _: impl Fn(u64) -> io::Result<u64>) -> io::Result<Self> {
        self.of[NIP] = self.of[LINK];
        self.of[CCR] &= !FAILED;
        self.set(3, 0);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(trap: u64, result: u64, condition: u64) -> Registers {
        let mut of = [0; WORDS];
        of[3] = result;
        of[FIRST] = 7;
        of[NIP] = 0x1004;
        of[CCR] = condition;
        of[TRAP] = trap;
        Registers {
            of,
            length: size_of_val(&of),
        }
    }

    #[test]
    fn calls_that_were_broken_off_begin_again() {
        let before = |trap, result: i64, condition| {
            let before = standing(trap, result as u64, condition).before_broken_call();
            before.map(|registers| (registers.pc(), registers.argument(0)))
        };
        // ERESTARTSYS; EAGAIN.
        assert_eq!(before(0xc01, 512, FAILED), Some((0x1000, 7)));
        assert_eq!(before(0xc01, 512, 0), None);
        assert_eq!(before(0xc01, 11, FAILED), None);
        assert_eq!(before(0x3001, -516, 0), Some((0x1000, 7)));
        assert_eq!(before(0x3001, 516, FAILED), None);
        assert_eq!(before(0xd00, 512, FAILED), None);
    }

    #[test]
    fn errors_are_told_as_the_call_does() {
        let behind = |code: [u32; 2], result| {
            let registers = standing(0xd00, 99, 0);
            let code = u64::from(code[0]) | u64::from(code[1]) << 32;
            let behind = registers.behind_call(result, |at| {
                assert_eq!(at, 0x1000);
                Ok(code)
            });
            let behind = behind.unwrap();
            assert_eq!(behind.pc(), 0x1008);
            (behind.get(3) as i64, behind.of[CCR] & FAILED != 0)
        };
        const SC: u32 = 0x4400_0002;
        assert_eq!(behind([SCV, SC], -11), (11, true));
        assert_eq!(behind([SCV, SC], 5), (5, false));
        assert_eq!(behind([SC, SCV], -11), (-11, false));
    }

    #[test]
    fn a_field_tells_of_a_store() {
        let mut registers = standing(0xd00, 0, 0xffff_ffff);
        registers.set_stored(0, true);
        assert_eq!(registers.conditions().0, 0x2fff_ffff);
        registers.of[XER] = OVERFLOWN;
        registers.set_stored(0, false);
        assert_eq!(registers.conditions().0, 0x1fff_ffff);
        registers.set_stored(7, true);
        assert_eq!(registers.conditions().0, 0x1fff_fff3);
    }
}
