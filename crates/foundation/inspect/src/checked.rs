//! A64 LSE instructions behind a run-time check of the program's own, found by shape.
//!
//! Go compiles each atomic operation twice and tests a byte between them, unless built for LSE alone (`GOARM64=v8.1`):
//!
//! ```text
//!     adrp x27, page
//!     ldrb w4, [x27, #low]     internal/cpu's flag
//!     tbz  w4, #0, fallback    `cbz` in its assembly
//!     ldaddal x3, x4, [x1]
//!     b    done
//! fallback:
//!     ldaxr … stlxr … cbnz     an exclusive loop
//! ```
//!
//! All of it must be there: a byte at a fixed address, a branch on it over the instruction, an exclusive loop where the
//! branch goes. A test without the loop is no check: it may be of anything.

use std::collections::BTreeSet;

use crate::elf::{Code, Image};
use crate::isa::a64;
use crate::model::{Atomic, Class, FunctionAtomics};
use crate::outline::{code_at, word};

/// Words between the test and the instruction.
const TEST_WORDS: u64 = 16;
/// Words between the parts of the test: compilers put others between them.
const LOAD_WORDS: u64 = 16;
/// Words that a fallback may take.
const FALLBACK_WORDS: u64 = 24;

/// How many instructions stand behind such checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// LSE instructions.
    pub lse: u64,
    /// Exclusive loads and stores of the fallbacks.
    pub exclusive: u64,
}

/// Counts them among instructions outside outline helpers.
pub fn count(image: &Image<'_>, atomics: &[Atomic], functions: &[FunctionAtomics]) -> Checked {
    let in_helper = |atomic: &&Atomic| {
        let function = atomic.function.and_then(|f| functions.get(f as usize));
        function.is_some_and(|function| function.is_outline_helper)
    };
    let mut checked = Checked::default();
    let mut loops = BTreeSet::new();
    let lse = atomics.iter().filter(|a| a.class.is_lse());
    for atomic in lse.filter(|a| !in_helper(a)) {
        let code = code_at(image, atomic.address);
        if let Some(fallback) = code.and_then(|code| fallback(code, atomic.address)) {
            checked.lse += 1;
            loops.extend(fallback);
        }
    }
    let exclusive = atomics.iter().filter(|a| loops.contains(&a.address));
    checked.exclusive = exclusive.count() as u64;
    checked
}

/// The exclusive load and store that run in place of the instruction at `at` where its test fails.
fn fallback(code: &Code<'_>, at: u64) -> Option<[u64; 2]> {
    let before = |from: u64, words: u64| (1..=words).map_while(move |n| from.checked_sub(4 * n));
    let (test, (target, tested)) = before(at, TEST_WORDS)
        .map_while(|place| Some((place, word(code, place)?)))
        .take_while(|(_, w)| a64::branch_target(*w, 0).is_none() && *w != a64::RET)
        .find_map(|(place, w)| Some((place, a64::branch_if_clear(w, place)?)))?;
    let loads = before(test, LOAD_WORDS).filter_map(|place| {
        let (_, base, loaded) = a64::ldrb(word(code, place)?)?;
        (loaded == tested).then_some((place, base))
    });
    let is_fixed = |(load, base): (u64, u32)| {
        before(load, LOAD_WORDS)
            .filter_map(|place| a64::adrp(word(code, place)?, place))
            .any(|(_, register)| register == base)
    };
    if target <= at || !loads.into_iter().any(is_fixed) {
        return None;
    }
    let mut load = None;
    for n in 0..FALLBACK_WORDS {
        let place = target.checked_add(4 * n)?;
        match (a64::decode(word(code, place)?).map(|d| d.class), load) {
            (Some(Class::LoadExclusive), None) => load = Some(place),
            (Some(Class::StoreExclusive), Some(load)) => return Some([load, place]),
            _ => {}
        }
    }
    None
}
