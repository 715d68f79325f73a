//! Wait events: who queues for what, one row each.
//!
//! Shares of waits are shares of the budget (the sessions' time in transactions) where there is
//! one, else of the time of sessions in a statement, at the largest client count of the run,
//! where contention shows.

use crate::detect::common::wait_shares::{
    MUCH, READS, SOME_MISSES, WAL_FLUSH, commits_sleep, is, is_of, missed, who,
};
use crate::detect::common::waiting::waiting;
use crate::detect::links::account_for_wait;
use crate::detect::locks::first_row::is_it as wants_the_first;
use crate::detect::locks::holders::is_told;
use crate::detect::tenths;
use crate::detect::wal::flushes::behind_flushes;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::Observation;
use crate::wait_events::{MULTIXACTS, SERIALIZABLE, SUBTRANSACTIONS};
use pgassay_evidence::observed::budget::Wait;
use pgassay_evidence::observed::waits::{WaitAnalysis, WaitEvent};
use pgassay_model::server::STANDBY_ABSENT;

/// A wait's share of the active sessions' time from which it is worth a finding.
const NOTABLE: f64 = 0.1;
/// The same for the short waits of lightweight locks.
const NOTABLE_LWLOCK: f64 = 0.05;
/// Wait events that are the signs of an entry.
pub struct Row {
    /// The entry.
    pub entry: &'static str,
    /// What it looks like, before the share.
    saw: &'static str,
    threshold: f64,
    /// The type of the event, and its names.
    events: &'static [(&'static str, &'static [&'static str])],
    /// What it is a symptom of; none if the entry is the cause.
    symptom_of: Option<&'static str>,
    /// Settings that belong to the evidence.
    settings: &'static [&'static str],
    /// What else must hold.
    when: fn(&Evidence, &RunEvidence) -> bool,
    /// What else is said of it.
    more: fn(&RunEvidence, Observation) -> Observation,
}

const ALWAYS: fn(&Evidence, &RunEvidence) -> bool = |_, _| true;
const NO_MORE: fn(&RunEvidence, Observation) -> Observation = |_, seen| seen;

const PROC_ARRAY: &[(&str, &[&str])] = &[
    ("LWLock", &["ProcArray"]),
    ("IPC", &["ProcArrayGroupUpdate"]),
];

