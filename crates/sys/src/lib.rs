//! All of pgassay's unsafe code, and the system calls that need care.
//!
//! The other crates deny `unsafe`; what they need of it is offered here behind
//! safe functions, each unsafe block with the reason why it is sound.

pub mod affinity;
pub mod arguments;
pub mod bound;
pub mod cpuid;
pub mod map;
pub mod perf;
pub mod resident;
pub mod tally;
