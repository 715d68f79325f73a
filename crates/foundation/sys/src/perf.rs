//! Samples and counts of the kernel's perf events (perf_event_open(2)).
//!
//! A [`Ring`] is one CPU's buffer of samples of an event, such as the software event `cpu-clock`,
//! which every kernel and virtual machine has. It watches all processes, where we
//! may, or the processes that join it and the children they fork from then on. A [`Counter`] only
//! counts an event of a process.

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod count;
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
#[path = "perf/no_count.rs"]
mod count;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
#[path = "perf/no_ring.rs"]
mod ring;

use std::fs::File;
use std::io;

pub use count::Counter;
pub use ring::Ring;

/// An event by the kernel's numbers (uapi/linux/perf_event.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The kind: a fixed number, or that of a unit in /sys/bus/event_source/devices.
    pub kind: u32,
    /// Which event of that kind.
    pub config: u64,
    /// What some units want beside it.
    pub config1: u64,
    /// The same.
    pub config2: u64,
}

impl Event {
    /// Time on a CPU, by the clock: PERF_COUNT_SW_CPU_CLOCK.
    pub const CPU_CLOCK: Self = Self::software(0);
    /// Instructions executed: PERF_COUNT_HW_INSTRUCTIONS.
    pub const INSTRUCTIONS: Self = Self::of(0, 1);

    /// An event of some kind.
    pub const fn of(kind: u32, config: u64) -> Self {
        Self {
            kind,
            config,
            config1: 0,
            config2: 0,
        }
    }

    /// An event that the kernel itself counts: PERF_TYPE_SOFTWARE.
    pub const fn software(config: u64) -> Self {
        Self::of(1, config)
    }
}

/// What of a process is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// What the kernel does for it, too: takes perf_event_paranoid of 1 or a capability.
    pub kernel: bool,
    /// The children, too, that it forks from now on, and their threads.
    pub children: bool,
}

/// What was counted of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// How often it happened while it was counted.
    pub value: u64,
    /// How long the process ran while the event was wanted, nanoseconds.
    pub enabled_ns: u64,
    /// How long of that it was counted: less where more events are wanted than there are counters.
    pub running_ns: u64,
}

/// How often an event is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// So many times a second of CPU time, or of the event's occurrences: the kernel finds the number of them
    /// between two samples, which takes it some.
    Hz(u32),
    /// At each of so many occurrences: for events that come in bursts, after which the kernel's choice is far off.
    Every(u32),
}

impl Rate {
    /// Samples a second, where that is what was asked for.
    pub fn hz(self) -> Option<u32> {
        match self {
            Self::Hz(hz) => Some(hz),
            Self::Every(_) => None,
        }
    }
}

/// What is sampled.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Which event.
    pub event: Event,
    /// How often.
    pub rate: Rate,
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
    /// For how many occurrences of the event it stands; of the clock nanoseconds.
    pub period: u64,
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
