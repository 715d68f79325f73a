//! Commits that wait for the log: those that sleep first (`commit_delay`), and those of one short statement each.

use crate::detect::common::wait_shares;
use crate::detect::common::wait_shares::{MUCH, WAL_FLUSH, commits_sleep};
use crate::detect::prelude::*;

/// Settings that belong to the evidence.
const SETTINGS: &[&str] = &["commit_delay", "commit_siblings", "synchronous_commit"];

/// XLogFlush (xlog.c): the session that flushes for a group sleeps first, at no wait event, and the others
/// of the group wait for it.
pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let sampled = run.waits()?;
    if !commits_sleep(&run) {
        return None;
    }
    let flushes = |kind: &str, event: &str| wait_shares::is_of(kind, event, WAL_FLUSH);
    let waiting = run.wait_share(flushes)?;
    let off = run
        .budget()
        .and_then(|b| Some(b.share(b.off.as_ref()?.unnamed)));
    let asleep = off.unwrap_or(0.0);
    let share = (waiting + asleep).min(1.0);
    let seen = sampled.share(|e| flushes(&e.kind, &e.event)) + asleep;
    if share < MUCH || !sampled.shows(seen.min(1.0), MUCH) {
        return None;
    }
    let saw = format!(
        "Commits sleep before they flush the log, and others wait for them: {} of {}.",
        tenths(share),
        run.whole()
    );
    let flushing = run.wait_share(|kind, event| kind == "IO" && flushes(kind, event))?;
    let won = without_sleep(asleep, waiting, flushing);
    let mut observation = Observation::measured(Basis::WaitTime, Some(share), saw);
    if asleep > 0.0 {
        observation = observation.expects(
            won / share,
            "the time that commits sleep, and that others wait for these",
        );
    }
    let settings = SETTINGS.iter().filter_map(|name| {
        let value = run.setting(name)?;
        Some(format!("{name} = {value}"))
    });
    Some(
        observation
            .all_seen((asleep > 0.0).then(|| {
                format!(
                    "{} of it at no wait event, as sleeping commits are",
                    tenths(asleep)
                )
            }))
            .all_seen(wait_shares::who(&run, flushes))
            .all_seen(settings),
    )
}

/// What is won of the time in which sessions sleep, wait for the log to be flushed, and of the latter flush
/// it themselves: who waits for the one that flushes waits for its sleep and for its flush.
fn without_sleep(asleep: f64, waiting: f64, flushing: f64) -> f64 {
    let of_sleep = asleep / (asleep + flushing).max(f64::MIN_POSITIVE);
    asleep + (waiting - flushing).max(0.0) * of_sleep
}

#[cfg(test)]
mod tests {
    use super::without_sleep;
    use crate::detect::tests::made::counters;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_evidence::observed::counters::Written;
    use pgassay_evidence::observed::statements::{Counters, StatementAnalysis, StatementTime};

    #[test]
    fn many_commits_of_one_row_each_are_told_to_go_together() {
        let of = |explicit: f64, rows: f64| {
            let statement = |text: &str, calls: f64, rows: f64| StatementTime {
                text: text.into(),
                counters: Some(Counters {
                    calls,
                    rows: Some(rows),
                    ..Counters::default()
                }),
                ..StatementTime::default()
            };
            let found = found_with(vec![("LWLock", "WALWrite", 4.0)], move |observed| {
                observed.counters = counters(&[("xact_commit", 8000.0)]);
                observed.statements = Some(StatementAnalysis {
                    statements: vec![
                        statement("INSERT INTO line VALUES ($1, ...)", 8000.0, rows),
                        statement("COMMIT", explicit, 0.0),
                    ],
                    ..StatementAnalysis::default()
                });
            });
            one(&found, "wal-flush").clone()
        };
        let alone = of(0.0, 1.0);
        assert!(
            alone.remedy[0].text.contains("one transaction"),
            "{alone:#?}"
        );
        assert!(alone.remedy[1].text.contains("faster flush"), "{alone:#?}");
        assert!(alone.evidence.join("; ").contains("INSERT INTO line"));
        // Transactions that the application ends itself, and statements of many rows.
        for other in [of(8000.0, 1.0), of(0.0, 500.0)] {
            assert!(other.remedy[0].text.contains("faster flush"), "{other:#?}");
        }
    }

    #[test]
    fn two_phases_and_commits_in_loops_flush_more_often_than_the_work_needs() {
        let of = |text: &str, calls: f64| {
            let statement = StatementTime {
                text: text.into(),
                share: 0.95,
                counters: Some(Counters {
                    calls,
                    ..Counters::default()
                }),
                ..StatementTime::default()
            };
            let found = found_with(vec![("LWLock", "WALWrite", 4.0)], move |observed| {
                observed.counters = counters(&[("xact_commit", 8000.0)]);
                observed.statements = Some(StatementAnalysis {
                    statements: vec![statement],
                    ..StatementAnalysis::default()
                });
            });
            one(&found, "wal-flush").clone()
        };
        let two = of("PREPARE TRANSACTION $1", 4000.0);
        assert!(two.saw.contains("in two phases"), "{two:#?}");
        assert!(two.remedy[0].text.starts_with("COMMIT in the place of"));
        let looped = of("CALL clean($1)", 200.0);
        assert!(looped.saw.contains("commits in a loop"), "{looped:#?}");
        assert!(
            looped
                .evidence
                .join("; ")
                .contains("40 commits in each call")
        );
        // A procedure that commits once, and a statement that is prepared.
        for other in [
            of("CALL clean($1)", 8000.0),
            of("PREPARE q AS SELECT 1", 8000.0),
        ] {
            assert!(
                !other.saw.contains("phases") && !other.saw.contains("loop"),
                "{other:#?}"
            );
        }
    }

    /// The log waits for whoever writes to its device, for a slow one, or is asked very often: which it is, is counted.
    #[test]
    fn what_is_behind_the_flushes_is_told_by_counts() {
        let of = |written: Option<Written>, flushes: f64| {
            let found = found_with(vec![("IO", "WALSync", 3.0)], move |observed| {
                let counted = [("xact_commit", flushes), ("sessions", 1.0)];
                let mut counters = counters(&counted).unwrap();
                counters.wal.insert("wal_sync".into(), flushes);
                counters.written = written;
                observed.counters = Some(counters);
            });
            one(&found, "wal-flush").clone()
        };
        let written = |devices: f64, server: f64| Some(Written { devices, server });
        let others = of(written(4.7e9, 0.15e9), 477.0);
        assert!(
            others.saw.contains("others that write to the same device"),
            "{}",
            others.saw
        );
        assert!(others.remedy[0].text.contains("--max-rate"), "{others:#?}");
        for none in [written(4.7e9, 4.0e9), written(1e6, 0.0), None] {
            // 3 sessions for 4 s: 25 ms of each flush.
            let slow = of(none, 480.0);
            assert!(
                slow.saw.contains("a slow device under pg_wal"),
                "{}",
                slow.saw
            );
            assert!(slow.evidence.join("; ").contains("a flush takes 25.00 ms"));
            let many = of(none, 48_000.0);
            assert!(
                many.saw.ends_with("a symptom of many commits."),
                "{}",
                many.saw
            );
        }
    }

    #[test]
    fn who_waits_for_a_sleeper_waits_for_its_flush_too() {
        assert!((without_sleep(0.2, 0.65, 0.05) - (0.2 + 0.6 * 0.8)).abs() < 1e-9);
        assert_eq!(without_sleep(0.0, 0.5, 0.1), 0.0);
    }
}
