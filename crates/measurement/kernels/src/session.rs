//! What a session keeps to itself beside an operation: which locks it has, what it counts, who traces it.
//!
//! No other session sees any of it. It is a good part of what an operation executes while nobody else
//! wants the same.

/// As many LWLocks as a session holds at most (MAX_SIMUL_LWLOCKS).
const MOST_LOCKS: usize = 200;

/// What a session notes of the LWLocks that it holds, so that an error can release them; and that it is not
/// to be interrupted meanwhile.
#[derive(Debug)]
pub(crate) struct Locks {
    held: [(usize, bool); MOST_LOCKS],
    count: usize,
    interrupts_held_off: u32,
    interrupt_pending: bool,
}

impl Default for Locks {
    fn default() -> Self {
        Self {
            held: [(0, false); MOST_LOCKS],
            count: 0,
            interrupts_held_off: 0,
            interrupt_pending: false,
        }
    }
}

impl Locks {
    /// Before a lock is tried: nothing interrupts, and there is a place for it.
    #[inline(always)]
    pub(crate) fn hold_off(&mut self) {
        assert!(self.count < MOST_LOCKS, "too many LWLocks taken");
        self.interrupts_held_off += 1;
    }

    /// It is held, exclusively or not.
    #[inline(always)]
    pub(crate) fn note(&mut self, lock: usize, exclusive: bool) {
        self.held[self.count] = (lock, exclusive);
        self.count += 1;
    }

    /// It is to be released: looked for from the last on; whether it was held exclusively.
    #[inline(always)]
    pub(crate) fn forget(&mut self, lock: usize) -> bool {
        let held = &mut self.held[..self.count];
        let found = held.iter().rposition(|(held, _)| *held == lock);
        let at = found.expect("the lock is held");
        let exclusive = held[at].1;
        self.count -= 1;
        for later in at..self.count {
            self.held[later] = self.held[later + 1];
        }
        exclusive
    }

    /// After it was released: who was held off may interrupt.
    #[inline(always)]
    pub(crate) fn resume(&mut self) {
        self.interrupts_held_off -= 1;
        std::hint::black_box(self.interrupts_held_off == 0 && self.interrupt_pending);
    }
}

/// Where a session looks whether somebody traces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    LockAcquired,
    LockReleased,
    ReadStarts,
    ReadDone,
}

/// What the builds of distributions (`--enable-dtrace`) look at in each of these places: a tracer that attaches
/// counts itself there.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    tracers: [u16; 4],
    told: u64,
}

impl Probes {
    /// The place is passed.
    #[inline(always)]
    pub(crate) fn pass(&mut self, probe: Probe) {
        if self.tracers[probe as usize] != 0 {
            self.tell();
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&mut self) {
        self.told += 1;
    }
}

/// What a session counts of the blocks that it reads (pgBufferUsage, the relation's statistics, and the cost
/// that a vacuum is delayed by).
#[derive(Debug)]
pub(crate) struct Reads {
    pub(crate) hits: u64,
    pub(crate) page_hits: u64,
    pub(crate) of_relation: Option<OfRelation>,
    pub(crate) delayed: bool,
    pub(crate) cost: u64,
}

/// The relation's blocks.
#[derive(Debug, Default)]
pub(crate) struct OfRelation {
    pub(crate) read: u64,
    pub(crate) hit: u64,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            hits: 0,
            page_hits: 0,
            of_relation: Some(OfRelation::default()),
            delayed: false,
            cost: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_forgotten_in_any_order() {
        let mut locks = Locks::default();
        for (lock, exclusive) in [(8, false), (16, true), (24, false)] {
            locks.hold_off();
            locks.note(lock, exclusive);
        }
        assert!(!locks.forget(8) && locks.forget(16) && !locks.forget(24));
        (0..3).for_each(|_| locks.resume());
        assert_eq!((locks.count, locks.interrupts_held_off), (0, 0));
    }
}
