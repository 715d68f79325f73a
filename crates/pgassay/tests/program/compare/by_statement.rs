//! The verdict by statement, from made-up comparisons.

use std::fmt::Write as _;

use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::stats::Verdict;
use pgassay_analysis::stats::simulate::{self, normal};
use pgassay_model::comparison::ArmFacts;
use pgassay_model::reading::Reading;
use pgassay_model::record::RecordedRun;
use pgassay_model::trial::{ScriptRecord, StatementCpu, StatementRecord};
use pgassay_model::workload::ScriptPlan;
use pgassay_report::TextStyle;
use serde_json::Value;

use super::fixture::{Made, histogram};
use crate::schema::assert_schema;

/// Two scripts of a workload on somebody's own tables, of which the second has a transaction; the latency
/// of each statement at B is so many times that at A.
fn run(factors: [f64; 3], index_lost: bool) -> RecordedRun {
    let made = Made {
        noise: 0.01,
        ..Made::default()
    };
    let mut run = made.run();
    let workload = &mut run.header.experiment.stages[0].plan.workload;
    workload.without_pgbench_tables = true;
    workload.dials.per_statement = true;
    workload.name = "shop.sql".to_owned();
    let script = |name: &str| ScriptPlan {
        name: name.to_owned(),
        weight: 1,
        ..ScriptPlan::default()
    };
    workload.scripts = vec![script("select-customer"), script("update-customer")];
    let line = str::to_owned;
    workload.commands = vec![
        vec![
            line("\\draw"),
            line("SELECT name FROM customer WHERE id = :p1"),
        ],
        vec![
            line("BEGIN"),
            line("UPDATE customer SET name = :p1 WHERE id = :p2"),
        ],
    ];
    let mut rng = simulate::rng(11);
    for trial in &mut run.trials {
        let mut statement = |factor: f64| {
            let factor = if trial.slice.arm == 1 { factor } else { 1.0 };
            StatementRecord {
                failures: 0,
                latency: Some(histogram(factor * (0.02 * normal(&mut rng)).exp())),
                cpu: None,
            }
        };
        let first = vec![StatementRecord::default(), statement(factors[0])];
        let second = vec![statement(factors[1]), statement(factors[2])];
        trial.scripts = [first, second]
            .into_iter()
            .map(|statements| ScriptRecord {
                transactions: 5,
                statements,
                ..ScriptRecord::default()
            })
            .collect();
    }
    for (arm, facts) in &mut run.arm_facts {
        let node = match (*arm, index_lost) {
            (1, true) => "\"Node Type\": \"Seq Scan\"",
            _ => "\"Node Type\": \"Index Scan\", \"Index Name\": \"customer_pkey\"",
        };
        let mut plans = String::from("[");
        for row in 0..2 {
            let comma = if row == 0 { "" } else { ", " };
            // With the first row's values both run it alike.
            let node = if row == 0 {
                "\"Node Type\": \"Index Scan\""
            } else {
                node
            };
            write!(
                plans,
                "{comma}{{\"statement\": \"SELECT name FROM customer WHERE id = :p1\", \"script\": 0, \
                 \"command\": 1, \"plan\": [{{\"Plan\": {{{node}, \"Relation Name\": \"customer\"}}}}]}}"
            )
            .expect("memory");
        }
        plans.push_str(
            ", {\"statement\": \"UPDATE customer SET name = :p1 WHERE id = :p2\", \"script\": 1, \
             \"command\": 1, \"why\": \"permission denied\"}]",
        );
        *facts = ArmFacts {
            plans: Reading::Text(plans),
            data: Reading::Text("[]".to_owned()),
        };
    }
    run
}

fn concluded(run: &RecordedRun) -> Compare {
    let compare = compare::conclude(run).expect("pairs were measured");
    let json: Value = serde_json::from_str(&pgassay_report::json(&compare)).expect("JSON");
    assert_schema(&json, "compare-1.json");
    compare
}

