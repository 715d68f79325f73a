//! Points at which no transaction succeeded: they have no figures, and say why.

use std::collections::BTreeMap;

use pgassay_model::record::RecordedRun;
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
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
                "Every transaction of {} failed with {}: {}.{}",
                stage.plan.workload.name,
                number::counted(point.clients, "client"),
                states.join(", "),
                example(&trials)
            );
            let prepared = stage.plan.workload.protocol != "simple";
            Some(Warning::new(ALL_FAILED, text).with_remedy(remedy(&failures, prepared)))
        })
        .collect()
}

/// An example of the most frequent failure: script, line, command, and what was said of it. Empty where a run has none.
pub(super) fn example(trials: &[&Trial]) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (state, count) in trials.iter().flat_map(|trial| &trial.failures) {
        *counts.entry(state).or_default() += count;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    let example = most.and_then(|(state, _)| {
        let mut examples = trials.iter().map(|trial| &trial.failure_examples);
        examples.find_map(|examples| examples.get(*state))
    });
    example.map_or_else(String::new, |example| {
        format!(" For example {}.", example.trim_end_matches('.'))
    })
}

/// What to do about transactions that failed with these codes.
fn remedy(failures: &BTreeMap<&str, u64>, prepared: bool) -> &'static str {
    let any = |states: &[&str]| states.iter().any(|state| failures.contains_key(state));
    // read_only_sql_transaction
    if any(&["25006"]) {
        "something was to be written in a read-only transaction: on a running server, a workload whose \
         statements only read may not write by functions either. --is-copy says that the server is a copy"
    } else if prepared && any(&["42P18", "42725", "42P08", "42804", "42883"]) {
        "give the value a type where it stands, such as :x::integer, or send it within the text with --protocol simple"
    } else if any(&["42P01", "3F000", "42703"]) {
        "name the database that has the script's tables as the target, or make them with `-- @setup` at the script's head"
    } else if any(&["42501"]) {
        "grant the target's role what the script needs, or name another role in the target"
    } else if any(&["57014"]) {
        "raise the role's statement_timeout, or find what cancels its statements"
    } else if any(&["40001", "40P01"]) {
        "--max-tries repeats such a transaction, as an application does"
    } else {
        "correct the script at that line; PostgreSQL's manual lists the codes in its appendix A"
    }
}

#[cfg(test)]
mod tests {
    use pgassay_model::plan::{Arm, Experiment, Plan, Stage};
    use pgassay_model::point::{Point, Slice};

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
        let mut last = trial(1, 0, &[("42P01", 4), ("57014", 1)]);
        last.failure_examples = [
            (
                "42P01",
                "a.sql:3: SELECT 1 FROM t;: ERROR: relation \"t\" does not exist (SQLSTATE 42P01)",
            ),
            ("57014", "another"),
        ]
        .map(|(state, text)| (state.to_owned(), text.to_owned()))
        .into();
        run.trials = vec![
            trial(0, 5, &[("40001", 9)]),
            trial(1, 0, &[("42P01", 3)]),
            last,
        ];
        let said = warnings(&run);
        let [only] = said.as_slice() else {
            panic!("{said:?}");
        };
        assert!(only.text.contains("4 clients"), "{only:?}");
        let states = "7 with SQLSTATE 42P01, 1 with SQLSTATE 57014";
        assert!(only.text.contains(states), "{only:?}");
        let example = "For example a.sql:3: SELECT 1 FROM t;: ERROR: relation \"t\" does not exist (SQLSTATE 42P01).";
        assert!(only.text.ends_with(example), "{only:?}");
        assert!(
            only.remedy.as_ref().unwrap().contains("as the target"),
            "{only:?}"
        );
    }
}
