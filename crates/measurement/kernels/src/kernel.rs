//! What a kernel is: one operation on shared memory, done again and again by several threads.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::pinned::PinsHeld;
use crate::session::{Locks, Probes, Reads};

/// One operation, and what must hold after many of them.
pub trait Kernel: Send + Sync {
    /// Does the operation once. `me` is the calling thread, and counts what it met.
    fn operate(&self, me: &mut Me);

    /// Does it until `over`, with `think` turns of private arithmetic after each; how often.
    fn repeat(&self, me: &mut Me, over: &AtomicBool, think: u32) -> u64 {
        let mut operations = 0;
        while !over.load(Ordering::Relaxed) {
            self.operate(me);
            me.think(think);
            operations += 1;
        }
        operations
    }

    /// Does it so often. A loop of the form's own, as [`Self::repeat`] is, so that it is counted as it is
    /// measured; how often is hidden from the compiler, so that no loop is unrolled and another not.
    fn times(&self, me: &mut Me, operations: u64) {
        let mut left = operations;
        while std::hint::black_box(left) > 0 {
            self.operate(me);
            left -= 1;
        }
    }

    /// Checks, after all threads have ended, that `operations` operations left what they must.
    ///
    /// # Errors
    /// What does not hold; the form is then wrong.
    fn proof(&self, operations: u64) -> Result<(), String>;
}

/// A thread of a kernel: its number, its random numbers, and what it met.
#[derive(Debug)]
pub struct Me {
    /// Its number, from 0.
    pub slot: usize,
    /// The socket that it runs on, where that is known.
    pub socket: u32,
    /// Operations that met another thread: a lock that was taken, a compare-and-swap that failed.
    pub contended: u64,
    /// Sleeps in a spinlock's back-off, or for a lock.
    pub sleeps: u64,
    /// Turns that a spinlock waits before it sleeps; adapts as s_lock's does.
    pub(crate) spins_per_delay: u32,
    /// The LWLocks that it holds.
    pub(crate) locks: Locks,
    /// The pins.
    pub(crate) pins: PinsHeld,
    /// The blocks that it has read.
    pub(crate) reads: Reads,
    /// Whether somebody traces it.
    pub(crate) probes: Probes,
    random: u64,
    sink: u64,
}

impl Me {
    /// The thread of that number.
    pub fn new(slot: usize, seed: u64) -> Self {
        let mut me = Self {
            slot,
            socket: 0,
            contended: 0,
            sleeps: 0,
            spins_per_delay: 100,
            locks: Locks::default(),
            pins: PinsHeld::default(),
            reads: Reads::default(),
            probes: Probes::default(),
            random: seed ^ (slot as u64 + 1).wrapping_mul(0xD134_2543_DE82_EF95),
            sink: 0,
        };
        me.next();
        me
    }

    /// A random number: a Weyl sequence through SplitMix64's finalizer (Steele, Lea, Flood 2014).
    pub(crate) fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random number below `bound`, by the high half of a product.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }

    /// Dependent multiplications, one a turn: about 3 to 5 cycles each, and no memory.
    #[inline(always)]
    pub(crate) fn think(&mut self, turns: u32) {
        for _ in 0..turns {
            self.sink = std::hint::black_box(self.sink.wrapping_mul(0x5851_F42D_4C95_7F2D) | 1);
        }
    }
}
