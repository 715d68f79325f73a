//! Several runs of one comparison, taken together.

use std::fs;

use pgassay_analysis::compare::pooled::{PooledCompare, Refusal, pool_runs};
use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::metrics::SERVER_CPU;
use pgassay_analysis::stats::Verdict;
use pgassay_analysis::stats::paired::Unit;
use serde_json::Value;

use super::fixture::Made;
use crate::runs::{Runs, text};
use crate::schema::assert_schema;

/// A run of its own name and seed.
fn run(n: u64, made: Made) -> Compare {
    let mut run = Made { seed: n, ..made }.run();
    run.header.id = format!("2026112{n}T030000Z-select-only-test");
    compare::conclude(&run).expect("pairs were measured")
}

fn small(effect: f64) -> Made {
    Made {
        effects: vec![effect],
        noise: 0.02,
        pairs: 10,
        ..Made::default()
    }
}

fn pooled(runs: &[Compare]) -> PooledCompare {
    let pooled = pool_runs(runs).expect("runs of one plan");
    let json = serde_json::to_value(&pooled).expect("JSON");
    assert_schema(&json, "pool-1.json");
    pooled
}

#[test]
fn several_short_runs_show_what_none_shows_alone() {
    let runs: Vec<Compare> = (1..=5).map(|n| run(n, small(-0.02))).collect();
    let alone = runs
        .iter()
        .filter(|run| run.verdict == Verdict::Slower)
        .count();
    let got = pooled(&runs);
    assert!(alone < 5, "{alone} of 5 by themselves");
    assert_eq!(got.verdict, Verdict::Slower, "{:?}", got.headline);
    let together = &got.points[0].compared.together;
    assert_eq!((together.pairs, together.unit), (50, Unit::Pair));
    assert!(together.ratio.holds(0.98), "{:?}", together.ratio);
    assert!(
        got.headline[0].contains("5 runs, 50 pairs"),
        "{:?}",
        got.headline
    );
    assert!(got.points[0].others.contains_key(&SERVER_CPU));
    assert!(got.warnings.iter().any(|w| w.id == "few-runs"));

    let six: Vec<Compare> = (1..=6).map(|n| run(n, small(-0.02))).collect();
    let over = pooled(&six);
    assert_eq!(over.points[0].compared.together.unit, Unit::Run);
    assert!(over.warnings.iter().all(|w| w.id != "few-runs"));
}

#[test]
fn points_are_one_family_and_only_the_common_ones_count() {
    let made = |clients: &[u32]| Made {
        clients: clients.to_vec(),
        ..small(-0.02)
    };
    let got = pooled(&[run(1, made(&[1, 4, 16])), run(2, made(&[1, 4]))]);
    let counts: Vec<u32> = got.points.iter().map(|point| point.clients).collect();
    assert_eq!(counts, [1, 4]);
    assert!(
        got.points
            .iter()
            .all(|p| p.compared.together.p_family.is_some())
    );
    let left = got
        .warnings
        .iter()
        .find(|w| w.id == "points-left-out")
        .expect("told");
    assert!(left.text.contains("16"), "{}", left.text);
}

#[test]
fn launches_are_pooled_as_launches() {
    let made = Made {
        launches: 4,
        luck: 0.01,
        ..small(-0.05)
    };
    let got = pooled(&[run(1, made.clone()), run(2, made)]);
    let together = &got.points[0].compared.together;
    assert_eq!((together.unit, together.ratio.n), (Unit::Launch, 8));
    assert_eq!(got.verdict, Verdict::Slower);
}

#[test]
fn runs_of_other_questions_are_refused_by_name() {
    let refusal = |a: Compare, b: Compare| pool_runs(&[a, b]).expect_err("not of one plan");
    let one = || run(1, small(0.0));
    let mut scale = run(2, small(0.0));
    scale.analysis.stages[0].plan.workload.scale = 50;
    let said = refusal(one(), scale).to_string();
    assert!(
        said.contains("the scale differs: 10 in 20261121T"),
        "{said}"
    );
    let set = Made {
        settings: vec![vec![], vec!["work_mem=8MB".into()], vec![], vec![]],
        ..small(0.0)
    };
    let said = refusal(one(), run(2, set)).to_string();
    assert!(said.contains("temp against temp work_mem=8MB"), "{said}");
    assert!(matches!(refusal(one(), one()), Refusal::Twice(_)));
    let mut sequential = run(2, small(0.0));
    sequential.plan.as_mut().expect("a plan").looks = vec![5, 10];
    assert!(matches!(refusal(one(), sequential), Refusal::Sequential(_)));
    let reads = Made {
        reads: vec![0.0, 3.0, 0.0, 0.0],
        ..small(0.0)
    };
    assert!(matches!(
        refusal(one(), run(2, reads)),
        Refusal::NotComparable { .. }
    ));
    let other = Made {
        clients: vec![9],
        ..small(0.0)
    };
    assert_eq!(refusal(one(), run(2, other)), Refusal::NoCommonPoint);
    assert_eq!(pool_runs(&[one()]), Err(Refusal::TooFew));
}

#[test]
fn documents_from_elsewhere_are_pooled_by_the_program() {
    let runs = Runs::new("pool");
    fs::create_dir_all(&runs.0).expect("a directory");
    let files: Vec<String> = (1..=3)
        .map(|n| {
            let path = runs.0.join(format!("run-{n}.json"));
            fs::write(&path, pgassay_report::json(&run(n, small(-0.05)))).expect("written");
            path.display().to_string()
        })
        .collect();
    let call = |files: &[String], json: bool| {
        let mut args = vec!["compare", "--pool"];
        args.extend(files.iter().map(String::as_str));
        args.extend(json.then_some("--json"));
        runs.run(&args)
    };
    let output = call(&files, false);
    let shown = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{shown}{}",
        text(&output.stderr)
    );
    assert!(
        shown.contains("\nB is slower than A at 4 clients: "),
        "{shown}"
    );
    assert!(shown.contains("together"), "{shown}");
    let json: Value = serde_json::from_slice(&call(&files, true).stdout).expect("JSON");
    assert_schema(&json, "pool-1.json");
    let twice = call(&[files[0].clone(), files[0].clone()], false);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("named twice"));
    fs::write(&files[0], "{}").expect("written");
    assert_eq!(call(&files, false).status.code(), Some(2));
}
