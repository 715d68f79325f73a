//! CPU samples by the kernel's perf events (perf_event_open(2)).
//!
//! A [`Ring`] is one CPU's buffer of samples of the software event `cpu-clock`,
//! which every kernel and virtual machine has. It watches all processes, where we
//! may, or the processes that join it and the children they fork from then on.

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod ring;
// The kernel's structures are to be had for those only.
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
#[path = "perf/no_ring.rs"]
mod ring;

use std::fs::File;
use std::io;

pub use ring::Ring;

/// What is sampled.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Samples a second of CPU time.
    pub frequency: u32,
    /// Bytes of a user stack copied with each sample, with the registers, so that callers can be
    /// found by unwind tables; 0 leaves it to the kernel to follow frame pointers.
    pub stack_bytes: u32,
    /// Samples in the kernel, too: takes perf_event_paranoid of 1 or a capability.
    pub kernel: bool,
    /// Pages of the buffer, a power of two.
    pub pages: usize,
}

/// Whose samples come into a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All processes': takes perf_event_paranoid of 0 or CAP_PERFMON.
    Everybody,
    /// Those of this process and of the children that it forks from now on.
    Process(u32),
}

/// Registers of a user's thread that unwinding begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register, where the machine has one.
    pub lr: u64,
}

/// A sample.
#[derive(Debug)]
pub struct Sample<'r> {
    /// The process.
    pub pid: u32,
    /// Addresses in the kernel, innermost first.
    pub kernel: Vec<u64>,
    /// Addresses in the user's code, innermost first; with copied stacks the first one at most.
    pub user: Vec<u64>,
    /// The user's registers and the top of its stack, where they were asked for.
    pub stack: Option<(Registers, &'r [u8])>,
}

/// One record of a ring.
#[derive(Debug)]
pub enum Record<'r> {
    /// A sample.
    Sample(Sample<'r>),
    /// A process began; told where everybody is watched.
    Fork {
        /// The new process.
        pid: u32,
        /// Who forked it.
        parent: u32,
    },
    /// So many records found no room.
    Lost(u64),
}

/// Registers by the kernel's numbers (uapi/asm/perf_regs.h): ip, sp, fp, and lr where there is one.
#[cfg(target_arch = "x86_64")]
const REGISTERS: &[u32] = &[8, 7, 6];
#[cfg(target_arch = "aarch64")]
const REGISTERS: &[u32] = &[32, 31, 29, 30];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REGISTERS: &[u32] = &[];

/// Whether copied stacks can be asked for on this machine.
pub const COPIES_STACKS: bool = !REGISTERS.is_empty();

/// What the kernel allows those without capabilities, from /proc/sys/kernel/perf_event_paranoid.
pub fn paranoid() -> Option<i32> {
    let mut text = String::new();
    io::Read::read_to_string(
        &mut File::open("/proc/sys/kernel/perf_event_paranoid").ok()?,
        &mut text,
    )
    .ok()?;
    text.trim().parse().ok()
}
