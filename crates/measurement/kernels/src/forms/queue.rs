//! Queue-based locks of the literature, as yardsticks: ticket (Mellor-Crummey and Scott 1991, after
//! Reed and Kanodia) and MCS (the same paper).

use super::spinlock::increment;
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, Padded, many, relax};

/// Nobody.
const NONE: u32 = u32::MAX;

/// Who comes draws a number and waits until it is called.
#[derive(Default)]
pub(crate) struct Ticket {
    next: Padded<AtomicU32>,
    called: Padded<(AtomicU32, AtomicU64)>,
}

impl Kernel for Ticket {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let (called, word) = &*self.called;
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        if called.load(Ordering::Acquire) != mine {
            me.contended += 1;
            while called.load(Ordering::Acquire) != mine {
                relax();
            }
        }
        increment(word);
        called.store(mine.wrapping_add(1), Ordering::Release);
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        same(
            "the guarded word",
            self.called.1.load(Ordering::Relaxed),
            operations,
        )
    }
}

/// A thread's place in the queue.
struct Node {
    next: AtomicU32,
    waiting: AtomicBool,
}

/// Each waits on a line of its own, for the one before it.
pub(crate) struct Mcs {
    tail: Padded<AtomicU32>,
    nodes: Box<[Padded<Node>]>,
    word: Padded<AtomicU64>,
}

impl Mcs {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            tail: Padded(AtomicU32::new(NONE)),
            nodes: many(threads, || {
                Padded(Node {
                    next: AtomicU32::new(NONE),
                    waiting: AtomicBool::new(false),
                })
            }),
            word: Padded::default(),
        }
    }
}

impl Kernel for Mcs {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let mine = &self.nodes[me.slot];
        mine.next.store(NONE, Ordering::Relaxed);
        mine.waiting.store(true, Ordering::Relaxed);
        let before = self.tail.swap(me.slot as u32, Ordering::AcqRel);
        if before != NONE {
            me.contended += 1;
            let before = &self.nodes[before as usize];
            before.next.store(me.slot as u32, Ordering::Release);
            while mine.waiting.load(Ordering::Acquire) {
                relax();
            }
        }
        increment(&self.word);
        let alone = mine.next.load(Ordering::Acquire) == NONE
            && self
                .tail
                .compare_exchange(me.slot as u32, NONE, Ordering::Release, Ordering::Relaxed)
                .is_ok();
        if !alone {
            // Who comes has swapped the tail and is about to say so.
            let mut next = mine.next.load(Ordering::Acquire);
            while next == NONE {
                relax();
                next = mine.next.load(Ordering::Acquire);
            }
            self.nodes[next as usize]
                .waiting
                .store(false, Ordering::Release);
        }
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        same(
            "the guarded word",
            self.word.load(Ordering::Relaxed),
            operations,
        )
    }
}
