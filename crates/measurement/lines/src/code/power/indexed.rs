//! Opcode 31: accesses at the sum of two registers, atomics, exclusives, and operations on blocks.

use super::{BLOCK, Found, Operand, Way, field, operand};
use crate::code::Exclusive;

/// What the instruction does; `None` for what touches no memory.
pub(super) fn access(word: u32) -> Option<Found> {
    let opcode = word >> 1 & 0x3ff;
    if let Some(half) = exclusive(word, opcode) {
        return Some(Found::Exclusive(half));
    }
    if let Some(alone) = by_one_register(word, opcode) {
        return Some(Found::Operand(alone));
    }
    // lswx, stswx: the length is in XER.
    if matches!(opcode, 533 | 661) {
        return Some(Found::Unresolved);
    }
    let ((size, way), aligned) = match opcode {
        // lvebx, lvehx, lvewx, lvx, lvxl; stvebx, stvehx, stvewx, stvx, stvxl.
        7 => ((1, Way::Load), 1),
        39 => ((2, Way::Load), 2),
        71 => ((4, Way::Load), 4),
        103 | 359 => ((16, Way::Load), 16),
        135 => ((1, Way::Store), 1),
        167 => ((2, Way::Store), 2),
        199 => ((4, Way::Store), 4),
        231 | 487 => ((16, Way::Store), 16),
        // copy; paste.; dcbz.
        774 => ((BLOCK, Way::Load), BLOCK),
        902 | 1014 => ((BLOCK, Way::Store), BLOCK),
        _ => (unaligned(opcode)?, 1),
    };
    Some(Found::Operand(Operand {
        index: Some(field(word, 11)),
        aligned,
        ..operand(word, 0, size, way)
    }))
}

/// Length and way of an access to an address that need not be aligned.
fn unaligned(opcode: u32) -> Option<(u32, Way)> {
    Some(match opcode {
        // lbzx, lbzux; lxvrbx, lxsibzx.
        87 | 119 | 13 | 781 => (1, Way::Load),
        // lhzx, lhzux, lhax, lhaux, lhbrx; lxvrhx, lxsihzx.
        279 | 311 | 343 | 375 | 790 | 45 | 813 => (2, Way::Load),
        // lwzx, lwzux, lwax, lwaux, lwbrx; lfsx, lfsux, lfiwax, lfiwzx; lxvrwx, lxsiwzx, lxsiwax, lxsspx, lxvwsx.
        23 | 55 | 341 | 373 | 534 | 535 | 567 | 855 | 887 | 77 | 12 | 76 | 524 | 364 => {
            (4, Way::Load)
        }
        // ldx, ldux, ldbrx; lfdx, lfdux; lxvrdx, lxsdx, lxvdsx.
        21 | 53 | 532 | 599 | 631 | 109 | 588 | 332 => (8, Way::Load),
        // lfdpx; lxvx, lxvd2x, lxvw4x, lxvh8x, lxvb16x.
        791 | 268 | 844 | 780 | 812 | 876 => (16, Way::Load),
        // lxvpx.
        333 => (32, Way::Load),
        // stbx, stbux; stxvrbx, stxsibx.
        215 | 247 | 141 | 909 => (1, Way::Store),
        // sthx, sthux, sthbrx; stxvrhx, stxsihx.
        407 | 439 | 918 | 173 | 941 => (2, Way::Store),
        // stwx, stwux, stwbrx; stfsx, stfsux, stfiwx; stxvrwx, stxsiwx, stxsspx.
        151 | 183 | 662 | 663 | 695 | 983 | 205 | 140 | 652 => (4, Way::Store),
        // stdx, stdux, stdbrx; stfdx, stfdux; stxvrdx, stxsdx.
        149 | 181 | 660 | 727 | 759 | 237 | 716 => (8, Way::Store),
        // stfdpx; stxvx, stxvd2x, stxvw4x, stxvh8x, stxvb16x.
        919 | 396 | 972 | 908 | 940 | 1004 => (16, Way::Store),
        // stxvpx.
        461 => (32, Way::Store),
        _ => return None,
    })
}

/// Those whose address is RA alone: RB is something else.
fn by_one_register(word: u32, opcode: u32) -> Option<Operand> {
    let other = field(word, 11);
    let string = match other {
        0 => 32,
        bytes => u32::from(bytes),
    };
    let counted = |way| Operand {
        length: Some(other),
        ..operand(word, 0, 16, way)
    };
    let atomic = |size: u32| match other {
        // Of two words: the second bounds the first, or is what it is compared with.
        24 | 25 => operand(word, 0, 2 * size, Way::Atomic),
        28 => operand(word, -i64::from(size), 2 * size, Way::Atomic),
        _ => operand(word, 0, size, Way::Atomic),
    };
    let atomic_store = |size: u32| match other {
        // Store twin.
        24 => operand(word, 0, 2 * size, Way::Atomic),
        _ => operand(word, 0, size, Way::Atomic),
    };
    Some(match opcode {
        // lswi, stswi.
        597 => operand(word, 0, string, Way::Load),
        725 => operand(word, 0, string, Way::Store),
        // lxvl, lxvll; stxvl, stxvll.
        269 | 301 => counted(Way::Load),
        397 | 429 => counted(Way::Store),
        // lwat, ldat; stwat, stdat.
        582 => atomic(4),
        614 => atomic(8),
        710 => atomic_store(4),
        742 => atomic_store(8),
        // hashst, hashstp; hashchk, hashchkp.
        722 | 658 => hashed(word, Way::Store),
        754 | 690 => hashed(word, Way::Load),
        _ => return None,
    })
}

/// A check value of a return address, which lies up to 512 bytes below RA.
fn hashed(word: u32, way: Way) -> Operand {
    let words = i64::from(word & 1) << 5 | i64::from(field(word, 21));
    operand(word, (words - 64) * 8, 8, way)
}

/// lbarx, lharx, lwarx, ldarx, lqarx and their stores, which tell in CR0.
fn exclusive(word: u32, opcode: u32) -> Option<Exclusive> {
    let (size, pair, stores) = match opcode {
        52 => (1, false, false),
        116 => (2, false, false),
        20 => (4, false, false),
        84 => (8, false, false),
        276 => (8, true, false),
        694 => (1, false, true),
        726 => (2, false, true),
        150 => (4, false, true),
        214 => (8, false, true),
        182 => (8, true, true),
        _ => return None,
    };
    Some(Exclusive {
        base: field(word, 16),
        index: Some(field(word, 11)),
        size,
        pair,
        value: field(word, 21),
        status: stores.then_some(0),
    })
}
