//! Pins, the clock hand, snapshots, and space in the WAL.

use super::Standing::{Proposed, Released, Yardstick};
use super::{ENTRY, Form, Of, on_arm64, on_power};
use crate::forms::buffers::Recent;
use crate::forms::content;
use crate::forms::lookup::Read;
use crate::forms::pin::{self, Pins, UnderSpinlock, UnpinBySubtraction};
use crate::forms::rebuilt::Rebuilt;
use crate::forms::snapshot::{self, Snapshots};
use crate::forms::victim::{self, ClockHand};
use crate::forms::wal::{self, Reservation};

/// The rest of a pin's entry.
const PIN: Form = Form {
    family: "pin",
    ..ENTRY
};
/// The rest of the clock hand's entry.
const CLOCK: Form = Form {
    family: "clock",
    ..ENTRY
};
/// The rest of a snapshot's entry.
const SNAPSHOT: Form = Form {
    family: "snapshot",
    ..ENTRY
};
/// The rest of the WAL's entry.
const RESERVATION: Form = Form {
    family: "wal",
    ..ENTRY
};

/// How a buffer is pinned.
pub(super) const PINS: &[Form] = &[
    Form {
        name: "header spinlock",
        operation: "Pin and unpin one buffer under its header's spinlock.",
        standing: Released("to 9.5"),
        make: Some(|_| Box::new(Pins::<UnderSpinlock>::new(1))),
        ..PIN
    },
    Form {
        name: "compare-and-swap",
        operation: "Pin and unpin one buffer, both by compare-and-swap.",
        standing: Released("9.6 to 18 (48354581a4)"),
        make: Some(|_| Box::new(Pins::<pin::ByCompareAndSwap>::new(1))),
        ..PIN
    },
    Form {
        name: "unpin by subtraction",
        operation: "Pin one buffer by compare-and-swap on 64 bits and unpin it by a subtraction.",
        standing: Released("19 (5310fac6e0)"),
        make: Some(|_| Box::new(Pins::<UnpinBySubtraction>::new(1))),
        ..PIN
    },
    Form {
        name: "spread",
        operation: "Pin and unpin one of 1024 buffers at random, by compare-and-swap.",
        standing: Released("9.6 to 18 (48354581a4)"),
        make: Some(|_| Box::new(Pins::<pin::ByCompareAndSwap>::new(1024))),
        ..PIN
    },
    Form {
        name: "content lock beside",
        operation: "Pin one buffer, lock its content in shared mode by an LWLock, and give both back: four atomics.",
        standing: Released("9.6 to 18"),
        make: Some(|threads| Box::new(content::Beside::new(threads))),
        ..PIN
    },
    Form {
        name: "content lock within",
        operation: "The same with the lock in the state of 64 bits; unlock and unpin are one subtraction: three atomics.",
        standing: Released("19 (fcb9c977aa)"),
        make: Some(|_| Box::new(content::Within::default())),
        ..PIN
    },
    Form {
        name: "recent",
        operation: "Pin a buffer whose number is remembered, its header locked meanwhile (ReadRecentBuffer), and unpin it by compare-and-swap; the session notes both.",
        standing: Released("14 to 18"),
        primitive: Some("buffer-hit:hot-block,-pin-alone"),
        make: Some(|_| Box::new(Recent::new())),
        ..PIN
    },
    Form {
        name: "looked up",
        operation: "Read a block that is in the buffers: its tag hashed, found in the table under the lock of its partition, pinned by compare-and-swap, noted and counted by the session (ReadBuffer), and released.",
        standing: Released("9.6 to 18"),
        primitive: Some("buffer-hit:hot-block"),
        make: Some(|threads| Box::new(Read::new(threads))),
        ..PIN
    },
    Form {
        name: "compare-and-swap, LL/SC",
        operation: "Pin and unpin one buffer, both by compare-and-swap made of exclusive load and store.",
        standing: Released("9.6 to 18, compiled for ARMv8.0"),
        of: Of::Arm64,
        make: on_arm64!(|_| Box::new(Pins::<pin::own::ByPairs>::new(1))),
        ..PIN
    },
    Form {
        name: "compare-and-swap, LSE",
        operation: "Pin and unpin one buffer, both by single atomics (CASAL).",
        standing: Released("9.6 to 18, compiled for ARMv8.1"),
        of: Of::Arm64Lse,
        make: on_arm64!(|_| Box::new(Pins::<pin::own::ByLse>::new(1))),
        ..PIN
    },
    Form {
        name: "within LL/SC",
        operation: "Pin one buffer, its use counted between exclusive load and store, and unpin it by a subtraction.",
        standing: Yardstick("what a pair can hold"),
        of: Of::Arm64,
        make: on_arm64!(|_| Box::new(Pins::<pin::own::WithinPair>::new(1))),
        ..PIN
    },
    Form {
        name: "compare-and-swap, lwarx",
        operation: "Pin and unpin one buffer, both by compare-and-swap made of reserving load and conditional store.",
        standing: Released("POWER, 9.6 to 18"),
        of: Of::Power,
        make: on_power!(|_| Box::new(Pins::<pin::own::ByPairs>::new(1))),
        ..PIN
    },
    Form {
        name: "within lwarx",
        operation: "Pin one buffer, its use counted between reserving load and conditional store, and unpin it by a subtraction.",
        standing: Yardstick("what a pair can hold"),
        of: Of::Power,
        make: on_power!(|_| Box::new(Pins::<pin::own::WithinPair>::new(1))),
        ..PIN
    },
];

