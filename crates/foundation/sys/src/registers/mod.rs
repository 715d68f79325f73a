//! The general registers of a process that ptrace(2) has stopped, and where system calls and returns
//! have what in them.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "powerpc64")]
mod powerpc64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::Registers;
#[cfg(target_arch = "powerpc64")]
pub use powerpc64::{ALIGNMENT, RET, Registers, SYSCALL};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{ALIGNMENT, RET, Registers, SYSCALL};
