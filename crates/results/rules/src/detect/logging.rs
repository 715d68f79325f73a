//! A log of messages that grows with every statement of a load.

use super::{Detector, run, shown};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Observation, Severity};
use pgassay_evidence::profile::Summary;

pub(super) const DETECTORS: &[Detector] = &[run("statement-logging", written)];

/// Bytes a second from which on a log is written all the time.
const MUCH: f64 = 64.0 * 1024.0;
/// Bytes for each transaction from which on each of them is logged.
const EACH: f64 = 40.0;

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
fn set<'a>(run: &RunEvidence<'a>) -> Vec<(&'static str, &'a str, &'static str)> {
    let rows = WRITES.iter().filter_map(|(name, values, instead)| {
        let value = run.setting(name)?;
        // Without a message it instruments nothing.
        let counts = *name != "auto_explain.log_analyze" || explains(run);
        (counts && values.contains(&value)).then_some((*name, value, *instead))
    });
    rows.collect()
}

fn written(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let counters = run.observed?.counters.as_ref()?;
    let bytes = counters.messages_bytes?;
    let rate = bytes / counters.seconds;
    let done = counters.database_rate("xact_commit")? + counters.database_rate("xact_rollback")?;
    let each = rate / done;
    // Of a server that is idle it is our own observers' statements that are logged.
    if done < 1.0 || !rate.is_finite() || rate < MUCH || each < EACH {
        return None;
    }
    let saw = format!(
        "The server writes {} a second into its log, {} for each transaction.",
        shown(rate as u64),
        shown(each as u64)
    );
    // What it costs CPU samples say, where there are any.
    let seen = Observation::measured(Basis::Counters, None, saw);
    if set(&run).is_empty() {
        return Some(
            seen.severity(Severity::Medium)
                .confidence(Confidence::Medium)
                .shell("tail -n 50 THE_LOG   # what the lines are: errors of the application, or an extension's messages, RAISE in functions"),
        );
    }
    let seen = seen.severity(Severity::Medium).confidence(Confidence::High);
    Some(with_settings(&run, seen))
}

/// Adds the settings that write the log, and what takes them back.
pub(super) fn with_settings(run: &RunEvidence, seen: Observation) -> Observation {
    set(run)
        .into_iter()
        .fold(seen, |seen, (name, value, instead)| {
            seen.seen(format!("{name} = {value}"))
                .sql(format!("ALTER SYSTEM {instead}; SELECT pg_reload_conf();"))
        })
}

/// What makes texts of trees of statements and plans: beside one another, not within.
const PRINTS: &[&str] = &["format_node_dump", "outNode", "pretty_format_node_dump"];

/// What auto_explain has the server do beside sending the message: to print a plan, and to count rows and time in each of
/// its nodes.
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
pub(super) fn trees(evidence: &Evidence) -> f64 {
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
pub(super) fn sent(profile: &Summary) -> f64 {
    ["EmitErrorReport", "errfinish"]
        .iter()
        .filter_map(|name| profile.function(name))
        .map(|f| f.total_share)
        .fold(0.0, f64::max)
}

/// The share of the CPU samples that is no function's own doing, but that of auto_explain, which looks at the statements within
/// functions, too.
pub(super) fn within_functions(evidence: &Evidence) -> f64 {
    let nested = evidence.run.is_some_and(|run| {
        explains(&run) && run.setting("auto_explain.log_nested_statements") == Some("on")
    });
    match evidence.profile {
        Some(profile) if nested => sent(profile) + trees(evidence),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::made::{found_in_samples, found_with_settings, one};
    use crate::Finding;
    use pgassay_evidence::observed::counters::ServerCounters;

    /// 4000 transactions in 4 seconds, with so many bytes of log.
    fn found(
        bytes: Option<f64>,
        settings: &'static [(&'static str, &'static str, &'static str)],
    ) -> Vec<Finding> {
        found_with_settings(settings, move |observed| {
            observed.counters = Some(ServerCounters {
                seconds: 4.0,
                database: BTreeMap::from([("xact_commit".to_owned(), 4000.0)]),
                messages_bytes: bytes,
                ..ServerCounters::default()
            });
        })
    }

    const FILE: &str = "configuration file";

    #[test]
    fn a_log_of_every_statement_is_told_in_bytes_with_the_setting() {
        let findings = found(
            Some(4e6),
            &[
                ("log_statement", "all", FILE),
                ("log_duration", "off", FILE),
            ],
        );
        let log = one(&findings, "statement-logging");
        assert!(
            log.saw.contains("977 KiB a second") && log.saw.contains("1000 bytes for each"),
            "{}",
            log.saw
        );
        assert_eq!(log.remedy.len(), 1);
        assert!(
            log.remedy[0].text.contains("log_statement = 'ddl'"),
            "{log:#?}"
        );
        // Without such a setting something else fills it.
        let errors = found(Some(4e6), &[("log_statement", "none", "default")]);
        assert!(
            one(&errors, "statement-logging").remedy[0]
                .text
                .contains("tail")
        );
    }

    #[test]
    fn a_quiet_log_is_no_finding() {
        for bytes in [None, Some(0.0), Some(20_000.0), Some(120_000.0)] {
            let findings = found(bytes, &[("log_min_duration_statement", "250ms", FILE)]);
            assert!(
                findings.iter().all(|f| f.id != "statement-logging"),
                "{bytes:?}"
            );
        }
    }

    /// The function whose statements auto_explain timed and logged was told to be rewritten.
    #[test]
    fn what_auto_explain_does_is_the_logs_and_no_functions() {
        const LISTING: &str = "20.00% postgres [.] EmitErrorReport\n25.00% postgres [.] ExplainPrintPlan\n\
                               10.00% postgres [.] InstrStopNode\n10.00% postgres [.] ExecScan\n";
        const ON: &[(&str, &str, &str)] = &[
            ("auto_explain.log_min_duration", "0", "configuration file"),
            ("auto_explain.log_analyze", "on", "configuration file"),
        ];
        const OFF: &[(&str, &str, &str)] = &[
            ("auto_explain.log_min_duration", "-1", "configuration file"),
            ("auto_explain.log_analyze", "on", "configuration file"),
        ];
        let on = found_in_samples(LISTING, ON);
        let logging = one(&on, "statement-logging");
        assert!(logging.saw.contains("55.0 %"), "{}", logging.saw);
        let steps: Vec<&str> = logging.remedy.iter().map(|s| s.text.as_str()).collect();
        let steps = steps.join(" ");
        assert!(
            steps.contains("log_min_duration = '250ms'") && steps.contains("log_analyze = off"),
            "{steps}"
        );
        let off = found_in_samples(LISTING, OFF);
        let logging = one(&off, "statement-logging");
        assert!(logging.saw.contains("20.0 %"), "{}", logging.saw);
        assert!(
            logging
                .remedy
                .iter()
                .all(|s| !s.text.contains("log_analyze"))
        );
    }
}
