//! Work on several threads, where the caller grants them: a server's own threads are not ours to take.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};

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
        // Where no more threads can be had, those that are there do it all.
        let others: Vec<_> = (1..threads)
            .map_while(|_| Builder::new().spawn_scoped(scope, take).ok())
            .collect();
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
    // Whoever comes first takes it: the thread, or we where there was no thread to be had.
    let other = Mutex::new(Some(other));
    let take = || {
        let mut slot = other.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take()
    };
    std::thread::scope(|scope| {
        let beside = Builder::new().spawn_scoped(scope, || take().map(|other| other()));
        let here = here();
        let there = match beside.map(ScopedJoinHandle::join) {
            Ok(Ok(there)) => there,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => None,
        };
        match there.or_else(|| take().map(|other| other())) {
            Some(there) => (here, there),
            None => unreachable!("it was taken by the thread, which returned its result"),
        }
    })
}
