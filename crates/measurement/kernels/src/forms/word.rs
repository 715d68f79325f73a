//! One word that all threads change, and what it would cost if each had its own.

use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU64, Ordering, Padded, give_back, many};

/// One word, or one a thread, and how it is changed.
pub(crate) struct Word<C> {
    words: Box<[Padded<AtomicU64>]>,
    change: C,
}

impl<C: Fn(&AtomicU64, &mut Me)> Word<C> {
    pub(crate) fn shared(change: C) -> Self {
        Self {
            words: many(1, Padded::default),
            change,
        }
    }

    pub(crate) fn own(change: C, threads: usize) -> Self {
        Self {
            words: many(threads, Padded::default),
            change,
        }
    }
}

impl<C: Fn(&AtomicU64, &mut Me) + Send + Sync> Kernel for Word<C> {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        (self.change)(&self.words[me.slot % self.words.len()], me);
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        let sum: u64 = self.words.iter().map(|w| w.load(Ordering::Relaxed)).sum();
        same("the words' sum", sum, operations)
    }
}

/// Words of all threads on one line: each has its own, and no two threads share any.
pub(crate) struct FalselyShared {
    words: Padded<Box<[AtomicU64]>>,
}

impl FalselyShared {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            words: Padded(many(threads, AtomicU64::default)),
        }
    }
}

impl Kernel for FalselyShared {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        fetch_add(&self.words[me.slot], me);
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        let sum: u64 = self.words.iter().map(|w| w.load(Ordering::Relaxed)).sum();
        same("the words' sum", sum, operations)
    }
}

/// Two figures that must be the same.
pub(crate) fn same(what: &str, is: u64, must: u64) -> Result<(), String> {
    match is == must {
        true => Ok(()),
        false => Err(format!("{what} is {is} after {must} operations")),
    }
}

#[inline(always)]
pub(crate) fn fetch_add(word: &AtomicU64, _: &mut Me) {
    word.fetch_add(1, Ordering::SeqCst);
}

/// Takes what is there and gives back one more; not an addition as a whole, so a spare bit says that the
/// word is away.
#[inline(always)]
pub(crate) fn swap(word: &AtomicU64, me: &mut Me) {
    swap_by(word, me, |word, value| word.swap(value, Ordering::AcqRel));
}

#[inline(always)]
fn swap_by(word: &AtomicU64, me: &mut Me, swap: impl Fn(&AtomicU64, u64) -> u64) {
    const AWAY: u64 = 1 << 63;
    let mut met = 0;
    loop {
        let was = swap(word, AWAY);
        if was != AWAY {
            give_back!(word, was + 1);
            me.contended += met;
            return;
        }
        met = 1;
        crate::sync::relax();
    }
}

/// Reads, then compares and swaps, until it was not changed in between: what PostgreSQL does with the
/// state of a buffer or an LWLock.
#[inline(always)]
pub(crate) fn compare_and_swap(word: &AtomicU64, me: &mut Me) {
    compare_and_swap_by(word, me, |word, was, now| {
        word.compare_exchange(was, now, Ordering::SeqCst, Ordering::Relaxed)
            .map(drop)
    });
}

#[inline(always)]
fn compare_and_swap_by(
    word: &AtomicU64,
    me: &mut Me,
    compare_and_swap: impl Fn(&AtomicU64, u64, u64) -> Result<(), u64>,
) {
    let mut was = word.load(Ordering::Relaxed);
    let mut met = 0;
    while let Err(is) = compare_and_swap(word, was, was + 1) {
        was = is;
        met = 1;
        crate::sync::spin();
    }
    me.contended += met;
}

/// One word in which each thread sets a bit of its own, as locks of one bit are taken.
pub(crate) struct Bits<O> {
    word: Padded<AtomicU64>,
    threads: usize,
    or: O,
}

impl<O: Fn(&AtomicU64, u64) -> u64> Bits<O> {
    pub(crate) fn new(or: O, threads: usize) -> Self {
        Self {
            word: Padded::default(),
            threads,
            or,
        }
    }
}

/// Sets bits; what was there before, as LWLockWaitListLock and LockBufHdr ask.
#[inline(always)]
pub(crate) fn or(word: &AtomicU64, bits: u64) -> u64 {
    word.fetch_or(bits, Ordering::SeqCst)
}

impl<O: Fn(&AtomicU64, u64) -> u64 + Send + Sync> Kernel for Bits<O> {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let was = (self.or)(&self.word, 1 << (me.slot % 64));
        std::hint::black_box(was);
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        let bits = self.word.load(Ordering::Relaxed);
        let all = u64::MAX >> (64 - self.threads.min(64));
        match bits & !all == 0 && (bits != 0 || operations == 0) {
            true => Ok(()),
            false => Err(format!(
                "the bits of {} threads are {bits:#x}",
                self.threads
            )),
        }
    }
}

/// By this processor's own instructions.
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "powerpc64"),
    not(feature = "loom")
))]
pub(crate) mod own {
    use super::{AtomicU64, Me, compare_and_swap_by, swap_by};
    use pgassay_sys::exclusive;

    /// By a loop of exclusive load and store.
    #[inline(always)]
    pub(crate) fn fetch_add(word: &AtomicU64, _: &mut Me) {
        exclusive::add(word, 1);
    }

    #[inline(always)]
    pub(crate) fn compare_and_swap(word: &AtomicU64, me: &mut Me) {
        compare_and_swap_by(word, me, exclusive::compare_and_swap);
    }

    #[inline(always)]
    pub(crate) fn swap(word: &AtomicU64, me: &mut Me) {
        swap_by(word, me, exclusive::swap);
    }

    /// With the lighter barrier.
    #[cfg(target_arch = "powerpc64")]
    #[inline(always)]
    pub(crate) fn fetch_add_lightly(word: &AtomicU64, _: &mut Me) {
        exclusive::add_lightly(word, 1);
    }
}

/// By arm64's single atomics.
#[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
pub(crate) mod lse {
    use super::{AtomicU64, Me, compare_and_swap_by, swap_by};
    use pgassay_sys::exclusive::lse;

    #[inline(always)]
    pub(crate) fn fetch_add(word: &AtomicU64, _: &mut Me) {
        lse::add(word, 1);
    }

    /// Without asking what was there.
    #[inline(always)]
    pub(crate) fn add(word: &AtomicU64, _: &mut Me) {
        lse::add_only(word, 1);
    }

    #[inline(always)]
    pub(crate) fn compare_and_swap(word: &AtomicU64, me: &mut Me) {
        compare_and_swap_by(word, me, lse::compare_and_swap);
    }

    #[inline(always)]
    pub(crate) fn swap(word: &AtomicU64, me: &mut Me) {
        swap_by(word, me, lse::swap);
    }
}
