//! Work on several threads, where the caller grants them: a server's own threads are not ours to take.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to each item with at most `threads` threads; results in the order of the items.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    // Taken from one counter, so that an uneven item does not hold the others up.
    let next = AtomicUsize::new(0);
    let take = || {
        let mut mine = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            match items.get(n) {
                Some(item) => mine.push((n, work(item))),
                None => return mine,
            }
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut all = take();
        for other in others {
            match other.join() {
                Ok(part) => all.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Both results; `other` on a thread of its own where there is more than one.
pub fn both<A, B: Send>(
    threads: usize,
    here: impl FnOnce() -> A,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    if threads <= 1 {
        return (here(), other());
    }
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let here = here();
        match other.join() {
            Ok(other) => (here, other),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
