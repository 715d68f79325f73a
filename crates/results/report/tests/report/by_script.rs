//! Percentiles by script and by statement, in what a terminal shows.

use pgassay_analysis::Analysis;
use pgassay_analysis::latency::{LatencyDetail, Percentiles, ScriptLatency, StatementLatency};

use pgassay_model::workload::ScriptPlan;

use super::{fixture, plain};

fn percentiles(count: u64, p50: f64) -> Percentiles {
    Percentiles {
        count,
        p50: Some(p50),
        p99: Some(10.0 * p50),
        max: Some(100.0 * p50),
        ..Percentiles::default()
    }
}

/// A run whose second script failed throughout, and so has no latency.
fn measured() -> Analysis {
    let mut analysis = fixture::complete();
    let stage = &mut analysis.stages[0];
    stage.plan.workload.commands = vec![
        vec!["\\set".to_owned(), "SELECT a FROM t".to_owned()],
        vec!["SELECT broken".to_owned()],
    ];
    let statement = |command, failures, latency| StatementLatency {
        command,
        failures,
        latency,
    };
    let reads = ScriptLatency {
        name: "reads.sql".to_owned(),
        transactions: 1_000,
        failures: 0,
        latency: percentiles(990, 200.0),
        statements: vec![statement(1, 0, percentiles(1_000, 170.0))],
        ..ScriptLatency::default()
    };
    let broken = ScriptLatency {
        name: "broken.sql".to_owned(),
        failures: 7,
        statements: vec![statement(0, 7, Percentiles::default())],
        ..ScriptLatency::default()
    };
    stage.arms[0].points[0].detail = Some(LatencyDetail {
        seconds: 4.0,
        all: percentiles(990, 200.0),
        scripts: vec![reads, broken],
        ..LatencyDetail::default()
    });
    analysis
}

fn cells(text: &str, name: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.contains(name));
    let line = line.unwrap_or_else(|| panic!("no line with {name} in\n{text}"));
    let rest = line.split_once(name).map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_terminal_shows_scripts_with_clients_of_their_own() {
    let mut analysis = measured();
    let script = ScriptPlan {
        clients: Some(2),
        ..ScriptPlan::default()
    };
    let stage = &mut analysis.stages[0];
    stage.plan.workload.scripts = vec![script];
    let detail = stage.arms[0].points[0].detail.as_mut().unwrap();
    detail.scripts[0].own_clients = Some(2);
    let text = pgassay_report::text(&analysis, &plain(140));
    assert!(text.contains("Latency by script"), "{text}");
    assert_eq!(
        cells(&text, "1 client + 2: reads.sql")[..3],
        ["1,000", "0", "250"]
    );
    assert!(text.contains("are counted here only"), "{text}");
}

#[test]
fn a_terminal_shows_statements_that_were_asked_for() {
    let mut analysis = measured();
    let unasked = pgassay_report::text(&analysis, &plain(140));
    assert!(!unasked.contains("reads.sql"), "{unasked}");
    assert!(pgassay_report::markdown(&analysis).contains("reads.sql"));

    analysis.stages[0].plan.workload.dials.per_statement = true;
    let text = pgassay_report::text(&analysis, &plain(140));
    assert!(text.contains("Latency by statement"), "{text}");
    let reads = cells(&text, ": reads.sql");
    assert_eq!(reads[..3], ["1,000", "0", "250"], "{text}");
    let statement = cells(&text, "… 2: SELECT a FROM t");
    assert_eq!(statement[..3], ["1,000", "0", "250"], "{text}");
    // p50 and p99 in the units of their columns; p90 has too few beyond it.
    assert_eq!(statement[3], "170", "{text}");
    assert!(!statement[4].starts_with('0'), "missing, not zero: {text}");
    assert!(text.contains("reads.sql 2   SELECT a FROM t"), "{text}");
    let broken = cells(&text, "… 1: SELECT broken");
    assert_eq!(broken[..3], ["0", "7", "0.00"], "{text}");
    assert!(!broken[3].starts_with('0'), "missing, not zero: {text}");
}
