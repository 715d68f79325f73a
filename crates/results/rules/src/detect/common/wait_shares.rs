//! Shares of waits and misses that several rules judge by.

use crate::detect::tenths;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Observation};
pub(crate) use crate::wait_events::{READS, WAL_FLUSH, is, is_of};
use pgassay_evidence::metrics;
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_evidence::server::LONG_COMMIT_DELAY_US;

/// Waits of a session for its parallel workers (PostgreSQL manual, "Wait Events of Type IPC").
const FOR_WORKERS: &[&str] = &[
    "BgworkerStartup",
    "BgWorkerStartup",
    "BgworkerShutdown",
    "BgWorkerShutdown",
    "ExecuteGather",
    "ParallelFinish",
    "MessageQueueInternal",
    "MessageQueueReceive",
    "MessageQueuePutMessage",
    "MessageQueueSend",
];

/// Whether an event is one of those.
pub fn waits_for_workers(event: &str) -> bool {
    let mut known = FOR_WORKERS.iter();
    known.any(|known| known.eq_ignore_ascii_case(event))
}

/// Waits for rows.
pub fn of_rows(kind: &str, event: &str) -> bool {
    kind == "Lock" && matches!(event, "tuple" | "transactionid")
}

/// The same for what a load on a well-configured server does, too: commits and reads.
pub const MUCH: f64 = 0.2;

/// From this share of blocks that are not found in shared buffers on, misses matter at all.
pub const SOME_MISSES: f64 = 0.005;

/// The share of the blocks looked up that were not in shared buffers.
pub fn missed(run: &RunEvidence) -> Option<f64> {
    let reads = run.point.estimate(metrics::BUFFER_MISSES)?.estimate;
    let hits = run.point.estimate(metrics::BUFFER_HITS)?.estimate;
    Some(reads / (reads + hits).max(f64::MIN_POSITIVE))
}

/// Whether commits sleep for a time that shows.
pub fn commits_sleep(run: &RunEvidence) -> bool {
    let delay = run.setting("commit_delay").and_then(|v| v.parse().ok());
    delay.is_some_and(|microseconds: f64| microseconds >= LONG_COMMIT_DELAY_US)
}

/// The statements that wait there most: `in 82.0 % of it: UPDATE t SET …`.
pub fn who(run: &RunEvidence, pick: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let statements = run
        .observed
        .and_then(|observed| observed.statements.as_ref());
    let at = |s: &StatementTime| -> f64 {
        let waits = s.waits.iter().filter(|w| {
            let (kind, event) = w.name.split_once(':').unwrap_or_default();
            pick(kind, event)
        });
        waits.map(|w| w.sessions).sum()
    };
    let mut those: Vec<(f64, &StatementTime)> = statements
        .into_iter()
        .flat_map(|s| &s.statements)
        .map(|s| (at(s), s))
        .filter(|(sessions, _)| *sessions > 0.0)
        .collect();
    those.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all: f64 = those.iter().map(|(sessions, _)| sessions).sum();
    let most = those
        .iter()
        .take(2)
        .filter(|(sessions, _)| *sessions >= 0.2 * all);
    most.map(|(sessions, s)| {
        format!(
            "in {} of it the statement is: {}",
            tenths(sessions / all),
            s.named()
        )
    })
    .collect()
}

/// Misses by the tenth and more, if no CPU samples show what they cost: a block that the
/// kernel's cache has is no wait to speak of.
pub fn misses_by_counts(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let missed = missed(&run).filter(|missed| *missed >= 0.1)?;
    let saw = format!(
        "{} of the blocks that are looked up are not in shared buffers.",
        tenths(missed)
    );
    evidence.profile.is_none().then(|| {
        Observation::measured(Basis::Counters, None, saw)
            .confidence(Confidence::Low)
            .seen(blocks_read(&run))
    })
}

/// `12.00 blocks read per transaction`.
pub fn blocks_read(run: &RunEvidence) -> String {
    let reads = run.point.estimate(metrics::BUFFER_MISSES);
    format!(
        "{:.2} blocks read per transaction, {} of all that are looked up",
        reads.map_or(0.0, |reads| reads.estimate),
        tenths(missed(run).unwrap_or(0.0))
    )
}
