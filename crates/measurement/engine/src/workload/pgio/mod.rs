//! PGIO, the SLOB method for PostgreSQL (K. Closson): sessions that sum or update
//! ranges of a table of one row a block, to see how many blocks a server can look
//! at in a second.
//!
//! The interface is PGIO 1.0's; the code is not. What differs by design stands in
//! docs/pgio.md.

mod arithmetic;
pub mod config;
pub mod loops;
pub mod tables;

/// The workload's name.
pub const NAME: &str = "pgio";