/// All rows.
pub const ROWS: &[Row] = &[
    Row {
        entry: "hot-row",
        saw: "Sessions queue for the same rows",
        threshold: NOTABLE,
        events: &[("Lock", &["tuple", "transactionid"])],
        symptom_of: Some(
            "many transactions that change the same rows, or one that stays open after its change",
        ),
        settings: &[],
        when: |_, run| !is_told(run) && !wants_the_first(run),
        more: NO_MORE,
    },
    Row {
        entry: "relation-lock-queue",
        saw: "Sessions queue for a lock on a table",
        threshold: NOTABLE,
        events: &[("Lock", &["relation"])],
        symptom_of: Some(
            "a transaction that keeps a strong lock on a table: DDL, LOCK TABLE, or one left open after it",
        ),
        settings: &[],
        when: |_, run| !is_told(run),
        more: NO_MORE,
    },
    Row {
        entry: "wal-flush",
        saw: "Commits wait for the log to reach the disk",
        threshold: MUCH,
        events: WAL_FLUSH,
        symptom_of: Some("many small commits, or a slow device under pg_wal"),
        settings: &["synchronous_commit", "fsync"],
        when: |_, run| !commits_sleep(run),
        more: behind_flushes,
    },
    Row {
        entry: "synchronous-standbys",
        saw: "Commits wait for another server",
        threshold: NOTABLE,
        events: &[("IPC", &["SyncRep"])],
        symptom_of: None,
        settings: &["synchronous_standby_names", "synchronous_commit"],
        when: ALWAYS,
        more: until_replayed,
    },
    Row {
        entry: "predicate-locks",
        saw: "Sessions queue for the locks of serializable transactions",
        threshold: NOTABLE_LWLOCK,
        events: &[("LWLock", SERIALIZABLE)],
        symptom_of: None,
        settings: &["default_transaction_isolation"],
        when: ALWAYS,
        more: NO_MORE,
    },
    Row {
        entry: "subtransaction-lookups",
        saw: "Sessions look up the parents of subtransactions",
        threshold: NOTABLE_LWLOCK,
        events: &[("LWLock", SUBTRANSACTIONS)],
        symptom_of: None,
        settings: &["subtransaction_buffers"],
        when: ALWAYS,
        more: NO_MORE,
    },
    Row {
        entry: "multixact-lookups",
        saw: "Sessions look up who shares a row's lock",
        threshold: NOTABLE_LWLOCK,
        events: &[("LWLock", MULTIXACTS)],
        symptom_of: None,
        settings: &["multixact_offset_buffers", "multixact_member_buffers"],
        when: ALWAYS,
        more: NO_MORE,
    },
    Row {
        entry: "buffer-mapping-locks",
        saw: "Replacing blocks in shared buffers is contended",
        threshold: NOTABLE_LWLOCK,
        events: READS,
        symptom_of: Some(
            "shared buffers smaller than what is in use, or statements that read more than they need",
        ),
        settings: &["shared_buffers"],
        when: |_, run| missed(run).is_some_and(|m| m >= SOME_MISSES) && mapping_contended(run),
        more: NO_MORE,
    },
    Row {
        entry: "shared-buffers-small",
        saw: "Sessions wait for blocks that are not in shared buffers",
        threshold: MUCH,
        events: READS,
        symptom_of: Some(
            "a cache smaller than what is read, or statements that read more than they need: a missing index, dead rows, bloat",
        ),
        settings: &["shared_buffers"],
        when: |_, run| missed(run).is_some_and(|m| m >= SOME_MISSES) && !mapping_contended(run),
        more: NO_MORE,
    },
    Row {
        entry: "hot-page",
        saw: "Sessions queue for the content of the same pages",
        threshold: NOTABLE_LWLOCK,
        // From 19 on the content lock is no LWLock, and has a class of its own.
        events: &[("LWLock", &["BufferContent"]), ("Buffer", &[])],
        symptom_of: Some(
            "many sessions on one page: a small table, the newest page of an index, a root",
        ),
        settings: &[],
        when: ALWAYS,
        more: NO_MORE,
    },
    Row {
        entry: "relation-extension",
        saw: "Sessions queue to extend a table",
        threshold: NOTABLE,
        events: &[("Lock", &["extend"])],
        symptom_of: Some("many sessions that insert into one table"),
        settings: &[],
        when: ALWAYS,
        more: NO_MORE,
    },
    Row {
        entry: "wal-insertion-locks",
        saw: "Sessions queue to insert into the log",
        threshold: NOTABLE_LWLOCK,
        events: &[("LWLock", &["WALInsert"])],
        symptom_of: Some(
            "much log from many sessions: whole pages after checkpoints, many indexes, wide rows",
        ),
        settings: &["wal_level", "full_page_writes"],
        when: ALWAYS,
        more: NO_MORE,
    },
    // Up to 13 it is held for as long as it takes to visit all connections.
    Row {
        entry: "snapshot-scalability",
        saw: "Sessions queue for the list of running transactions",
        threshold: NOTABLE_LWLOCK,
        events: PROC_ARRAY,
        symptom_of: None,
        settings: &["max_connections"],
        when: |evidence, _| evidence.is_before(140_000),
        more: NO_MORE,
    },
    Row {
        entry: "proc-array-lock",
        saw: "Sessions queue for the list of running transactions",
        threshold: NOTABLE_LWLOCK,
        events: PROC_ARRAY,
        symptom_of: Some("many sessions that begin, commit or take snapshots at once"),
        settings: &[],
        when: |evidence, _| !evidence.is_before(140_000),
        more: NO_MORE,
    },
    Row {
        entry: "fast-path-locks",
        saw: "Sessions queue for the lock manager",
        threshold: NOTABLE_LWLOCK,
        events: &[("LWLock", &["LockManager", "LockFastPath"])],
        symptom_of: Some("statements that lock many relations: partitions, many indexes"),
        settings: &["max_locks_per_transaction"],
        // Those who queue for one row's or table's lock queue for its partition, too.
        when: |_, run| {
            run.waits()
                .is_some_and(|waits| waits.share(|e| e.kind == "Lock") < NOTABLE)
        },
        more: NO_MORE,
    },
];

