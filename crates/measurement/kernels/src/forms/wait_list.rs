//! What guards the list of those who wait for an LWLock: a spinlock of its own, a bit of the lock's state, a futex.

use super::spinlock::{Delay, Retry, Spinlock, place};
use crate::kernel::Me;
use crate::sync::{AtomicU32, Mutex, Ordering, relax};

/// A lock of the list.
pub(crate) trait ListLock: Send + Sync + 'static {
    /// Kept while the list is changed.
    type Held<'a>;

    /// The bit of the LWLock's state that says the list is being changed; none where this is a lock of its own.
    const BIT: u32;

    fn new() -> Self;

    /// Locks the list.
    fn lock(&self, state: &AtomicU32, me: &mut Me) -> Self::Held<'_>;
}

/// A bit of the state, waited for as for a spinlock (from 9.6: 008608b9d5).
pub(crate) struct InState;

impl ListLock for InState {
    type Held<'a> = ();

    const BIT: u32 = 1 << 28;

    fn new() -> Self {
        Self
    }

    fn lock(&self, state: &AtomicU32, me: &mut Me) {
        while state.fetch_or(Self::BIT, Ordering::SeqCst) & Self::BIT != 0 {
            let mut delay = Delay::new(place!("LWLockWaitListLock"));
            while state.load(Ordering::Relaxed) & Self::BIT != 0 {
                relax();
                delay.turn(me);
            }
            delay.finish(me);
        }
    }
}

/// A spinlock beside the state, on its line (9.5).
pub(crate) struct BySpinlock(Spinlock);

/// The spinlock is held.
pub(crate) struct SpinlockHeld<'a>(&'a Spinlock);

impl Drop for SpinlockHeld<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl ListLock for BySpinlock {
    type Held<'a> = SpinlockHeld<'a>;

    const BIT: u32 = 0;

    fn new() -> Self {
        Self(Spinlock::new(Retry::TestFirst))
    }

    fn lock(&self, _: &AtomicU32, me: &mut Me) -> SpinlockHeld<'_> {
        self.0.lock(me);
        SpinlockHeld(&self.0)
    }
}

/// A futex: who does not get it after some turns sleeps until it is given back. The standard library's lock,
/// which on Linux is one.
pub(crate) struct ByFutex(Mutex<()>);

/// The futex is held.
#[cfg(not(feature = "loom"))]
type FutexHeld<'a> = std::sync::MutexGuard<'a, ()>;
#[cfg(feature = "loom")]
type FutexHeld<'a> = loom::sync::MutexGuard<'a, ()>;

impl ListLock for ByFutex {
    type Held<'a> = FutexHeld<'a>;

    const BIT: u32 = 0;

    fn new() -> Self {
        Self(Mutex::new(()))
    }

    fn lock(&self, _: &AtomicU32, _: &mut Me) -> FutexHeld<'_> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }
}
