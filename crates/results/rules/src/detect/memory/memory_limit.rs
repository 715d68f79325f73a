//! A memory limit takes the page cache away.

use crate::detect::common::wait_shares;
use crate::detect::common::waiting::waiting;
use crate::detect::prelude::*;
use pgassay_evidence::{metrics, number};

/// Pages a second that come back, from which on a memory limit is worth a look.
const MANY_BACK: f64 = 50.0;

/// A memory limit of the control group that takes the page cache away: blocks are read from the device again that
/// would have stayed.
pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let limit = run.point.estimate(metrics::MEMORY_LIMIT)?.estimate;
    let back = run.point.estimate(metrics::MEMORY_REFAULTS)?.estimate;
    let reads = |kind: &str, event: &str| {
        kind == "IO" && matches!(event, "DataFileRead" | "AioIoCompletion")
    };
    let waits = run.wait_share(reads).unwrap_or(0.0);
    if back < MANY_BACK || waits < 0.1 {
        return None;
    }
    let bytes = |figure: f64| number::bytes(figure as u64);
    let saw = format!(
        "A memory limit of {}, page cache included, throws pages out that the server reads again, {back:.0} a second: {} \
         of {}.",
        bytes(limit),
        tenths(waits),
        run.whole()
    );
    let seen = waiting(evidence, &run, (waits, saw), reads).confidence(Confidence::High);
    let machine = run
        .host
        .memory_bytes
        .map(|all| format!("the machine has {}", bytes(all as f64)));
    Some(seen.all_seen(machine).seen(wait_shares::blocks_read(&run)))
}
