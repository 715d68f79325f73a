//! A buffer pinned, its content locked in shared mode, and both given back: what each page of an index on
//! the way down takes.
//!
//! Up to 18 the content lock is an LWLock beside the state; in 19 it is in the state's 64 bits, and unlocking
//! and unpinning are one subtraction (fcb9c977aa).

use super::lwlock::{LwLock, Mode};
use super::pin::{ONE_PIN, PINS, change, compare_and_swap, pinned};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded};

/// One shared holder of the content lock, in the state of 64 bits.
const ONE_HOLDER: u64 = 1 << 32;
/// It is held exclusively.
const EXCLUSIVE: u64 = 1 << 56;

/// The state, and the lock beside it.
pub(crate) struct Beside(Padded<(AtomicU32, LwLock)>);

impl Beside {
    pub(crate) fn new(threads: usize) -> Self {
        Self(Padded((AtomicU32::new(0), LwLock::new(threads))))
    }
}

impl Kernel for Beside {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let (state, lock) = &*self.0;
        let pin = change(state, pinned, compare_and_swap);
        lock.acquire(Mode::Shared, me);
        lock.release(me);
        let unpin = change(state, |state| state - ONE_PIN, compare_and_swap);
        me.contended += u64::from(pin || unpin);
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        let (state, _) = &*self.0;
        let pins = state.load(Ordering::Relaxed) & PINS;
        same("the sum of pins left", u64::from(pins), 0)
    }
}

/// The lock in the state.
#[derive(Default)]
pub(crate) struct Within(Padded<AtomicU64>);

impl Within {
    /// Changes the state by compare-and-swap; whether another thread changed it meanwhile.
    #[inline(always)]
    fn change(&self, to: impl Fn(u64) -> u64) -> bool {
        let mut met = false;
        let mut was = self.0.load(Ordering::Relaxed);
        while let Err(is) =
            self.0
                .compare_exchange(was, to(was), Ordering::SeqCst, Ordering::Relaxed)
        {
            was = is;
            met = true;
        }
        met
    }
}

impl Kernel for Within {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let pin = self.change(|was| was & !u64::from(u32::MAX) | u64::from(pinned(was as u32)));
        me.locks.hold_off();
        // Nobody here wants it exclusively: the attempt always succeeds, but looks.
        let lock = self.change(|was| match was & EXCLUSIVE {
            0 => was + ONE_HOLDER,
            _ => was,
        });
        self.0
            .fetch_sub(ONE_HOLDER + u64::from(ONE_PIN), Ordering::SeqCst);
        me.locks.resume();
        me.contended += u64::from(pin || lock);
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        let state = self.0.load(Ordering::Relaxed);
        let held = state & (u64::from(PINS) | !(ONE_HOLDER - 1));
        same("what is held of the state", held, 0)
    }
}
