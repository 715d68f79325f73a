//! A snapshot taken while another transaction ends now and then.
//!
//! Up to 13 each one walks over the connected backends' own structures, 12 bytes each, under ProcArrayLock
//! held shared; from 14 it reads a dense array of transaction ids (dc7420c2c9 and those before it), and
//! where nothing has ended since the last, the snapshot is taken as it was (623a9ba79b).

use super::lwlock::{LwLock, Mode};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded, many};

/// Connected backends.
pub(crate) const BACKENDS: usize = 256;

/// How a snapshot is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Scan,
    Dense,
    DenseReused,
}

/// What a backend shows of its transaction: in one place with what else it has (to 13).
#[derive(Default)]
#[repr(C)]
struct Shown {
    xid: AtomicU32,
    xmin: AtomicU32,
    flags: AtomicU32,
}

/// A thread's last snapshot.
#[derive(Default)]
struct Last {
    completed: AtomicU64,
    running: AtomicU64,
}

/// The array of backends, its lock, and what guards reuse.
pub(crate) struct Snapshots {
    lock: Padded<LwLock>,
    /// Which backends there are, as numbers into the structures.
    order: Box<[AtomicU32]>,
    shown: Box<[Shown]>,
    dense: Box<[AtomicU32]>,
    /// Transactions that have ended.
    completed: Padded<AtomicU64>,
    last: Box<[Padded<Last>]>,
    way: Way,
    /// Of so many operations one ends a transaction, which needs the lock exclusively.
    ends_one_in: usize,
}

impl Snapshots {
    pub(crate) fn new(threads: usize, way: Way, ends_one_in: usize) -> Self {
        let mut number = 0;
        let order = many(BACKENDS, || {
            number += 1;
            // Neighbours in the order are none in memory, as after hours of connections.
            AtomicU32::new((number * 37 % BACKENDS) as u32)
        });
        Self {
            lock: Padded(LwLock::new(threads)),
            order,
            shown: many(BACKENDS, Shown::default),
            dense: many(BACKENDS, AtomicU32::default),
            completed: Padded(AtomicU64::new(1)),
            last: many(threads, Padded::default),
            way,
            ends_one_in,
        }
    }

    #[inline(always)]
    fn running(&self) -> u64 {
        let mut running = 0;
        match self.way {
            Way::Scan => {
                for number in &self.order {
                    let backend = &self.shown[number.load(Ordering::Relaxed) as usize];
                    let skipped = backend.flags.load(Ordering::Relaxed) != 0;
                    let xid = backend.xid.load(Ordering::Relaxed);
                    running += u64::from(xid != 0 && !skipped);
                    running += u64::from(backend.xmin.load(Ordering::Relaxed)) << 32;
                }
            }
            Way::Dense | Way::DenseReused => {
                for xid in &self.dense {
                    running += u64::from(xid.load(Ordering::Relaxed) != 0);
                }
            }
        }
        running
    }

    #[inline(always)]
    fn take(&self, me: &mut Me) {
        self.lock.acquire(Mode::Shared, me);
        let last = &self.last[me.slot];
        let completed = self.completed.load(Ordering::Relaxed);
        if self.way != Way::DenseReused || last.completed.load(Ordering::Relaxed) != completed {
            last.running.store(self.running(), Ordering::Relaxed);
            last.completed.store(completed, Ordering::Relaxed);
        }
        self.lock.release(me);
    }

    #[inline(always)]
    fn end(&self, me: &mut Me) {
        self.lock.acquire(Mode::Exclusive, me);
        let mine = me.slot % BACKENDS;
        self.shown[mine].xid.store(0, Ordering::Relaxed);
        self.dense[mine].store(0, Ordering::Relaxed);
        let completed = self.completed.load(Ordering::Relaxed);
        self.completed.store(completed + 1, Ordering::Relaxed);
        self.lock.release(me);
    }
}

impl Kernel for Snapshots {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        match self.ends_one_in > 0 && me.below(self.ends_one_in) == 0 {
            true => self.end(me),
            false => self.take(me),
        }
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        let last = self.last.iter().map(|l| l.running.load(Ordering::Relaxed));
        same("transactions that seem to run", last.sum(), 0)
    }
}
