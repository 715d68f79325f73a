//! Rules over wait events.
//!
//! Shares of waits are shares of the time of sessions in a statement, at the
//! largest client count of the run, where contention shows.

use super::finding::{Finding, Sureness};
use super::run_rules::{clients, percent, setting, version};
use super::{Evidence, RunEvidence, known};
use crate::observed::waits::{WaitAnalysis, WaitEvent};
use crate::profile::Class;
use crate::server::LONG_COMMIT_DELAY_US;

/// A wait's share of the active sessions' time from which it is worth a finding.
const NOTABLE: f64 = 0.1;
/// The same for the short waits of lightweight locks.
const NOTABLE_LWLOCK: f64 = 0.05;

/// Whether an event has this name in any version: up to 12 `WALWriteLock` and
/// `buffer_mapping` stood for what is `WALWrite` and `BufferMapping` from 13 on.
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
    fits_kind && names.iter().any(|name| plain(name) == plain(&event.event))
}

/// What was seen at events: `12.3 sessions on average (61.5 % …) at Lock:tuple`.
fn seen(waits: &WaitAnalysis, pick: impl Fn(&WaitEvent) -> bool) -> Vec<String> {
    waits
        .events
        .iter()
        .filter(|e| pick(e) && e.sessions >= 0.01)
        .map(|e| {
            format!(
                "{:.2} sessions on average waited at {} ({} of the time of sessions in a statement)",
                e.sessions,
                e.name(),
                percent(e.sessions / waits.active_sessions)
            )
        })
        .collect()
}

/// A finding on wait events; none below the threshold.
fn on_waits(
    evidence: &Evidence,
    id: &str,
    title: &str,
    threshold: f64,
    pick: impl Fn(&WaitEvent) -> bool + Copy,
) -> Option<Finding> {
    let run = evidence.run?;
    let waits = run.waits()?;
    let share = waits.share(pick);
    // A handful of sightings is chance, however large a share of little it is.
    if !waits.shows(share, threshold) {
        return None;
    }
    let mut finding = Finding::new(
        id,
        format!(
            "{title}: {} of the time of sessions in a statement.",
            percent(share)
        ),
    );
    for words in seen(waits, pick) {
        finding = finding.seen(words);
    }
    Some(finding.seen(at(&run)).gain(share))
}

fn at(run: &RunEvidence) -> String {
    let samples = run.waits().map_or(0, |w| w.samples);
    format!(
        "at {}, {samples} looks at all sessions",
        clients(run.point.point.clients)
    )
}

fn with_setting(finding: Finding, run: &RunEvidence, name: &str) -> Finding {
    match setting(run, name) {
        Some(value) => finding.seen(format!("{name} = {value}")),
        None => finding,
    }
}

pub fn hot_row(evidence: &Evidence) -> Option<Finding> {
    let finding = on_waits(
        evidence,
        "hot-row",
        "Sessions queue for the same rows",
        NOTABLE,
        |e| is(e, "Lock", &["tuple", "transactionid"]),
    )?;
    Some(
        finding
            .means(
                "One session holds a row that the others want to change: the first in line waits \
                 for its transaction (transactionid), the others for their place (tuple). The row \
                 is changed at the pace of one transaction after the other, commit included.",
            )
            .remedy(
                "spread the change over several rows and add them up when reading, or queue the \
                 changes and apply them by one session; keep the transaction that changes the row \
                 short, and change the row last in it",
            )
            .source(
                "PostgreSQL documentation, 27.2.3 wait events of type Lock; 13.3.2 row-level locks",
            ),
    )
}

pub fn relation_lock(evidence: &Evidence) -> Option<Finding> {
    let finding = on_waits(
        evidence,
        "relation-lock-queue",
        "Sessions queue for a lock on a table",
        NOTABLE,
        |e| is(e, "Lock", &["relation"]),
    )?;
    Some(
        finding
            .means(
                "A lock that conflicts with what all others do is held or waited for (ALTER TABLE, \
                 LOCK TABLE, TRUNCATE, VACUUM FULL, CREATE INDEX): who comes later stands in line \
                 behind it, readers too.",
            )
            .remedy(
                "find who holds and who waits first: select pg_blocking_pids(pid), query from \
                 pg_stat_activity where wait_event_type = 'Lock'; set lock_timeout in sessions \
                 that change tables, and try again there",
            )
            .source("PostgreSQL documentation, 13.3.1 table-level locks"),
    )
}

