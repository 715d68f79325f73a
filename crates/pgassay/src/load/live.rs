//! Counters that can be read while a slice runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// One thread's counters, read by the coordinating thread as they grow.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Live {
    pub transactions: AtomicU64,
    pub failures: AtomicU64,
    pub retries: AtomicU64,
    pub skipped: AtomicU64,
    /// The sums are doubles, by their bits.
    pub latency: AtomicU64,
    pub latency_squares: AtomicU64,
    pub lag: AtomicU64,
}

impl Live {
    /// Only this thread writes, so that no locked instruction is needed.
    pub fn bump(counter: &AtomicU64, by: u64) {
        counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    pub fn bump_sum(sum: &AtomicU64, by: f64) {
        let grown = f64::from_bits(sum.load(Ordering::Relaxed)) + by;
        sum.store(grown.to_bits(), Ordering::Relaxed);
    }
}
