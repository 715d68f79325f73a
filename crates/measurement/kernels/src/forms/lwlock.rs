//! The LWLock since 9.6: one word whose count of shared holders and exclusive bit change by compare-and-swap
//! (ab5194e6f6, 9.5), and a wait list that a bit of the same word guards (008608b9d5, 9.6) or another lock.
//!
//! Who does not get it queues, tries once more, and sleeps until it is woken; it then tries again.

use std::marker::PhantomData;

use super::spinlock::{Delay, increment, place};
use super::wait_list::{InState, ListLock};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::session::Probe;
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Condvar, Mutex, Ordering, Padded, fence, many};

/// Somebody waits.
const HAS_WAITERS: u32 = 1 << 30;
/// Who releases may wake; not while somebody who was woken has not yet tried.
const RELEASE_OK: u32 = 1 << 29;
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

/// How holders are counted.
pub(crate) trait Counting: Sized + Send + Sync + 'static {
    /// Whether one loop either takes the lock or locks the list of those who wait.
    const AT_ONCE: bool = false;

    /// One try to hold it; whether it was had.
    fn attempt<L: ListLock>(lock: &LwLock<Self, L>, mode: Mode, me: &mut Me) -> bool;

    /// Subtracts from the state; what is left.
    #[inline(always)]
    fn subtract(state: &AtomicU32, by: u32) -> u32 {
        state.fetch_sub(by, Ordering::SeqCst) - by
    }
}

/// What a mode can't be had beside, and what it adds.
#[inline(always)]
fn wants(mode: Mode) -> (u32, u32) {
    match mode {
        Mode::Shared => (EXCLUSIVE, SHARED),
        Mode::Exclusive => (HELD, EXCLUSIVE),
    }
}

/// LWLockAttemptLock: by a compare-and-swap, which gives what it found.
#[inline(always)]
fn attempt_by(
    state: &AtomicU32,
    mode: Mode,
    compare_and_swap: impl Fn(&AtomicU32, u32, u32) -> Result<(), u32>,
) -> bool {
    let (blocked_by, adds) = wants(mode);
    let mut was = state.load(Ordering::Relaxed);
    loop {
        let free = was & blocked_by == 0;
        // Also where it is taken: the swap is the barrier that orders the look.
        let wanted = if free { was + adds } else { was };
        match compare_and_swap(state, was, wanted) {
            Ok(()) => return free,
            Err(is) => was = is,
        }
        crate::sync::spin();
    }
}

/// By compare-and-swap, as PostgreSQL does and the compiler makes it.
pub(crate) struct ByCompareAndSwap;

impl Counting for ByCompareAndSwap {
    #[inline(always)]
    fn attempt<L: ListLock>(lock: &LwLock<Self, L>, mode: Mode, _: &mut Me) -> bool {
        attempt_by(&lock.state, mode, |state, was, now| {
            state
                .compare_exchange(was, now, Ordering::SeqCst, Ordering::Relaxed)
                .map(drop)
        })
    }
}

/// Proposed: one loop of compare-and-swap that takes the lock where it is free, and else locks the list. Who does
/// so has seen the lock taken, and need not try again.
pub(crate) struct AtOnce;

impl Counting for AtOnce {
    const AT_ONCE: bool = true;

    #[inline(always)]
    fn attempt<L: ListLock>(lock: &LwLock<Self, L>, mode: Mode, me: &mut Me) -> bool {
        let (blocked_by, adds) = wants(mode);
        let mut was = lock.state.load(Ordering::Relaxed);
        let mut delay: Option<Delay> = None;
        let had = loop {
            let free = was & blocked_by == 0;
            if !free && was & L::BIT != 0 {
                crate::sync::relax();
                delay
                    .get_or_insert_with(|| Delay::new(place!("LWLockAttemptLock")))
                    .turn(me);
                was = lock.state.load(Ordering::Relaxed);
                continue;
            }
            let wanted = if free {
                was + adds
            } else {
                was | L::BIT | HAS_WAITERS
            };
            match lock
                .state
                .compare_exchange(was, wanted, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break free,
                Err(is) => was = is,
            }
            crate::sync::spin();
        };
        if let Some(delay) = delay {
            delay.finish(me);
        }
        had
    }
}

/// Proposed: who wants to share is added first, and taken back if the lock was held exclusively.
pub(crate) struct ByFetchAdd;

impl Counting for ByFetchAdd {
    #[inline(always)]
    fn attempt<L: ListLock>(lock: &LwLock<Self, L>, mode: Mode, me: &mut Me) -> bool {
        if mode == Mode::Exclusive {
            return attempt_by(&lock.state, mode, |state, was, now| {
                state
                    .compare_exchange(was, now, Ordering::SeqCst, Ordering::Relaxed)
                    .map(drop)
            });
        }
        let was = lock.state.fetch_add(SHARED, Ordering::SeqCst);
        if was & EXCLUSIVE == 0 {
            return true;
        }
        // Who came meanwhile in vain may have to be woken: as after any release.
        lock.after_release(lock.state.fetch_sub(SHARED, Ordering::SeqCst) - SHARED, me);
        false
    }
}

