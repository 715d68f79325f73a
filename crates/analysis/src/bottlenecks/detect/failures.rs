//! Transactions that failed: work that was done for nothing, and done again where it is retried.

use super::{Detector, run, tenths};
use crate::bottlenecks::evidence::Evidence;
use crate::bottlenecks::finding::{Basis, Confidence, Observation, Severity};

pub(super) const DETECTORS: &[Detector] = &[run("transactions-failed", failed)];

/// The share of all attempts that came to nothing from which on it is named.
const NOTABLE: f64 = 0.02;
/// From which on it is a part of what decides throughput.
const MUCH: f64 = 0.05;
/// From which on it decides it.
const GRAVE: f64 = 0.2;
/// The share of rolled-back transactions of somebody's own load from which on it is named: some are meant.
const ROLLED_BACK: f64 = 0.1;

fn failed(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    if run.is_own_load() {
        let counters = run.observed?.counters.as_ref()?;
        let committed = counters.database_rate("xact_commit")?;
        return rolled_back(committed, counters.database_rate("xact_rollback")?);
    }
    let point = run.point;
    let retries = point.detail.as_ref().map_or(0, |detail| detail.retries);
    of_attempts(point.latency_us.count, &point.failures, retries)
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

/// What is said of states that conflicts and limits lead to (PostgreSQL manual, "PostgreSQL Error Codes").
fn meaning(state: &str) -> Option<&'static str> {
    Some(match state {
        "23505" => "the key was there already",
        "25P03" => "the session was idle in a transaction for too long",
        "40001" => "it could not be serialized with others",
        "40P01" => "it was in a deadlock",
        "53300" => "there were no connections left",
        "55P03" => "a lock was not to be had in time",
        "57014" => "it was cancelled, as by statement_timeout",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_few_rollbacks_are_meant() {
        assert_eq!(rolled_back(95.0, 5.0), None);
        assert_eq!(rolled_back(0.5, 0.4), None);
        assert!(rolled_back(0.0, 7.0).is_some_and(|seen| seen.share.is_none()));
    }
}