#[test]
fn a_statement_that_got_slower_comes_first_with_its_plan() {
    let compare = concluded(&run([30.0, 1.0, 0.8], true));
    assert_ne!(
        compare.verdict,
        Verdict::NotComparable,
        "{:?}",
        compare.differences
    );
    let statements = &compare.results[0].statements;
    let found: Vec<(&str, Option<Verdict>, bool)> = statements
        .iter()
        .map(|s| (s.text.as_str(), s.verdict(), s.plan_changed()))
        .collect();
    assert_eq!(found[0].1, Some(Verdict::Slower));
    assert!(
        found[0].0.starts_with("SELECT name") && found[0].2,
        "{found:?}"
    );
    assert_eq!(found[1].1, Some(Verdict::Faster), "{found:?}");
    assert!(found[1].0.starts_with("UPDATE"));
    assert_eq!(found[2].0, "BEGIN", "the backslash command is none of them");
    assert!(!statements[2].changed());
    // One family: no p is smaller than its own.
    for statement in statements {
        let compared = statement.compared.as_ref().expect("pairs");
        assert!(compared.p_family.expect("a family of three") >= compared.p);
        assert_eq!(compared.pairs, 60);
        assert_eq!(statement.calls, (300, 300));
    }
    let ratio = &statements[0].compared.as_ref().expect("pairs").ratio;
    assert!(ratio.low < 30.0 && ratio.high > 30.0, "{ratio:?}");
    let shares: f64 = statements.iter().map(|s| s.time_share.1).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    assert!(
        statements[0].time_share.1 > 0.9,
        "{:?}",
        statements[0].time_share
    );

    let said = compare.headline.join("\n");
    assert!(
        said.contains(
            "2 of 3 statements changed: `SELECT name FROM customer WHERE id = :p1` takes "
        ) && said.contains("times as long (")
            && said.contains(
                "by Seq Scan on customer instead of Index Scan on customer using customer_pkey;"
            ),
        "{said}"
    );
    let style = TextStyle {
        width: 160,
        color: false,
        unicode: true,
    };
    let text = pgassay_report::text(&compare, &style);
    let title = text.find("By statement").expect("a section");
    let row = |words: &str| {
        text[title..]
            .find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    };
    assert!(
        row("`SELECT name") < row("`UPDATE customer") && row("`UPDATE customer") < row("`BEGIN`")
    );
    assert!(text[title..].contains("changed") && text[title..].contains("Seq Scan on customer"));
    let html = pgassay_report::html(&compare);
    assert!(html.contains("By statement") && html.contains("SELECT name FROM customer"));
    let markdown = pgassay_report::markdown(&compare);
    assert!(markdown.contains("SELECT name FROM customer"), "{markdown}");
}

#[test]
fn equal_statements_are_not_said_to_differ() {
    let compare = concluded(&run([1.0, 1.0, 1.0], false));
    let said = compare.headline.join("\n");
    assert!(
        said.contains(
            "None of 3 statements was shown to take more or less time, and none is planned otherwise."
        ),
        "{said}"
    );
    assert!(compare.results[0].statements.iter().all(|s| !s.changed()));
}

/// What no pair showed has no verdict, and what failed is counted.
#[test]
fn a_statement_that_fails_on_one_side_is_listed() {
    let mut run = run([1.0, 1.0, 1.0], false);
    for trial in &mut run.trials {
        if trial.slice.arm == 1 {
            trial.scripts[1].statements[1] = StatementRecord {
                failures: 7,
                ..StatementRecord::default()
            };
        }
    }
    let compare = concluded(&run);
    let statements = &compare.results[0].statements;
    let update = statements
        .iter()
        .find(|s| s.text.starts_with("UPDATE"))
        .expect("listed");
    assert_eq!((update.verdict(), update.failures), (None, (0, 420)));
    assert_eq!(update.calls, (300, 0));
}

/// CPU time of the statements of [`run`], of which the first takes so many times as much at B; where
/// `workers` is given so many ticks of other processes ended with each execution of it.
fn metered(run: &mut RecordedRun, factor: f64, workers: Option<u64>) {
    let mut rng = simulate::rng(12);
    for trial in &mut run.trials {
        for (script, record) in trial.scripts.iter_mut().enumerate() {
            for (command, statement) in record.statements.iter_mut().enumerate() {
                let first = (script, command) == (0, 1);
                let factor = if first && trial.slice.arm == 1 {
                    factor
                } else {
                    1.0
                };
                let each = 50_000.0 * factor * (0.02 * normal(&mut rng)).exp();
                statement.cpu = statement.latency.is_some().then(|| StatementCpu {
                    executions: 4,
                    own_ns: (4.0 * each) as u64,
                    ended_ticks: workers.filter(|_| first).map_or(0, |ticks| 4 * ticks),
                });
            }
        }
    }
}

