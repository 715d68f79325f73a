//! What pgassay's layers say to each other: no logic, no I/O, nothing of ours below it.

pub mod failure;

pub use failure::{Failure, FailureKind};