/// By this processor's own instructions.
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "powerpc64"),
    not(feature = "loom")
))]
pub(crate) mod counting {
    use super::{AtomicU32, Counting, ListLock, LwLock, Me, Mode, attempt_by, wants};
    use pgassay_sys::exclusive;

    /// A compare-and-swap made of an exclusive pair.
    pub(crate) struct ByPairs;

    impl Counting for ByPairs {
        #[inline(always)]
        fn attempt<L: ListLock>(lock: &LwLock<Self, L>, mode: Mode, _: &mut Me) -> bool {
            attempt_by(&lock.state, mode, exclusive::compare_and_swap_32)
        }

        #[inline(always)]
        fn subtract(state: &AtomicU32, by: u32) -> u32 {
            exclusive::subtract_32(state, by) - by
        }
    }

    /// Proposed: decided between the exclusive load and its store.
    pub(crate) struct WithinPair;

    impl Counting for WithinPair {
        #[inline(always)]
        fn attempt<L: ListLock>(lock: &LwLock<Self, L>, mode: Mode, _: &mut Me) -> bool {
            let (blocked_by, adds) = wants(mode);
            exclusive::add_unless(&lock.state, adds, blocked_by)
        }

        #[inline(always)]
        fn subtract(state: &AtomicU32, by: u32) -> u32 {
            exclusive::subtract_32(state, by) - by
        }
    }

    /// CASAL and LDADDAL.
    #[cfg(target_arch = "aarch64")]
    pub(crate) struct ByLse;

    #[cfg(target_arch = "aarch64")]
    impl Counting for ByLse {
        #[inline(always)]
        fn attempt<L: ListLock>(lock: &LwLock<Self, L>, mode: Mode, _: &mut Me) -> bool {
            attempt_by(&lock.state, mode, exclusive::lse::compare_and_swap_32)
        }

        #[inline(always)]
        fn subtract(state: &AtomicU32, by: u32) -> u32 {
            exclusive::lse::subtract_32(state, by) - by
        }
    }
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
    /// PGSemaphoreLock.
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

    /// PGSemaphoreUnlock.
    fn wake(&self) {
        *self.semaphore.0.lock().unwrap_or_else(|p| p.into_inner()) += 1;
        self.semaphore.1.notify_one();
    }

    /// Until it is no longer queued; how often it was woken for something else, which its semaphore is owed.
    fn sleep_until_woken(&self) -> u32 {
        let mut for_others = 0;
        loop {
            self.sleep();
            if self.queued.load(Ordering::Acquire) == 0 {
                return for_others;
            }
            for_others += 1;
        }
    }
}

/// The lock, its list, and the places of those who may wait.
pub(crate) struct LwLock<C = ByCompareAndSwap, L = InState> {
    state: AtomicU32,
    list: L,
    head: AtomicU32,
    tail: AtomicU32,
    waiters: Box<[Padded<Waiter>]>,
    counting: PhantomData<C>,
}

