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

/// By a loop of exclusive load and store.
#[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
#[inline(always)]
pub(crate) fn fetch_add_exclusively(word: &AtomicU64, _: &mut Me) {
    pgassay_sys::exclusive::add(word, 1);
}

/// Takes what is there and gives back one more; not an addition as a whole, so a spare bit says that the
/// word is away.
#[inline(always)]
pub(crate) fn swap(word: &AtomicU64, me: &mut Me) {
    const AWAY: u64 = 1 << 63;
    let mut met = 0;
    loop {
        let was = word.swap(AWAY, Ordering::AcqRel);
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
    let mut was = word.load(Ordering::Relaxed);
    let mut met = 0;
    while let Err(is) = word.compare_exchange(was, was + 1, Ordering::SeqCst, Ordering::Relaxed) {
        was = is;
        met = 1;
        crate::sync::spin();
    }
    me.contended += met;
}
