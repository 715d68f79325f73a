//! Wait events: who queues for what, one row each.
//!
//! Shares of waits are shares of the time of sessions in a statement, at the largest client
//! count of the run, where contention shows.

use super::tenths;
use crate::bottlenecks::evidence::{Evidence, RunEvidence};
use crate::bottlenecks::finding::{Basis, Confidence, Observation};
use crate::observed::waits::{WaitAnalysis, WaitEvent};
use crate::server::LONG_COMMIT_DELAY_US;

/// A wait's share of the active sessions' time from which it is worth a finding.
const NOTABLE: f64 = 0.1;
/// The same for the short waits of lightweight locks.
const NOTABLE_LWLOCK: f64 = 0.05;
/// The same for what a load on a well-configured server does, too: commits and reads.
const MUCH: f64 = 0.2;
/// From this share of blocks that are not found in shared buffers on, misses matter at all.
const SOME_MISSES: f64 = 0.005;

/// Wait events that are the signs of an entry.
pub(super) struct Row {
    /// The entry.
    pub entry: &'static str,
    /// What it looks like, before the share.
    saw: &'static str,
    threshold: f64,
    /// The type of the event, and its names.
    events: &'static [(&'static str, &'static [&'static str])],
    /// Settings that belong to the evidence.
    settings: &'static [&'static str],
    /// What else must hold.
    when: fn(&Evidence, &RunEvidence) -> bool,
}

const ALWAYS: fn(&Evidence, &RunEvidence) -> bool = |_, _| true;

/// Waits for blocks that are read.
const READS: &[(&str, &[&str])] = &[
    ("LWLock", &["BufferMapping", "BufferIO"]),
    ("IO", &["DataFileRead", "AioIoCompletion"]),
    ("IPC", &["BufferIO"]),
];
const WAL_FLUSH: &[(&str, &[&str])] = &[
    ("LWLock", &["WALWrite"]),
    ("IO", &["WALSync", "WALWrite", "WalSync", "WalWrite"]),
];
const PROC_ARRAY: &[(&str, &[&str])] = &[
    ("LWLock", &["ProcArray"]),
    ("IPC", &["ProcArrayGroupUpdate"]),
];

