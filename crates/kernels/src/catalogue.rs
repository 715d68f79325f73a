//! The forms there are, as data.

use crate::forms::lwlock::{Counting, Held};
use crate::forms::lwlock_spin::HeldBySpinlock;
use crate::forms::pin::{self, Pins};
use crate::forms::queue::{Mcs, Ticket};
use crate::forms::snapshot::{self, Snapshots};
use crate::forms::spinlock::{Guarded, Retry};
use crate::forms::victim::{self, ClockHand};
use crate::forms::wal::Reservation;
use crate::forms::word::{FalselyShared, Word, compare_and_swap, fetch_add, swap};
use crate::kernel::Kernel;

/// Whose form it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// PostgreSQL's, in these releases.
    Released(&'static str),
    /// Proposed to PostgreSQL, by whom and when; written anew from the description.
    Proposed(&'static str),
    /// A yardstick, from where.
    Yardstick(&'static str),
}

/// One way of doing one thing.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// What is done: `spinlock`.
    pub family: &'static str,
    /// In which way: `test first`.
    pub name: &'static str,
    /// What an operation is, one sentence.
    pub operation: &'static str,
    /// Whose it is.
    pub standing: Standing,
    /// The primitive inside the server that does the same, as `run` and `compare` name it.
    pub primitive: Option<&'static str>,
    /// Makes it for so many threads.
    pub make: fn(usize) -> Box<dyn Kernel>,
}

use Standing::{Proposed, Released, Yardstick};

/// All forms that this processor has, by family.
pub const FORMS: &[Form] = &[
    Form {
        family: "word",
        name: "own",
        operation: "Add to a word of one's own on a line of one's own: what an atomic costs by itself.",
        standing: Yardstick("no sharing"),
        primitive: None,
        make: |threads| Box::new(Word::own(fetch_add, threads)),
    },
    Form {
        family: "word",
        name: "one line",
        operation: "Add to a word of one's own on a line that all threads' words share: false sharing.",
        standing: Yardstick("false sharing"),
        primitive: None,
        make: |threads| Box::new(FalselyShared::new(threads)),
    },
    Form {
        family: "word",
        name: "fetch-and-add",
        operation: "Add to the word that all threads share (LOCK XADD, LDADD).",
        standing: Released("9.5 on"),
        primitive: Some("atomics:add,-one-word"),
        make: |_| Box::new(Word::shared(fetch_add)),
    },
    #[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
    Form {
        family: "word",
        name: "fetch-and-add, LL/SC",
        operation: "Add to the shared word by a loop of exclusive load and store, as code for ARMv8.0 does.",
        standing: Released("9.5 on, compiled for ARMv8.0"),
        primitive: None,
        make: |_| Box::new(Word::shared(crate::forms::word::fetch_add_exclusively)),
    },
    Form {
        family: "word",
        name: "compare-and-swap",
        operation: "Read the shared word, then compare and swap it, until it was not changed in between.",
        standing: Released("9.5 on"),
        primitive: None,
        make: |_| Box::new(Word::shared(compare_and_swap)),
    },
    Form {
        family: "word",
        name: "swap",
        operation: "Take the shared word by a swap and store it back, one more.",
        standing: Yardstick("XCHG, SWP"),
        primitive: None,
        make: |_| Box::new(Word::shared(swap)),
    },
    Form {
        family: "spinlock",
        name: "test first",
        operation: "Acquire and release a spinlock; once taken it is read before it is tried again.",
        standing: Released("x86-64; arm64 from 18 (3d0b4b1068)"),
        primitive: Some("spinlock"),
        make: |_| Box::new(Guarded::new(Retry::TestFirst)),
    },
    Form {
        family: "spinlock",
        name: "swap again",
        operation: "Acquire and release a spinlock; once taken it is tried again by the same swap.",
        standing: Released("arm64, 15 to 17 (ISB: a82a5eee31)"),
        primitive: None,
        make: |_| Box::new(Guarded::new(Retry::Swap)),
    },
    Form {
        family: "spinlock",
        name: "no hint",
        operation: "Acquire and release a spinlock; once taken it is tried again by the same swap, with no PAUSE or ISB in between.",
        standing: Released("arm64 to 14"),
        primitive: None,
        make: |_| Box::new(Guarded::new(Retry::SwapNoHint)),
    },
    Form {
        family: "spinlock",
        name: "ticket",
        operation: "Draw a number, wait until it is called, and call the next.",
        standing: Yardstick("Mellor-Crummey and Scott 1991"),
        primitive: None,
        make: |_| Box::new(Ticket::default()),
    },
    Form {
        family: "spinlock",
        name: "MCS",
        operation: "Queue, each waiting on a line of its own, and pass the lock on.",
        standing: Yardstick("Mellor-Crummey and Scott 1991"),
        primitive: None,
        make: |threads| Box::new(Mcs::new(threads)),
    },
    Form {
        family: "lwlock",
        name: "shared, spinlock",
        operation: "Acquire and release an LWLock in shared mode, its counts guarded by a spinlock.",
        standing: Released("to 9.4"),
        primitive: None,
        make: |_| Box::new(HeldBySpinlock::new(false)),
    },
    Form {
        family: "lwlock",
        name: "shared",
        operation: "Acquire and release an LWLock in shared mode, one word by compare-and-swap.",
        standing: Released("9.6 on (ab5194e6f6, 008608b9d5)"),
        primitive: Some("lwlock:shared"),
        make: |threads| Box::new(Held::new(threads, Counting::CompareAndSwap, 0)),
    },
    Form {
        family: "lwlock",
        name: "shared, fetch-and-add",
        operation: "Acquire and release an LWLock in shared mode: the holder is added first, and taken back if the lock was held exclusively.",
        standing: Proposed("pgsql-hackers, several since 2017"),
        primitive: None,
        make: |threads| Box::new(Held::new(threads, Counting::FetchAdd, 0)),
    },
    #[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
    Form {
        family: "lwlock",
        name: "shared, within LL/SC",
        operation: "Acquire and release an LWLock in shared mode, decided between an exclusive load and its store.",
        standing: Proposed("Korotkov 2017, 2020"),
        primitive: None,
        make: |threads| Box::new(Held::new(threads, Counting::ExclusivePair, 0)),
    },
    Form {
        family: "lwlock",
        name: "exclusive, spinlock",
        operation: "Acquire and release an LWLock exclusively, its counts guarded by a spinlock.",
        standing: Released("to 9.4"),
        primitive: None,
        make: |_| Box::new(HeldBySpinlock::new(true)),
    },
    Form {
        family: "lwlock",
        name: "exclusive",
        operation: "Acquire and release an LWLock exclusively; who does not get it sleeps.",
        standing: Released("9.6 on (ab5194e6f6, 008608b9d5)"),
        primitive: Some("lwlock:exclusive"),
        make: |threads| Box::new(Held::new(threads, Counting::CompareAndSwap, 100)),
    },
    Form {
        family: "lwlock",
        name: "10% exclusive",
        operation: "Acquire and release an LWLock, one time in ten exclusively.",
        standing: Released("9.6 on (ab5194e6f6, 008608b9d5)"),
        primitive: None,
        make: |threads| Box::new(Held::new(threads, Counting::CompareAndSwap, 10)),
    },
    Form {
        family: "pin",
        name: "header spinlock",
        operation: "Pin and unpin one buffer under its header's spinlock.",
        standing: Released("to 9.5"),
        primitive: None,
        make: |_| Box::new(Pins::new(1, pin::Way::HeaderSpinlock)),
    },
    Form {
        family: "pin",
        name: "compare-and-swap",
        operation: "Pin and unpin one buffer, both by compare-and-swap.",
        standing: Released("9.6 to 18 (48354581a4)"),
        primitive: Some("buffer-hit"),
        make: |_| Box::new(Pins::new(1, pin::Way::CompareAndSwap)),
    },
    Form {
        family: "pin",
        name: "unpin by subtraction",
        operation: "Pin one buffer by compare-and-swap on 64 bits and unpin it by a subtraction.",
        standing: Released("19 (5310fac6e0)"),
        primitive: None,
        make: |_| Box::new(Pins::new(1, pin::Way::UnpinBySubtraction)),
    },
    Form {
        family: "pin",
        name: "spread",
        operation: "Pin and unpin one of 1024 buffers at random, by compare-and-swap.",
        standing: Released("9.6 to 18 (48354581a4)"),
        primitive: None,
        make: |_| Box::new(Pins::new(1024, pin::Way::CompareAndSwap)),
    },
    Form {
        family: "clock",
        name: "spinlock",
        operation: "Move the clock hand by one buffer under a spinlock.",
        standing: Yardstick("in 9.5 while it was developed (5d7962c6)"),
        primitive: None,
        make: |threads| Box::new(ClockHand::new(threads, victim::Way::Spinlock)),
    },
    Form {
        family: "clock",
        name: "fetch-and-add",
        operation: "Move the clock hand by one buffer by a fetch-and-add.",
        standing: Released("9.5 on (d72731a704)"),
        primitive: None,
        make: |threads| Box::new(ClockHand::new(threads, victim::Way::FetchAdd)),
    },
    Form {
        family: "clock",
        name: "batch of 64",
        operation: "Move the clock hand by 64 buffers at once, which are used up before the next.",
        standing: Proposed("Burd 2026"),
        primitive: None,
        make: |threads| Box::new(ClockHand::new(threads, victim::Way::Batch(64))),
    },
    Form {
        family: "snapshot",
        name: "scan",
        operation: "A snapshot of 256 backends from each one's own structure; one in ten operations ends a transaction.",
        standing: Released("to 13"),
        primitive: None,
        make: |threads| Box::new(Snapshots::new(threads, snapshot::Way::Scan, 10)),
    },
    Form {
        family: "snapshot",
        name: "dense",
        operation: "A snapshot of 256 backends from a dense array of transaction ids; one in ten operations ends a transaction.",
        standing: Yardstick("14 on without the next"),
        primitive: None,
        make: |threads| Box::new(Snapshots::new(threads, snapshot::Way::Dense, 10)),
    },
    Form {
        family: "snapshot",
        name: "dense, reused",
        operation: "A snapshot from the dense array, taken as it was if nothing has ended since; one in ten operations ends a transaction.",
        standing: Released("14 on (dc7420c2c9, 623a9ba79b)"),
        primitive: None,
        make: |threads| Box::new(Snapshots::new(threads, snapshot::Way::DenseReused, 10)),
    },
    Form {
        family: "wal",
        name: "spinlock",
        operation: "Reserve 96 bytes of WAL under insertpos_lck and copy them under an insertion lock.",
        standing: Released("9.4 on (9a20a9b21b)"),
        primitive: None,
        make: |threads| Box::new(Reservation::new(threads, false)),
    },
    Form {
        family: "wal",
        name: "fetch-and-add",
        operation: "Reserve 96 bytes of WAL by a fetch-and-add and copy them under an insertion lock.",
        standing: Proposed("lock-free reservation, pgsql-hackers"),
        primitive: None,
        make: |threads| Box::new(Reservation::new(threads, true)),
    },
];

/// The forms of that family, or the one of that family and name (`spinlock:MCS`); empty if there is none.
pub fn find(name: &str) -> Vec<&'static Form> {
    let (family, form) = name
        .split_once(':')
        .map_or((name, None), |(family, form)| (family, Some(form)));
    let wanted = |of: &&Form| of.family == family && form.is_none_or(|form| of.name == form);
    FORMS.iter().filter(wanted).collect()
}

impl Form {
    /// `spinlock, MCS`.
    pub fn title(&self) -> String {
        format!("{}, {}", self.family, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_found_by_family_and_by_name() {
        assert!(find("spinlock").len() >= 5);
        let [ticket] = find("spinlock:ticket")[..] else {
            panic!("one form has that name");
        };
        assert_eq!(ticket.title(), "spinlock, ticket");
        assert!(find("spinlock:nonsense").is_empty() && find("nonsense").is_empty());
    }

    #[test]
    fn no_two_forms_have_one_name() {
        for (i, form) in FORMS.iter().enumerate() {
            let twins = FORMS[i + 1..].iter().filter(|f| f.title() == form.title());
            assert_eq!(twins.count(), 0, "{}", form.title());
        }
    }
}