#[test]
fn the_cpu_time_of_a_statement_has_a_verdict_of_its_own() {
    let mut run = run([1.0, 1.0, 1.0], false);
    metered(&mut run, 1.5, Some(1));
    let compare = concluded(&run);
    let result = &compare.results[0];
    let first = &result.statements[0];
    assert!(first.text.starts_with("SELECT name"), "{}", first.text);
    assert_ne!(first.verdict(), Some(Verdict::Slower));
    assert_eq!(first.cpu_verdict(), Some(Verdict::Slower));
    let cpu = first.cpu.as_ref().expect("measured");
    let (a, ratio) = (
        cpu.a.as_ref().expect("slices"),
        &cpu.compared.as_ref().expect("pairs").ratio,
    );
    // No plan has workers: what ended meanwhile was something else.
    assert!((a.estimate - 50.0).abs() < 2.0, "{a:?}");
    assert!(
        ratio.low < 1.5 && ratio.high > 1.5 && ratio.low > 1.4,
        "{ratio:?}"
    );
    assert_eq!(cpu.executions, (240, 240));
    for other in &result.statements[1..] {
        assert_ne!(other.cpu_verdict(), Some(Verdict::Slower));
        assert!(other.cpu_compared().expect("pairs").p_family.is_some());
    }
    // 5 calls a slice of each of three statements, against 40 µs for each of its transactions.
    let held = result.statements_cpu.as_ref().expect("held");
    let of_a = run.trials.iter().filter(|trial| trial.slice.arm == 0);
    let (slices, transactions) =
        of_a.fold((0, 0), |(n, sum), trial| (n + 1, sum + trial.transactions));
    let expected = (3.0 * 5.0 * 50.0) / (40.0 * transactions as f64 / f64::from(slices));
    let share = held.accounted.0.expect("both were measured");
    assert!(
        (share / expected - 1.0).abs() < 0.05,
        "{share} for {expected}"
    );
    assert_eq!(held.warnings.len(), 1, "{held:?}");
    let said = compare.headline.join("\n");
    assert!(said.contains("more CPU time"), "{said}");
    let style = TextStyle {
        width: 200,
        color: false,
        unicode: true,
    };
    let text = pgassay_report::text(&compare, &style);
    assert!(
        text.contains("One at a time") && text.contains("One at a time, the statements take"),
        "{text}"
    );
    assert!(pgassay_report::html(&compare).contains("CPU at A"));
}

#[test]
fn parallel_workers_count_where_a_plan_has_them() {
    let mut run = run([1.0, 1.0, 1.0], false);
    metered(&mut run, 1.0, Some(1));
    for facts in run.arm_facts.values_mut() {
        let plans = facts
            .plans
            .text()
            .expect("plans")
            .replace("Index Scan", "Gather");
        facts.plans = Reading::Text(plans);
    }
    let compare = concluded(&run);
    let statements = &compare.results[0].statements;
    let of = |begins: &str| {
        let found = statements.iter().find(|s| s.text.starts_with(begins));
        let cpu = found.expect("listed").cpu.as_ref().expect("measured");
        cpu.a.as_ref().expect("slices").estimate
    };
    // A tick is 10 ms.
    assert!(
        (of("SELECT name") - 10_050.0).abs() < 5.0,
        "{}",
        of("SELECT name")
    );
    assert!(of("UPDATE") < 60.0);
}

#[test]
fn why_cpu_time_is_missing_is_said() {
    let mut run = run([1.0, 1.0, 1.0], false);
    for trial in &mut run.trials {
        trial.not_metered = Some("the server runs on another machine".to_owned());
    }
    let compare = concluded(&run);
    let style = TextStyle {
        width: 200,
        color: false,
        unicode: true,
    };
    let text = pgassay_report::text(&compare, &style);
    assert!(
        text.contains(
            "CPU time by statement was not measured: the server runs on another machine."
        ),
        "{text}"
    );
    assert!(!text.contains("CPU at A"));
}
