//! POWER's pairs: load and reserve, store conditional. Power ISA 3.1, Book II, 4.6.2, and B.2 for what
//! barriers stand around them.
//!
//! The words' operations are full barriers, as PostgreSQL's are (arch-ppc.h; 30ee5d17c2): sync before, isync
//! behind. A lock needs less: isync or lwsync behind.

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
            "sync",
            "2: ldarx {was}, 0, {word}",
            "add {now}, {was}, {by}",
            "stdcx. {now}, 0, {word}",
            "bne- 2b",
            "isync",
            was = out(reg) was,
            now = out(reg) _,
            word = in(reg) word.as_ptr(),
            by = in(reg) by,
            out("cr0") _,
            options(nostack),
        );
    }
    was
}

/// The same as acquire and release, no full barrier: lwsync before.
#[inline(always)]
pub fn add_lightly(word: &AtomicU64, by: u64) -> u64 {
    let was: u64;
    // SAFETY: as above.
    unsafe {
        asm!(
            "lwsync",
            "2: ldarx {was}, 0, {word}",
            "add {now}, {was}, {by}",
            "stdcx. {now}, 0, {word}",
            "bne- 2b",
            "isync",
            was = out(reg) was,
            now = out(reg) _,
            word = in(reg) word.as_ptr(),
            by = in(reg) by,
            out("cr0") _,
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
            "sync",
            "2: ldarx {was}, 0, {word}",
            "or {now}, {was}, {bits}",
            "stdcx. {now}, 0, {word}",
            "bne- 2b",
            "isync",
            was = out(reg) was,
            now = out(reg) _,
            word = in(reg) word.as_ptr(),
            bits = in(reg) bits,
            out("cr0") _,
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
            "sync",
            "2: ldarx {was}, 0, {word}",
            "stdcx. {value}, 0, {word}",
            "bne- 2b",
            "isync",
            was = out(reg) was,
            word = in(reg) word.as_ptr(),
            value = in(reg) value,
            out("cr0") _,
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
            "sync",
            "2: ldarx {found}, 0, {word}",
            "cmpld {found}, {was}",
            "bne- 3f",
            "stdcx. {now}, 0, {word}",
            "bne- 2b",
            "3: isync",
            found = out(reg) found,
            word = in(reg) word.as_ptr(),
            was = in(reg) was,
            now = in(reg) now,
            out("cr0") _,
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
            "sync",
            "2: lwarx {found}, 0, {word}",
            "cmplw {found}, {was}",
            "bne- 3f",
            "stwcx. {now}, 0, {word}",
            "bne- 2b",
            "3: isync",
            found = out(reg) found,
            word = in(reg) word.as_ptr(),
            was = in(reg) was,
            now = in(reg) now,
            out("cr0") _,
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
            "sync",
            "2: lwarx {was}, 0, {word}",
            "subf {now}, {by}, {was}",
            "stwcx. {now}, 0, {word}",
            "bne- 2b",
            "isync",
            was = out(reg) was,
            now = out(reg) _,
            word = in(reg) word.as_ptr(),
            by = in(reg) by,
            out("cr0") _,
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
            "sync",
            "2: lwarx {was}, 0, {word}",
            "and. {now}, {was}, {bits}",
            "bne- 3f",
            "add {now}, {was}, {by}",
            "stwcx. {now}, 0, {word}",
            "bne- 2b",
            "3: isync",
            was = out(reg) was,
            now = out(reg) _,
            word = in(reg) word.as_ptr(),
            by = in(reg) by,
            bits = in(reg) bits,
            out("cr0") _,
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
            "sync",
            "2: lwarx {was}, 0, {word}",
            "and. {now}, {was}, {locked}",
            "bne- 3f",
            "and {now}, {was}, {mask}",
            "cmplw {now}, {most}",
            "add {now}, {was}, {pin}",
            "bge 4f",
            "add {now}, {now}, {usage}",
            "4: stwcx. {now}, 0, {word}",
            "bne- 2b",
            "3: isync",
            was = out(reg) was,
            now = out(reg) _,
            word = in(reg) word.as_ptr(),
            pin = in(reg) by.pin,
            usage = in(reg) by.usage,
            mask = in(reg) by.mask,
            most = in(reg) by.most,
            locked = in(reg) by.locked,
            out("cr0") _,
            options(nostack),
        );
    }
    was & by.locked == 0
}

/// Takes a lock by one try of test-and-set, isync behind it; whether it was had. Another's store to the
/// line makes the try fail, too.
#[inline(always)]
pub fn take(lock: &AtomicU32) -> bool {
    let failed: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            "lwarx {failed}, 0, {lock}",
            "cmpwi {failed}, 0",
            "bne 2f",
            "addi {failed}, {failed}, 1",
            "stwcx. {failed}, 0, {lock}",
            "beq 3f",
            "2: li {failed}, 1",
            "b 4f",
            "3: isync",
            "li {failed}, 0",
            "4:",
            failed = out(reg_nonzero) failed,
            lock = in(reg) lock.as_ptr(),
            out("cr0") _,
            options(nostack),
        );
    }
    failed == 0
}

/// The same with the hint that the word is a lock, whose holder will store to it (EH = 1), and lwsync
/// behind.
#[inline(always)]
pub fn take_hinted(lock: &AtomicU32) -> bool {
    let failed: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            "lwarx {failed}, 0, {lock}, 1",
            "cmpwi {failed}, 0",
            "bne 2f",
            "addi {failed}, {failed}, 1",
            "stwcx. {failed}, 0, {lock}",
            "beq 3f",
            "2: li {failed}, 1",
            "b 4f",
            "3: lwsync",
            "li {failed}, 0",
            "4:",
            failed = out(reg_nonzero) failed,
            lock = in(reg) lock.as_ptr(),
            out("cr0") _,
            options(nostack),
        );
    }
    failed == 0
}