pub fn wal_flush(evidence: &Evidence) -> Option<Finding> {
    let pick = |e: &WaitEvent| {
        is(e, "LWLock", &["WALWrite"])
            || is(e, "IO", &["WALSync", "WALWrite", "WalSync", "WalWrite"])
    };
    let run = evidence.run?;
    let finding = on_waits(
        evidence,
        "wal-flush",
        "Commits wait for the log to reach the disk",
        0.2,
        pick,
    )?;
    let finding = with_setting(finding, &run, "synchronous_commit");
    let finding = with_setting(finding, &run, "fsync");
    // XLogFlush (xlog.c): the session that flushes for a group sleeps first, without a wait event.
    let delay = setting(&run, "commit_delay").and_then(|value| value.parse::<f64>().ok());
    if delay.is_some_and(|microseconds| microseconds >= LONG_COMMIT_DELAY_US) {
        let finding = with_setting(finding, &run, "commit_delay");
        return Some(
            with_setting(finding, &run, "commit_siblings")
                .means(
                    "The session that is about to flush the log for a group of commits sleeps for \
                     commit_delay (in microseconds) first, wherever commit_siblings other transactions \
                     are open; the others of the group wait for it (WALWrite). What the device itself \
                     takes is WALSync.",
                )
                .remedy(
                    "ALTER SYSTEM RESET commit_delay; SELECT pg_reload_conf(); then measure again: the \
                     device's own share is seen only without the sleep",
                )
                .source("PostgreSQL documentation, 28.5 WAL configuration"),
        );
    }
    Some(
        finding
            .means(
                "Each commit waits until its part of the log is on stable storage; one session \
                 writes and flushes for all that have come by then (WALSync), the others wait for it \
                 (WALWrite).",
            )
            .remedy(
                "a device with a faster flush (a write cache that survives power loss) for pg_wal; \
                 more work in each transaction; synchronous_commit = off where the last moments may \
                 be lost in a crash; commit_delay for many small ones at once",
            )
            .source("PostgreSQL documentation, 28.5 WAL configuration, and pg_test_fsync"),
    )
}

pub fn standby(evidence: &Evidence) -> Option<Finding> {
    let run = evidence.run?;
    let finding = on_waits(
        evidence,
        "standby-wait",
        "Commits wait for another server",
        NOTABLE,
        |e| is(e, "IPC", &["SyncRep"]),
    )?;
    let finding = with_setting(finding, &run, "synchronous_standby_names");
    let finding = with_setting(finding, &run, "synchronous_commit");
    Some(
        finding
            .means(
                "Each commit waits until a synchronous standby has flushed its log (on) or replayed \
                 it (remote_apply): the network, that server's device and, with remote_apply, its own \
                 queries are in every transaction that writes.",
            )
            .remedy(
                "synchronous_commit = on instead of remote_apply, where reads on the standby need not \
                 see the commit at once; local for transactions that may be lost with this server; \
                 select application_name, write_lag, flush_lag, replay_lag from pg_stat_replication \
                 says where the time goes",
            )
            .source("PostgreSQL documentation, 26.2.8 synchronous replication"),
    )
}

