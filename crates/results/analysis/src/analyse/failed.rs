//! Points at which no transaction succeeded: they have no figures, and say why.

use std::collections::BTreeMap;

use pgassay_model::record::RecordedRun;
use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;

use crate::number;

/// The warning that at a client count every transaction failed.
pub const ALL_FAILED: &str = "all-failed";

/// One warning for each load and client count at which transactions failed and none succeeded.
pub(super) fn warnings(run: &RecordedRun) -> Vec<Warning> {
    let stages = run.header.experiment.stages.iter();
    let wire = stages.filter(|s| [StageId::Load, StageId::WriteLoad].contains(&s.id));
    let points = wire.flat_map(|stage| (0u32..).zip(&stage.plan.points).map(move |p| (stage, p)));
    points
        .filter_map(|(stage, (index, point))| {
            let of_point = run.trials_of(stage.id).filter(|t| t.slice.point == index);
            let trials: Vec<_> = of_point.filter(|t| t.counts()).collect();
            let mut failures: BTreeMap<&str, u64> = BTreeMap::new();
            for (state, count) in trials.iter().flat_map(|t| &t.failures) {
                *failures.entry(state).or_default() += count;
            }
            let succeeded: u64 = trials.iter().map(|t| t.transactions).sum();
            if succeeded > 0 || failures.is_empty() {
                return None;
            }
            let states: Vec<String> = failures
                .iter()
                .map(|(state, count)| format!("{count} with SQLSTATE {state}"))
                .collect();
            let text = format!(
                "Every transaction of {} failed with {}: {}.",
                stage.plan.workload.name,
                number::counted(point.clients, "client"),
                states.join(", ")
            );
            Some(Warning::new(ALL_FAILED, text).with_remedy(remedy(&failures)))
        })
        .collect()
}

/// What to do about transactions that failed with these codes.
fn remedy(failures: &BTreeMap<&str, u64>) -> &'static str {
    match failures.contains_key("25006") {
        // read_only_sql_transaction
        true => {
            "something was to be written in a read-only transaction: on a running server, a workload whose \
             statements only read may not write by functions either. --is-copy says that the server is a copy"
        }
        false => {
            "run the script with psql to see the error's message; PostgreSQL's manual lists the codes in \
             its appendix A"
        }
    }
}

#[cfg(test)]
mod tests {
    use pgassay_model::plan::{Arm, Experiment, Plan, Stage};
    use pgassay_model::point::{Point, Slice};
    use pgassay_model::trial::Trial;

    use super::*;

    #[test]
    fn the_sqlstate_is_named_where_nothing_succeeded() {
        let point = |clients| Point {
            clients,
            threads: 1,
            variant: 0,
        };
        let plan = Plan {
            points: vec![point(1), point(4)],
            ..Plan::default()
        };
        let mut run = RecordedRun::default();
        run.header.experiment = Experiment {
            arms: vec![Arm::default()],
            stages: vec![Stage::wire(StageId::Load, plan)],
            ..Experiment::default()
        };
        let trial = |point, transactions, failed: &[(&str, u64)]| Trial {
            slice: Slice {
                point,
                ..Slice::default()
            },
            transactions,
            window_ns: 1,
            failures: failed.iter().map(|(s, n)| ((*s).to_owned(), *n)).collect(),
            ..Trial::default()
        };
        run.trials = vec![
            trial(0, 5, &[("40001", 9)]),
            trial(1, 0, &[("42P01", 3)]),
            trial(1, 0, &[("42P01", 4), ("57014", 1)]),
        ];
        let said = warnings(&run);
        let [only] = said.as_slice() else {
            panic!("{said:?}");
        };
        assert!(only.text.contains("4 clients"), "{only:?}");
        let states = "7 with SQLSTATE 42P01, 1 with SQLSTATE 57014";
        assert!(only.text.contains(states), "{only:?}");
    }
}
