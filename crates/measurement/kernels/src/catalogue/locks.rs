//! Spinlocks and LWLocks.

use super::Standing::{Proposed, Released, Yardstick};
use super::{ENTRY, Form, Of, on_arm64, on_power};
use crate::forms::biased::ReadBiased;
use crate::forms::cna::Cna;
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "powerpc64"),
    not(feature = "loom")
))]
use crate::forms::lwlock::counting;
use crate::forms::lwlock::{AtOnce, ByCompareAndSwap, ByFetchAdd, Held};
use crate::forms::lwlock_spin::HeldBySpinlock;
use crate::forms::queue::{Mcs, Ticket};
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "powerpc64"),
    not(feature = "loom")
))]
use crate::forms::spinlock::take;
use crate::forms::spinlock::{BySwap, Guarded, Retry};
use crate::forms::wait_list::{ByFutex, BySpinlock};

/// The rest of a spinlock's entry.
const SPINLOCK: Form = Form {
    family: "spinlock",
    ..ENTRY
};
/// The rest of an LWLock's entry.
const LWLOCK: Form = Form {
    family: "lwlock",
    ..ENTRY
};

/// How a spinlock is taken.
pub(super) const SPINLOCKS: &[Form] = &[
    Form {
        name: "test first",
        operation: "Acquire and release a spinlock; once taken it is read before it is tried again.",
        standing: Released("x86-64; arm64 from 18 (3d0b4b1068)"),
        primitive: Some("spinlock"),
        make: Some(|_| Box::new(Guarded::<BySwap>::new(Retry::TestFirst))),
        ..SPINLOCK
    },
    Form {
        name: "swap again",
        operation: "Acquire and release a spinlock; once taken it is tried again by the same swap.",
        standing: Released("arm64, 15 to 17 (ISB: a82a5eee31)"),
        make: Some(|_| Box::new(Guarded::<BySwap>::new(Retry::Swap))),
        ..SPINLOCK
    },
    Form {
        name: "no hint",
        operation: "Acquire and release a spinlock; once taken it is tried again by the same swap, with no PAUSE or ISB in between.",
        standing: Released("arm64 to 14"),
        make: Some(|_| Box::new(Guarded::<BySwap>::new(Retry::SwapNoHint))),
        ..SPINLOCK
    },
    Form {
        name: "ticket",
        operation: "Draw a number, wait until it is called, and call the next.",
        standing: Yardstick("Mellor-Crummey and Scott 1991"),
        make: Some(|_| Box::new(Ticket::default())),
        ..SPINLOCK
    },
    Form {
        name: "MCS",
        operation: "Queue, each waiting on a line of its own, and pass the lock on.",
        standing: Yardstick("Mellor-Crummey and Scott 1991"),
        make: Some(|threads| Box::new(Mcs::new(threads))),
        ..SPINLOCK
    },
    Form {
        name: "CNA",
        operation: "Queue as in MCS; the holder passes the lock on to somebody of its own socket, those of others wait in a second queue.",
        standing: Yardstick("compact NUMA-aware lock, Dice and Kogan 2019"),
        make: Some(|threads| Box::new(Cna::new(threads))),
        ..SPINLOCK
    },
    Form {
        name: "test first, LL/SC",
        operation: "Acquire and release a spinlock by exclusive load and store; once taken it is read before it is tried again.",
        standing: Released("arm64 from 18 (3d0b4b1068), compiled for ARMv8.0"),
        of: Of::Arm64,
        make: on_arm64!(|_| Box::new(Guarded::<take::ByPair>::new(Retry::TestFirst))),
        ..SPINLOCK
    },
    Form {
        name: "swap again, LL/SC",
        operation: "Acquire and release a spinlock by exclusive load and store; once taken it is tried again in the same way.",
        standing: Released("arm64, 15 to 17 (ISB: a82a5eee31), compiled for ARMv8.0"),
        of: Of::Arm64,
        make: on_arm64!(|_| Box::new(Guarded::<take::ByPair>::new(Retry::Swap))),
        ..SPINLOCK
    },
    Form {
        name: "test first, LSE",
        operation: "Acquire and release a spinlock by one swap (SWPA); once taken it is read before it is tried again.",
        standing: Released("arm64 from 18 (3d0b4b1068), compiled for ARMv8.1"),
        of: Of::Arm64Lse,
        make: on_arm64!(|_| Box::new(Guarded::<take::ByLse>::new(Retry::TestFirst))),
        ..SPINLOCK
    },
    Form {
        name: "swap again, LSE",
        operation: "Acquire and release a spinlock by one swap (SWPA); once taken it is tried again in the same way.",
        standing: Released("arm64, 15 to 17 (ISB: a82a5eee31), compiled for ARMv8.1"),
        of: Of::Arm64Lse,
        make: on_arm64!(|_| Box::new(Guarded::<take::ByLse>::new(Retry::Swap))),
        ..SPINLOCK
    },
    Form {
        name: "test first, lwarx",
        operation: "Acquire a spinlock by reserving load and conditional store with isync behind, and release it behind lwsync; once taken it is read before it is tried again.",
        standing: Released("POWER, where the assembler knew no hint"),
        of: Of::Power,
        make: on_power!(|_| Box::new(Guarded::<take::ByPair>::new(Retry::TestFirst))),
        ..SPINLOCK
    },
    Form {
        name: "test first, lwarx, hint",
        operation: "The same with the hint that the word is a lock (EH = 1), and lwsync behind.",
        standing: Released("POWER of 64 bits"),
        of: Of::Power,
        make: on_power!(|_| Box::new(Guarded::<take::ByHintedPair>::new(Retry::TestFirst))),
        ..SPINLOCK
    },
];