pub fn predicate_locks(evidence: &Evidence) -> Option<Finding> {
    let finding = on_waits(
        evidence,
        "predicate-locks",
        "Sessions queue for the locks of serializable transactions",
        NOTABLE_LWLOCK,
        |e| {
            is(
                e,
                "LWLock",
                &[
                    "SerializableXactHash",
                    "SerializableFinishedList",
                    "SerializablePredicateList",
                    "SerializablePredicateLockList",
                    "PredicateLockManager",
                    "PerXactPredicateList",
                ],
            )
        },
    )?;
    Some(
        finding
            .means(
                "Serializable transactions register what they read, and look for dangerous patterns at \
                 each write and commit; the list of all such transactions has one lock.",
            )
            .remedy(
                "read committed as the default (default_transaction_isolation, at the database and \
                 the role, too), and serializable for the transactions that need it; READ ONLY where \
                 they only read",
            )
            .source("PostgreSQL documentation, 13.2.3 serializable isolation level"),
    )
}

pub fn buffer_misses(evidence: &Evidence) -> Option<Finding> {
    let pick = |e: &WaitEvent| {
        is(e, "LWLock", &["BufferMapping", "BufferIO"])
            || is(e, "IO", &["DataFileRead", "AioIoCompletion"])
            || is(e, "IPC", &["BufferIO"])
    };
    let run = evidence.run?;
    let waits = run.waits()?;
    let mapping = waits.share(|e| is(e, "LWLock", &["BufferMapping"]));
    let contended = waits.shows(mapping, NOTABLE_LWLOCK);
    let threshold = if contended { NOTABLE_LWLOCK } else { 0.2 };
    let reads = run.point.buffer_reads_per_transaction.as_ref()?;
    let hits = run.point.buffer_hits_per_transaction.as_ref()?;
    let missed = reads.estimate / (reads.estimate + hits.estimate).max(f64::MIN_POSITIVE);
    // Without misses the cause lies elsewhere.
    if missed < 0.005 {
        return None;
    }
    let (id, title) = if contended {
        (
            "buffer-mapping-contention",
            "Replacing blocks in shared buffers is contended",
        )
    } else {
        (
            "buffer-misses",
            "Sessions wait for blocks that are not in shared buffers",
        )
    };
    let by_waits = on_waits(evidence, id, title, threshold, pick);
    let finding = by_waits
        .or_else(|| misses_by_samples(evidence, missed))
        .or_else(|| misses_by_counts(evidence, missed))?
        .seen(format!(
            "{:.2} blocks read a transaction, {} of all that are looked up",
            reads.estimate,
            percent(missed)
        ));
    let finding = with_setting(finding, &run, "shared_buffers");
    Some(
        finding
            .means(
                "The working set is larger than shared_buffers: blocks are read, even if only from \
                 the kernel's cache, and each one replaced changes two partitions of the mapping \
                 table under exclusive locks.",
            )
            .remedy("raise shared_buffers towards the working set, as far as memory allows")
            .source(known::MAPPING_PARTITIONS.source()),
    )
}

/// Misses that cost CPU time rather than waits: blocks copied from the kernel's cache.
fn misses_by_samples(evidence: &Evidence, missed: f64) -> Option<Finding> {
    let profile = evidence.profile?;
    let share = profile.class(Class::Io);
    (profile.shows(share, NOTABLE) && missed >= 0.05).then(|| {
        Finding::new(
            "buffer-misses",
            format!(
                "Reading blocks that are not in shared buffers takes {} of the CPU samples.",
                percent(share)
            ),
        )
        .seen(format!(
            "{} of the samples in the kernel's file and device code",
            percent(share)
        ))
        .gain(share)
        .sure(Sureness::Likely)
    })
}

/// Misses by the tenth and more, where no CPU samples tell what they cost: a block that the
/// kernel's cache has is no wait to speak of.
fn misses_by_counts(evidence: &Evidence, missed: f64) -> Option<Finding> {
    (evidence.profile.is_none() && missed >= 0.1).then(|| {
        Finding::new(
            "buffer-misses",
            format!(
                "{} of the blocks that are looked up are not in shared buffers.",
                percent(missed)
            ),
        )
        .sure(Sureness::Possible)
    })
}