/// Whether a standby that commits wait for is there.
const CONNECTED: &str = "SELECT application_name, sync_state, write_lag, flush_lag, replay_lag FROM pg_stat_replication;   -- is one \
     sync or quorum? write_lag is the way there and back, what flush_lag has beyond it the standby's disk";

/// Commits that wait until a standby has replayed them: what holds the replay up stands on the standby.
fn until_replayed(run: &RunEvidence, seen: Observation) -> Observation {
    if run.setting("synchronous_commit") != Some("remote_apply") {
        return seen
            .sql(CONNECTED)
            .advice(format!("if none is: {STANDBY_ABSENT}"))
            .advice(
                "wait for a standby that is near: another name in synchronous_standby_names, or ANY 1 (near, far), of which the faster one counts; one that is far away, or for disasters only, \
                 left out of it, so that it follows asynchronously",
            )
            .advice("synchronous_commit = local in transactions that may be lost with this server");
    }
    let page = crate::find("synchronous-standbys").map(|entry| entry.remedy);
    let seen = seen
        .sql(CONNECTED)
        .advice(format!("if none is: {STANDBY_ABSENT}"))
        .advice(
            "where nobody reads their own writes on the standby, synchronous_commit = on is enough: flushed there, and not yet visible: ALTER SYSTEM SET synchronous_commit = 'on'; SELECT pg_reload_conf();",
        )
        .advice(
            "where remote_apply must stay, see on the standby what delays the replay: recovery_min_apply_delay, which holds each commit back by that time \
             (ALTER SYSTEM RESET recovery_min_apply_delay; SELECT pg_reload_conf(); on the standby, or another standby in synchronous_standby_names), and \
             queries that conflict with it (pg_stat_database_conflicts; hot_standby_feedback, max_standby_streaming_delay)",
        );
    page.into_iter().fold(seen, Observation::advice)
}

impl Row {
    /// Whether an event is one of its signs.
    fn has(&self, kind: &str, event: &str) -> bool {
        is_of(kind, event, self.events)
    }

    /// What the waits of a run say.
    pub fn look(&self, evidence: &Evidence) -> Option<Observation> {
        let run = evidence.run?;
        let waits = run.waits()?;
        let pick = |event: &WaitEvent| self.has(&event.kind, &event.event);
        let share = run.wait_share(|kind, event| self.has(kind, event))?;
        // A handful of sightings is chance, however large a share of little it is.
        if !waits.shows(waits.share(pick), self.threshold)
            || share < self.threshold
            || !(self.when)(evidence, &run)
        {
            return None;
        }
        let saw = format!("{}: {} of {}.", self.saw, tenths(share), run.whole());
        let settings = self.settings.iter().filter_map(|name| {
            let value = run.setting(name)?;
            Some(format!("{name} = {value}"))
        });
        let has = |kind: &str, event: &str| self.has(kind, event);
        let mut seen = waiting(evidence, &run, (share, saw), has);
        seen.symptom_of = self.symptom_of;
        Some(
            (self.more)(&run, seen)
                .all_seen(each(&run, waits, |kind, event| self.has(kind, event)))
                .all_seen(who(&run, |kind, event| self.has(kind, event)))
                .seen(format!(
                    "with {}, {} looks at all sessions",
                    run.clients(),
                    waits.samples
                ))
                .all_seen(settings),
        )
    }
}

/// The entry that an event is a sign of, among others: its page says more of it.
pub fn entry_of(kind: &str, event: &str) -> Option<&'static str> {
    let row = ROWS.iter().find(|row| row.has(kind, event))?;
    Some(row.entry)
}

/// Whether a finding of a rule accounts for an event.
pub fn is_covered(kind: &str, event: &str, found: &[&str]) -> bool {
    let mut rows = ROWS.iter().filter(|row| found.contains(&row.entry));
    rows.any(|row| row.has(kind, event)) || account_for_wait(found, kind, event)
}