/// How the clock hand moves.
pub(super) const CLOCKS: &[Form] = &[
    Form {
        name: "spinlock",
        operation: "Move the clock hand by one buffer under a spinlock.",
        standing: Yardstick("in 9.5 while it was developed (5d7962c6)"),
        make: Some(|threads| Box::new(ClockHand::new(threads, victim::Way::Spinlock))),
        ..CLOCK
    },
    Form {
        name: "fetch-and-add",
        operation: "Move the clock hand by one buffer by a fetch-and-add.",
        standing: Released("9.5 on (d72731a704)"),
        make: Some(|threads| Box::new(ClockHand::new(threads, victim::Way::FetchAdd))),
        ..CLOCK
    },
    Form {
        name: "with free list",
        operation: "Get a buffer to reuse: an allocation counted, a look at the list of free buffers, and the clock hand moved by a fetch-and-add.",
        standing: Released("9.5 to 18"),
        make: Some(|threads| {
            let way = victim::Way::GetBuffer { free_list: true };
            Box::new(ClockHand::new(threads, way))
        }),
        ..CLOCK
    },
    Form {
        name: "without free list",
        operation: "The same without a list of free buffers.",
        standing: Released("19 (2c78940527)"),
        make: Some(|threads| {
            let way = victim::Way::GetBuffer { free_list: false };
            Box::new(ClockHand::new(threads, way))
        }),
        ..CLOCK
    },
    Form {
        name: "batch of 64",
        operation: "Move the clock hand by 64 buffers at once, which are used up before the next.",
        standing: Proposed("Burd 2026"),
        make: Some(|threads| Box::new(ClockHand::new(threads, victim::Way::Batch(64)))),
        ..CLOCK
    },
];

/// How a snapshot is made.
pub(super) const SNAPSHOTS: &[Form] = &[
    Form {
        name: "scan",
        operation: "A snapshot of 256 backends from each one's own structure; one in ten operations ends a transaction.",
        standing: Released("to 13"),
        make: Some(|threads| Box::new(Snapshots::new(threads, snapshot::Way::Scan, 10))),
        ..SNAPSHOT
    },
    Form {
        name: "dense",
        operation: "A snapshot of 256 backends from a dense array of transaction ids; one in ten operations ends a transaction.",
        standing: Yardstick("14 on without the next"),
        make: Some(|threads| Box::new(Snapshots::new(threads, snapshot::Way::Dense, 10))),
        ..SNAPSHOT
    },
    Form {
        name: "rebuilt",
        operation: "A snapshot of the few sessions there are, of which none has a transaction, with what the session derives from it.",
        standing: Released("14 on, where nothing is reused"),
        primitive: Some("snapshot:rebuilt"),
        make: Some(|threads| Box::new(Rebuilt::new(threads))),
        ..SNAPSHOT
    },
    Form {
        name: "dense, reused",
        operation: "A snapshot from the dense array, taken as it was if nothing has ended since; one in ten operations ends a transaction.",
        standing: Released("14 on (dc7420c2c9, 623a9ba79b)"),
        make: Some(|threads| Box::new(Snapshots::new(threads, snapshot::Way::DenseReused, 10))),
        ..SNAPSHOT
    },
];

/// How space in the WAL is reserved.
pub(super) const WAL: &[Form] = &[
    Form {
        name: "spinlock, to 15",
        operation: "Reserve 96 bytes of WAL under insertpos_lck and copy them under an insertion lock; how far it is is cleared under the lock of its list.",
        standing: Released("9.4 to 15 (9a20a9b21b)"),
        make: Some(|threads| Box::new(Reservation::new(threads, wal::Way::ClearedUnderLock))),
        ..RESERVATION
    },
    Form {
        name: "spinlock",
        operation: "Reserve 96 bytes of WAL under insertpos_lck and copy them under an insertion lock; how far it is is cleared by a swap.",
        standing: Released("16 on (71e4cc6b8e)"),
        make: Some(|threads| Box::new(Reservation::new(threads, wal::Way::ClearedBySwap))),
        ..RESERVATION
    },
    Form {
        name: "fetch-and-add",
        operation: "Reserve 96 bytes of WAL by a fetch-and-add and copy them under an insertion lock.",
        standing: Proposed("lock-free reservation, pgsql-hackers"),
        make: Some(|threads| Box::new(Reservation::new(threads, wal::Way::FetchAdd))),
        ..RESERVATION
    },
];
