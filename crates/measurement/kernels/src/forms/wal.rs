//! Space in the WAL reserved.
//!
//! From 9.4 the position moves under the spinlock insertpos_lck, and the copy is made under one of eight
//! insertion locks (9a20a9b21b). That is so in 18, too. How far an insertion is stands beside its lock, and is
//! cleared as that is released: up to 15 under the lock of its list, from 16 by a swap (71e4cc6b8e).
//! Proposed: the position moves by a fetch-and-add.

use super::lwlock::{LwLock, Mode};
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

/// How space is reserved, and what is done with how far an insertion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Under a spinlock; cleared under the lock of the insertion lock's list.
    ClearedUnderLock,
    /// Under a spinlock; cleared by a swap.
    ClearedBySwap,
    /// By a fetch-and-add; cleared by a swap.
    FetchAdd,
}

/// A lock of those who insert, and how far its holder is.
struct Insertion {
    lock: LwLock,
    inserting_at: AtomicU64,
}

/// The position, the locks, and where the records go.
pub(crate) struct Reservation {
    position: Padded<(Spinlock, AtomicU64, AtomicU64)>,
    locks: Box<[Padded<Insertion>]>,
    buffers: Box<[Padded<Box<[AtomicU64]>>]>,
    way: Way,
}

impl Reservation {
    pub(crate) fn new(threads: usize, way: Way) -> Self {
        Self {
            position: Padded((
                Spinlock::new(Retry::TestFirst),
                AtomicU64::new(0),
                AtomicU64::new(0),
            )),
            locks: many(LOCKS, || {
                Padded(Insertion {
                    lock: LwLock::new(threads),
                    inserting_at: AtomicU64::new(0),
                })
            }),
            buffers: many(threads, || Padded(many(BUFFER, AtomicU64::default))),
            way,
        }
    }
}

impl Kernel for Reservation {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let Insertion { lock, inserting_at } = &*self.locks[me.slot % LOCKS];
        lock.acquire(Mode::Exclusive, me);
        let (spinlock, current, previous) = &*self.position;
        let at = if self.way == Way::FetchAdd {
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
        match self.way {
            Way::ClearedUnderLock => lock.release_and_clear(inserting_at, me),
            Way::ClearedBySwap | Way::FetchAdd => {
                inserting_at.swap(0, Ordering::SeqCst);
                lock.release(me);
            }
        }
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        let position = self.position.1.load(Ordering::Relaxed);
        same("the position in records", position / RECORD, operations)
    }
}
