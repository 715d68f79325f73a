//! Which shared cache lines a transaction takes, by name.
//!
//! ```text
//! a backend, stepped -> Recording (addresses) -> names -> Account -> report
//!                                             -> replay -> transfers at N sessions
//! ```
//!
//! [`record`] is the only part that touches a process; what follows is computed from its record and
//! from what [`names`] read of the server's memory.

pub mod account;
pub mod code;
pub mod difference;
pub mod document;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64"
))]
pub mod emulated;
pub mod gathered;
pub mod images;
pub mod loops;
pub mod map;
pub mod measured;
pub mod meetings;
pub mod names;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64"
))]
pub mod record;
pub mod recording;
pub mod replay;
pub mod sampled;
pub mod segment;
pub mod sequence;
pub mod session;
pub mod timed;
pub mod transfers;
pub mod walls;