/// All rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        entry: "hot-row",
        saw: "Sessions queue for the same rows",
        threshold: NOTABLE,
        events: &[("Lock", &["tuple", "transactionid"])],
        settings: &[],
        when: ALWAYS,
    },
    Row {
        entry: "relation-lock-queue",
        saw: "Sessions queue for a lock on a table",
        threshold: NOTABLE,
        events: &[("Lock", &["relation"])],
        settings: &[],
        when: ALWAYS,
    },
    Row {
        entry: "wal-flush",
        saw: "Commits wait for the log to reach the disk",
        threshold: MUCH,
        events: WAL_FLUSH,
        settings: &["synchronous_commit", "fsync"],
        when: |_, run| !commits_sleep(run),
    },
    // XLogFlush (xlog.c): the session that flushes for a group sleeps first, without a wait event.
    Row {
        entry: "commit-delay",
        saw: "Commits wait for the log to reach the disk, and sleep before it",
        threshold: MUCH,
        events: WAL_FLUSH,
        settings: &["commit_delay", "commit_siblings", "synchronous_commit"],
        when: |_, run| commits_sleep(run),
    },
    Row {
        entry: "synchronous-standbys",
        saw: "Commits wait for another server",
        threshold: NOTABLE,
        events: &[("IPC", &["SyncRep"])],
        settings: &["synchronous_standby_names", "synchronous_commit"],
        when: ALWAYS,
    },
    Row {
        entry: "predicate-locks",
        saw: "Sessions queue for the locks of serializable transactions",
        threshold: NOTABLE_LWLOCK,
        events: &[(
            "LWLock",
            &[
                "SerializableXactHash",
                "SerializableFinishedList",
                "SerializablePredicateList",
                "SerializablePredicateLockList",
                "PredicateLockManager",
                "PerXactPredicateList",
            ],
        )],
        settings: &["default_transaction_isolation"],
        when: ALWAYS,
    },
    Row {
        entry: "buffer-mapping-locks",
        saw: "Replacing blocks in shared buffers is contended",
        threshold: NOTABLE_LWLOCK,
        events: READS,
        settings: &["shared_buffers"],
        when: |_, run| missed(run).is_some_and(|m| m >= SOME_MISSES) && mapping_contended(run),
    },
    Row {
        entry: "shared-buffers-small",
        saw: "Sessions wait for blocks that are not in shared buffers",
        threshold: MUCH,
        events: READS,
        settings: &["shared_buffers"],
        when: |_, run| missed(run).is_some_and(|m| m >= SOME_MISSES) && !mapping_contended(run),
    },
    Row {
        entry: "hot-page",
        saw: "Sessions queue for the content of the same pages",
        threshold: NOTABLE_LWLOCK,
        // From 19 on the content lock is no LWLock, and has a class of its own.
        events: &[("LWLock", &["BufferContent"]), ("Buffer", &[])],
        settings: &[],
        when: ALWAYS,
    },
    Row {
        entry: "relation-extension",
        saw: "Sessions queue to extend a table",
        threshold: NOTABLE,
        events: &[("Lock", &["extend"])],
        settings: &[],
        when: ALWAYS,
    },
    Row {
        entry: "wal-insertion-locks",
        saw: "Sessions queue to insert into the log",
        threshold: NOTABLE_LWLOCK,
        events: &[("LWLock", &["WALInsert"])],
        settings: &["wal_level", "full_page_writes"],
        when: ALWAYS,
    },
    // Up to 13 it is held for as long as it takes to visit all connections.
    Row {
        entry: "snapshot-scalability",
        saw: "Sessions queue for the list of running transactions",
        threshold: NOTABLE_LWLOCK,
        events: PROC_ARRAY,
        settings: &["max_connections"],
        when: |evidence, _| evidence.is_before(140_000),
    },
    Row {
        entry: "proc-array-lock",
        saw: "Sessions queue for the list of running transactions",
        threshold: NOTABLE_LWLOCK,
        events: PROC_ARRAY,
        settings: &[],
        when: |evidence, _| !evidence.is_before(140_000),
    },
    Row {
        entry: "fast-path-locks",
        saw: "Sessions queue for the lock manager",
        threshold: NOTABLE_LWLOCK,
        events: &[("LWLock", &["LockManager", "LockFastPath"])],
        settings: &["max_locks_per_transaction"],
        // Those who queue for one row's or table's lock queue for its partition, too.
        when: |_, run| {
            run.waits()
                .is_some_and(|waits| waits.share(|e| e.kind == "Lock") < NOTABLE)
        },
    },
];

impl Row {
    /// What the waits of a run say.
    pub fn look(&self, evidence: &Evidence) -> Option<Observation> {
        let run = evidence.run?;
        let waits = run.waits()?;
        let pick = |event: &WaitEvent| {
            self.events
                .iter()
                .any(|(kind, names)| is(event, kind, names))
        };
        let share = waits.share(pick);
        // A handful of sightings is chance, however large a share of little it is.
        if !waits.shows(share, self.threshold) || !(self.when)(evidence, &run) {
            return None;
        }
        let saw = format!(
            "{}: {} of the time of sessions in a statement.",
            self.saw,
            tenths(share)
        );
        let settings = self.settings.iter().filter_map(|name| {
            let value = run.setting(name)?;
            Some(format!("{name} = {value}"))
        });
        Some(
            Observation::measured(Basis::WaitTime, Some(share), saw)
                .all_seen(each(waits, pick))
                .seen(format!(
                    "with {}, {} looks at all sessions",
                    run.clients(),
                    waits.samples
                ))
                .all_seen(settings),
        )
    }
}

