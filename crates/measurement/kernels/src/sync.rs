//! The atomics that the forms stand on: the processor's, or loom's, which try every order.

#[cfg(not(feature = "loom"))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    sync::{Condvar, Mutex},
};

#[cfg(feature = "loom")]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    sync::{Condvar, Mutex},
};

/// A spinlock's word: a byte on x86-64, an int elsewhere (s_lock.h, `slock_t`).
#[cfg(target_arch = "x86_64")]
pub(crate) type SpinWord = AtomicU8;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type SpinWord = AtomicU32;

/// One turn of a loop that waits for another thread: PAUSE on x86-64, ISB on arm64.
#[inline(always)]
pub(crate) fn relax() {
    #[cfg(not(feature = "loom"))]
    std::hint::spin_loop();
    #[cfg(feature = "loom")]
    loom::thread::yield_now();
}

/// The same without the hint.
#[inline(always)]
pub(crate) fn spin() {
    #[cfg(feature = "loom")]
    loom::thread::yield_now();
}

/// The store that gives a word back which others take by swaps.
///
/// loom lets a plain store be ordered before a swap of another thread that did not read it, so that a loop
/// of swaps may never see it; to loom it is a swap, too.
macro_rules! give_back {
    ($word:expr, $value:expr) => {
        #[cfg(not(feature = "loom"))]
        $word.store($value, $crate::sync::Ordering::Release);
        #[cfg(feature = "loom")]
        $word.swap($value, $crate::sync::Ordering::Release);
    };
}
pub(crate) use give_back;

/// Sleeps as s_lock's back-off does.
pub(crate) fn sleep_us(us: u64) {
    #[cfg(not(feature = "loom"))]
    std::thread::sleep(std::time::Duration::from_micros(us));
    #[cfg(feature = "loom")]
    {
        let _ = us;
        loom::thread::yield_now();
    }
}

/// What stands alone on its cache lines: 128 bytes, as PostgreSQL pads (PG_CACHE_LINE_SIZE).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// As many of something as there are threads or entries.
pub(crate) fn many<T>(count: usize, mut make: impl FnMut() -> T) -> Box<[T]> {
    (0..count).map(|_| make()).collect()
}
