//! Buffers pinned and unpinned with all that a session notes of them, as bufmgr.c does from 9.6 to 18.
//!
//! Who remembers in which buffer a block is (ReadRecentBuffer, from 14) locks the header by a bit of its
//! state, compares the tag, and pins as the lock is given back. Others find the buffer in a
//! [table](super::lookup), and pin it by compare-and-swap.

use super::pin::{LOCKED, ONE_PIN, ONE_USAGE, PINS, USAGE, VALID, compare_and_swap, pinned};
use super::spinlock::{Delay, place};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, Ordering, Padded, give_back, many, relax};

/// Somebody waits until nobody else has it pinned.
const WAITED_FOR: u32 = 1 << 29;

/// What a block is called: tablespace, database, relation, fork, number.
pub(super) type Tag = [u32; 5];

/// The block of that number of the one relation there is.
pub(super) fn tag(block: u32) -> Tag {
    [1663, 5, 16384, 0, block]
}

/// A buffer's header.
pub(super) struct Descriptor {
    tag: Tag,
    number: u32,
    state: AtomicU32,
}

/// The headers, each on lines of its own: the block of each number in the buffer of the next.
pub(super) struct Buffers(Box<[Padded<Descriptor>]>);

impl Buffers {
    pub(super) fn new(count: usize) -> Self {
        let mut number = 0;
        Self(many(count, || {
            number += 1;
            Padded(Descriptor {
                tag: tag(number - 1),
                number,
                state: AtomicU32::new(VALID),
            })
        }))
    }

    /// By its number, from 1.
    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> &Descriptor {
        &self.0[number as usize - 1]
    }

    /// ReleaseBuffer.
    #[inline(never)]
    pub(super) fn release(&self, number: u32, me: &mut Me) {
        assert!(number != 0, "no buffer is released");
        unpin(self.get(number), me);
    }

    /// ReadRecentBuffer: whether it still holds the block, and is pinned.
    #[inline(never)]
    fn pin_recent(&self, number: u32, tag: Tag, me: &mut Me) -> bool {
        me.pins.enlarge();
        me.pins.reserve();
        let buffer = self.get(number);
        if me.pins.count(number) > 0 {
            // Pinned already: it can't change, and no lock is needed to look.
            let as_wanted = buffer.state.load(Ordering::Relaxed) & VALID != 0 && buffer.tag == tag;
            return as_wanted && pin(buffer, false, me);
        }
        let state = lock_header(&buffer.state, me);
        if state & VALID == 0 || buffer.tag != tag {
            give_back!(buffer.state, state);
            return false;
        }
        // Whoever has it locked changes it alone: a store gives the lock back.
        give_back!(buffer.state, state + ONE_PIN);
        let place = me.pins.begin(number);
        me.pins.note(place, number);
        me.reads.hits += 1;
        true
    }

    /// That no pin is left.
    pub(super) fn proof(&self) -> Result<(), String> {
        let pins = |b: &Padded<Descriptor>| u64::from(b.state.load(Ordering::Relaxed) & PINS);
        same("the sum of pins left", self.0.iter().map(pins).sum(), 0)
    }
}

/// LockBufHdr: the state as it was. The spin delay is made ready and ended each time, as in the server.
#[inline(never)]
fn lock_header(state: &AtomicU32, me: &mut Me) -> u32 {
    let mut delay = Delay::new(place!("LockBufHdr"));
    let mut was = state.fetch_or(LOCKED, Ordering::SeqCst);
    if was & LOCKED != 0 {
        me.contended += 1;
        while was & LOCKED != 0 {
            relax();
            delay.turn(me);
            was = state.fetch_or(LOCKED, Ordering::SeqCst);
        }
    }
    delay.finish(me);
    was
}

/// WaitBufHdrUnlocked.
#[cold]
#[inline(never)]
fn wait_unlocked(state: &AtomicU32, me: &mut Me) -> u32 {
    let mut delay = Delay::new(place!("WaitBufHdrUnlocked"));
    let mut was = state.load(Ordering::Relaxed);
    while was & LOCKED != 0 {
        relax();
        delay.turn(me);
        was = state.load(Ordering::Relaxed);
    }
    delay.finish(me);
    was
}

/// The state replaced by what becomes of it, by compare-and-swap once nobody has it locked: the new one.
#[inline(always)]
fn replace(state: &AtomicU32, me: &mut Me, becomes: impl Fn(u32) -> u32) -> u32 {
    let mut was = state.load(Ordering::Relaxed);
    let mut met = false;
    let now = loop {
        if was & LOCKED != 0 {
            was = wait_unlocked(state, me);
        }
        let now = becomes(was);
        match compare_and_swap(state, was, now) {
            Ok(()) => break now,
            Err(is) => was = is,
        }
        met = true;
    };
    if met {
        me.contended += 1;
    }
    now
}

/// UnpinBuffer: with the session's notes, and the last pin in the shared state.
#[inline(never)]
fn unpin(buffer: &Descriptor, me: &mut Me) {
    let Some(place) = me.pins.release(buffer.number) else {
        return;
    };
    let now = replace(&buffer.state, me, |was| was - ONE_PIN);
    if now & WAITED_FOR != 0 {
        wake_waiter(buffer, me);
    }
    me.pins.forget(place);
}

/// Who waits to be the only one with a pin (LockBufferForCleanup) is told; here nobody does.
#[cold]
#[inline(never)]
fn wake_waiter(buffer: &Descriptor, me: &mut Me) {
    let state = lock_header(&buffer.state, me);
    let now = match state & PINS == ONE_PIN {
        true => state & !WAITED_FOR,
        false => state,
    };
    give_back!(buffer.state, now);
}

/// PinBuffer: with the session's notes; whether it holds a block. Of a ring of buffers the use counts once.
#[inline(never)]
pub(super) fn pin(buffer: &Descriptor, of_ring: bool, me: &mut Me) -> bool {
    if me.pins.note_again(buffer.number) {
        return true;
    }
    me.pins.reserve();
    let place = me.pins.begin(buffer.number);
    let now = replace(&buffer.state, me, |was| match of_ring {
        false => pinned(was),
        true if was & USAGE == 0 => was + ONE_PIN + ONE_USAGE,
        true => was + ONE_PIN,
    });
    me.pins.note(place, buffer.number);
    now & VALID != 0
}

/// One buffer whose number is remembered.
pub(crate) struct Recent(Buffers);

impl Recent {
    pub(crate) fn new() -> Self {
        Self(Buffers::new(1))
    }
}

impl Kernel for Recent {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        if self.0.pin_recent(1, tag(0), me) {
            self.0.release(1, me);
        }
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        self.0.proof()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_holds_another_block_is_not_pinned() {
        let buffers = Buffers::new(2);
        let mut me = Me::new(0, 1);
        assert!(!buffers.pin_recent(1, tag(1), &mut me));
        buffers.proof().unwrap();
        assert!(buffers.pin_recent(2, tag(1), &mut me) && buffers.pin_recent(2, tag(1), &mut me));
        // The session's second pin is its own business.
        assert_eq!(buffers.get(2).state.load(Ordering::Relaxed) & PINS, 1);
        buffers.release(2, &mut me);
        assert!(buffers.proof().is_err());
        buffers.release(2, &mut me);
        buffers.proof().unwrap();
    }
}
