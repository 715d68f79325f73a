//! What a session keeps to itself beside an operation: which locks and pins it has.
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

/// Entries of a session's table of its pins that are searched one by one (REFCOUNT_ARRAY_ENTRIES).
const ENTRIES: usize = 8;
/// Pins that a resource owner notes in order (RESARRAY_MAX_ARRAY).
const OWNED: usize = 64;

/// A buffer, and how often the session has pinned it; 0 is none.
#[derive(Debug, Clone, Copy, Default)]
struct Pinned {
    buffer: u32,
    count: u32,
}

/// What a session notes of the buffers that it has pinned, so that each takes one pin of the shared count;
/// and what its resource owner notes, so that an error can unpin them (bufmgr.c, resowner.c).
#[derive(Debug)]
pub(crate) struct PinsHeld {
    table: [Pinned; ENTRIES],
    reserved: Option<usize>,
    owned: [u32; OWNED],
    owns: usize,
    hits: u64,
}

impl Default for PinsHeld {
    fn default() -> Self {
        Self {
            table: [Pinned::default(); ENTRIES],
            reserved: None,
            owned: [0; OWNED],
            owns: 0,
            hits: 0,
        }
    }
}

impl PinsHeld {
    /// Before a pin: there is room to note it.
    #[inline(never)]
    pub(crate) fn reserve(&mut self) {
        assert!(self.owns < OWNED, "too many buffers pinned");
        if self.reserved.is_none() {
            self.reserved = self.table.iter().position(|entry| entry.buffer == 0);
            assert!(self.reserved.is_some(), "too many buffers pinned");
        }
    }

    #[inline(never)]
    fn entry(&mut self, buffer: u32) -> Option<&mut Pinned> {
        self.table.iter_mut().find(|entry| entry.buffer == buffer)
    }

    /// How often the session has pinned a buffer.
    #[inline(always)]
    pub(crate) fn count(&mut self, buffer: u32) -> u32 {
        self.entry(buffer).map_or(0, |entry| entry.count)
    }

    /// The first pin of a buffer.
    #[inline(never)]
    pub(crate) fn note(&mut self, buffer: u32) {
        let free = self.reserved.take().expect("room was reserved");
        self.table[free] = Pinned { buffer, count: 1 };
        self.owned[self.owns] = buffer;
        self.owns += 1;
        self.hits += 1;
    }

    /// One pin fewer; whether it was the session's last of this buffer.
    #[inline(never)]
    pub(crate) fn forget(&mut self, buffer: u32) -> bool {
        let owned = &mut self.owned[..self.owns];
        let at = owned.iter().rposition(|owned| *owned == buffer);
        let at = at.expect("the buffer is pinned");
        owned[at] = owned[owned.len() - 1];
        self.owns -= 1;
        let entry = self.entry(buffer).expect("the buffer is pinned");
        entry.count -= 1;
        let last = entry.count == 0;
        if last {
            *entry = Pinned::default();
        }
        last
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

    #[test]
    fn the_last_pin_of_a_buffer_is_told() {
        let mut pins = PinsHeld::default();
        for buffer in 1..=ENTRIES as u32 {
            pins.reserve();
            pins.note(buffer);
        }
        assert_eq!((pins.count(3), pins.count(99)), (1, 0));
        assert!((1..=ENTRIES as u32).all(|buffer| pins.forget(buffer)));
        assert_eq!(pins.count(3), 0);
    }
}
