//! arm64's single atomics, of ARMv8.1 (FEAT_LSE). Arm Architecture Reference Manual, "LDADD", "CAS", "SWP",
//! "LDSET". Whoever calls them has asked [`here`].

use std::arch::asm;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Whether this processor has them.
pub fn here() -> bool {
    std::arch::is_aarch64_feature_detected!("lse")
}

/// Adds to a word; what was there before.
#[inline(always)]
pub fn add(word: &AtomicU64, by: u64) -> u64 {
    let was: u64;
    // SAFETY: the pointer is that of a live, aligned atomic; the processor has the instruction.
    unsafe {
        asm!(
            ".arch_extension lse",
            "ldaddal {by}, {was}, [{word}]",
            by = in(reg) by,
            was = out(reg) was,
            word = in(reg) word.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
    was
}

/// Adds to a word, and asks for nothing: what a processor may do at the memory's side.
#[inline(always)]
pub fn add_only(word: &AtomicU64, by: u64) {
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension lse",
            "staddl {by}, [{word}]",
            by = in(reg) by,
            word = in(reg) word.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
}

/// Sets bits of a word; what was there before.
#[inline(always)]
pub fn or(word: &AtomicU64, bits: u64) -> u64 {
    let was: u64;
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension lse",
            "ldsetal {bits}, {was}, [{word}]",
            bits = in(reg) bits,
            was = out(reg) was,
            word = in(reg) word.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
    was
}

/// Puts a value into a word; what was there before.
#[inline(always)]
pub fn swap(word: &AtomicU64, value: u64) -> u64 {
    let was: u64;
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension lse",
            "swpal {value}, {was}, [{word}]",
            value = in(reg) value,
            was = out(reg) was,
            word = in(reg) word.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
    was
}

/// Puts `now` into a word that is `was`; what it is where it is not.
///
/// # Errors
/// The value that was found.
#[inline(always)]
pub fn compare_and_swap(word: &AtomicU64, was: u64, now: u64) -> Result<(), u64> {
    let found: u64;
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension lse",
            "casal {found}, {now}, [{word}]",
            found = inout(reg) was => found,
            now = in(reg) now,
            word = in(reg) word.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
    if found == was { Ok(()) } else { Err(found) }
}

/// The same of a word of 32 bits.
///
/// # Errors
/// The value that was found.
#[inline(always)]
pub fn compare_and_swap_32(word: &AtomicU32, was: u32, now: u32) -> Result<(), u32> {
    let found: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension lse",
            "casal {found:w}, {now:w}, [{word}]",
            found = inout(reg) was => found,
            now = in(reg) now,
            word = in(reg) word.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
    if found == was { Ok(()) } else { Err(found) }
}

/// Subtracts from a word of 32 bits; what was there before.
#[inline(always)]
pub fn subtract_32(word: &AtomicU32, by: u32) -> u32 {
    let was: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension lse",
            "ldaddal {by:w}, {was:w}, [{word}]",
            by = in(reg) by.wrapping_neg(),
            was = out(reg) was,
            word = in(reg) word.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
    was
}

/// Takes a lock by one test-and-set; whether it was free.
#[inline(always)]
pub fn take(lock: &AtomicU32) -> bool {
    let was: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension lse",
            "swpa {one:w}, {was:w}, [{lock}]",
            one = in(reg) 1_u32,
            was = out(reg) was,
            lock = in(reg) lock.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
    was == 0
}
