//! Commits that the server counted, held against the client's transactions.

use pgassay_model::reading::Reading;
use pgassay_model::record::RecordedRun;
use pgassay_model::run::EndState;
use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;
use serde_json::Value;

use super::Scope;
use crate::measured::CommitCheck;

/// Commits that our own questions may add to each trial: readings at its borders, and before one that writes those
/// within VACUUM, which are more than we count.
const OWN_COMMITS_A_TRIAL: f64 = 30.0;
/// Those that observers may add to each second where they are not subtracted: the sampler of waits asks 25 times.
const OWN_COMMITS_A_SECOND: f64 = 40.0;

/// Whether what our observers did is subtracted from the server's count: from version 15 on it is counted at once.
/// Readings of older runs do not hold it.
pub(super) fn ours_subtracted(run: &RecordedRun, arm: u32) -> bool {
    run.servers.get(&arm).is_some_and(|facts| {
        let row = facts.database_before.as_ref().and_then(Reading::text);
        let row = row.and_then(|row| serde_json::from_str::<Value>(row).ok());
        facts.version_num.is_some_and(|version| version >= 150_000)
            && row.is_some_and(|row| row.get("pgassay").is_some())
    })
}

/// Says so where the server committed more than the client and we did, or less than the client,
/// by more than one in a hundred.
pub(super) fn commits_differ(scope: &Scope, arm: u32, check: &CommitCheck) -> Option<Warning> {
    let trials = scope.trials_on(StageId::Load, arm);
    let a_second = match ours_subtracted(scope.run, arm) {
        true => 0.0,
        false => OWN_COMMITS_A_SECOND,
    };
    let own: f64 = trials
        .map(|t| OWN_COMMITS_A_TRIAL + a_second * t.window_ns as f64 / 1e9)
        .sum();
    let client = check.client_transactions as f64;
    let server = check.server_commits as f64;
    // The trial that was cut off is not among the trials; what it did the server counted.
    let most = match cut_off(scope.run) {
        true => f64::INFINITY,
        false => client * 1.01 + own,
    };
    let agree = client == 0.0 || (client * 0.99..=most).contains(&server);
    (!agree).then(|| {
        Warning::new(
            "commits-differ",
            format!(
                "The server counted {} commits and the client {} transactions: \
                 something else used the database, or work was lost.",
                check.server_commits, check.client_transactions
            ),
        )
    })
}

/// Whether the run ended within a trial, which then was not recorded.
fn cut_off(run: &RecordedRun) -> bool {
    run.end
        .as_ref()
        .is_none_or(|end| end.state != EndState::Complete)
}

#[cfg(test)]
mod tests {
    use pgassay_model::plan::Arm;
    use pgassay_model::trial::Trial;

    use super::*;

    use pgassay_model::run::{Event, EventKind, RunEnd};
    use pgassay_model::server::{Origin, ServerFacts};

    fn ended(state: EndState) -> RunEnd {
        RunEnd {
            state,
            reason: None,
            at: String::new(),
            elapsed_seconds: 1.0,
            max_rss_bytes: 0,
        }
    }

    #[test]
    fn commits_differ_by_more_than_our_own_questions() {
        let mut run = RecordedRun::default();
        run.header.experiment.arms.push(Arm::default());
        run.trials.push(Trial {
            window_ns: 1_000_000_000,
            ..Trial::default()
        });
        run.end = Some(ended(EndState::Complete));
        let said = |client_transactions, server_commits| {
            let check = CommitCheck {
                client_transactions,
                server_commits,
            };
            commits_differ(&Scope::whole(&run), 0, &check).is_some()
        };
        // A short run that writes: ours are a large share of few.
        assert!(!said(400, 400 + 4 + 70));
        assert!(said(400, 400 + 4 + 71));
        assert!(said(400, 395), "work was lost");
        assert!(!said(100_000, 101_000));
        assert!(said(100_000, 101_100), "somebody else's");
        assert!(!said(0, 500));
    }

    /// Commits that the server lost were hidden by as many of our own.
    #[test]
    fn our_own_commits_hide_no_lost_work_where_they_are_subtracted() {
        let row = |commits: u64, own: u64| {
            Reading::Text(format!(
                r#"{{"xact_commit": {commits}, "pgassay": {{"xact_commit": {own}}}}}"#
            ))
        };
        let of = |version: u32, after: Reading| {
            let mut run = RecordedRun::default();
            run.header.experiment.arms.push(Arm::default());
            run.trials.push(Trial {
                window_ns: 20_000_000_000,
                transactions_sent: 10_000,
                ..Trial::default()
            });
            run.end = Some(ended(EndState::Complete));
            let facts = ServerFacts {
                origin: Origin::Running,
                version: Reading::Text(String::new()),
                version_num: Some(version),
                pooler: None,
                settings: Reading::Text(String::new()),
                executable: Reading::Text(String::new()),
                database_before: Some(row(0, 0)),
                role: None,
                database: None,
            };
            run.servers.insert(0, facts);
            run.events.push(Event {
                at: String::new(),
                what: EventKind::DatabaseAfter { arm: 0, row: after },
            });
            let scope = Scope::whole(&run);
            let check = super::super::commit_check(&scope, 0).unwrap();
            let said = commits_differ(&scope, 0, &check).is_some();
            (check.server_commits, said)
        };
        assert_eq!(of(150_018, row(10_500, 500)), (10_000, false));
        assert_eq!(of(150_018, row(10_100, 500)), (9_600, true), "400 are lost");
        assert_eq!(
            of(140_020, row(10_100, 500)),
            (10_000, false),
            "counted late"
        );
        // Somebody else's, less than 40 a second.
        assert_eq!(of(150_018, row(11_000, 500)), (10_500, true));
        assert_eq!(of(140_020, row(11_000, 500)), (10_500, false));
    }

    /// Tried: after Ctrl-C the trial that was cut off was told as work that was lost.
    #[test]
    fn a_trial_that_was_cut_off_is_no_work_of_others() {
        let mut run = RecordedRun::default();
        run.header.experiment.arms.push(Arm::default());
        run.trials.push(Trial::default());
        let said = |run: &RecordedRun, server_commits| {
            let check = CommitCheck {
                client_transactions: 300_000,
                server_commits,
            };
            commits_differ(&Scope::whole(run), 0, &check).is_some()
        };
        run.end = Some(ended(EndState::Interrupted));
        assert!(!said(&run, 360_000));
        assert!(said(&run, 290_000), "work was lost");
        run.end = Some(ended(EndState::Complete));
        assert!(said(&run, 360_000));
    }
}
