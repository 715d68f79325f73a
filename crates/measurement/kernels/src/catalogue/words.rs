//! One word.

use super::Standing::{Released, Yardstick};
use super::{ENTRY, Form, Of, on_arm64, on_power};
#[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
use crate::forms::word::lse;
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "powerpc64"),
    not(feature = "loom")
))]
use crate::forms::word::own;
use crate::forms::word::{Bits, FalselyShared, Word, compare_and_swap, fetch_add, or, swap};
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "powerpc64"),
    not(feature = "loom")
))]
use pgassay_sys::exclusive;

/// The rest of a word's entry.
const WORD: Form = Form {
    family: "word",
    ..ENTRY
};

/// How a word is changed.
pub(super) const WORDS: &[Form] = &[
    Form {
        name: "own",
        operation: "Add to a word of one's own on a line of one's own: what an atomic costs by itself.",
        standing: Yardstick("no sharing"),
        make: Some(|threads| Box::new(Word::own(fetch_add, threads))),
        ..WORD
    },
    Form {
        name: "one line",
        operation: "Add to a word of one's own on a line that all threads' words share: false sharing.",
        standing: Yardstick("false sharing"),
        make: Some(|threads| Box::new(FalselyShared::new(threads))),
        ..WORD
    },
    Form {
        name: "fetch-and-add",
        operation: "Add to the word that all threads share (LOCK XADD, LDADD).",
        standing: Released("9.5 on"),
        primitive: Some("atomics:add,-one-word"),
        make: Some(|_| Box::new(Word::shared(fetch_add))),
        ..WORD
    },
    Form {
        name: "compare-and-swap",
        operation: "Read the shared word, then compare and swap it, until it was not changed in between.",
        standing: Released("9.5 on"),
        make: Some(|_| Box::new(Word::shared(compare_and_swap))),
        ..WORD
    },
    Form {
        name: "swap",
        operation: "Take the shared word by a swap and store it back, one more.",
        standing: Yardstick("XCHG, SWP"),
        make: Some(|_| Box::new(Word::shared(swap))),
        ..WORD
    },
    Form {
        name: "or",
        operation: "Set a bit in the word that all threads share, and ask for what was there: how a lock of one bit is taken.",
        standing: Released("9.6 on, for an LWLock's wait list and a buffer's header"),
        make: Some(|threads| Box::new(Bits::new(or, threads))),
        ..WORD
    },
    Form {
        name: "fetch-and-add, LL/SC",
        operation: "Add to the shared word by a loop of exclusive load and store (LDAXR, STLXR).",
        standing: Released("9.5 on, compiled for ARMv8.0"),
        of: Of::Arm64,
        make: on_arm64!(|_| Box::new(Word::shared(own::fetch_add))),
        ..WORD
    },
    Form {
        name: "fetch-and-add, LSE",
        operation: "Add to the shared word by one instruction that gives what was there (LDADDAL).",
        standing: Released("9.5 on, compiled for ARMv8.1"),
        of: Of::Arm64Lse,
        make: on_arm64!(|_| Box::new(Word::shared(lse::fetch_add))),
        ..WORD
    },
    Form {
        name: "add, LSE",
        operation: "Add to the shared word by one instruction that gives nothing (STADDL), which a processor may do far from its core.",
        standing: Yardstick("far atomics"),
        of: Of::Arm64Lse,
        make: on_arm64!(|_| Box::new(Word::shared(lse::add))),
        ..WORD
    },
    Form {
        name: "compare-and-swap, LL/SC",
        operation: "Read the shared word, then compare and swap it by exclusive load and store, until it was not changed in between.",
        standing: Released("9.5 on, compiled for ARMv8.0"),
        of: Of::Arm64,
        make: on_arm64!(|_| Box::new(Word::shared(own::compare_and_swap))),
        ..WORD
    },
    Form {
        name: "compare-and-swap, LSE",
        operation: "Read the shared word, then compare and swap it by one instruction (CASAL), until it was not changed in between.",
        standing: Released("9.5 on, compiled for ARMv8.1"),
        of: Of::Arm64Lse,
        make: on_arm64!(|_| Box::new(Word::shared(lse::compare_and_swap))),
        ..WORD
    },
    Form {
        name: "swap, LL/SC",
        operation: "Take the shared word by exclusive load and store, and store it back, one more.",
        standing: Yardstick("ARMv8.0"),
        of: Of::Arm64,
        make: on_arm64!(|_| Box::new(Word::shared(own::swap))),
        ..WORD
    },
    Form {
        name: "swap, LSE",
        operation: "Take the shared word by one instruction (SWPAL), and store it back, one more.",
        standing: Yardstick("ARMv8.1"),
        of: Of::Arm64Lse,
        make: on_arm64!(|_| Box::new(Word::shared(lse::swap))),
        ..WORD
    },
    Form {
        name: "or, LL/SC",
        operation: "Set a bit in the shared word by exclusive load and store.",
        standing: Released("9.6 on, compiled for ARMv8.0"),
        of: Of::Arm64,
        make: on_arm64!(|threads| Box::new(Bits::new(exclusive::or, threads))),
        ..WORD
    },
    Form {
        name: "or, LSE",
        operation: "Set a bit in the shared word by one instruction (LDSETAL).",
        standing: Released("9.6 on, compiled for ARMv8.1"),
        of: Of::Arm64Lse,
        make: on_arm64!(|threads| Box::new(Bits::new(exclusive::lse::or, threads))),
        ..WORD
    },
    Form {
        name: "fetch-and-add, ldarx",
        operation: "Add to the shared word by a loop of reserving load and conditional store, sync before and isync behind.",
        standing: Released("POWER, 13 on (30ee5d17c2)"),
        of: Of::Power,
        make: on_power!(|_| Box::new(Word::shared(own::fetch_add))),
        ..WORD
    },
    Form {
        name: "fetch-and-add, lwsync",
        operation: "The same with the lighter barrier before, which orders no load behind a store.",
        standing: Yardstick("acquire and release"),
        of: Of::Power,
        make: on_power!(|_| Box::new(Word::shared(own::fetch_add_lightly))),
        ..WORD
    },
    Form {
        name: "compare-and-swap, ldarx",
        operation: "Read the shared word, then compare and swap it by reserving load and conditional store, until it was not changed in between.",
        standing: Released("POWER"),
        of: Of::Power,
        make: on_power!(|_| Box::new(Word::shared(own::compare_and_swap))),
        ..WORD
    },
    Form {
        name: "swap, ldarx",
        operation: "Take the shared word by reserving load and conditional store, and store it back, one more.",
        standing: Yardstick("POWER"),
        of: Of::Power,
        make: on_power!(|_| Box::new(Word::shared(own::swap))),
        ..WORD
    },
    Form {
        name: "or, ldarx",
        operation: "Set a bit in the shared word by reserving load and conditional store.",
        standing: Released("POWER"),
        of: Of::Power,
        make: on_power!(|threads| Box::new(Bits::new(exclusive::or, threads))),
        ..WORD
    },
];
