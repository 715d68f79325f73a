//! The LWLock since 9.6: one word whose count of shared holders and exclusive bit change by compare-and-swap
//! (ab5194e6f6, 9.5), and a wait list that a bit of the same word guards (008608b9d5).
//!
//! Who does not get it queues, tries once more, and sleeps until it is woken; it then tries again.

use super::spinlock::increment;
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{
    AtomicU8, AtomicU32, AtomicU64, Condvar, Mutex, Ordering, Padded, fence, many, relax,
};

/// Somebody waits.
const HAS_WAITERS: u32 = 1 << 30;
/// Who releases may wake; not while somebody who was woken has not yet tried.
const RELEASE_OK: u32 = 1 << 29;
/// The wait list is being changed.
const LIST_LOCKED: u32 = 1 << 28;
/// Held exclusively.
const EXCLUSIVE: u32 = 1 << 24;
/// One shared holder.
const SHARED: u32 = 1;
/// All that is held.
const HELD: u32 = EXCLUSIVE | (EXCLUSIVE - 1);
/// The end of a list.
const NONE: u32 = u32::MAX;

/// How it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// How shared holders are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// By compare-and-swap, as PostgreSQL does.
    CompareAndSwap,
    /// Proposed: added first, and taken back if the lock was held exclusively.
    FetchAdd,
    /// The same decision within an exclusive load and store (arm64).
    #[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
    ExclusivePair,
}

/// Where a thread waits.
#[derive(Debug)]
struct Waiter {
    next: AtomicU32,
    /// 0 not queued, 1 queued, 2 taken off the list and about to be woken.
    queued: AtomicU8,
    exclusive: AtomicU8,
    semaphore: (Mutex<u32>, Condvar),
}

impl Waiter {
    fn sleep(&self) {
        let mut count = self.semaphore.0.lock().unwrap_or_else(|p| p.into_inner());
        while *count == 0 {
            count = self
                .semaphore
                .1
                .wait(count)
                .unwrap_or_else(|p| p.into_inner());
        }
        *count -= 1;
    }

    fn wake(&self) {
        *self.semaphore.0.lock().unwrap_or_else(|p| p.into_inner()) += 1;
        self.semaphore.1.notify_one();
    }
}

/// The lock, its list, and the places of those who may wait.
pub(crate) struct LwLock {
    state: AtomicU32,
    head: AtomicU32,
    tail: AtomicU32,
    waiters: Box<[Padded<Waiter>]>,
    counting: Counting,
}

impl LwLock {
    pub(crate) fn new(threads: usize, counting: Counting) -> Self {
        Self {
            state: AtomicU32::new(RELEASE_OK),
            head: AtomicU32::new(NONE),
            tail: AtomicU32::new(NONE),
            waiters: many(threads, || {
                Padded(Waiter {
                    next: AtomicU32::new(NONE),
                    queued: AtomicU8::new(0),
                    exclusive: AtomicU8::new(0),
                    semaphore: (Mutex::new(0), Condvar::new()),
                })
            }),
            counting,
        }
    }

    /// One try; whether it was had.
    #[inline(always)]
    fn attempt(&self, mode: Mode) -> bool {
        let (blocked_by, adds) = match mode {
            Mode::Shared => (EXCLUSIVE, SHARED),
            Mode::Exclusive => (HELD, EXCLUSIVE),
        };
        if mode == Mode::Shared && self.counting != Counting::CompareAndSwap {
            return self.attempt_otherwise();
        }
        let mut was = self.state.load(Ordering::Relaxed);
        loop {
            let free = was & blocked_by == 0;
            // Also where it is taken: the swap is the barrier that orders the look.
            let wanted = if free { was + adds } else { was };
            match self
                .state
                .compare_exchange_weak(was, wanted, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return free,
                Err(is) => was = is,
            }
            crate::sync::spin();
        }
    }

