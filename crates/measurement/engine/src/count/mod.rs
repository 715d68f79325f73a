//! Counting what a server executes, where timing is too noisy to tell.
//!
//! A throw-away cluster is filled by the server as it is, then started once more
//! under valgrind's callgrind, which follows every process that it forks and
//! writes each one's counts when it ends; or as it is, where the processor counts. A server of
//! another processor runs under qemu's user emulator from the beginning.
//! One session at a time runs a fixed number of transactions from a fixed seed; its
//! process is the one counted. It connects through a gate, so that how quick the
//! client is does not show in the counts.

pub mod callgrind;
pub mod counter;
pub mod emulator;
pub mod gate;
pub mod kernels;
pub mod query_ways;

pub use callgrind::Profile;
pub use counter::{Counter, Method};
pub use emulator::Emulator;
