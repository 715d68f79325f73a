//! Sampled accesses to memory: what `perf mem record` or `perf c2c record` saw, as `perf script` prints it.
//!
//! Where the data came from is taken from the number that perf prints before its words: its bits are part of
//! the kernel's interface (`union perf_mem_data_src`), the words differ between versions of perf.

pub mod script;
pub mod source;

pub use script::{Reader, Sample};
pub use source::{Source, Transfer};
