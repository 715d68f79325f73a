//! Texts that the kernel, PostgreSQL and profilers print, understood: differences of counters over a window,
//! I/O by device and process, events of the processor, call chains of CPU samples, sampled accesses to memory.
//!
//! What was measured with and what is concluded from both read them, so they lie below both. A reading that is
//! missing or not understood gives `None`, never a zero. Pure: no I/O, no clock, and no conclusions.

pub mod growth;
pub mod io;
pub mod memory;
pub mod pmu;
pub mod profile;
pub mod samples;
