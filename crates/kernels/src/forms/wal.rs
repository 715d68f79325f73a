//! Space in the WAL reserved.
//!
//! From 9.4 the position moves under the spinlock insertpos_lck, and the copy is made under one of eight
//! insertion locks (9a20a9b21b). That is so in 18, too. Proposed: the position moves by a
//! fetch-and-add.

use super::lwlock::{Counting, LwLock, Mode};
use super::spinlock::{Retry, Spinlock};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU64, Ordering, Padded, many};

/// NUM_XLOGINSERT_LOCKS.
const LOCKS: usize = 8;
/// Bytes of a record, about those of pgbench's updates.
const RECORD: u64 = 96;
/// 64-bit words that it is copied in.
const WORDS: usize = RECORD as usize / 8;
/// Words of each thread's stretch of the WAL buffers.
const BUFFER: usize = 1024;

/// The position, the locks, and where the records go.
pub(crate) struct Reservation {
    position: Padded<(Spinlock, AtomicU64, AtomicU64)>,
    locks: Box<[Padded<LwLock>]>,
    buffers: Box<[Padded<Box<[AtomicU64]>>]>,
    by_fetch_add: bool,
}

impl Reservation {
    pub(crate) fn new(threads: usize, by_fetch_add: bool) -> Self {
        Self {
            position: Padded((
                Spinlock::new(Retry::TestFirst),
                AtomicU64::new(0),
                AtomicU64::new(0),
            )),
            locks: many(LOCKS, || {
                Padded(LwLock::new(threads, Counting::CompareAndSwap))
            }),
            buffers: many(threads, || Padded(many(BUFFER, AtomicU64::default))),
            by_fetch_add,
        }
    }
}

impl Kernel for Reservation {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let lock = &self.locks[me.slot % LOCKS];
        lock.acquire(Mode::Exclusive, me);
        let (spinlock, current, previous) = &*self.position;
        let at = if self.by_fetch_add {
            current.fetch_add(RECORD, Ordering::SeqCst)
        } else {
            spinlock.lock(me);
            let at = current.load(Ordering::Relaxed);
            current.store(at + RECORD, Ordering::Relaxed);
            previous.store(at, Ordering::Relaxed);
            spinlock.unlock();
            at
        };
        let buffer = &self.buffers[me.slot];
        let from = at as usize / 8;
        for word in 0..WORDS {
            buffer[(from + word) % BUFFER].store(at, Ordering::Relaxed);
        }
        lock.release(Mode::Exclusive);
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        let position = self.position.1.load(Ordering::Relaxed);
        same("the position in records", position / RECORD, operations)
    }
}
