//! A log of messages that grows with every statement of a load.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples};
use crate::detect::common::message_log::{sent, set, trees, with_settings};
use crate::detect::prelude::*;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let sent = sent(profile);
    let trees = trees(evidence);
    let share = (sent + trees).min(1.0);
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!(
            "Writing messages, to the server's log or to clients, takes {}.",
            of_samples(share)
        );
        let seen = Observation::of_samples(share, saw)
            .of_functions((sent > 0.0).then_some("EmitErrorReport"))
            .all_seen((sent > 0.0).then(|| {
                format!(
                    "{} of the samples in EmitErrorReport and what it calls",
                    tenths(sent)
                )
            }))
            .all_seen((trees > 0.0).then(|| {
                format!(
                    "{} in making texts of parse trees and plans for it, or in counting what each node does",
                    tenths(trees)
                )
            }));
        match evidence.run {
            Some(run) => with_settings(&run, seen),
            None => seen,
        }
    })
}

/// Bytes a second from which on a log is written all the time.
const MUCH: f64 = 64.0 * 1024.0;
/// Bytes for each transaction from which on each of them is logged.
const EACH: f64 = 40.0;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::Finding;
    use crate::detect::tests::made::{found_in_samples, found_with_settings, one};
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
