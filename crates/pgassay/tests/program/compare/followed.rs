//! Histories of made-up runs, and runs recorded apart.

use pgassay_analysis::compare::recorded::{Refusal, compare_recorded};
use pgassay_analysis::history::{Past, RunHistory, history};
use pgassay_analysis::metrics::{MetricId, P99, THROUGHPUT};
use pgassay_analysis::stats::{ChangeRule, Verdict};
use pgassay_analysis::{Analysis, analyse};
use pgassay_model::axis::AxisValue;
use serde_json::Value;

use super::fixture::Made;
use crate::schema::assert_schema;

/// A run of one arm that does `level` times the usual.
fn run(index: usize, level: f64) -> Analysis {
    let made = Made {
        effects: vec![level - 1.0],
        pairs: 10,
        seed: index as u64 + 1,
        ..Made::default()
    };
    let mut run = made.run();
    run.trials.retain(|t| t.slice.arm == 1);
    for trial in &mut run.trials {
        trial.slice.arm = 0;
    }
    run.header.experiment.arms.truncate(1);
    run.header.command = "run".into();
    run.header.id = format!("run-{index:02}");
    run.header.started = format!("2026-11-{:02}T03:00:00Z", index + 1);
    run.comparison = None;
    analyse(&run)
}

/// A run with a server of 1 CPU, and one of 16 that does twice as much.
fn over_cpus(index: usize) -> Analysis {
    let made = Made {
        effects: vec![1.0],
        pairs: 10,
        ..Made::default()
    };
    let mut run = made.run();
    for (arm, cpus) in run.header.experiment.arms.iter_mut().zip(["1", "16"]) {
        arm.axes = vec![AxisValue {
            axis: "cpus".into(),
            value: cpus.into(),
            number: cpus.parse().ok(),
        }];
    }
    run.header.command = "run".into();
    run.header.id = format!("run-{index:02}");
    run.header.started = format!("2026-11-{:02}T03:00:00Z", index + 1);
    run.comparison = None;
    analyse(&run)
}

fn runs(levels: &[f64]) -> Vec<Analysis> {
    levels.iter().enumerate().map(|(i, l)| run(i, *l)).collect()
}

fn followed(runs: Vec<Analysis>, metrics: &[MetricId]) -> RunHistory {
    history(
        runs.iter().map(Past::of).collect(),
        metrics,
        ChangeRule::default(),
    )
}

#[test]
fn a_step_down_is_found_dated_and_worse() {
    let mut levels = vec![1.0; 8];
    levels.extend([0.9; 6]);
    let mut all = runs(&levels);
    all.reverse(); // they are put in order by their start
    let found = followed(all, &MetricId::usual());
    assert!(found.worse);
    let tps = found
        .series
        .iter()
        .find(|s| s.metric.id == "throughput")
        .expect("throughput");
    assert_eq!(tps.history.changes.len(), 1, "{:?}", tps.history.changes);
    assert_eq!(tps.history.changes[0].index, 8);
    assert!((tps.history.changes[0].change + 0.1).abs() < 0.02);
    assert!(
        found
            .headline
            .iter()
            .any(|s| s.contains("run-08") && s.contains("worse")),
        "{:?}",
        found.headline
    );
    let json = serde_json::to_value(&found).expect("JSON");
    assert_schema(&json, "history-1.json");
    let html = pgassay_report::html(&found);
    assert!(html.contains("figure-course-throughput-4"));
    assert_eq!(
        pgassay_report::csv(&found)
            .expect("runs are rows")
            .lines()
            .count(),
        1 + 2 * 14
    );
}

/// A history knew throughput and server CPU time only: a latency that doubled went unseen.
#[test]
fn any_metric_can_be_followed() {
    let mut all = runs(&[1.0; 14]);
    for run in &mut all[8..] {
        let metrics = &mut run.stages[0].arms[0].points[0].metrics;
        metrics.get_mut(&P99).expect("it was seen").estimate *= 2.0;
    }
    let found = followed(all, &[P99]);
    assert!(found.worse);
    let [series] = found.series.as_slice() else {
        panic!("one metric at one client count: {:?}", found.series);
    };
    assert_eq!(series.metric, P99);
    assert_eq!(series.history.changes[0].index, 8);
    assert!(
        found.headline[0].starts_with("p99 latency, µs at 4 clients changed for the worse"),
        "{:?}",
        found.headline
    );
    let json = serde_json::to_value(&found).expect("JSON");
    assert_schema(&json, "history-1.json");
}

