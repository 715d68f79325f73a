//! Each lock under every order of its steps that loom finds with few preemptions: no hold is doubled, no
//! wake-up lost, nobody left waiting.
//!
//! `cargo test -p pgassay-kernels --features loom`
#![cfg(feature = "loom")]

use std::sync::Arc;

use pgassay_kernels::{Me, find};

/// Two threads do an operation or two each, in every order.
fn in_every_order(form: &'static str, each: u64, preemptions: usize) {
    let [form] = find(form)[..] else {
        panic!("one form is called {form}");
    };
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let kernel: Arc<dyn pgassay_kernels::Kernel> = Arc::from((form.make)(2));
        let other = {
            let kernel = Arc::clone(&kernel);
            loom::thread::spawn(move || {
                let mut me = Me::new(1, 1);
                (0..each).for_each(|_| kernel.operate(&mut me));
            })
        };
        let mut me = Me::new(0, 1);
        (0..each).for_each(|_| kernel.operate(&mut me));
        other.join().unwrap();
        kernel.proof(2 * each).unwrap();
    });
}

#[test]
fn words() {
    for form in ["word:fetch-and-add", "word:compare-and-swap", "word:swap"] {
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
}

#[test]
fn lwlocks() {
    for form in [
        "lwlock:shared",
        "lwlock:shared, fetch-and-add",
        "lwlock:exclusive",
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
    ] {
        in_every_order(form, 1, 3);
    }
}

#[test]
fn reservations() {
    for form in ["wal:spinlock", "wal:fetch-and-add"] {
        in_every_order(form, 1, 2);
    }
}
