//! A handler for SIGTRAP that does nothing, in a process that is stepped.
//!
//! On x86-64 Linux leaves the processor's trap flag set in a process whose tracer is killed in the middle of a step: its
//! next instruction raises SIGTRAP. The kernel clears the flag on the way into the handler. On POWER a step that was
//! begun still ends in SIGTRAP; the kernel clears the bit for it with that trap.

use std::io;

use super::{Stepped, Stopped};

/// Bytes of the kernel's struct sigaction: handler, flags, restorer, mask.
pub(super) const ACTION: usize = 32;
/// SA_RESTORER, which x86-64 demands.
#[cfg(target_arch = "x86_64")]
const WITH_RESTORER: u64 = 0x0400_0000;
/// Below the stack pointer lies memory that a function may use without saying so (System V ABI; 288 bytes of it by
/// POWER's ELF ABI, 512 for the kernel).
const RED_ZONE: u64 = if cfg!(target_arch = "x86_64") {
    128
} else {
    512
};

impl Stepped {
    /// Gives the process a handler for SIGTRAP that returns at once, so that it lives on if we are
    /// killed. `ret` is the address of a `ret` instruction, `syscall` that of a `syscall`.
    ///
    /// # Errors
    /// If the process makes no system calls any more, or the handler is refused.
    pub fn guard(&mut self, ret: u64, syscall: u64) -> io::Result<()> {
        let (flags, restorer) = self.way_back(syscall)?;
        let mut action = [0; ACTION];
        for (at, value) in [ret, flags, restorer, 0].iter().enumerate() {
            action[at * 8..at * 8 + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let before = self.action(libc::SIGTRAP, Some(&action), syscall)?;
        self.guarded = Some((before, syscall));
        Ok(())
    }

    /// The flags and the restorer of a handler.
    #[cfg(target_arch = "x86_64")]
    fn way_back(&mut self, syscall: u64) -> io::Result<(u64, u64)> {
        // The way back from a handler is that of any handler that the C library has set.
        let mut restorer = None;
        for signal in [libc::SIGUSR1, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            let action = self.action(signal, None, syscall)?;
            if word(&action, 1) & WITH_RESTORER != 0 && word(&action, 2) != 0 {
                restorer = Some(word(&action, 2));
                break;
            }
        }
        let restorer = restorer.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "the process has no signal handler to learn from",
            )
        })?;
        Ok((WITH_RESTORER, restorer))
    }

    /// The flags and the restorer of a handler: the kernel has a way back of its own.
    #[cfg(target_arch = "powerpc64")]
    fn way_back(&mut self, _: u64) -> io::Result<(u64, u64)> {
        Ok((0, 0))
    }

    /// Has the process read, and set, what it does on a signal; returns what it did before.
    fn action(
        &mut self,
        signal: i32,
        new: Option<&[u8; ACTION]>,
        syscall: u64,
    ) -> io::Result<[u8; ACTION]> {
        let saved = self.registers()?;
        let place = (saved.sp() - RED_ZONE - 4 * ACTION as u64) & !15;
        let (given, answer) = (place, place + ACTION as u64);
        let mut kept = [0; 2 * ACTION];
        self.read(place, &mut kept)?;
        if let Some(new) = new {
            self.write(given, new)?;
        }
        let asked = if new.is_some() { given } else { 0 };
        let call = saved.with_call(
            syscall,
            libc::SYS_rt_sigaction as u64,
            [signal as u64, asked, answer, 8],
        );
        self.set_registers(&call)?;
        let done = self.step_from(syscall);
        let result = self.registers().map(|registers| registers.result());
        let mut action = [0; ACTION];
        let read = self.read(answer, &mut action);
        // In every case it gets back what it had.
        let restored = self
            .write(place, &kept)
            .and_then(|()| self.set_registers(&saved));
        done?;
        read?;
        restored?;
        match result? {
            0 => Ok(action),
            error => Err(io::Error::from_raw_os_error(
                (error as i64).unsigned_abs() as i32
            )),
        }
    }

    /// A step away from `address`, in which signals wait. A process that was stopped within a step,
    /// in a system call, has the trap of that step still ahead of it.
    fn step_from(&mut self, address: u64) -> io::Result<()> {
        loop {
            self.call()?;
            match self.wait()? {
                Stopped::Step if self.registers()?.pc() != address => return Ok(()),
                Stopped::Signal(signal) => self.hold(signal),
                Stopped::Step | Stopped::Other => {}
                Stopped::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        }
    }

    /// Takes the handler back.
    pub(super) fn unguard(&mut self) -> io::Result<()> {
        if let Some((before, syscall)) = self.guarded.take() {
            self.action(libc::SIGTRAP, Some(&before), syscall)?;
        }
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
fn word(action: &[u8; ACTION], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&action[at * 8..at * 8 + 8]);
    u64::from_ne_bytes(bytes)
}
