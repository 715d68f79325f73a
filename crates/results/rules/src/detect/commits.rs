//! Commits that wait for the log: those that sleep first (`commit_delay`), and those of one short statement each.

use super::wait_shares::{self, MUCH, WAL_FLUSH, commits_sleep};
use super::{Detector, run, tenths};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Observation};

pub(super) const DETECTORS: &[Detector] = &[run("commit-delay", delayed)];

/// Settings that belong to the evidence.
const SETTINGS: &[&str] = &["commit_delay", "commit_siblings", "synchronous_commit"];

/// XLogFlush (xlog.c): the session that flushes for a group sleeps first, at no wait event, and the others
/// of the group wait for it.
fn delayed(evidence: &Evidence) -> Option<Observation> {
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

/// Writing statements of a run below which nothing is said of their number.
const FEW_WRITES: f64 = 100.0;
/// Rows of a statement up to which it is a short one.
const FEW_ROWS: f64 = 2.0;
/// The part of the writing statements that must commit by themselves.
const MOSTLY: f64 = 0.8;

/// Bytes a second that others write to the log's device, from which on its flushes wait for them; and how many times
/// what the server writes that must be.
const MUCH_WRITTEN: f64 = 50e6;
const MANY_TIMES: f64 = 4.0;
/// Milliseconds of a flush from which on the device is slow, and not only asked often.
const SLOW_MS: f64 = 2.0;

/// What has commits wait for the log: others who write to its device, a slow device, or very many of them.
pub(super) fn behind_flushes(run: &RunEvidence, seen: Observation) -> Observation {
    if let Some((why, found, advice)) = committed_twice(run) {
        let mut seen = seen.seen(found).advice(advice);
        seen.symptom_of = Some(why);
        return seen;
    }
    let counters = run.observed.and_then(|observed| observed.counters.as_ref());
    let Some(counters) = counters.filter(|counters| counters.seconds > 0.0) else {
        return in_one_each(run, seen);
    };
    let written = counters.written.filter(|written| {
        let others = written.others();
        others >= MUCH_WRITTEN * counters.seconds && others >= MANY_TIMES * written.server
    });
    if let Some(written) = written {
        let rate = |bytes: f64| super::shown((bytes / counters.seconds) as u64);
        let mut seen = seen
            .seen(format!(
                "the devices under the data wrote {} a second, {} of them for the server's processes",
                rate(written.devices),
                rate(written.server)
            ))
            .advice(
                "see who writes to the device of pg_wal (iotop -o, pidstat -d 1): have a backup or copy write slower or elsewhere \
                 (pg_basebackup --max-rate, ionice, io.max of its control group), or put pg_wal onto a device of its own",
            );
        seen.symptom_of = Some("others that write to the same device");
        return seen;
    }
    let flushing = run.budget().and_then(|budget| {
        budget.at(|kind, event| kind == "IO" && wait_shares::is_of(kind, event, WAL_FLUSH))
    });
    let each = flushing
        .zip(counters.wal.get("wal_sync"))
        .map(|(sessions, flushes)| 1000.0 * sessions * counters.seconds / flushes.max(1.0));
    let Some(ms) = each.filter(|ms| *ms > 0.0) else {
        return in_one_each(run, seen);
    };
    let mut seen = seen.seen(format!("a flush takes {ms:.2} ms"));
    seen.symptom_of = Some(match ms >= SLOW_MS {
        true => "a slow device under pg_wal",
        false => "many commits",
    });
    in_one_each(run, seen)
}

/// Commits of a call of a procedure, or of a DO, from which on it commits in a loop.
const COMMITS_A_CALL: f64 = 5.0;

/// Transactions that flush the log more often than their work needs: those of two phases, and procedures that commit in a
/// loop. What it is, what was counted, and what to do.
fn committed_twice(run: &RunEvidence) -> Option<(&'static str, String, &'static str)> {
    let observed = run.observed?;
    let statements = &observed.statements.as_ref()?.statements;
    let begins = |text: &str, words: &[&str]| {
        let mut of = text.split_whitespace();
        words
            .iter()
            .all(|word| of.next().is_some_and(|w| w.eq_ignore_ascii_case(word)))
    };
    let calls = |words: &[&str]| -> f64 {
        let of = statements.iter().filter(|s| begins(&s.text, words));
        of.filter_map(|s| s.counters.as_ref())
            .map(|c| c.calls)
            .sum()
    };
    let commits = observed.counters.as_ref()?.database.get("xact_commit")?;
    let prepared = calls(&["PREPARE", "TRANSACTION"]);
    if prepared >= FEW_WRITES && prepared >= 0.2 * commits {
        return Some((
            "transactions that commit in two phases",
            format!(
                "{prepared:.0} transactions were prepared (PREPARE TRANSACTION) in the measured time, and then committed: each \
                 flushes the log twice, waits for both, and keeps its locks from one to the other"
            ),
            "COMMIT in the place of PREPARE TRANSACTION and COMMIT PREPARED where only this database takes part: a data source \
             that is no XA one, or the transaction manager's one-phase commit; what two systems need, by an outbox table",
        ));
    }
    let called = calls(&["CALL"]) + calls(&["DO"]);
    if called >= 1.0 && *commits >= FEW_WRITES && *commits >= COMMITS_A_CALL * called {
        let of = statements
            .iter()
            .filter(|s| begins(&s.text, &["CALL"]) || begins(&s.text, &["DO"]));
        let most = of.max_by(|a, b| a.share.total_cmp(&b.share))?;
        if most.share < MOSTLY {
            return None;
        }
        return Some((
            "a procedure that commits in a loop",
            format!(
                "{:.0} commits in each call of {}",
                commits / called,
                most.named()
            ),
            "take COMMIT out of the procedure's loop, or commit after some hundreds of rows (IF i % 500 = 0 THEN COMMIT; END IF): \
             each commit waits for the log; best one UPDATE or INSERT … SELECT for all rows",
        ));
    }
    None
}

/// Writing statements of which nearly each is a transaction of its own: several in one would wait once.
fn in_one_each(run: &RunEvidence, seen: Observation) -> Observation {
    match alone(run) {
        None => seen,
        Some((writes, named)) => {
            let remedy = crate::find("wal-flush").map(|entry| entry.remedy);
            let seen = seen
                .seen(format!(
                    "{writes:.0} writing statements in the measured time, nearly each a transaction of its own; the most \
                     frequent: {named}"
                ))
                .advice(
                    "where several of these statements belong together, send them in one transaction (BEGIN … COMMIT \
                     around a batch; autocommit off), as one INSERT of many rows, or by COPY: one flush for all of them",
                );
            remedy.into_iter().fold(seen, Observation::advice)
        }
    }
}

/// How many writing statements there were and the most frequent of them, where each is short and commits by itself.
fn alone(run: &RunEvidence) -> Option<(f64, String)> {
    let observed = run.observed?;
    let commits = *observed.counters.as_ref()?.database.get("xact_commit")?;
    let statements = &observed.statements.as_ref()?.statements;
    let counted = |verbs: &'static [&str]| {
        let of = statements
            .iter()
            .filter(move |s| verbs.contains(&verb(&s.text).as_str()));
        of.filter_map(|s| Some((s, s.counters.as_ref()?)))
    };
    let writing = || counted(&["INSERT", "UPDATE", "DELETE", "MERGE"]);
    let writes: f64 = writing().map(|(_, c)| c.calls).sum();
    let rows: f64 = writing().filter_map(|(_, c)| Some(c.calls * c.rows?)).sum();
    let explicit: f64 = counted(&["COMMIT", "END"]).map(|(_, c)| c.calls).sum();
    let short = rows <= FEW_ROWS * writes;
    if writes < FEW_WRITES
        || !short
        || explicit > (1.0 - MOSTLY) * writes
        || commits < MOSTLY * writes
    {
        return None;
    }
    let (first, _) = writing().max_by(|a, b| a.1.calls.total_cmp(&b.1.calls))?;
    Some((writes, first.named()))
}

/// The word that a statement begins with, in capitals.
pub(super) fn verb(text: &str) -> String {
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic());
    words
        .find(|word| !word.is_empty())
        .unwrap_or_default()
        .to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::counters;
    use super::super::tests::made::{found_with, one};
    use super::without_sleep;
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
