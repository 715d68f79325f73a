//! The LWLock up to 9.4: its counts and its list guarded by a spinlock, so that a shared acquisition
//! takes the line exclusively four times: spinlock and counts, and the same to release.

use super::spinlock::{Retry, Spinlock, increment};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, AtomicU64, Condvar, Mutex, Ordering, Padded};

/// Counts under a spinlock.
struct Counts {
    spinlock: Spinlock,
    shared: AtomicU32,
    exclusive: AtomicU32,
    waiting: AtomicU32,
}

/// The lock acquired and released.
pub(crate) struct HeldBySpinlock {
    counts: Padded<Counts>,
    /// Those who wait, woken all at once when it is free.
    free: (Mutex<u64>, Condvar),
    word: Padded<AtomicU64>,
    exclusive: bool,
}

impl HeldBySpinlock {
    pub(crate) fn new(exclusive: bool) -> Self {
        Self {
            counts: Padded(Counts {
                spinlock: Spinlock::new(Retry::TestFirst),
                shared: AtomicU32::new(0),
                exclusive: AtomicU32::new(0),
                waiting: AtomicU32::new(0),
            }),
            free: (Mutex::new(0), Condvar::new()),
            word: Padded::default(),
            exclusive,
        }
    }

    fn releases(&self) -> u64 {
        *self.free.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn name(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline(never)]
    fn acquire(&self, me: &mut Me) {
        me.locks.hold_off();
        loop {
            self.counts.spinlock.lock(me);
            let held_exclusively = self.counts.exclusive.load(Ordering::Relaxed) != 0;
            let held = held_exclusively || self.counts.shared.load(Ordering::Relaxed) != 0;
            let free = if self.exclusive {
                !held
            } else {
                !held_exclusively
            };
            if free {
                let count = match self.exclusive {
                    true => &self.counts.exclusive,
                    false => &self.counts.shared,
                };
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                self.counts.spinlock.unlock();
                me.locks.note(self.name(), self.exclusive);
                return;
            }
            let waiting = &self.counts.waiting;
            waiting.store(waiting.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            // Releases that come after the spinlock is free again are not missed.
            let seen = self.releases();
            self.counts.spinlock.unlock();
            me.sleeps += 1;
            let mut releases = self.free.0.lock().unwrap_or_else(|p| p.into_inner());
            while *releases == seen {
                releases = self
                    .free
                    .1
                    .wait(releases)
                    .unwrap_or_else(|p| p.into_inner());
            }
        }
    }

    #[inline(never)]
    fn release(&self, me: &mut Me) {
        let exclusive = me.locks.forget(self.name());
        self.counts.spinlock.lock(me);
        let count = match exclusive {
            true => &self.counts.exclusive,
            false => &self.counts.shared,
        };
        let left = count.load(Ordering::Relaxed) - 1;
        count.store(left, Ordering::Relaxed);
        let wake = left == 0 && self.counts.waiting.load(Ordering::Relaxed) != 0;
        if wake {
            self.counts.waiting.store(0, Ordering::Relaxed);
            *self.free.0.lock().unwrap_or_else(|p| p.into_inner()) += 1;
        }
        self.counts.spinlock.unlock();
        if wake {
            self.free.1.notify_all();
        }
        me.locks.resume();
    }
}

impl Kernel for HeldBySpinlock {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        self.acquire(me);
        if self.exclusive {
            increment(&self.word);
        }
        self.release(me);
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        let counts = &self.counts;
        let held = counts.shared.load(Ordering::Relaxed) + counts.exclusive.load(Ordering::Relaxed);
        same("the count of holders", u64::from(held), 0)?;
        let must = if self.exclusive { operations } else { 0 };
        same("the guarded word", self.word.load(Ordering::Relaxed), must)
    }
}
