//! Transactions that failed: work that was done for nothing, and done again where it is retried.

use crate::detect::common::wait_shares::of_rows;
use crate::detect::prelude::*;

/// The share of all attempts that came to nothing from which on it is named.
const NOTABLE: f64 = 0.02;
/// From which on it is a part of what decides throughput.
const MUCH: f64 = 0.05;
/// From which on it decides it.
const GRAVE: f64 = 0.2;
/// The share of rolled-back transactions of somebody's own load from which on it is named: some are meant.
const ROLLED_BACK: f64 = 0.1;

/// The share of the sessions' time in waits for rows from which on these have queues.
const QUEUED: f64 = 0.1;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    if run.is_own_load() {
        let counters = run.observed?.counters.as_ref()?;
        let committed = counters.database_rate("xact_commit")?;
        return rolled_back(committed, counters.database_rate("xact_rollback")?);
    }
    let point = run.point;
    let retries = point.detail.as_ref().map_or(0, |detail| detail.retries);
    let mut seen = of_attempts(point.latency_us.count, &point.failures, retries)?;
    let of_conflicts = |(state, _): &(String, u64)| state == SERIALIZATION;
    let queued = run.wait_share(of_rows);
    if (retries > 0 || point.failures.iter().any(of_conflicts)) && queued >= Some(QUEUED) {
        seen = seen.open().seen(
            "a transaction that no longer fails waits for the row instead: sessions queue for rows already, and that queue then grows",
        );
    }
    Some(remedied(evidence, seen, &point.failures, retries))
}

/// The same with what is done about the states, the most frequent first, and with the settings that lead to them.
fn remedied(
    evidence: &Evidence,
    mut seen: Observation,
    failures: &[(String, u64)],
    retries: u64,
) -> Observation {
    let mut states: Vec<(&str, u64)> = failures.iter().map(|(s, n)| (s.as_str(), *n)).collect();
    if retries > 0 && !failures.iter().any(|(s, _)| s == SERIALIZATION) {
        states.push((SERIALIZATION, retries));
    }
    states.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for row in states.iter().filter_map(|(state, _)| row(state)) {
        if let Some(setting) = row.setting
            && let Some((value, source)) = evidence.value_and_source(setting)
            && !matches!(source, "default" | "override")
        {
            // A limit or an isolation level is there for a reason: what to do about it is advice.
            seen = seen.seen(format!("{setting} = {value}"));
        }
        seen = seen.advice(row.advice);
    }
    let page = crate::find("transactions-failed").map(|entry| entry.remedy);
    match seen.remedy.is_empty() {
        true => seen,
        false => page.into_iter().fold(seen, Observation::advice),
    }
}

/// What failed of so many attempts, by SQLSTATE, and how often one was repeated.
fn of_attempts(done: u64, failures: &[(String, u64)], retries: u64) -> Option<Observation> {
    let given_up: u64 = failures.iter().map(|(_, count)| count).sum();
    let lost = given_up + retries;
    let all = done + lost;
    let share = lost as f64 / all.max(1) as f64;
    if share < NOTABLE {
        return None;
    }
    let saw = format!(
        "{} of {all} transactions that were begun failed: the work up to there was for nothing.",
        tenths(share)
    );
    let state = |(state, count): &(String, u64)| match meaning(state) {
        Some(meaning) => format!("SQLSTATE {state}, {meaning}: {count}"),
        None => format!("SQLSTATE {state}: {count}"),
    };
    // An attempt is taken to cost as much as one that ends well: when it failed nobody noted.
    let mut seen = Observation::measured(Basis::Statements, Some(share), saw)
        .severity(match share {
            GRAVE.. => Severity::High,
            MUCH.. => Severity::Medium,
            _ => Severity::Low,
        })
        .confidence(Confidence::Medium)
        .all_seen(failures.iter().map(state));
    if retries > 0 {
        seen = seen.seen(format!(
            "{retries} attempts failed by a conflict (40001, 40P01) and were repeated"
        ));
    }
    Some(seen)
}

fn rolled_back(committed: f64, rolled_back: f64) -> Option<Observation> {
    let share = rolled_back / (committed + rolled_back).max(f64::MIN_POSITIVE);
    (share >= ROLLED_BACK && rolled_back >= 1.0).then(|| {
        let saw = format!(
            "{} of the transactions end rolled back, {rolled_back:.0} a second: by an error, or by ROLLBACK.",
            tenths(share)
        );
        Observation::measured(Basis::Counters, None, saw)
            .severity(Severity::Low)
            .confidence(Confidence::Low)
    })
}

/// A state that conflicts and limits lead to (PostgreSQL manual, "PostgreSQL Error Codes").
struct State {
    code: &'static str,
    meaning: &'static str,
    /// The setting that has it come, or come more often.
    setting: Option<&'static str>,
    advice: &'static str,
}

/// That of repeatable read and serializable.
const SERIALIZATION: &str = "40001";

const fn state(
    code: &'static str,
    meaning: &'static str,
    setting: Option<&'static str>,
    advice: &'static str,
) -> State {
    State {
        code,
        meaning,
        setting,
        advice,
    }
}