/// How an LWLock is counted.
pub(super) const LWLOCKS: &[Form] = &[
    Form {
        name: "shared, spinlock",
        operation: "Acquire and release an LWLock in shared mode, its counts guarded by a spinlock.",
        standing: Released("to 9.4"),
        make: Some(|_| Box::new(HeldBySpinlock::new(false))),
        ..LWLOCK
    },
    Form {
        name: "shared",
        operation: "Acquire and release an LWLock in shared mode, one word by compare-and-swap.",
        standing: Released("9.6 on (ab5194e6f6, 008608b9d5)"),
        primitive: Some("lwlock:shared"),
        make: Some(|threads| Box::new(Held::<ByCompareAndSwap, 0>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "shared, fetch-and-add",
        operation: "Acquire and release an LWLock in shared mode: the holder is added first, and taken back if the lock was held exclusively.",
        standing: Proposed("pgsql-hackers, several since 2017"),
        make: Some(|threads| Box::new(Held::<ByFetchAdd, 0>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "shared, read-biased",
        operation: "Acquire and release one of sixteen LWLocks in shared mode, each on a line of its own.",
        standing: Proposed("Zhou 2025"),
        make: Some(|threads| Box::new(ReadBiased::<0>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "10% exclusive, read-biased",
        operation: "The same; one time in ten all sixteen exclusively.",
        standing: Proposed("Zhou 2025"),
        make: Some(|threads| Box::new(ReadBiased::<10>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "exclusive, spinlock",
        operation: "Acquire and release an LWLock exclusively, its counts guarded by a spinlock.",
        standing: Released("to 9.4"),
        make: Some(|_| Box::new(HeldBySpinlock::new(true))),
        ..LWLOCK
    },
    Form {
        name: "exclusive",
        operation: "Acquire and release an LWLock exclusively; who does not get it sleeps.",
        standing: Released("9.6 on (ab5194e6f6, 008608b9d5)"),
        primitive: Some("lwlock:exclusive"),
        make: Some(|threads| Box::new(Held::<ByCompareAndSwap, 100>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "10% exclusive",
        operation: "Acquire and release an LWLock, one time in ten exclusively.",
        standing: Released("9.6 on (ab5194e6f6, 008608b9d5)"),
        make: Some(|threads| Box::new(Held::<ByCompareAndSwap, 10>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "exclusive, list by spinlock",
        operation: "Acquire and release an LWLock exclusively; a spinlock beside guards the list of those who wait.",
        standing: Released("9.5 (ab5194e6f6)"),
        make: Some(|threads| Box::new(Held::<ByCompareAndSwap, 100, BySpinlock>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "10% exclusive, list by spinlock",
        operation: "The same; nine times in ten in shared mode.",
        standing: Released("9.5 (ab5194e6f6)"),
        make: Some(|threads| Box::new(Held::<ByCompareAndSwap, 10, BySpinlock>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "exclusive, list by futex",
        operation: "Acquire and release an LWLock exclusively; a futex guards the list of those who wait, so that who wants to change it sleeps.",
        standing: Proposed("Okanovic 2026"),
        make: Some(|threads| Box::new(Held::<ByCompareAndSwap, 100, ByFutex>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "10% exclusive, list by futex",
        operation: "The same; nine times in ten in shared mode.",
        standing: Proposed("Okanovic 2026"),
        make: Some(|threads| Box::new(Held::<ByCompareAndSwap, 10, ByFutex>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "exclusive, one loop",
        operation: "Acquire and release an LWLock exclusively; one loop of compare-and-swap takes it or locks the list of those who wait.",
        standing: Proposed("Sokolov 2017"),
        make: Some(|threads| Box::new(Held::<AtOnce, 100>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "10% exclusive, one loop",
        operation: "The same; nine times in ten in shared mode.",
        standing: Proposed("Sokolov 2017"),
        make: Some(|threads| Box::new(Held::<AtOnce, 10>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "shared, LL/SC",
        operation: "Acquire and release an LWLock in shared mode, one word by compare-and-swap made of exclusive load and store.",
        standing: Released("9.6 on, compiled for ARMv8.0"),
        of: Of::Arm64,
        make: on_arm64!(|threads| Box::new(Held::<counting::ByPairs, 0>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "shared, LSE",
        operation: "Acquire and release an LWLock in shared mode, one word by single atomics (CASAL, LDADDAL).",
        standing: Released("9.6 on, compiled for ARMv8.1"),
        of: Of::Arm64Lse,
        make: on_arm64!(|threads| Box::new(Held::<counting::ByLse, 0>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "shared, within LL/SC",
        operation: "Acquire and release an LWLock in shared mode, decided between an exclusive load and its store.",
        standing: Proposed("Korotkov 2017, 2020"),
        of: Of::Arm64,
        make: on_arm64!(|threads| Box::new(Held::<counting::WithinPair, 0>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "exclusive, within LL/SC",
        operation: "Acquire and release an LWLock exclusively, decided between an exclusive load and its store.",
        standing: Proposed("Korotkov 2017, 2020"),
        of: Of::Arm64,
        make: on_arm64!(|threads| Box::new(Held::<counting::WithinPair, 100>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "shared, within lwarx",
        operation: "Acquire and release an LWLock in shared mode, decided between a reserving load and its store.",
        standing: Proposed("Korotkov 2017"),
        of: Of::Power,
        make: on_power!(|threads| Box::new(Held::<counting::WithinPair, 0>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "exclusive, within lwarx",
        operation: "Acquire and release an LWLock exclusively, decided between a reserving load and its store.",
        standing: Proposed("Korotkov 2017"),
        of: Of::Power,
        make: on_power!(|threads| Box::new(Held::<counting::WithinPair, 100>::new(threads))),
        ..LWLOCK
    },
    Form {
        name: "shared, lwarx",
        operation: "Acquire and release an LWLock in shared mode, one word by compare-and-swap made of reserving load and conditional store.",
        standing: Released("POWER, 9.6 on"),
        of: Of::Power,
        make: on_power!(|threads| Box::new(Held::<counting::ByPairs, 0>::new(threads))),
        ..LWLOCK
    },
];
