//! arm64's exclusive loads and stores (LL/SC), which Rust's atomics leave to the compiler's choice.
//!
//! Arm Architecture Reference Manual for A-profile, B2.12 and "LDAXR", "STLXR".

use std::arch::asm;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Adds to a word by a loop of LDAXR and STLXR, as code for ARMv8.0 does; what was there before.
#[inline(always)]
pub fn add(word: &AtomicU64, by: u64) -> u64 {
    let was: u64;
    // SAFETY: the pointer is that of a live, aligned atomic; nothing but this word is accessed.
    unsafe {
        asm!(
            "2:",
            "ldaxr {was}, [{word}]",
            "add {now}, {was}, {by}",
            "stlxr {failed:w}, {now}, [{word}]",
            "cbnz {failed:w}, 2b",
            was = out(reg) was,
            now = out(reg) _,
            failed = out(reg) _,
            word = in(reg) word.as_ptr(),
            by = in(reg) by,
            options(nostack),
        );
    }
    was
}

/// Adds to a word unless any of `bits` is set in it, decided between the exclusive load and its store;
/// whether it was added.
#[inline(always)]
pub fn add_unless(word: &AtomicU32, by: u32, bits: u32) -> bool {
    let was: u32;
    // SAFETY: as above. The monitor is cleared where the store is left out.
    unsafe {
        asm!(
            "2:",
            "ldaxr {was:w}, [{word}]",
            "tst {was:w}, {bits:w}",
            "b.ne 3f",
            "add {now:w}, {was:w}, {by:w}",
            "stlxr {failed:w}, {now:w}, [{word}]",
            "cbnz {failed:w}, 2b",
            "b 4f",
            "3:",
            "clrex",
            "4:",
            was = out(reg) was,
            now = out(reg) _,
            failed = out(reg) _,
            word = in(reg) word.as_ptr(),
            by = in(reg) by,
            bits = in(reg) bits,
            options(nostack),
        );
    }
    was & bits == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_are_added_to_by_exclusive_pairs() {
        let word = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| drop(add(&word, 3))));
            }
        });
        assert_eq!(word.load(Ordering::SeqCst), 12_000);
        let word = AtomicU32::new(0x100);
        assert!(add_unless(&word, 1, 0x200));
        assert!(!add_unless(&word, 1, 0x100));
        assert_eq!(word.load(Ordering::SeqCst), 0x101);
    }
}
