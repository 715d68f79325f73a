//! A buffer pinned and unpinned.
//!
//! Up to 9.5 a spinlock in the buffer's header guards its count; from 9.6 the state is one word that
//! changes by compare-and-swap (48354581a4); in 19 it has 64 bits and an unpin is one subtraction
//! (5310fac6e0).

use super::spinlock::{Retry, Spinlock};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded, many, relax};

/// One pin in the state's lowest bits.
const ONE_PIN: u32 = 1;
/// One in the usage count, which begins here and ends at 5.
const ONE_USAGE: u32 = 1 << 18;
const USAGE: u32 = 0xF << 18;
const MOST_USAGE: u32 = 5 << 18;
/// The header is locked.
const LOCKED: u32 = 1 << 22;

/// How the state changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A spinlock around counts.
    HeaderSpinlock,
    /// Compare-and-swap for both.
    CompareAndSwap,
    /// Compare-and-swap to pin, a subtraction to unpin.
    UnpinBySubtraction,
}

struct Descriptor {
    spinlock: Spinlock,
    state: AtomicU32,
    wide: AtomicU64,
}

/// Some buffers, each descriptor on lines of its own.
pub(crate) struct Pins {
    buffers: Box<[Padded<Descriptor>]>,
    way: Way,
}

impl Pins {
    pub(crate) fn new(buffers: usize, way: Way) -> Self {
        Self {
            buffers: many(buffers, || {
                Padded(Descriptor {
                    spinlock: Spinlock::new(Retry::TestFirst),
                    state: AtomicU32::new(0),
                    wide: AtomicU64::new(0),
                })
            }),
            way,
        }
    }
}

/// The state with one pin more, and one more use up to the limit.
#[inline(always)]
fn pinned(state: u32) -> u32 {
    let more = if state & USAGE < MOST_USAGE {
        ONE_USAGE
    } else {
        0
    };
    state + ONE_PIN + more
}

impl Descriptor {
    #[inline(always)]
    fn under_spinlock(&self, me: &mut Me) {
        self.spinlock.lock(me);
        let state = self.state.load(Ordering::Relaxed);
        self.state.store(pinned(state), Ordering::Relaxed);
        self.spinlock.unlock();
        self.spinlock.lock(me);
        let state = self.state.load(Ordering::Relaxed);
        self.state.store(state - ONE_PIN, Ordering::Relaxed);
        self.spinlock.unlock();
    }

    #[inline(always)]
    fn by_compare_and_swap(&self, me: &mut Me) {
        let pin = self.change(pinned);
        let unpin = self.change(|state| state - ONE_PIN);
        me.contended += u64::from(pin || unpin);
    }

    /// Changes the state by compare-and-swap while its header is not locked; whether another thread
    /// changed it meanwhile.
    #[inline(always)]
    fn change(&self, to: impl Fn(u32) -> u32) -> bool {
        let mut met = false;
        let mut was = self.state.load(Ordering::Relaxed);
        loop {
            while was & LOCKED != 0 {
                relax();
                was = self.state.load(Ordering::Relaxed);
            }
            match self
                .state
                .compare_exchange(was, to(was), Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return met,
                Err(is) => was = is,
            }
            met = true;
        }
    }

    #[inline(always)]
    fn by_subtraction(&self, me: &mut Me) {
        let mut was = self.wide.load(Ordering::Relaxed);
        let mut met = 0;
        loop {
            let wanted = was & !u64::from(u32::MAX) | u64::from(pinned(was as u32));
            match self
                .wide
                .compare_exchange(was, wanted, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(is) => was = is,
            }
            met = 1;
        }
        self.wide.fetch_sub(u64::from(ONE_PIN), Ordering::SeqCst);
        me.contended += met;
    }
}

impl Kernel for Pins {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let which = match self.buffers.len() {
            1 => 0,
            several => me.below(several),
        };
        let buffer = &self.buffers[which];
        match self.way {
            Way::HeaderSpinlock => buffer.under_spinlock(me),
            Way::CompareAndSwap => buffer.by_compare_and_swap(me),
            Way::UnpinBySubtraction => buffer.by_subtraction(me),
        }
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        let pins = |b: &Padded<Descriptor>| {
            let narrow = b.state.load(Ordering::Relaxed) & (ONE_USAGE - 1);
            u64::from(narrow) + (b.wide.load(Ordering::Relaxed) & u64::from(ONE_USAGE - 1))
        };
        same(
            "the sum of pins left",
            self.buffers.iter().map(pins).sum(),
            0,
        )
    }
}
