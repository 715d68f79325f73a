//! The clock hand that looks for a buffer to reuse.
//!
//! Up to 9.4 an LWLock guarded it; from 9.5 it is a fetch-and-add (d72731a704), and while that was developed
//! it was a spinlock (5d7962c6). Proposed: each backend takes a batch of 64 at a time (Burd 2026).

use super::spinlock::{Retry, Spinlock};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded, many};

/// Buffers under the hand: the figure is only where it starts again.
const BUFFERS: u64 = 16_384;

/// No buffer is free.
const NONE_FREE: u32 = u32::MAX;

/// How the hand moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Spinlock,
    FetchAdd,
    /// With all that StrategyGetBuffer does before: whether the background writer waits, an allocation
    /// counted; and up to 18 a look at the list of free buffers.
    GetBuffer {
        free_list: bool,
    },
    /// So many at once.
    Batch(u64),
}

/// A batch that a thread has taken: where it is, and where it ends.
#[derive(Default)]
struct Batch {
    at: AtomicU64,
    end: AtomicU64,
}

/// What lies beside the hand.
#[derive(Default)]
struct Beside {
    allocations: AtomicU32,
    first_free: AtomicU32,
    writer: AtomicU32,
}

/// The hand, and the batches of the threads.
pub(crate) struct ClockHand {
    hand: Padded<(Spinlock, AtomicU64, Beside)>,
    batches: Box<[Padded<Batch>]>,
    way: Way,
}

impl ClockHand {
    pub(crate) fn new(threads: usize, way: Way) -> Self {
        Self {
            hand: Padded((
                Spinlock::new(Retry::TestFirst),
                AtomicU64::new(0),
                Beside {
                    first_free: AtomicU32::new(NONE_FREE),
                    writer: AtomicU32::new(NONE_FREE),
                    ..Beside::default()
                },
            )),
            batches: many(threads, Padded::default),
            way,
        }
    }
}

impl Kernel for ClockHand {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let (spinlock, hand, beside) = &*self.hand;
        let victim = match self.way {
            Way::Spinlock => {
                spinlock.lock(me);
                let at = hand.load(Ordering::Relaxed);
                hand.store(at + 1, Ordering::Relaxed);
                spinlock.unlock();
                at
            }
            Way::FetchAdd => hand.fetch_add(1, Ordering::SeqCst),
            Way::GetBuffer { free_list } => {
                std::hint::black_box(beside.writer.load(Ordering::Relaxed));
                beside.allocations.fetch_add(1, Ordering::SeqCst);
                if free_list {
                    std::hint::black_box(beside.first_free.load(Ordering::Relaxed));
                }
                hand.fetch_add(1, Ordering::SeqCst)
            }
            Way::Batch(size) => {
                let Batch { at, end } = &*self.batches[me.slot];
                let mut mine = at.load(Ordering::Relaxed);
                if mine == end.load(Ordering::Relaxed) {
                    mine = hand.fetch_add(size, Ordering::SeqCst);
                    end.store(mine + size, Ordering::Relaxed);
                }
                at.store(mine + 1, Ordering::Relaxed);
                mine
            }
        };
        std::hint::black_box(victim % BUFFERS);
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        let unused: u64 = self
            .batches
            .iter()
            .map(|b| b.end.load(Ordering::Relaxed) - b.at.load(Ordering::Relaxed))
            .sum();
        let moved = self.hand.1.load(Ordering::Relaxed);
        same("the way of the hand", moved - unused, operations)
    }
}