/// The share of the blocks looked up that were not in shared buffers.
pub(super) fn missed(run: &RunEvidence) -> Option<f64> {
    let reads = run.point.buffer_reads_per_transaction.as_ref()?.estimate;
    let hits = run.point.buffer_hits_per_transaction.as_ref()?.estimate;
    Some(reads / (reads + hits).max(f64::MIN_POSITIVE))
}

fn mapping_contended(run: &RunEvidence) -> bool {
    run.waits().is_some_and(|waits| {
        let mapping = waits.share(|e| is(e, "LWLock", &["BufferMapping"]));
        waits.shows(mapping, NOTABLE_LWLOCK)
    })
}

fn commits_sleep(run: &RunEvidence) -> bool {
    let delay = run.setting("commit_delay").and_then(|v| v.parse().ok());
    delay.is_some_and(|microseconds: f64| microseconds >= LONG_COMMIT_DELAY_US)
}

/// What was seen at each event, `12.30 sessions on average waited at Lock:tuple (61.5 % …)`.
fn each(waits: &WaitAnalysis, pick: impl Fn(&WaitEvent) -> bool) -> Vec<String> {
    let notable = waits
        .events
        .iter()
        .filter(|e| pick(e) && e.sessions >= 0.01);
    notable
        .map(|e| {
            format!(
                "{:.2} sessions on average waited at {} ({} of the time of sessions in a statement)",
                e.sessions,
                e.name(),
                tenths(e.sessions / waits.active_sessions)
            )
        })
        .collect()
}

/// Whether an event has one of these names in any version: up to 12 `WALWriteLock` and
/// `buffer_mapping` stood for what is `WALWrite` and `BufferMapping` from 13 on. Without names
/// every event of the kind has.
fn is(event: &WaitEvent, kind: &str, names: &[&str]) -> bool {
    let plain = |name: &str| {
        let name = name.to_ascii_lowercase().replace('_', "");
        name.strip_suffix("lock").unwrap_or(&name).to_owned()
    };
    let fits_kind = match kind {
        // LWLockNamed and LWLockTranche in 9.6
        "LWLock" => event.kind.starts_with("LWLock"),
        kind => event.kind == kind,
    };
    fits_kind && (names.is_empty() || names.iter().any(|name| plain(name) == plain(&event.event)))
}

/// Misses by the tenth and more, if no CPU samples show what they cost: a block that the
/// kernel's cache has is no wait to speak of.
pub(super) fn misses_by_counts(evidence: &Evidence) -> Option<Observation> {
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
pub(super) fn blocks_read(run: &RunEvidence) -> String {
    let reads = run.point.buffer_reads_per_transaction.as_ref();
    format!(
        "{:.2} blocks read per transaction, {} of all that are looked up",
        reads.map_or(0.0, |reads| reads.estimate),
        tenths(missed(run).unwrap_or(0.0))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_known_by_the_names_of_all_versions() {
        let event = |kind: &str, event: &str| WaitEvent {
            backend: String::new(),
            kind: kind.into(),
            event: event.into(),
            sessions: 1.0,
        };
        assert!(is(&event("LWLock", "WALWrite"), "LWLock", &["WALWrite"]));
        assert!(is(
            &event("LWLockNamed", "WALWriteLock"),
            "LWLock",
            &["WALWrite"]
        ));
        assert!(is(
            &event("LWLockTranche", "buffer_mapping"),
            "LWLock",
            &["BufferMapping"]
        ));
        assert!(is(
            &event("Lock", "tuple"),
            "Lock",
            &["tuple", "transactionid"]
        ));
        assert!(is(&event("Buffer", "BufferExclusive"), "Buffer", &[]));
        assert!(!is(&event("Lock", "relation"), "Lock", &["tuple"]));
        assert!(!is(&event("IO", "WALWrite"), "LWLock", &["WALWrite"]));
    }
}
