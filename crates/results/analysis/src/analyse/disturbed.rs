//! Trials that are left out because others disturbed them, by a rule that the plan fixed beforehand.

use std::collections::BTreeMap;

use pgassay_model::plan::Plan;
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;

use crate::trial_view::{Server, TrialView};

/// Gives the trials that the plan's rule leaves, and what to say at each point by its index.
///
/// The rule goes by CPU time that neither server nor client had, never by what was measured, so that
/// leaving out does not favour either end. It is for exceptions: where more than half of a point's trials
/// were disturbed, all of them count, and that is said.
pub(super) fn left<'a>(
    plan: &Plan,
    trials: Vec<&'a Trial>,
    server: Server,
) -> (Vec<&'a Trial>, BTreeMap<u32, Warning>) {
    let Some(most) = plan.disturbed_above else {
        return (trials, BTreeMap::new());
    };
    let disturbed = |trial: &Trial| {
        let taken = TrialView::of(trial, server).taken_share();
        taken.is_some_and(|taken| taken > most)
    };
    // Of each point: all trials, and those that were disturbed.
    let mut counts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    let marked: Vec<(&Trial, bool)> = trials.into_iter().map(|t| (t, disturbed(t))).collect();
    for (trial, disturbed) in &marked {
        let (all, out) = counts.entry(trial.slice.point).or_default();
        *all += 1;
        *out += usize::from(*disturbed);
    }
    let too_many = |point: u32| counts.get(&point).is_some_and(|(all, out)| 2 * out > *all);
    let kept = marked
        .iter()
        .filter(|(trial, disturbed)| !disturbed || too_many(trial.slice.point))
        .map(|(trial, _)| *trial)
        .collect();
    let said = counts.iter().filter(|(_, (_, out))| *out > 0);
    let said = said.map(|(point, (all, out))| {
        let rule = format!(
            "others took more than {:.0} % of the CPUs' time",
            most * 100.0
        );
        let warning = if too_many(*point) {
            Warning::new(
                "disturbed-throughout",
                format!(
                    "in {out} of {all} trials {rule}: too many to leave out, so all of them count"
                ),
            )
            .with_remedy("measure again when the machine is quiet (--wait-quiet)")
        } else {
            Warning::new(
                "trials-left-out",
                format!("{out} of {all} trials do not count: {rule} (--drop-disturbed)"),
            )
        };
        (*point, warning)
    });
    (kept, said.collect())
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::{Reading, Sample};
    use pgassay_model::record::RecordedRun;

    use crate::analyse;
    use pgassay_evidence::fixtures;

    /// Six trials a point; in those of the named rounds at the first point others have half of two CPUs.
    fn run(rounds: &[u32]) -> RecordedRun {
        let mut run = fixtures::run(0.0, |_| 0.1);
        for trial in &mut run.trials {
            let disturbed = trial.slice.point == 0 && rounds.contains(&trial.slice.round);
            // Ticks of 10 ms: server and client have 20 of 200.
            let busy = if disturbed { 120 } else { 22 };
            trial.server_cpu_ns = Some(200_000_000);
            let text =
                |busy: u32, idle: u32| Reading::Text(format!("cpu {busy} 0 0 {idle} 0 0 0 0"));
            let sample = Sample {
                before: text(0, 0),
                after: text(busy, 200 - busy),
                elapsed_ns: 1_000_000_000,
            };
            trial
                .samples
                .insert(pgassay_model::samplers::HOST_STAT.to_owned(), sample);
            if disturbed {
                trial.transactions /= 2;
            }
        }
        run
    }

    fn first(run: &mut RecordedRun, rule: Option<f64>) -> (usize, f64, Vec<String>) {
        run.header.experiment.stages[0].plan.disturbed_above = rule;
        let point = analyse(run)
            .stages
            .remove(0)
            .arms
            .remove(0)
            .points
            .remove(0);
        let ids = point.warnings.iter().map(|w| w.id.to_string()).collect();
        (point.trials.len(), point.throughput_tps.estimate, ids)
    }

    #[test]
    fn disturbed_trials_do_not_count_where_the_plan_says_so() {
        let mut run = run(&[1, 4]);
        let (all, low, said) = first(&mut run, None);
        assert_eq!(
            (all, said.contains(&"trials-left-out".to_owned())),
            (6, false)
        );
        let (left, rate, said) = first(&mut run, Some(0.1));
        assert_eq!(left, 4);
        assert!(said.contains(&"trials-left-out".to_owned()), "{said:?}");
        assert!(!said.contains(&"trials-missing".to_owned()), "{said:?}");
        assert!(
            (rate / 10_000.0 - 1.0).abs() < 0.02 && rate > low,
            "{low} {rate}"
        );
        assert_eq!(first(&mut run, Some(0.9)).0, 6, "a rule that none meets");
    }

    #[test]
    fn a_machine_that_is_never_quiet_leaves_all_trials() {
        let mut run = run(&[0, 1, 2, 3]);
        let (all, _, said) = first(&mut run, Some(0.1));
        assert_eq!(all, 6);
        assert!(
            said.contains(&"disturbed-throughout".to_owned()),
            "{said:?}"
        );
    }
}