impl<C: Counting, L: ListLock> LwLock<C, L> {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            state: AtomicU32::new(RELEASE_OK),
            list: L::new(),
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
            counting: PhantomData,
        }
    }

    /// Its name among those that a thread holds.
    fn name(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// LWLockAttemptLock. A call, as in the server.
    #[inline(never)]
    fn attempt(&self, mode: Mode, me: &mut Me) -> bool {
        C::attempt(self, mode, me)
    }

    /// That nobody holds it or waits.
    pub(super) fn free(&self) -> Result<(), String> {
        let state = self.state.load(Ordering::Relaxed);
        match state & (HELD | HAS_WAITERS | L::BIT) {
            0 => Ok(()),
            _ => Err(format!("the lock is left as {state:#x}")),
        }
    }

    /// Acquires it, and counts whether another thread had it.
    #[inline(always)]
    pub(crate) fn acquire(&self, mode: Mode, me: &mut Me) {
        let at_once = self.acquire_or_wait(mode, me);
        me.contended += u64::from(!at_once);
    }

    /// LWLockAcquire: it then stands in the session's notes; whether it was had at once. Who waits does so in
    /// the same function, as in the server, so that there is as much to keep across its calls.
    #[inline(never)]
    fn acquire_or_wait(&self, mode: Mode, me: &mut Me) -> bool {
        let mut at_once = true;
        let mut owed = 0;
        me.locks.hold_off();
        while !self.attempt(mode, me) {
            at_once = false;
            if C::AT_ONCE {
                const { assert!(!C::AT_ONCE || L::BIT != 0) };
                // The attempt, in vain, has locked the list by the state's bit.
                self.append(mode, me.slot);
                self.state.fetch_and(!L::BIT, Ordering::SeqCst);
            } else {
                self.queue(mode, me);
                // It may have been released before it was known that we wait.
                if self.attempt(mode, me) {
                    self.dequeue(me);
                    break;
                }
            }
            me.sleeps += 1;
            owed += self.waiters[me.slot].sleep_until_woken();
            self.state.fetch_or(RELEASE_OK, Ordering::SeqCst);
        }
        me.probes.pass(Probe::LockAcquired);
        me.locks.note(self.name(), mode == Mode::Exclusive);
        while owed > 0 {
            self.waiters[me.slot].wake();
            owed -= 1;
        }
        at_once
    }

    /// LWLockQueueSelf.
    #[cold]
    #[inline(never)]
    fn queue(&self, mode: Mode, me: &mut Me) {
        let list = self.list.lock(&self.state, me);
        self.state.fetch_or(HAS_WAITERS, Ordering::SeqCst);
        self.append(mode, me.slot);
        self.unlock_list(list);
    }

    /// LWLockReleaseClearVar of those who insert WAL, up to 15: what stands beside the lock is cleared under
    /// the lock of its list.
    #[inline(never)]
    pub(crate) fn release_and_clear(&self, beside: &AtomicU64, me: &mut Me) {
        let list = self.list.lock(&self.state, me);
        beside.store(0, Ordering::Relaxed);
        self.unlock_list(list);
        self.release(me);
    }

    /// LWLockRelease: in the mode in which it is held.
    #[inline(never)]
    pub(crate) fn release(&self, me: &mut Me) {
        let held = match me.locks.forget(self.name()) {
            false => SHARED,
            true => EXCLUSIVE,
        };
        let left = C::subtract(&self.state, held);
        me.probes.pass(Probe::LockReleased);
        self.after_release(left, me);
        me.locks.resume();
    }

    #[inline(always)]
    fn after_release(&self, left: u32, me: &mut Me) {
        let wake = HAS_WAITERS | RELEASE_OK;
        if left & wake == wake && left & HELD == 0 {
            self.wake_waiters(me);
        }
    }

    fn unlock_list(&self, list: L::Held<'_>) {
        if L::BIT != 0 {
            self.state.fetch_and(!L::BIT, Ordering::SeqCst);
        }
        drop(list);
    }

    /// Puts a waiter at the end of the list, which the caller has locked.
    fn append(&self, mode: Mode, slot: usize) {
        let mine = &self.waiters[slot];
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
    }

    /// LWLockDequeueSelf: leaves the list, or absorbs the wake-up that is already on its way.
    #[cold]
    #[inline(never)]
    fn dequeue(&self, me: &mut Me) {
        let mine = &self.waiters[me.slot];
        let list = self.list.lock(&self.state, me);
        let on_the_list = mine.queued.load(Ordering::Relaxed) == 1;
        if on_the_list {
            self.unlink(me.slot as u32);
            mine.queued.store(0, Ordering::Relaxed);
            if self.head.load(Ordering::Relaxed) == NONE {
                self.state.fetch_and(!HAS_WAITERS, Ordering::SeqCst);
            }
        }
        self.unlock_list(list);
        if !on_the_list {
            // Who took us off expects that we try again; we have it already, so others may be woken.
            self.state.fetch_or(RELEASE_OK, Ordering::SeqCst);
            for _ in 0..mine.sleep_until_woken() {
                mine.wake();
            }
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
    fn wake_waiters(&self, me: &mut Me) {
        let list = self.list.lock(&self.state, me);
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
            was & !(clear | L::BIT),
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            was = is;
        }
        drop(list);
        fence(Ordering::SeqCst);
        while woken != NONE {
            let waiter = &self.waiters[woken as usize];
            woken = waiter.next.load(Ordering::Relaxed);
            waiter.queued.store(0, Ordering::Release);
            waiter.wake();
        }
    }
}

/// An LWLock acquired and released, of a hundred times so many exclusively; then a word on another line is
/// changed meanwhile.
pub(crate) struct Held<C, const EXCLUSIVE_PERCENT: usize, L = InState> {
    lock: Padded<LwLock<C, L>>,
    word: Padded<AtomicU64>,
    exclusive: Padded<AtomicU64>,
}

impl<C: Counting, const EXCLUSIVE_PERCENT: usize, L: ListLock> Held<C, EXCLUSIVE_PERCENT, L> {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            lock: Padded(LwLock::new(threads)),
            word: Padded::default(),
            exclusive: Padded::default(),
        }
    }
}

impl<C: Counting, const EXCLUSIVE_PERCENT: usize, L: ListLock> Kernel
    for Held<C, EXCLUSIVE_PERCENT, L>
{
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let exclusively = match EXCLUSIVE_PERCENT {
            0 => false,
            100 => true,
            percent => me.below(100) < percent,
        };
        if exclusively {
            self.lock.acquire(Mode::Exclusive, me);
            increment(&self.word);
            self.lock.release(me);
            if EXCLUSIVE_PERCENT < 100 {
                self.exclusive.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            self.lock.acquire(Mode::Shared, me);
            self.lock.release(me);
        }
    }

    fn proof(&self, operations: u64) -> Result<(), String> {
        self.lock.free()?;
        let must = match EXCLUSIVE_PERCENT {
            0 => 0,
            100 => operations,
            _ => self.exclusive.load(Ordering::Relaxed),
        };
        same("the guarded word", self.word.load(Ordering::Relaxed), must)
    }
}
