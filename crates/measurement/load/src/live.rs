//! What can be read while a slice runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::options::Passed;
use super::result::Interval;

/// One thread's counters, read by the coordinating thread as they grow.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Live {
    pub transactions: AtomicU64,
    pub failures: AtomicU64,
    pub retries: AtomicU64,
    pub retried: AtomicU64,
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

/// The intervals that a load thread has behind it and nobody has looked at yet.
pub(super) type Handed = Arc<Mutex<Vec<Interval>>>;

/// Gathers what the threads hand on, interval by interval.
pub(super) struct Follower {
    threads: Vec<Handed>,
    interval_ns: u64,
    /// Intervals that were told.
    told: u64,
}

impl Follower {
    pub fn new(threads: usize, interval_ns: u64) -> Self {
        Follower {
            threads: (0..threads).map(|_| Handed::default()).collect(),
            interval_ns,
            told: 0,
        }
    }

    /// Where a thread puts its intervals.
    pub fn thread(&self, number: usize) -> Option<Handed> {
        self.threads.get(number).cloned()
    }

    /// What has come in by `passed_ns` of the window. An interval is waited for until the next is
    /// over: a thread hands it on with its first transaction after it.
    pub fn by(&mut self, passed_ns: u64) -> Passed {
        let whole = (passed_ns / self.interval_ns).saturating_sub(1);
        let new = whole.saturating_sub(self.told);
        self.told += new;
        self.gather(new * self.interval_ns, self.told)
    }

    /// The rest, when the threads have ended.
    pub fn rest(&mut self, window_ns: u64) -> Passed {
        let covered = window_ns.saturating_sub(self.told * self.interval_ns);
        self.gather(covered, u64::MAX)
    }

    fn gather(&self, covered_ns: u64, before: u64) -> Passed {
        let mut sum = Passed {
            covered_ns,
            ..Passed::default()
        };
        let limit = before.saturating_mul(self.interval_ns);
        for handed in &self.threads {
            let ready: Vec<Interval> = {
                let mut waiting = handed.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.extract_if(.., |i| i.start_ns < limit).collect()
            };
            for interval in ready {
                sum.transactions += interval.transactions;
                sum.failures += interval.failures;
                sum.latency.add(&interval.latency());
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Latency;

    fn interval(number: u64, latency: u64) -> Interval {
        let mut packed = Latency::new();
        packed.record(latency);
        Interval {
            start_ns: number * 100,
            transactions: 1,
            failures: number,
            packed: packed.pack(),
        }
    }

    #[test]
    fn every_interval_is_told_once_and_with_the_time_that_it_covers() {
        let mut follower = Follower::new(2, 100);
        let threads: Vec<Handed> = (0..2).filter_map(|n| follower.thread(n)).collect();
        let put = |thread: usize, what: Interval| threads[thread].lock().unwrap().push(what);
        put(0, interval(0, 1_000));
        put(1, interval(0, 3_000));
        assert_eq!(
            follower.by(150),
            Passed::default(),
            "the first may be under way"
        );
        put(0, interval(1, 1_000));
        let first = follower.by(230);
        assert_eq!((first.covered_ns, first.transactions), (100, 2));
        assert_eq!(first.latency.longest() / 100, 30);
        // One that comes late is told with the next.
        put(1, interval(0, 9_000));
        put(0, interval(2, 1_000));
        let second = follower.by(399);
        assert_eq!((second.covered_ns, second.transactions), (100, 2));
        let rest = follower.rest(350);
        assert_eq!(
            (rest.covered_ns, rest.transactions, rest.failures),
            (150, 1, 2)
        );
    }
}
