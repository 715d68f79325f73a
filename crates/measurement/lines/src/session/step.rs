//! A session recorded by stepping it.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pgassay_model::Failure;

use super::{Process, Server, named};
use crate::record::{self, Bound, Signals};
use crate::sequence::Sequence;

/// Records `transactions` transactions that `client` has the process execute. It is called once
/// the process waits for its client, and returns when it has all answers. With a bound, it goes by [`Bound::run`], and
/// the sequence holds the transactions before the one in which the limit was reached.
///
/// # Errors
/// Where the process can't be stepped, or what the client came to; where no transaction is within the bound.
pub fn step(
    process: Process,
    server: &Server,
    transactions: u64,
    bound: Option<&Bound>,
    stop: &AtomicBool,
    client: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<(Sequence, Vec<String>), Failure> {
    let signals = Signals::default();
    let (recording, answered) = thread::scope(|scope| {
        // ptrace belongs to a thread; this one is the client's.
        let recorder = scope.spawn(|| record::record(process.pid, &signals, bound, stop));
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
    let (whole, cut) = match bound.zip(recording.whole) {
        Some((bound, whole)) => (whole, Some(bound.cut(whole, transactions)?)),
        None => (transactions, None),
    };
    let program = fs::read_link(format!("/proc/{}/exe", process.pid))
        .map_err(|error| Failure::target(format!("/proc/{}/exe: {error}", process.pid)))?;
    let (sequence, mut doubts) = named(&recording, process, server, &program, whole)?;
    doubts.extend(cut);
    Ok((sequence, doubts))
}
