//! Where the bytes come from: logical reads, shared-buffer misses, device reads.
//!
//! Three figures that are often taken for each other. A *logical read* is a
//! block that the server looked at, a *miss* one that it had to ask the kernel
//! for, a *device read* what the kernel then fetched, which can be nothing
//! (page cache), the same, or many times as much (large pages, read-ahead).
//! Each is read out of what was recorded around a window; what can't be seen
//! says why, never 0.

pub mod credits;
pub mod kinds;
pub mod plateau;
mod reads;
pub mod volume;

pub use reads::{DeviceReads, ReadFigures, Seen, figures};
