//! arm64's pairs. Arm Architecture Reference Manual for A-profile, B2.12 and "LDAXR", "STLXR".
//!
//! Load-acquire and store-release are the barriers, as compilers emit them for ARMv8.0. Where a store is
//! left out, the monitor stays set, as in compilers' code; CLREX would be one instruction more.

use std::arch::asm;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::Pinning;

/// Adds to a word; what was there before.
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

/// Sets bits of a word; what was there before.
#[inline(always)]
pub fn or(word: &AtomicU64, bits: u64) -> u64 {
    let was: u64;
    // SAFETY: as above.
    unsafe {
        asm!(
            "2:",
            "ldaxr {was}, [{word}]",
            "orr {now}, {was}, {bits}",
            "stlxr {failed:w}, {now}, [{word}]",
            "cbnz {failed:w}, 2b",
            was = out(reg) was,
            now = out(reg) _,
            failed = out(reg) _,
            word = in(reg) word.as_ptr(),
            bits = in(reg) bits,
            options(nostack),
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
            "2:",
            "ldaxr {was}, [{word}]",
            "stlxr {failed:w}, {value}, [{word}]",
            "cbnz {failed:w}, 2b",
            was = out(reg) was,
            failed = out(reg) _,
            word = in(reg) word.as_ptr(),
            value = in(reg) value,
            options(nostack),
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
            "2:",
            "ldaxr {found}, [{word}]",
            "cmp {found}, {was}",
            "b.ne 3f",
            "stlxr {failed:w}, {now}, [{word}]",
            "cbnz {failed:w}, 2b",
            "3:",
            found = out(reg) found,
            failed = out(reg) _,
            word = in(reg) word.as_ptr(),
            was = in(reg) was,
            now = in(reg) now,
            options(nostack),
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
            "2:",
            "ldaxr {found:w}, [{word}]",
            "cmp {found:w}, {was:w}",
            "b.ne 3f",
            "stlxr {failed:w}, {now:w}, [{word}]",
            "cbnz {failed:w}, 2b",
            "3:",
            found = out(reg) found,
            failed = out(reg) _,
            word = in(reg) word.as_ptr(),
            was = in(reg) was,
            now = in(reg) now,
            options(nostack),
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
            "2:",
            "ldaxr {was:w}, [{word}]",
            "sub {now:w}, {was:w}, {by:w}",
            "stlxr {failed:w}, {now:w}, [{word}]",
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

/// Adds to a word unless any of `bits` is set in it, decided within the pair; whether it was added.
#[inline(always)]
pub fn add_unless(word: &AtomicU32, by: u32, bits: u32) -> bool {
    let was: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            "2:",
            "ldaxr {was:w}, [{word}]",
            "tst {was:w}, {bits:w}",
            "b.ne 3f",
            "add {now:w}, {was:w}, {by:w}",
            "stlxr {failed:w}, {now:w}, [{word}]",
            "cbnz {failed:w}, 2b",
            "3:",
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

/// Adds a pin and, up to their most, a use, decided within the pair; whether it was added: not to a word that
/// is locked.
#[inline(always)]
pub fn pin(word: &AtomicU32, by: Pinning) -> bool {
    let was: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            "2:",
            "ldaxr {was:w}, [{word}]",
            "tst {was:w}, {locked:w}",
            "b.ne 3f",
            "and {now:w}, {was:w}, {mask:w}",
            "cmp {now:w}, {most:w}",
            "csel {now:w}, {usage:w}, wzr, lo",
            "add {now:w}, {now:w}, {was:w}",
            "add {now:w}, {now:w}, {pin:w}",
            "stlxr {failed:w}, {now:w}, [{word}]",
            "cbnz {failed:w}, 2b",
            "3:",
            was = out(reg) was,
            now = out(reg) _,
            failed = out(reg) _,
            word = in(reg) word.as_ptr(),
            pin = in(reg) by.pin,
            usage = in(reg) by.usage,
            mask = in(reg) by.mask,
            most = in(reg) by.most,
            locked = in(reg) by.locked,
            options(nostack),
        );
    }
    was & by.locked == 0
}

/// Takes a lock by one try of test-and-set; whether it was free. As compilers make it of
/// `__sync_lock_test_and_set`.
#[inline(always)]
pub fn take(lock: &AtomicU32) -> bool {
    let was: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            "2:",
            "ldaxr {was:w}, [{lock}]",
            "stxr {failed:w}, {one:w}, [{lock}]",
            "cbnz {failed:w}, 2b",
            was = out(reg) was,
            failed = out(reg) _,
            lock = in(reg) lock.as_ptr(),
            one = in(reg) 1_u32,
            options(nostack),
        );
    }
    was == 0
}
