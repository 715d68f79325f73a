//! A buffer pinned and unpinned.
//!
//! Up to 9.5 a spinlock in the buffer's header guards its count; from 9.6 the state is one word that
//! changes by compare-and-swap (48354581a4); in 19 it has 64 bits and an unpin is one subtraction
//! (5310fac6e0).
//!
//! The word alone; with what a session notes beside it in [`super::buffers`].

use std::marker::PhantomData;

use super::spinlock::{Retry, Spinlock};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded, many, relax};

/// One pin in the state's lowest bits.
pub(super) const ONE_PIN: u32 = 1;
/// All of them.
pub(super) const PINS: u32 = ONE_USAGE - 1;
/// One in the usage count, which begins here and ends at 5.
pub(super) const ONE_USAGE: u32 = 1 << 18;
pub(super) const USAGE: u32 = 0xF << 18;
const MOST_USAGE: u32 = 5 << 18;
/// The buffer holds a block.
pub(super) const VALID: u32 = 1 << 24;
/// The header is locked.
pub(super) const LOCKED: u32 = 1 << 22;

/// How a buffer is pinned and unpinned.
pub(crate) trait Way: Send + Sync + 'static {
    fn operate(buffer: &Descriptor, me: &mut Me);
}

pub(crate) struct Descriptor {
    state: AtomicU32,
    wide: AtomicU64,
    spinlock: Spinlock,
}

/// Some buffers, each descriptor on lines of its own.
pub(crate) struct Pins<W> {
    buffers: Box<[Padded<Descriptor>]>,
    way: PhantomData<W>,
}

impl<W> Pins<W> {
    pub(crate) fn new(buffers: usize) -> Self {
        Self {
            buffers: many(buffers, || {
                Padded(Descriptor {
                    state: AtomicU32::new(VALID),
                    wide: AtomicU64::new(0),
                    spinlock: Spinlock::new(Retry::TestFirst),
                })
            }),
            way: PhantomData,
        }
    }
}

/// The state with one pin more, and one more use up to the limit.
#[inline(always)]
pub(super) fn pinned(state: u32) -> u32 {
    let more = if state & USAGE < MOST_USAGE {
        ONE_USAGE
    } else {
        0
    };
    state + ONE_PIN + more
}

/// A compare-and-swap of the state, as the compiler makes it.
#[inline(always)]
pub(super) fn compare_and_swap(state: &AtomicU32, was: u32, now: u32) -> Result<(), u32> {
    state
        .compare_exchange(was, now, Ordering::SeqCst, Ordering::Relaxed)
        .map(drop)
}

/// Changes the state by compare-and-swap while its header is not locked; whether another thread changed it
/// meanwhile.
#[inline(always)]
pub(super) fn change(
    state: &AtomicU32,
    to: impl Fn(u32) -> u32,
    compare_and_swap: impl Fn(&AtomicU32, u32, u32) -> Result<(), u32>,
) -> bool {
    let mut met = false;
    let mut was = state.load(Ordering::Relaxed);
    loop {
        while was & LOCKED != 0 {
            relax();
            was = state.load(Ordering::Relaxed);
        }
        match compare_and_swap(state, was, to(was)) {
            Ok(()) => return met,
            Err(is) => was = is,
        }
        met = true;
    }
}

#[inline(always)]
fn by(
    state: &AtomicU32,
    me: &mut Me,
    compare_and_swap: impl Fn(&AtomicU32, u32, u32) -> Result<(), u32> + Copy,
) {
    let pin = change(state, pinned, compare_and_swap);
    let unpin = change(state, |state| state - ONE_PIN, compare_and_swap);
    me.contended += u64::from(pin || unpin);
}

/// A spinlock around counts.
pub(crate) struct UnderSpinlock;

impl Way for UnderSpinlock {
    #[inline(always)]
    fn operate(buffer: &Descriptor, me: &mut Me) {
        let Descriptor {
            spinlock, state, ..
        } = buffer;
        spinlock.lock(me);
        let was = state.load(Ordering::Relaxed);
        state.store(pinned(was), Ordering::Relaxed);
        spinlock.unlock();
        spinlock.lock(me);
        let was = state.load(Ordering::Relaxed);
        state.store(was - ONE_PIN, Ordering::Relaxed);
        spinlock.unlock();
    }
}

/// Compare-and-swap for both.
pub(crate) struct ByCompareAndSwap;

impl Way for ByCompareAndSwap {
    #[inline(always)]
    fn operate(buffer: &Descriptor, me: &mut Me) {
        by(&buffer.state, me, compare_and_swap);
    }
}

/// Compare-and-swap to pin, a subtraction to unpin.
pub(crate) struct UnpinBySubtraction;

impl Way for UnpinBySubtraction {
    #[inline(always)]
    fn operate(buffer: &Descriptor, me: &mut Me) {
        let mut was = buffer.wide.load(Ordering::Relaxed);
        let mut met = 0;
        loop {
            let wanted = was & !u64::from(u32::MAX) | u64::from(pinned(was as u32));
            match buffer
                .wide
                .compare_exchange(was, wanted, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(is) => was = is,
            }
            met = 1;
        }
        buffer.wide.fetch_sub(u64::from(ONE_PIN), Ordering::SeqCst);
        me.contended += met;
    }
}

/// By this processor's own instructions.
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "powerpc64"),
    not(feature = "loom")
))]
pub(crate) mod own {
    use super::{Descriptor, LOCKED, MOST_USAGE, ONE_PIN, ONE_USAGE, USAGE, Way, by, relax};
    use crate::kernel::Me;
    use pgassay_sys::exclusive::{self, Pinning};

    const PINNING: Pinning = Pinning {
        pin: ONE_PIN,
        usage: ONE_USAGE,
        mask: USAGE,
        most: MOST_USAGE,
        locked: LOCKED,
    };

    /// Compare-and-swaps made of exclusive pairs.
    pub(crate) struct ByPairs;

    impl Way for ByPairs {
        #[inline(always)]
        fn operate(buffer: &Descriptor, me: &mut Me) {
            by(&buffer.state, me, exclusive::compare_and_swap_32);
        }
    }

    /// What is counted is decided within the pair; an unpin is a subtraction.
    pub(crate) struct WithinPair;

    impl Way for WithinPair {
        #[inline(always)]
        fn operate(buffer: &Descriptor, me: &mut Me) {
            while !exclusive::pin(&buffer.state, PINNING) {
                me.contended += 1;
                relax();
            }
            exclusive::subtract_32(&buffer.state, ONE_PIN);
        }
    }

    /// CASAL for both.
    #[cfg(target_arch = "aarch64")]
    pub(crate) struct ByLse;

    #[cfg(target_arch = "aarch64")]
    impl Way for ByLse {
        #[inline(always)]
        fn operate(buffer: &Descriptor, me: &mut Me) {
            by(&buffer.state, me, exclusive::lse::compare_and_swap_32);
        }
    }
}

impl<W: Way> Kernel for Pins<W> {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let which = match self.buffers.len() {
            1 => 0,
            several => me.below(several),
        };
        W::operate(&self.buffers[which], me);
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        let pins = |b: &Padded<Descriptor>| {
            let narrow = b.state.load(Ordering::Relaxed) & PINS;
            u64::from(narrow) + (b.wide.load(Ordering::Relaxed) & u64::from(PINS))
        };
        same(
            "the sum of pins left",
            self.buffers.iter().map(pins).sum(),
            0,
        )
    }
}
