//! Spinlocks: PostgreSQL's test-and-set with s_lock's back-off.

use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU8, AtomicU64, Ordering, Padded, give_back, relax, sleep_us, spin};

/// s_lock's limits of the turns before a sleep.
const FEWEST_SPINS: u32 = 10;
const MOST_SPINS: u32 = 1000;
/// And of the sleeps, in microseconds.
const SHORTEST_SLEEP: u64 = 1000;
const LONGEST_SLEEP: u64 = 1_000_000;

/// How a lock that was found taken is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// By the same swap each time (arm64 to 17).
    Swap,
    /// It is read first, and swapped only if it is free (x86-64 always; arm64 from 18: 3d0b4b1068).
    TestFirst,
    /// By the same swap, without PAUSE or ISB between the turns (arm64 to 14; ISB came with a82a5eee31).
    SwapNoHint,
}

/// A lock of one byte.
#[derive(Debug)]
pub(crate) struct Spinlock {
    taken: AtomicU8,
    retry: Retry,
}

impl Spinlock {
    pub(crate) fn new(retry: Retry) -> Self {
        Self {
            taken: AtomicU8::new(0),
            retry,
        }
    }

    /// Acquires it.
    #[inline(always)]
    pub(crate) fn lock(&self, me: &mut Me) {
        if self.taken.swap(1, Ordering::Acquire) != 0 {
            me.contended += 1;
            self.wait(me);
        }
    }

    /// Tries once to acquire it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        self.taken.swap(1, Ordering::Acquire) == 0
    }

    /// Releases it.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        give_back!(self.taken, 0);
    }

    /// s_lock: turns, then a sleep of a millisecond that grows by a random factor of 1 to 2; whoever
    /// had it without a sleep waits longer next time, whoever slept waits a little less.
    #[cold]
    fn wait(&self, me: &mut Me) {
        let (mut turns, mut sleep) = (0, 0);
        loop {
            match self.retry {
                Retry::SwapNoHint => spin(),
                Retry::Swap | Retry::TestFirst => relax(),
            }
            turns += 1;
            if turns >= me.spins_per_delay {
                if sleep == 0 {
                    sleep = SHORTEST_SLEEP;
                }
                sleep_us(sleep);
                me.sleeps += 1;
                sleep += (sleep as f64 * (me.next() >> 11) as f64 / (1u64 << 53) as f64) as u64;
                if sleep > LONGEST_SLEEP {
                    sleep = SHORTEST_SLEEP;
                }
                turns = 0;
            }
            let looks_taken =
                self.retry == Retry::TestFirst && self.taken.load(Ordering::Relaxed) != 0;
            if !looks_taken && self.try_lock() {
                break;
            }
        }
        if sleep == 0 {
            me.spins_per_delay = (me.spins_per_delay + 100).min(MOST_SPINS);
        } else {
            me.spins_per_delay = (me.spins_per_delay - 1).max(FEWEST_SPINS);
        }
    }
}

/// A spinlock acquired and released, a word on its line changed meanwhile.
pub(crate) struct Guarded(Padded<(Spinlock, AtomicU64)>);

impl Guarded {
    pub(crate) fn new(retry: Retry) -> Self {
        Self(Padded((Spinlock::new(retry), AtomicU64::new(0))))
    }
}

impl Kernel for Guarded {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let (lock, word) = &self.0.0;
        lock.lock(me);
        increment(word);
        lock.unlock();
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        same(
            "the guarded word",
            self.0.1.load(Ordering::Relaxed),
            operations,
        )
    }
}

/// One more, not atomically: only what a lock guards may be changed so.
#[inline(always)]
pub(crate) fn increment(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