pub fn content_lock(evidence: &Evidence) -> Option<Finding> {
    let finding = on_waits(
        evidence,
        "hot-page",
        "Sessions queue for the content of the same pages",
        NOTABLE_LWLOCK,
        |e| is(e, "LWLock", &["BufferContent", "buffer_content"]) || e.kind == "Buffer",
    )?;
    Some(
        finding
            .means(
                "A page that many sessions change at once: the last page of an index over a growing \
                 key, the row version's own page under heavy updates.",
            )
            .remedy(
                "spread inserts (hash-partitioned table or index, keys that do not grow together), a \
                 lower fillfactor for rows that are updated",
            )
            .source("PostgreSQL documentation, 27.2.3 wait events: BufferContent"),
    )
}

pub fn extension_lock(evidence: &Evidence) -> Option<Finding> {
    let finding = on_waits(
        evidence,
        "relation-extension",
        "Sessions queue to extend a table",
        NOTABLE,
        |e| is(e, "Lock", &["extend"]),
    )?;
    Some(
        finding
            .means("New pages are added to a table by one session at a time.")
            .remedy("load by COPY and in larger statements; PostgreSQL 16 extends by several pages at a time; partition the table")
            .source("PostgreSQL documentation, release notes of 16: bulk extension of relations"),
    )
}

pub fn wal_insert_wait(evidence: &Evidence) -> Option<Finding> {
    let finding = on_waits(
        evidence,
        "wal-insert-wait",
        "Sessions queue to insert into the log",
        NOTABLE_LWLOCK,
        |e| is(e, "LWLock", &["WALInsert", "wal_insert"]),
    )?;
    let finding = version(finding, evidence.version);
    Some(
        finding
            .means("There are eight locks for inserting into the log; up to 16 publishing their positions is contended, too.")
            .remedy(newer(&known::WAL_POSITIONS, evidence.version, "write less log: fewer indexes, full_page_writes at longer checkpoint distances, COPY"))
            .source(known::WAL_POSITIONS.source()),
    )
}

pub fn proc_array_wait(evidence: &Evidence) -> Option<Finding> {
    let finding = on_waits(
        evidence,
        "proc-array-wait",
        "Sessions queue for the list of running transactions",
        NOTABLE_LWLOCK,
        |e| is(e, "LWLock", &["ProcArray"]) || is(e, "IPC", &["ProcArrayGroupUpdate"]),
    )?;
    Some(
        version(finding, evidence.version)
            .means("Snapshots share the lock of this list, and a transaction that ends takes it alone.")
            .remedy(newer(&known::SCALABLE_SNAPSHOTS, evidence.version, "fewer sessions at once (a connection pool near the number of CPUs)"))
            .source(known::SCALABLE_SNAPSHOTS.source()),
    )
}

pub fn lock_manager_wait(evidence: &Evidence) -> Option<Finding> {
    // Those who queue for one row's or table's lock queue for its partition, too.
    let queues = evidence.run?.waits()?.share(|e| e.kind == "Lock");
    if queues >= NOTABLE {
        return None;
    }
    let finding = on_waits(
        evidence,
        "lock-manager-wait",
        "Sessions queue for the lock manager",
        NOTABLE_LWLOCK,
        |e| {
            is(
                e,
                "LWLock",
                &["LockManager", "lock_manager", "LockFastPath"],
            )
        },
    )?;
    Some(
        version(finding, evidence.version)
            .means("Statements over more tables, partitions and indexes than a session has fast-path slots (16 up to 17) lock in the shared table.")
            .remedy(newer(&known::FAST_PATH, evidence.version, "fewer partitions and indexes per statement, prepared statements"))
            .source(known::FAST_PATH.source()),
    )
}

/// The newer version where it would help, and what helps in any.
fn newer(change: &known::Change, version: Option<u32>, else_do: &str) -> String {
    match change.lacking(version) {
        Some(false) => else_do.to_owned(),
        _ => format!(
            "upgrade to PostgreSQL {} or later ({}); else {else_do}",
            change.version, change.what
        ),
    }
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
        assert!(!is(&event("Lock", "relation"), "Lock", &["tuple"]));
        assert!(!is(&event("IO", "WALWrite"), "LWLock", &["WALWrite"]));
    }
}
