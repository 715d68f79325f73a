//! What has commits wait for the log: others who write to its device, a slow device, or very many of them.

use crate::detect::common::statement_text::verb;
use crate::detect::common::wait_shares;
use crate::detect::common::wait_shares::WAL_FLUSH;
use crate::detect::shown;
use crate::evidence::RunEvidence;
use crate::finding::Observation;

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
pub fn behind_flushes(run: &RunEvidence, seen: Observation) -> Observation {
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
        let rate = |bytes: f64| shown((bytes / counters.seconds) as u64);
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
