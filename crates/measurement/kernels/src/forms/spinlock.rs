//! Spinlocks: PostgreSQL's test-and-set with s_lock's back-off.

use std::marker::PhantomData;

use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU64, Ordering, Padded, SpinWord, give_back, relax, sleep_us, spin};

/// s_lock's limits of the turns before a sleep.
const FEWEST_SPINS: u32 = 10;
const MOST_SPINS: u32 = 1000;
/// And of the sleeps, in microseconds.
const SHORTEST_SLEEP: u64 = 1000;
const LONGEST_SLEEP: u64 = 1_000_000;
/// Sleeps after which a lock is taken for stuck (NUM_DELAYS).
const MOST_SLEEPS: u32 = 1000;

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

/// How a lock is taken: by which instructions.
pub(crate) trait Take: Send + Sync + 'static {
    /// Tries once; whether it was had.
    fn take(word: &SpinWord) -> bool;
}

/// By a swap, as the compiler makes it for this processor.
pub(crate) struct BySwap;

impl Take for BySwap {
    #[inline(always)]
    fn take(word: &SpinWord) -> bool {
        word.swap(1, Ordering::Acquire) == 0
    }
}

/// By this processor's own instructions.
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "powerpc64"),
    not(feature = "loom")
))]
pub(crate) mod take {
    use super::Take;
    use crate::sync::SpinWord;
    use pgassay_sys::exclusive;

    /// By an exclusive pair.
    pub(crate) struct ByPair;

    impl Take for ByPair {
        #[inline(always)]
        fn take(word: &SpinWord) -> bool {
            exclusive::take(word)
        }
    }

    /// By a reserving load that is said to be a lock's.
    #[cfg(target_arch = "powerpc64")]
    pub(crate) struct ByHintedPair;

    #[cfg(target_arch = "powerpc64")]
    impl Take for ByHintedPair {
        #[inline(always)]
        fn take(word: &SpinWord) -> bool {
            exclusive::take_hinted(word)
        }
    }

    /// By SWPA.
    #[cfg(target_arch = "aarch64")]
    pub(crate) struct ByLse;

    #[cfg(target_arch = "aarch64")]
    impl Take for ByLse {
        #[inline(always)]
        fn take(word: &SpinWord) -> bool {
            exclusive::lse::take(word)
        }
    }
}

/// A lock of one word.
#[derive(Debug)]
pub(crate) struct Spinlock<T = BySwap> {
    taken: SpinWord,
    retry: Retry,
    take: PhantomData<T>,
}

impl<T: Take> Spinlock<T> {
    pub(crate) fn new(retry: Retry) -> Self {
        Self {
            taken: SpinWord::new(0),
            retry,
            take: PhantomData,
        }
    }

    /// Acquires it.
    #[inline(always)]
    pub(crate) fn lock(&self, me: &mut Me) {
        if !self.try_lock() {
            me.contended += 1;
            self.wait(me);
        }
    }

    /// Tries once to acquire it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        T::take(&self.taken)
    }

    /// Releases it.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        give_back!(self.taken, 0);
    }

    #[cold]
    fn wait(&self, me: &mut Me) {
        let mut delay = Delay::new(place!("s_lock"));
        loop {
            match self.retry {
                Retry::SwapNoHint => spin(),
                Retry::Swap | Retry::TestFirst => relax(),
            }
            delay.turn(me);
            let looks_taken =
                self.retry == Retry::TestFirst && self.taken.load(Ordering::Relaxed) != 0;
            if !looks_taken && self.try_lock() {
                break;
            }
        }
        delay.finish(me);
    }
}

/// Where a thread waits, as is told if it does so too long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    pub(crate) function: &'static str,
}

/// The place where it stands.
macro_rules! place {
    ($function:literal) => {
        $crate::forms::spinlock::Place {
            file: file!(),
            line: line!(),
            function: $function,
        }
    };
}
pub(crate) use place;

/// The back-off of s_lock and of the lock of an LWLock's list (perform_spin_delay): turns, then a sleep of a
/// millisecond that grows by a random factor of 1 to 2.
#[derive(Debug)]
pub(crate) struct Delay {
    turns: u32,
    sleeps: u32,
    sleep: u64,
    place: Place,
}

impl Delay {
    #[inline(always)]
    pub(crate) fn new(place: Place) -> Self {
        Self {
            turns: 0,
            sleeps: 0,
            sleep: 0,
            place,
        }
    }

    /// One turn was in vain.
    #[inline(never)]
    pub(crate) fn turn(&mut self, me: &mut Me) {
        self.turns += 1;
        if self.turns < me.spins_per_delay {
            return;
        }
        self.sleeps += 1;
        let Place {
            file,
            line,
            function,
        } = self.place;
        assert!(
            self.sleeps <= MOST_SLEEPS,
            "{function}, {file}:{line}: the lock is stuck"
        );
        if self.sleep == 0 {
            self.sleep = SHORTEST_SLEEP;
        }
        sleep_us(self.sleep);
        me.sleeps += 1;
        self.sleep += (self.sleep as f64 * (me.next() >> 11) as f64 / (1u64 << 53) as f64) as u64;
        if self.sleep > LONGEST_SLEEP {
            self.sleep = SHORTEST_SLEEP;
        }
        self.turns = 0;
    }

    /// It was had: without a sleep, so the next sleep comes later; or after one, so it comes a little sooner.
    #[inline(never)]
    pub(crate) fn finish(&self, me: &mut Me) {
        if self.sleep == 0 {
            if me.spins_per_delay < MOST_SPINS {
                me.spins_per_delay = (me.spins_per_delay + 100).min(MOST_SPINS);
            }
        } else if me.spins_per_delay > FEWEST_SPINS {
            me.spins_per_delay = (me.spins_per_delay - 1).max(FEWEST_SPINS);
        }
    }
}

/// A spinlock acquired and released, a word on its line changed meanwhile.
pub(crate) struct Guarded<T = BySwap>(Padded<(Spinlock<T>, AtomicU64)>);

impl<T: Take> Guarded<T> {
    pub(crate) fn new(retry: Retry) -> Self {
        Self(Padded((Spinlock::new(retry), AtomicU64::new(0))))
    }
}

impl<T: Take> Kernel for Guarded<T> {
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