fn mapping_contended(run: &RunEvidence) -> bool {
    run.waits().is_some_and(|waits| {
        let mapping = waits.share(|e| is(&e.kind, &e.event, "LWLock", &["BufferMapping"]));
        waits.shows(mapping, NOTABLE_LWLOCK)
    })
}

/// What was seen at each event, `12.30 sessions on average waited at Lock:tuple (61.5 % …)`.
fn each(run: &RunEvidence, waits: &WaitAnalysis, pick: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let budget = run.budget().and_then(|b| Some((b, b.off.as_ref()?)));
    let seen: Vec<(String, f64, f64)> = match budget {
        Some((budget, off)) => {
            let picked = off.waits.iter().filter(|w| pick(&w.kind, &w.event));
            let of = |w: &Wait| (w.name(), w.sessions, budget.share(w.sessions));
            picked.map(of).collect()
        }
        None => {
            let picked = waits.events.iter().filter(|e| pick(&e.kind, &e.event));
            let of = |e: &WaitEvent| (e.name(), e.sessions, e.sessions / waits.active_sessions);
            picked.map(of).collect()
        }
    };
    let notable = seen.iter().filter(|(_, sessions, _)| *sessions >= 0.01);
    notable
        .map(|(name, sessions, share)| {
            format!(
                "{sessions:.2} sessions on average waited at {name} ({} of {})",
                tenths(*share),
                run.whole()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::{found_with, one};
    use crate::finding::Confidence;

    /// The names are those of PostgreSQL 9.6, 12, 13 and 17.
    #[test]
    fn contended_transaction_caches_are_found_in_all_versions() {
        for (entry, kind, event) in [
            ("predicate-locks", "LWLock", "SerializableXactHash"),
            ("predicate-locks", "LWLock", "PerXactPredicateList"),
            ("predicate-locks", "LWLock", "serializable_xact"),
            ("predicate-locks", "LWLockTranche", "predicate_lock_manager"),
            ("subtransaction-lookups", "LWLock", "SubtransSLRU"),
            ("subtransaction-lookups", "LWLock", "SubtransBuffer"),
            ("subtransaction-lookups", "LWLock", "SubtransControlLock"),
            ("subtransaction-lookups", "LWLockTranche", "subtrans"),
            ("multixact-lookups", "LWLock", "MultiXactMemberSLRU"),
            ("multixact-lookups", "LWLock", "MultiXactOffsetBuffer"),
            ("multixact-lookups", "LWLock", "multixact_member"),
            (
                "multixact-lookups",
                "LWLockNamed",
                "MultiXactOffsetControlLock",
            ),
        ] {
            let found = |sessions: f64| found_with(vec![(kind, event, sessions)], |_| {});
            let much = found(2.4);
            let finding = one(&much, entry);
            // Another 0.6 sessions run or wait for a CPU.
            assert!((finding.budget_share.unwrap() - 0.8).abs() < 1e-9);
            assert_eq!(finding.confidence, Confidence::High, "{event}");
            // An event that an entry covers is not reported once more as a mere event.
            assert!(much.iter().all(|f| !f.id.starts_with("wait-event")));
            assert!(found(0.03).iter().all(|f| f.id != entry), "{event}");
        }
    }

    #[test]
    fn an_event_is_known_by_the_names_of_all_versions() {
        let is = |(kind, event): (&str, &str), of: &str, names: &[&str]| is(kind, event, of, names);
        let event = |kind, event| (kind, event);
        assert!(is(event("LWLock", "WALWrite"), "LWLock", &["WALWrite"]));
        assert!(is(
            event("LWLockNamed", "WALWriteLock"),
            "LWLock",
            &["WALWrite"]
        ));
        assert!(is(
            event("LWLockTranche", "buffer_mapping"),
            "LWLock",
            &["BufferMapping"]
        ));
        assert!(is(
            event("Lock", "tuple"),
            "Lock",
            &["tuple", "transactionid"]
        ));
        assert!(is(event("Buffer", "BufferExclusive"), "Buffer", &[]));
        assert!(!is(event("Lock", "relation"), "Lock", &["tuple"]));
        assert!(!is(event("IO", "WALWrite"), "LWLock", &["WALWrite"]));
    }
}
