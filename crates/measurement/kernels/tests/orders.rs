//! Each lock under every order of its steps that loom finds with few preemptions: no hold is doubled, no
//! wake-up lost, nobody left waiting.
//!
//! `cargo test -p pgassay-kernels --features loom`
#![cfg(feature = "loom")]

use std::sync::Arc;

use pgassay_kernels::{Me, find};

/// Two threads do an operation or two each, in every order.
fn in_every_order(form: &'static str, each: u64, preemptions: usize) {
    by_threads(form, 2, each, preemptions);
}

/// So many threads, the first and the last of one socket, the others of another.
fn by_threads(form: &'static str, threads: usize, each: u64, preemptions: usize) {
    let [form] = find(form)[..] else {
        panic!("one form is called {form}");
    };
    let mut model = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS asks for others.
    model.preemption_bound = model.preemption_bound.or(Some(preemptions));
    model.check(move || {
        let kernel = form.make(threads).expect("every processor has it");
        let kernel: Arc<dyn pgassay_kernels::Kernel> = Arc::from(kernel);
        let operate = move |kernel: &dyn pgassay_kernels::Kernel, slot: usize| {
            let mut me = Me::new(slot, 1);
            me.socket = u32::from(slot != 0 && slot + 1 != threads);
            (0..each).for_each(|_| kernel.operate(&mut me));
        };
        let others: Vec<_> = (1..threads)
            .map(|slot| {
                let kernel = Arc::clone(&kernel);
                loom::thread::spawn(move || operate(&*kernel, slot))
            })
            .collect();
        operate(&*kernel, 0);
        for other in others {
            other.join().unwrap();
        }
        kernel.proof(threads as u64 * each).unwrap();
    });
}

#[test]
fn words() {
    for form in [
        "word:fetch-and-add",
        "word:compare-and-swap",
        "word:swap",
        "word:or",
    ] {
        in_every_order(form, 2, 3);
    }
}

#[test]
fn spinlocks() {
    for form in [
        "spinlock:test first",
        "spinlock:swap again",
        "spinlock:no hint",
    ] {
        in_every_order(form, 2, 3);
    }
}

#[test]
fn queue_locks() {
    in_every_order("spinlock:ticket", 2, 3);
    in_every_order("spinlock:MCS", 2, 3);
    in_every_order("spinlock:CNA", 2, 3);
    // A second queue takes three threads.
    by_threads("spinlock:CNA", 3, 1, 2);
}

#[test]
fn lwlocks() {
    for form in [
        "lwlock:shared",
        "lwlock:shared, fetch-and-add",
        "lwlock:exclusive",
        "lwlock:shared, read-biased",
        "lwlock:exclusive, list by spinlock",
        "lwlock:exclusive, list by futex",
        "lwlock:exclusive, one loop",
    ] {
        in_every_order(form, 1, 2);
    }
    in_every_order("lwlock:exclusive, spinlock", 1, 2);
}

#[test]
fn pins() {
    for form in [
        "pin:header spinlock",
        "pin:compare-and-swap",
        "pin:unpin by subtraction",
        "pin:recent",
        "pin:looked up",
        "pin:content lock within",
    ] {
        in_every_order(form, 1, 3);
    }
}

#[test]
fn snapshots() {
    in_every_order("snapshot:rebuilt", 1, 2);
}

#[test]
fn reservations() {
    for form in ["wal:spinlock, to 15", "wal:spinlock", "wal:fetch-and-add"] {
        in_every_order(form, 1, 2);
    }
}
