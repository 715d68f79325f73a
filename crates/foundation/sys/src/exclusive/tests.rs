use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::*;

#[test]
fn words_are_changed_by_exclusive_pairs() {
    let word = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| drop(add(&word, 3))));
        }
    });
    assert_eq!(word.load(Ordering::SeqCst), 12_000);
    assert_eq!((swap(&word, 8), or(&word, 3)), (12_000, 8));
    assert_eq!(compare_and_swap(&word, 8, 9), Err(11));
    assert_eq!(compare_and_swap(&word, 11, 9), Ok(()));
    assert_eq!(word.load(Ordering::SeqCst), 9);
}

#[test]
fn what_is_decided_within_the_pair_is_stored_or_left() {
    let word = AtomicU32::new(0x100);
    assert!(add_unless(&word, 1, 0x200));
    assert!(!add_unless(&word, 1, 0x100));
    assert_eq!(compare_and_swap_32(&word, 0x100, 0), Err(0x101));
    assert_eq!(subtract_32(&word, 0x101), 0x101);
    assert!(take(&word) && !take(&word));
    let by = Pinning {
        pin: 1,
        usage: 0x100,
        mask: 0xF00,
        most: 0x200,
        locked: 0x8000,
    };
    let word = AtomicU32::new(0);
    assert!((0..4).all(|_| pin(&word, by)));
    assert_eq!(word.load(Ordering::SeqCst), 0x204);
    word.store(0x8000, Ordering::SeqCst);
    assert!(!pin(&word, by));
    assert_eq!(word.load(Ordering::SeqCst), 0x8000);
}
