//! Commits that the server counted, held against the client's transactions.

use pgassay_model::record::RecordedRun;
use pgassay_model::run::EndState;
use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;

use super::Scope;
use crate::measured::CommitCheck;

/// Commits that our own questions may add to each trial: readings at its borders, and vacuum and
/// checkpoint before one that writes.
const OWN_COMMITS_A_TRIAL: f64 = 30.0;
/// Those that observers may add to each second: the sampler of waits asks 25 times.
const OWN_COMMITS_A_SECOND: f64 = 40.0;

/// Says so where the server committed more than the client and we did, or less than the client,
/// by more than one in a hundred.
pub(super) fn commits_differ(scope: &Scope, arm: u32, check: &CommitCheck) -> Option<Warning> {
    let trials = scope.trials_on(StageId::Load, arm);
    let own: f64 = trials
        .map(|t| OWN_COMMITS_A_TRIAL + OWN_COMMITS_A_SECOND * t.window_ns as f64 / 1e9)
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

    use pgassay_model::run::RunEnd;

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
