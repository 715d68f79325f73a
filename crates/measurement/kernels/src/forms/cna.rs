//! The compact NUMA-aware lock (Dice and Kogan, EuroSys 2019), a yardstick: MCS whose holder passes the lock
//! on to somebody of its own socket while there is one, and keeps those of others in a second queue.
//!
//! The lock itself is one word. Now and then, at random, who waits on another socket comes first.

use super::spinlock::increment;
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded, many, relax};

/// Nobody.
const NONE: u32 = u32::MAX;
/// What a waiter's `granted` says: not yet; yes, and there is no second queue; from here on, yes, and
/// the second queue's first is that many further.
const WAITS: u32 = 0;
const GRANTED: u32 = 1;
const QUEUE: u32 = 2;
/// The lock stays on its socket unless these bits of a random number are 0.
const STAYS: u64 = if cfg!(feature = "loom") { 1 } else { 0xFFFF };

/// A thread's place in a queue.
struct Node {
    next: AtomicU32,
    granted: AtomicU32,
    socket: AtomicU32,
    /// Of the second queue's first: its last.
    last: AtomicU32,
}

/// The queue's end, and the places.
pub(crate) struct Cna {
    tail: Padded<AtomicU32>,
    nodes: Box<[Padded<Node>]>,
    word: Padded<AtomicU64>,
}

impl Cna {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            tail: Padded(AtomicU32::new(NONE)),
            nodes: many(threads, || {
                Padded(Node {
                    next: AtomicU32::new(NONE),
                    granted: AtomicU32::new(WAITS),
                    socket: AtomicU32::new(NONE),
                    last: AtomicU32::new(NONE),
                })
            }),
            word: Padded::default(),
        }
    }

    fn node(&self, which: u32) -> &Node {
        &self.nodes[which as usize]
    }

    #[inline(always)]
    fn lock(&self, me: &mut Me) {
        let mine = &self.nodes[me.slot];
        mine.next.store(NONE, Ordering::Relaxed);
        mine.socket.store(NONE, Ordering::Relaxed);
        mine.granted.store(WAITS, Ordering::Relaxed);
        let before = self.tail.swap(me.slot as u32, Ordering::AcqRel);
        if before == NONE {
            mine.granted.store(GRANTED, Ordering::Relaxed);
            return;
        }
        me.contended += 1;
        mine.socket.store(me.socket, Ordering::Relaxed);
        self.node(before)
            .next
            .store(me.slot as u32, Ordering::Release);
        while mine.granted.load(Ordering::Acquire) == WAITS {
            relax();
        }
    }

    #[inline(always)]
    fn unlock(&self, me: &mut Me) {
        let mine = &self.nodes[me.slot];
        if mine.next.load(Ordering::Acquire) == NONE {
            if self.leave_alone(me.slot as u32, mine) {
                return;
            }
            // Who comes has swapped the tail and is about to say so.
            while mine.next.load(Ordering::Acquire) == NONE {
                relax();
            }
        }
        let stays = me.next() & STAYS != 0;
        if let Some(next) = stays.then(|| self.neighbour(mine, me.socket)).flatten() {
            // With the second queue, if there is one.
            let granted = mine.granted.load(Ordering::Relaxed);
            self.node(next).granted.store(granted, Ordering::Release);
            return;
        }
        let next = mine.next.load(Ordering::Relaxed);
        let granted = mine.granted.load(Ordering::Relaxed);
        if granted < QUEUE {
            self.node(next).granted.store(GRANTED, Ordering::Release);
            return;
        }
        // The second queue goes before the first.
        let first = self.node(granted - QUEUE);
        let last = self.node(first.last.load(Ordering::Relaxed));
        last.next.store(next, Ordering::Relaxed);
        first.granted.store(GRANTED, Ordering::Release);
    }

    /// Gives the lock up where nobody waits in the first queue: to the second queue, or to nobody.
    fn leave_alone(&self, slot: u32, mine: &Node) -> bool {
        let granted = mine.granted.load(Ordering::Relaxed);
        let becomes = match granted {
            GRANTED => NONE,
            queue => self.node(queue - QUEUE).last.load(Ordering::Relaxed),
        };
        let left = self
            .tail
            .compare_exchange(slot, becomes, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if left && granted >= QUEUE {
            let first = self.node(granted - QUEUE);
            first.granted.store(GRANTED, Ordering::Release);
        }
        left
    }

    /// The first waiter of this socket; those before it go to the end of the second queue. None if there is
    /// none, and nothing has moved.
    fn neighbour(&self, mine: &Node, socket: u32) -> Option<u32> {
        let first = mine.next.load(Ordering::Acquire);
        let is_here = |which: u32| self.node(which).socket.load(Ordering::Relaxed) == socket;
        if is_here(first) {
            return Some(first);
        }
        let mut last = first;
        let mut at = self.node(first).next.load(Ordering::Acquire);
        while at != NONE {
            if is_here(at) {
                match mine.granted.load(Ordering::Relaxed) {
                    GRANTED => mine.granted.store(first + QUEUE, Ordering::Relaxed),
                    queue => {
                        let end = self.node(queue - QUEUE).last.load(Ordering::Relaxed);
                        self.node(end).next.store(first, Ordering::Relaxed);
                    }
                }
                self.node(last).next.store(NONE, Ordering::Relaxed);
                let head = mine.granted.load(Ordering::Relaxed) - QUEUE;
                self.node(head).last.store(last, Ordering::Relaxed);
                return Some(at);
            }
            last = at;
            at = self.node(at).next.load(Ordering::Acquire);
        }
        None
    }
}

impl Kernel for Cna {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        self.lock(me);
        increment(&self.word);
        self.unlock(me);
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        same(
            "the guarded word",
            self.word.load(Ordering::Relaxed),
            operations,
        )
    }
}
