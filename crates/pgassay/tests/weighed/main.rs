//! What weighs how much in a server's time, held against real servers under load. Beside other tests these would
//! judge a disturbed machine, so they have a binary of their own, which cargo runs by itself, and in it one test
//! runs at a time: each begins with [`alone`].

use std::sync::{Mutex, MutexGuard};

mod behind_statements;
mod behind_tables;
#[path = "../../../pgwire/tests/support/mod.rs"]
mod pg_support;
mod plan_causes;
mod plan_shapes;
mod statements;

/// The machine for the test that holds it, until it ends; also after one that failed.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(|failed| failed.into_inner())
}
