//! The server's log of messages: settings that write a line for each statement, and the CPU time of writing it.

use crate::evidence::{Evidence, RunEvidence};
use crate::finding::Observation;
use pgassay_evidence::profile::Summary;

/// Settings that write a line for each statement or transaction: the values that do, and what is put in their place.
const WRITES: &[(&str, &[&str], &str)] = &[
    (
        "log_statement",
        &["all", "mod"],
        "SET log_statement = 'ddl'",
    ),
    (
        "log_min_duration_statement",
        &["0", "0ms"],
        "SET log_min_duration_statement = '250ms'",
    ),
    ("log_duration", &["on"], "RESET log_duration"),
    ("log_statement_stats", &["on"], "RESET log_statement_stats"),
    ("log_parser_stats", &["on"], "RESET log_parser_stats"),
    ("log_planner_stats", &["on"], "RESET log_planner_stats"),
    ("log_executor_stats", &["on"], "RESET log_executor_stats"),
    ("debug_print_parse", &["on"], "RESET debug_print_parse"),
    (
        "debug_print_rewritten",
        &["on"],
        "RESET debug_print_rewritten",
    ),
    ("debug_print_plan", &["on"], "RESET debug_print_plan"),
    (
        "auto_explain.log_min_duration",
        &["0", "0ms"],
        "SET auto_explain.log_min_duration = '250ms'",
    ),
    (
        "auto_explain.log_analyze",
        &["on"],
        "SET auto_explain.log_analyze = off",
    ),
    (
        "log_min_messages",
        &["debug", "debug2", "debug3", "debug4", "debug5"],
        "RESET log_min_messages",
    ),
    (
        "client_min_messages",
        &["debug", "debug1", "debug2", "debug3", "debug4", "debug5"],
        "RESET client_min_messages",
    ),
    ("trace_notify", &["on"], "RESET trace_notify"),
    ("trace_sort", &["on"], "RESET trace_sort"),
];

/// Those that are set so.
pub fn set<'a>(run: &RunEvidence<'a>) -> Vec<(&'static str, &'a str, &'static str)> {
    let rows = WRITES.iter().filter_map(|(name, values, instead)| {
        let value = run.setting(name)?;
        // Without a message it instruments nothing.
        let counts = *name != "auto_explain.log_analyze" || explains(run);
        (counts && values.contains(&value)).then_some((*name, value, *instead))
    });
    rows.collect()
}

/// Adds the settings that write the log, and what takes them back.
pub fn with_settings(run: &RunEvidence, seen: Observation) -> Observation {
    set(run)
        .into_iter()
        .fold(seen, |seen, (name, value, instead)| {
            seen.seen(format!("{name} = {value}"))
                .sql(format!("ALTER SYSTEM {instead}; SELECT pg_reload_conf();"))
        })
}

/// Functions that print parse trees and plans; none calls another.
const PRINTS: &[&str] = &["format_node_dump", "outNode", "pretty_format_node_dump"];

/// What auto_explain adds to sending the message: printing the plan, and counting rows and time of each node.
const EXPLAINS: &[&str] = &[
    "ExplainPrintPlan",
    "ExplainPrintTriggers",
    "ExplainPrintJITSummary",
    "ExplainQueryText",
    "ExplainQueryParameters",
    "InstrStartNode",
    "InstrStopNode",
];

/// Whether auto_explain logs what runs.
fn explains(run: &RunEvidence) -> bool {
    run.setting("auto_explain.log_min_duration")
        .is_some_and(|least| least != "-1")
}

/// The share of the CPU samples that goes to writing trees of statements and plans as text, where settings ask for it.
pub fn trees(evidence: &Evidence) -> f64 {
    let (Some(run), Some(profile)) = (evidence.run, evidence.profile) else {
        return 0.0;
    };
    let of = |names: &[&str]| -> f64 {
        let shares = names.iter().filter_map(|name| profile.function(name));
        shares.map(|f| f.total_share).sum()
    };
    let prints = [
        "debug_print_parse",
        "debug_print_plan",
        "debug_print_rewritten",
    ];
    let printed = match prints.iter().any(|name| run.setting(name) == Some("on")) {
        true => of(PRINTS),
        false => 0.0,
    };
    let explained = match explains(&run) {
        true => of(EXPLAINS),
        false => 0.0,
    };
    printed + explained
}

/// The share of the CPU samples in sending messages, with what they call.
pub fn sent(profile: &Summary) -> f64 {
    ["EmitErrorReport", "errfinish"]
        .iter()
        .filter_map(|name| profile.function(name))
        .map(|f| f.total_share)
        .fold(0.0, f64::max)
}

/// The share of the CPU samples that is no function's own doing, but that of auto_explain, which looks at the statements within
/// functions, too.
pub fn within_functions(evidence: &Evidence) -> f64 {
    let nested = evidence.run.is_some_and(|run| {
        explains(&run) && run.setting("auto_explain.log_nested_statements") == Some("on")
    });
    match evidence.profile {
        Some(profile) if nested => sent(profile) + trees(evidence),
        _ => 0.0,
    }
}
