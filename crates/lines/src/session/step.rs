//! A session recorded by stepping it.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pgassay_model::Failure;

use super::{Process, Server, named};
use crate::record::{self, Signals};
use crate::sequence::Sequence;

/// Records `transactions` transactions that `client` has the process execute. It is called once
/// the process waits for its client, and returns when it has all answers.
///
/// # Errors
/// Where the process can't be stepped, or what the client came to.
pub fn step(
    process: Process,
    server: &Server,
    transactions: u64,
    stop: &AtomicBool,
    client: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<(Sequence, Vec<String>), Failure> {
    let signals = Signals::default();
    let (recording, answered) = thread::scope(|scope| {
        // ptrace belongs to a thread; this one is the client's.
        let recorder = scope.spawn(|| record::record(process.pid, &signals, stop));
        let ready = || signals.ready.load(Ordering::Acquire);
        while !ready() && !recorder.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let answered = if ready() { client() } else { Ok(()) };
        signals.done.store(true, Ordering::Release);
        let recording = recorder
            .join()
            .unwrap_or_else(|_| Err(Failure::target("the recorder broke down")));
        (recording, answered)
    });
    // A session that is ended fails on both sides; why is known here.
    let recording = recording?;
    answered?;
    let program = fs::read_link(format!("/proc/{}/exe", process.pid))
        .map_err(|error| Failure::target(format!("/proc/{}/exe: {error}", process.pid)))?;
    named(&recording, process, server, &program, transactions)
}
