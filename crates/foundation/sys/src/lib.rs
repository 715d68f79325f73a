//! All of pgassay's unsafe code, and the system calls that need care.
//!
//! The other crates deny `unsafe`; what they need of it is offered here behind
//! safe functions, each unsafe block with the reason why it is sound.

pub mod addresses;
pub mod affinity;
pub mod arguments;
pub mod bound;
pub mod cpuid;
#[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
pub mod exclusive;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
pub mod gather;
// As with the structures of perf events below.
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
#[path = "no_gather.rs"]
pub mod gather;
pub mod input;
pub mod map;
pub mod memory;
pub mod output;
pub mod pairs;
pub mod perf;
pub mod private;
pub mod process_clock;
pub mod programs;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64"
))]
mod ptrace;
pub mod qemu;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64"
))]
pub mod registers;
pub mod resident;
pub mod shared;
pub mod shrunk;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64"
))]
pub mod step;
pub mod stop;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
pub mod streams;
// As with `gather`.
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
#[path = "no_streams.rs"]
pub mod streams;
pub mod tally;
pub mod tracing;
pub mod trust;