    #[inline(always)]
    fn attempt_otherwise(&self) -> bool {
        #[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
        if self.counting == Counting::ExclusivePair {
            return pgassay_sys::exclusive::add_unless(&self.state, SHARED, EXCLUSIVE);
        }
        let was = self.state.fetch_add(SHARED, Ordering::SeqCst);
        if was & EXCLUSIVE == 0 {
            return true;
        }
        // Who came meanwhile in vain may have to be woken: as after any release.
        self.after_release(self.state.fetch_sub(SHARED, Ordering::SeqCst) - SHARED);
        false
    }

    /// Acquires it.
    #[inline(always)]
    pub(crate) fn acquire(&self, mode: Mode, me: &mut Me) {
        if !self.attempt(mode) {
            me.contended += 1;
            self.acquire_slowly(mode, me);
        }
    }

    #[cold]
    fn acquire_slowly(&self, mode: Mode, me: &mut Me) {
        loop {
            self.queue(mode, me.slot);
            // It may have been released before it was known that we wait.
            if self.attempt(mode) {
                self.dequeue(me.slot);
                return;
            }
            me.sleeps += 1;
            self.waiters[me.slot].sleep();
            self.waiters[me.slot].queued.store(0, Ordering::Relaxed);
            self.state.fetch_or(RELEASE_OK, Ordering::SeqCst);
            if self.attempt(mode) {
                return;
            }
        }
    }

    /// Releases it.
    #[inline(always)]
    pub(crate) fn release(&self, mode: Mode) {
        let held = match mode {
            Mode::Shared => SHARED,
            Mode::Exclusive => EXCLUSIVE,
        };
        let left = self.state.fetch_sub(held, Ordering::SeqCst) - held;
        self.after_release(left);
    }

    #[inline(always)]
    fn after_release(&self, left: u32) {
        let wake = HAS_WAITERS | RELEASE_OK;
        if left & wake == wake && left & HELD == 0 {
            self.wake_waiters();
        }
    }

    fn lock_list(&self) {
        while self.state.fetch_or(LIST_LOCKED, Ordering::SeqCst) & LIST_LOCKED != 0 {
            while self.state.load(Ordering::Relaxed) & LIST_LOCKED != 0 {
                relax();
            }
        }
    }

    fn unlock_list(&self) {
        self.state.fetch_and(!LIST_LOCKED, Ordering::SeqCst);
    }

    fn queue(&self, mode: Mode, slot: usize) {
        let mine = &self.waiters[slot];
        self.lock_list();
        self.state.fetch_or(HAS_WAITERS, Ordering::SeqCst);
        mine.queued.store(1, Ordering::Relaxed);
        mine.exclusive
            .store(u8::from(mode == Mode::Exclusive), Ordering::Relaxed);
        mine.next.store(NONE, Ordering::Relaxed);
        match self.tail.load(Ordering::Relaxed) {
            NONE => self.head.store(slot as u32, Ordering::Relaxed),
            last => self.waiters[last as usize]
                .next
                .store(slot as u32, Ordering::Relaxed),
        }
        self.tail.store(slot as u32, Ordering::Relaxed);
        self.unlock_list();
    }

    /// Leaves the list, or absorbs the wake-up that is already on its way.
    fn dequeue(&self, slot: usize) {
        let mine = &self.waiters[slot];
        self.lock_list();
        let on_the_list = mine.queued.load(Ordering::Relaxed) == 1;
        if on_the_list {
            self.unlink(slot as u32);
            mine.queued.store(0, Ordering::Relaxed);
            if self.head.load(Ordering::Relaxed) == NONE {
                self.state.fetch_and(!HAS_WAITERS, Ordering::SeqCst);
            }
        }
        self.unlock_list();
        if !on_the_list {
            // Who took us off expects that we try again; we have it already, so others may be woken.
            self.state.fetch_or(RELEASE_OK, Ordering::SeqCst);
            mine.sleep();
            mine.queued.store(0, Ordering::Relaxed);
        }
    }

