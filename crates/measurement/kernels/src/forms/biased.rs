//! An LWLock for those who share it: sixteen on lines of their own. Who shares takes one of them, who
//! excludes takes all, in order (proposed as ReadBiasedLWLock, Zhou 2025).

use super::lwlock::{LwLock, Mode};
use super::spinlock::increment;
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU64, Ordering, Padded, many};

/// Lines.
const PARTS: usize = if cfg!(feature = "loom") { 2 } else { 16 };

/// The locks, the word that all together guard, and how often it was changed.
pub(crate) struct ReadBiased<const EXCLUSIVE_PERCENT: usize> {
    parts: Box<[Padded<LwLock>]>,
    word: Padded<AtomicU64>,
    exclusive: Padded<AtomicU64>,
}

impl<const EXCLUSIVE_PERCENT: usize> ReadBiased<EXCLUSIVE_PERCENT> {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            parts: many(PARTS, || Padded(LwLock::new(threads))),
            word: Padded::default(),
            exclusive: Padded::default(),
        }
    }
}

impl<const EXCLUSIVE_PERCENT: usize> Kernel for ReadBiased<EXCLUSIVE_PERCENT> {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        if EXCLUSIVE_PERCENT == 0 || me.below(100) >= EXCLUSIVE_PERCENT {
            let part = &self.parts[me.slot % PARTS];
            part.acquire(Mode::Shared, me);
            part.release(me);
            return;
        }
        for part in &self.parts {
            part.acquire(Mode::Exclusive, me);
        }
        increment(&self.word);
        self.exclusive.fetch_add(1, Ordering::Relaxed);
        for part in self.parts.iter().rev() {
            part.release(me);
        }
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        let must = self.exclusive.load(Ordering::Relaxed);
        same("the guarded word", self.word.load(Ordering::Relaxed), must)
    }
}