#[test]
fn a_level_history_and_other_work_are_told() {
    let mut all = runs(&[1.0; 10]);
    all[3].stages[0].plan.workload.name = "tpcb-like".into();
    let found = followed(all, &MetricId::usual());
    assert!(!found.worse);
    assert_eq!(found.runs.len(), 9);
    assert_eq!(found.left_out[0].run, "run-03");
    assert!(
        found.headline[0].starts_with("No change"),
        "{:?}",
        found.headline
    );
    // repaired: the latest change is for the better
    let mut levels = vec![1.0; 6];
    levels.extend([0.8; 6]);
    levels.extend([1.0; 6]);
    assert!(!followed(runs(&levels), &MetricId::usual()).worse);
}

/// Their first server, of 1 CPU, was taken for the run.
#[test]
fn runs_whose_servers_differ_are_no_part_of_a_history() {
    let mut all = runs(&[1.0; 8]);
    all.extend((8..14).map(over_cpus));
    let found = followed(all, &MetricId::usual());
    assert!(!found.worse);
    assert_eq!((found.runs.len(), found.left_out.len()), (8, 6));
    let why = &found.left_out[0].why;
    assert!(
        why.starts_with("its servers differ") && why.ends_with(", with cpus 1, 16"),
        "{why}"
    );
    let alone = followed(vec![over_cpus(0)], &MetricId::usual());
    assert!(alone.runs.is_empty());
    assert!(alone.headline[0].starts_with("There is no run to follow"));
    // One server of a chosen number of CPUs is a run, but of other work than one without.
    let mut few = run(8, 0.5);
    few.arms[0].axes = over_cpus(0).arms[0].axes.clone();
    let mut all = runs(&[1.0; 8]);
    all.push(few);
    assert_eq!(followed(all, &MetricId::usual()).runs.len(), 1);
}

#[test]
fn runs_whose_servers_differ_are_not_held_against_others() {
    for (a, b) in [
        (run(0, 1.0), over_cpus(1)),
        (over_cpus(0), run(1, 1.0)),
        (over_cpus(0), over_cpus(1)),
    ] {
        let refused = compare_recorded(&[a], &[b], THROUGHPUT, 0.01, None).unwrap_err();
        assert!(
            matches!(refused, Refusal::SeveralServers { .. }),
            "{refused}"
        );
    }
}

#[test]
fn two_recorded_runs_have_a_figure_and_no_verdict() {
    let one = compare_recorded(&[run(0, 1.0)], &[run(1, 0.9)], THROUGHPUT, 0.01, None)
        .expect("same work");
    assert_eq!(one.verdict, Verdict::Inconclusive);
    assert!(
        one.headline.iter().any(|s| s.contains("no verdict")),
        "{:?}",
        one.headline
    );
    let json: Value = serde_json::to_value(&one).expect("JSON");
    assert_schema(&json, "compare-1.json");
    assert!(pgassay_report::html(&one).contains("Not interleaved"));
    // equal runs are known to lie 1 % apart: 10 % are shown
    let known = compare_recorded(&[run(0, 1.0)], &[run(1, 0.9)], THROUGHPUT, 0.01, Some(0.01))
        .expect("same work");
    assert_eq!(known.verdict, Verdict::Slower);
    let four = compare_recorded(&runs(&[1.0; 4]), &runs(&[0.9; 4]), THROUGHPUT, 0.01, None)
        .expect("same work");
    assert_eq!(four.verdict, Verdict::Slower);
    let mut other = run(1, 1.0);
    other.stages[0].plan.workload.scale = 99;
    assert!(matches!(
        compare_recorded(&[run(0, 1.0)], &[other], THROUGHPUT, 0.01, None),
        Err(Refusal::OtherWork { .. })
    ));
}