    /// Takes one off the list, which the caller has locked.
    fn unlink(&self, slot: u32) {
        let next = self.waiters[slot as usize].next.load(Ordering::Relaxed);
        let mut at = self.head.load(Ordering::Relaxed);
        let mut before = NONE;
        while at != slot {
            before = at;
            at = self.waiters[at as usize].next.load(Ordering::Relaxed);
        }
        match before {
            NONE => self.head.store(next, Ordering::Relaxed),
            before => self.waiters[before as usize]
                .next
                .store(next, Ordering::Relaxed),
        }
        if next == NONE {
            self.tail.store(before, Ordering::Relaxed);
        }
    }

    /// Wakes the first waiter; if that one wants it shared, all others that do, too.
    #[cold]
    fn wake_waiters(&self) {
        self.lock_list();
        let mut woken = NONE;
        let mut last = NONE;
        let mut anybody_shared = false;
        let mut at = self.head.load(Ordering::Relaxed);
        while at != NONE {
            let waiter = &self.waiters[at as usize];
            let next = waiter.next.load(Ordering::Relaxed);
            let exclusive = waiter.exclusive.load(Ordering::Relaxed) != 0;
            if !(anybody_shared && exclusive) {
                self.unlink(at);
                waiter.queued.store(2, Ordering::Relaxed);
                waiter.next.store(NONE, Ordering::Relaxed);
                match last {
                    NONE => woken = at,
                    last => self.waiters[last as usize]
                        .next
                        .store(at, Ordering::Relaxed),
                }
                last = at;
                if exclusive {
                    break;
                }
                anybody_shared = true;
            }
            at = next;
        }
        // Until one of them has tried, nobody else need be woken.
        let clear = match self.head.load(Ordering::Relaxed) {
            NONE => HAS_WAITERS,
            _ => 0,
        } | match woken {
            NONE => 0,
            _ => RELEASE_OK,
        };
        let mut was = self.state.load(Ordering::Relaxed);
        while let Err(is) = self.state.compare_exchange_weak(
            was,
            was & !(clear | LIST_LOCKED),
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            was = is;
        }
        fence(Ordering::SeqCst);
        while woken != NONE {
            let waiter = &self.waiters[woken as usize];
            woken = waiter.next.load(Ordering::Relaxed);
            waiter.wake();
        }
    }
}

/// An LWLock acquired and released; exclusively, a word on another line is changed meanwhile.
pub(crate) struct Held {
    lock: Padded<LwLock>,
    word: Padded<AtomicU64>,
    /// Of a hundred operations so many are exclusive.
    exclusive_percent: usize,
    exclusive: Padded<AtomicU64>,
}

impl Held {
    pub(crate) fn new(threads: usize, counting: Counting, exclusive_percent: usize) -> Self {
        Self {
            lock: Padded(LwLock::new(threads, counting)),
            word: Padded::default(),
            exclusive_percent,
            exclusive: Padded::default(),
        }
    }
}

impl Kernel for Held {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let exclusively = match self.exclusive_percent {
            0 => false,
            100 => true,
            percent => me.below(100) < percent,
        };
        if exclusively {
            self.lock.acquire(Mode::Exclusive, me);
            increment(&self.word);
            self.lock.release(Mode::Exclusive);
            if self.exclusive_percent < 100 {
                self.exclusive.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            self.lock.acquire(Mode::Shared, me);
            self.lock.release(Mode::Shared);
        }
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        let state = self.lock.state.load(Ordering::Relaxed);
        if state & (HELD | HAS_WAITERS | LIST_LOCKED) != 0 {
            return Err(format!("the lock is left as {state:#x}"));
        }
        let must = match self.exclusive_percent {
            0 => 0,
            100 => operations,
            _ => self.exclusive.load(Ordering::Relaxed),
        };
        same("the guarded word", self.word.load(Ordering::Relaxed), must)
    }
}
