//! The verdict by statement, from made-up comparisons.

use std::fmt::Write as _;

use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::stats::Verdict;
use pgassay_analysis::stats::simulate::{self, normal};
use pgassay_model::comparison::ArmFacts;
use pgassay_model::reading::Reading;
use pgassay_model::record::RecordedRun;
use pgassay_model::trial::{ScriptRecord, StatementRecord};
use pgassay_model::workload::ScriptPlan;
use pgassay_report::TextStyle;
use serde_json::Value;

use super::assert_schema;
use super::fixture::{Made, histogram};

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
            "None of 3 statements was shown to take longer or less, and none is planned otherwise."
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
                latency: None,
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