#[rustfmt::skip]
const STATES: &[State] = &[
    state("23505", "the key was there already", None,
        "INSERT … ON CONFLICT DO NOTHING (or DO UPDATE) in the place of an INSERT that may fail"),
    state("25P03", "the session was idle in a transaction for too long", Some("idle_in_transaction_session_timeout"),
        "commit before the application does something else, or give it more time"),
    state("57P05", "the session was idle for too long", Some("idle_session_timeout"),
        "no idle_session_timeout for the connections of a pool: the pool ends those that it no longer needs"),
    state(SERIALIZATION, "it could not be serialized with others", Some("default_transaction_isolation"),
        "READ COMMITTED for transactions that change single rows (UPDATE … SET n = n + 1 waits there and goes on with the new row); where the stricter level \
         must be, short transactions that read what they change by an index, and are repeated at once"),
    state("40P01", "it was in a deadlock", None,
        "take rows and tables in the same order in all transactions (ORDER BY the key, then FOR UPDATE)"),
    state("53300", "there were no connections left", None, "a pool of fewer connections in front of the server (PgBouncer)"),
    state("53400", "it came to a limit that is set", Some("temp_file_limit"),
        "more work_mem for statements that sort and hash much, an index that gives the order, or a higher temp_file_limit"),
    state("55P03", "a lock was not to be had in time", Some("lock_timeout"),
        "wait for the lock (no NOWAIT, a lock_timeout longer than transactions take) where the work must be done anyhow, FOR UPDATE SKIP LOCKED where \
         another row will do; and have transactions take the row that all want last, right before COMMIT"),
    state("57014", "it was cancelled, as by statement_timeout", Some("statement_timeout"),
        "have the statement need less (see the other findings), or give its role more time: ALTER ROLE … SET statement_timeout"),
    state("25006", "it may not write", Some("default_transaction_read_only"), "SET TRANSACTION READ WRITE where it is to write"),
];

/// What is known of a state.
fn row(code: &str) -> Option<&'static State> {
    STATES.iter().find(|state| state.code == code)
}

fn meaning(code: &str) -> Option<&'static str> {
    row(code).map(|state| state.meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::{QUIET, Seen, looked_at};
    use crate::evidence::RunEvidence;
    use pgassay_evidence::measured::PointAnalysis;

    #[test]
    fn retries_and_failures_are_a_share_of_all_attempts() {
        let states = [("40001".to_owned(), 50), ("XX000".to_owned(), 50)];
        let seen = of_attempts(600, &states, 300).unwrap();
        assert_eq!(seen.share, Some(0.4));
        assert_eq!(seen.severity, Some(Severity::High));
        assert_eq!(
            seen.evidence,
            [
                "SQLSTATE 40001, it could not be serialized with others: 50",
                "SQLSTATE XX000: 50",
                "300 attempts failed by a conflict (40001, 40P01) and were repeated",
            ]
        );
        assert_eq!(
            of_attempts(1000, &states[..1], 0).unwrap().severity,
            Some(Severity::Low)
        );
        assert_eq!(of_attempts(10_000, &states, 0), None);
        assert_eq!(of_attempts(0, &[], 0), None);
    }

    #[test]
    fn conflicts_over_rows_that_have_queues_promise_nothing() {
        let is_open = |waits: &'static [(&'static str, &'static str, f64)]| {
            let seen = Seen { waits, ..QUIET };
            let told = |evidence: &Evidence| {
                let run = evidence.run.unwrap();
                let point = PointAnalysis {
                    failures: vec![("40001".to_owned(), run.point.latency_us.count)],
                    ..run.point.clone()
                };
                let run = RunEvidence {
                    point: &point,
                    ..run
                };
                let evidence = Evidence {
                    run: Some(run),
                    ..*evidence
                };
                in_run(&evidence).unwrap().open
            };
            looked_at(&seen, |_| {}, told)
        };
        assert!(!is_open(&[]));
        assert!(is_open(&[("Lock", "transactionid", 2.0)]));
    }

    #[test]
    fn each_state_is_told_what_mends_it_and_the_most_frequent_first() {
        let failures = [("40001".to_owned(), 20), ("55P03".to_owned(), 50)];
        let seen = of_attempts(600, &failures, 0).unwrap();
        let seen = remedied(&Evidence::default(), seen, &failures, 0);
        let steps: Vec<&str> = seen.remedy.iter().map(|step| step.text.as_str()).collect();
        assert!(steps[0].contains("SKIP LOCKED"), "{steps:?}");
        assert!(steps[1].contains("READ COMMITTED"), "{steps:?}");
        // An error of which nothing is known is left to the page.
        let other = [("XX000".to_owned(), 50)];
        let seen = remedied(
            &Evidence::default(),
            of_attempts(600, &other, 0).unwrap(),
            &other,
            0,
        );
        assert!(seen.remedy.is_empty());
        for (at, state) in STATES.iter().enumerate() {
            assert!(
                STATES[at + 1..]
                    .iter()
                    .all(|other| other.code != state.code)
            );
        }
    }

    #[test]
    fn a_few_rollbacks_are_meant() {
        assert_eq!(rolled_back(95.0, 5.0), None);
        assert_eq!(rolled_back(0.5, 0.4), None);
        assert!(rolled_back(0.0, 7.0).is_some_and(|seen| seen.share.is_none()));
    }
}
