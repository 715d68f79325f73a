//! What holds a server back by all loads and the audit together: their findings in one order.

use crate::analysis::Analysis;
use crate::bottlenecks::detect::SATURATED;
use crate::bottlenecks::{
    Basis, Cause, Confidence, Finding, Part, SeenBy, Severity, cause, find, invalidates,
    known_gain, measures, weights,
};
use crate::check::CheckReport;
use crate::{measuring, metrics};

/// What is left of an expectation that nobody has measured here.
const NOT_MEASURED: f64 = 0.5;
/// The gain below which what the loads bound is no cause of theirs.
const NOTHING: f64 = 0.01;
/// The part of the busy CPUs below which it does not matter who else has them.
const FEW: f64 = 0.1;

/// All causes of weight, the one that is expected to cost most first.
pub fn causes(analysis: &Analysis) -> Vec<Cause> {
    let audit: Vec<&Finding> = analysis
        .check
        .iter()
        .flat_map(CheckReport::findings)
        .collect();
    let mut causes: Vec<Cause> = Vec::new();
    let mut measured: Vec<&str> = Vec::new();
    for (index, stage) in analysis.stages.iter().enumerate() {
        let Some(diagnosis) = &stage.diagnosis else {
            continue;
        };
        let seen_by = match index {
            0 => SeenBy::Load,
            _ => SeenBy::SecondLoad,
        };
        let workload = stage.plan.workload.name.as_str();
        let weights = weights(&diagnosis.findings, Some(workload));
        for (finding, weight) in diagnosis.findings.iter().zip(weights) {
            let entry = find(&finding.id);
            let own = entry.is_some_and(|e| e.caused_by_workload.contains(&workload));
            if own || finding.severity == Severity::Info {
                continue;
            }
            measured.extend(measures(finding));
            let known = audit
                .iter()
                .filter(|f| measures(finding).any(|id| id == f.id));
            let known = known.map(|f| known_gain(f)).fold(0.0, f64::max);
            // What is known of a symptom does not lift it above its cause.
            let gain = match finding.cause {
                Some(_) => weight,
                None => weight.max(known),
            };
            let cause = cause(finding, seen_by, Some(workload), gain);
            // Both loads may show the same: the one under which it costs more stands for it.
            match causes.iter_mut().find(|known| known.id == cause.id) {
                Some(known) if known.expected_gain < cause.expected_gain => *known = cause,
                Some(_) => {}
                None => causes.push(cause),
            }
        }
    }
    let unmeasured = audit.into_iter().filter(|f| {
        f.severity >= Severity::Medium
            && !measured.contains(&f.id.as_str())
            && !match f.id.as_str() {
                OTHERS => beside_nobody(analysis),
                FORCED => none_forced(analysis),
                _ => false,
            }
    });
    causes.extend(unmeasured.filter_map(|f| {
        let known = known_gain(f) * NOT_MEASURED;
        match find(&f.id).and_then(|entry| spent(analysis, entry.costs)) {
            Some(spent) if spent < NOTHING => None,
            Some(spent) => Some(cause(f, SeenBy::Audit, None, known.min(spent))),
            None => Some(cause(f, SeenBy::Audit, None, known)),
        }
    }));
    let key = |cause: &Cause| (invalidates(&cause.id), cause.expected_gain);
    causes.sort_by(|a, b| {
        let ((first_a, gain_a), (first_b, gain_b)) = (key(a), key(b));
        first_b.cmp(&first_a).then(gain_b.total_cmp(&gain_a))
    });
    for cause in &mut causes {
        cause.measure = finding_of(analysis, cause)
            .and_then(|finding| measuring::command(analysis, cause, finding));
    }
    causes
}

/// The entry of CPUs that other programs take.
const OTHERS: &str = "cpu-others";

/// Whether loads show that hardly anybody else kept the CPUs busy, whatever the second of the audit was like: they
/// were there for longer.
fn beside_nobody(analysis: &Analysis) -> bool {
    let arms = analysis.stages.iter().flat_map(|stage| &stage.arms);
    let mut others = arms.flat_map(|arm| &arm.points).filter_map(|point| {
        let seen = |metric| Some(point.estimate(metric)?.estimate);
        let machine = seen(metrics::MACHINE_CPUS)?;
        let server = seen(metrics::SERVER_CPUS)?;
        Some((machine - server - seen(metrics::CLIENT_CPUS)?) / machine.max(f64::MIN_POSITIVE))
    });
    let first = others.next();
    first.is_some_and(|first| first < FEW && others.all(|part| part < FEW))
}

/// The entry of checkpoints that the WAL forces.
const FORCED: &str = "forced-checkpoints";

/// Whether loads counted their checkpoints, and none was requested. What the audit counts over a longer time was then
/// no matter of theirs.
fn none_forced(analysis: &Analysis) -> bool {
    let arms = analysis.stages.iter().flat_map(|stage| &stage.arms);
    let mut counted = arms.filter_map(|arm| arm.checkpoints.as_ref()).peekable();
    counted.peek().is_some() && counted.all(|counted| counted.requested == 0)
}

/// The largest share of their time in transactions that sessions spent in these parts, of all points
/// of all loads: a bound must not be below what any of them could gain. None where no load could show it.
fn spent(analysis: &Analysis, parts: &[Part]) -> Option<f64> {
    if parts.is_empty() {
        return None;
    }
    let arms = analysis.stages.iter().flat_map(|stage| &stage.arms);
    let points = arms
        .filter_map(|arm| arm.observed.as_ref())
        .flat_map(|o| &o.points);
    points
        .filter_map(|point| {
            let (budget, waits) = (point.budget.as_ref()?, point.waits.as_ref()?);
            let share = |part: &Part| match part {
                Part::Cpu => budget.share(budget.on_cpu),
                // A look sees the event also while the kernel copies, which is time on a CPU.
                Part::Reads => waits.share(|event| event.kind == "IO" && reads(&event.event)),
            };
            Some(parts.iter().map(share).sum::<f64>())
        })
        .reduce(f64::max)
}

/// Wait events of reading blocks (PostgreSQL manual, "Wait Events of Type IO"): by the reader itself up to 17,
/// also for asynchronous reads that it waits for from 18.
fn reads(event: &str) -> bool {
    matches!(event, "DataFileRead" | "DataFilePrefetch") || event.starts_with("Aio")
}

/// The finding that a cause is.
pub fn finding_of<'a>(analysis: &'a Analysis, cause: &Cause) -> Option<&'a Finding> {
    if cause.seen_by == SeenBy::Audit {
        let check = analysis.check.as_ref()?;
        return check.findings().find(|f| f.id == cause.id);
    }
    let mut stages = analysis.stages.iter();
    let stage = stages.find(|stage| cause.workload.as_ref() == Some(&stage.plan.workload.name))?;
    let mut findings = stage.diagnosis.iter().flat_map(|d| &d.findings);
    findings.find(|f| f.id == cause.id)
}

/// The findings of a run's load, and those of its audit that weigh as causes do, in one order.
pub fn with_audit(analysis: &Analysis, measured: &[Finding]) -> Vec<Finding> {
    let all = causes(analysis);
    let of_audit = all.iter().filter(|cause| cause.seen_by == SeenBy::Audit);
    let audit: Vec<(f64, &Finding)> = of_audit
        .filter_map(|cause| Some((cause.expected_gain, finding_of(analysis, cause)?)))
        .collect();
    let workload = analysis
        .stages
        .first()
        .map(|stage| stage.plan.workload.name.as_str());
    let mut known = audit.into_iter().peekable();
    let mut findings = Vec::new();
    for (finding, gain) in measured.iter().zip(weights(measured, workload)) {
        while let Some((_, before)) = known.next_if(|(expected, before)| {
            !invalidates(&finding.id) && (*expected > gain || invalidates(&before.id))
        }) {
            findings.push(before.clone());
        }
        findings.push(finding.clone());
    }
    findings.extend(known.map(|(_, finding)| finding.clone()));
    explain_full_cpus(&mut findings);
    findings
}

/// Of full CPUs that nothing measured explains, what the audit knows and whose page names them is the cause: it stands
/// before them.
fn explain_full_cpus(findings: &mut Vec<Finding>) {
    let full = findings
        .iter()
        .position(|f| f.id == SATURATED && f.symptom_of.is_none());
    let explains = |f: &&Finding| {
        f.basis == Basis::State
            && f.severity >= Severity::High
            && f.confidence >= Confidence::Medium
            && find(&f.id).is_some_and(|entry| entry.symptoms.contains(&SATURATED))
    };
    let Some((full, cause)) = full.zip(findings.iter().find(explains).cloned()) else {
        return;
    };
    let named = format!("{} ({})", cause.title, cause.id);
    findings[full].becomes_symptom_of(cause.id.clone(), named);
    let at = findings.iter().position(|f| f.id == cause.id);
    if let Some(behind) = at.filter(|at| *at > full) {
        let cause = findings.remove(behind);
        findings.insert(full, cause);
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::tree::CallTree;
    use serde_json::Value;

    use pgassay_model::facts::{self, Facts};
    use pgassay_model::reading::Reading;
    use pgassay_model::record::RecordedRun;

    use super::*;
    use crate::analysis::StageAnalysis;
    use crate::bottlenecks::finding::{Circumstances, Observation};
    use crate::check;
    use crate::checkpoints::Checkpoints;
    use crate::diagnose::{Diagnosis, SCHEMA};
    use crate::measured::StageArm;
    use crate::observed::waits::{WaitAnalysis, WaitEvent};
    use crate::observed::{ArmObserved, Budget, PointObserved};
    use crate::stats::Estimate;
    use pgassay_evidence::fixtures;

    const RECORDED: &str = include_str!("../tests/check/recorded/debian12-pg15.json");

    /// The audit of a recorded server without huge pages, with other settings.
    fn audit(settings: &[(&str, &str)]) -> CheckReport {
        let mut facts: Facts = serde_json::from_str(RECORDED).unwrap();
        let text = facts.server["settings"].text().unwrap();
        let mut rows: Vec<Value> = serde_json::from_str(text).unwrap();
        for (name, value) in settings {
            let row = rows.iter_mut().find(|row| row["name"] == *name).unwrap();
            row["setting"] = Value::from(*value);
        }
        let rows = serde_json::to_string(&rows).unwrap();
        facts.server.insert("settings".into(), Reading::Text(rows));
        let nothing_old = Reading::Text("[]".into());
        facts.server.insert("horizon".into(), nothing_old);
        check::check(&facts)
    }

    fn finding(id: &str, gain: f64, confidence: Confidence) -> Finding {
        let seen = Observation::measured(Basis::WaitTime, Some(gain), format!("{id}."));
        let seen = seen.confidence(confidence);
        Finding::new(find(id).unwrap(), seen, Circumstances::default())
    }

    fn loaded(workload: &str, findings: Vec<Finding>) -> StageAnalysis {
        let mut stage = StageAnalysis::default();
        stage.plan.workload.name = workload.to_owned();
        stage.diagnosis = Some(Diagnosis {
            schema: SCHEMA.to_owned(),
            subject: String::new(),
            version_num: None,
            findings,
            time: Vec::new(),
            explained: None,
            profile: None,
            flame: None,
            stacks: CallTree::default(),
            difference: None,
            reference: None,
            not_seen: Vec::new(),
        });
        stage
    }

    /// A run of these loads.
    fn run(stages: Vec<StageAnalysis>) -> Analysis {
        Analysis {
            stages,
            ..crate::analyse(&RecordedRun::default())
        }
    }

    /// An assay's causes by name, the first load's and the second's findings given.
    fn ranked(first: Vec<Finding>, second: Vec<Finding>, settings: &[(&str, &str)]) -> Vec<String> {
        let mut analysis = run(vec![
            loaded("select-only", first),
            loaded("tpcb-like", second),
        ]);
        analysis.check = Some(audit(settings));
        causes(&analysis).into_iter().map(|c| c.id).collect()
    }

    #[test]
    fn what_was_measured_stands_before_what_is_only_known() {
        let small = [("max_wal_size", "32")];
        assert_eq!(ranked(vec![], vec![], &[]), ["huge-pages"]);
        let unmeasured = ranked(vec![], vec![], &small);
        assert_eq!(unmeasured, ["max-wal-size-small", "huge-pages"]);
        let forced = finding("forced-checkpoints", 0.2, Confidence::Medium);
        let measured = ranked(vec![], vec![forced.clone()], &small);
        assert_eq!(measured, ["forced-checkpoints", "huge-pages"]);
        // However little it could be seen to cost: what is known of it still holds.
        let unseen = finding("forced-checkpoints", 0.0, Confidence::Medium);
        assert_eq!(
            ranked(vec![], vec![unseen], &small)[0],
            "forced-checkpoints"
        );
        let doubtful = finding("fast-path-locks", 0.05, Confidence::Low);
        assert_eq!(
            ranked(vec![doubtful], vec![forced], &[]),
            ["forced-checkpoints", "huge-pages", "fast-path-locks"]
        );
    }

    #[test]
    fn checkpoints_that_the_audit_counts_are_no_cause_of_a_load_that_met_none() {
        let mut facts: Facts = serde_json::from_str(RECORDED).unwrap();
        for (question, rows) in [
            ("horizon", "[]"),
            (
                "bgwriter",
                r#"[{"checkpoints_timed": 2, "checkpoints_req": 400, "since_reset_s": 9000}]"#,
            ),
            ("wal", r#"[{"wal_bytes": 400e9, "since_reset_s": 9000}]"#),
        ] {
            let rows = Reading::Text(rows.into());
            facts.server.insert(question.into(), rows);
        }
        let forced = |requested: Option<u64>| {
            let mut analysis = run(vec![loaded("tpcb-like", vec![])]);
            analysis.stages[0].arms = vec![StageArm {
                checkpoints: requested.map(|requested| Checkpoints {
                    requested,
                    ..Checkpoints::default()
                }),
                ..StageArm::default()
            }];
            analysis.check = Some(check::check(&facts));
            causes(&analysis).iter().any(|c| c.id == FORCED)
        };
        assert!(forced(None) && forced(Some(2)));
        assert!(!forced(Some(0)));
    }

    #[test]
    fn what_a_load_shows_on_any_server_is_no_fault_of_this_one() {
        let ordinary = finding("wal-flush", 0.6, Confidence::High);
        let forced = finding("forced-checkpoints", 0.3, Confidence::Medium);
        let own = finding("hot-row", 0.9, Confidence::High);
        let both = vec![own, ordinary.clone(), forced];
        assert_eq!(
            ranked(vec![], both.clone(), &[]),
            ["forced-checkpoints", "wal-flush", "huge-pages"]
        );
        // If a setting is to blame, the entry is that setting's, and no load excuses it.
        let delayed = [vec![finding("commit-delay", 0.6, Confidence::High)], both].concat();
        let delayed = ranked(vec![], delayed, &[("commit_delay", "20000")]);
        assert_eq!(delayed[..2], ["commit-delay", "forced-checkpoints"]);
        // In a load of somebody's own it is what there is to know.
        let own = run(vec![loaded("mine.sql", vec![ordinary])]);
        assert!((causes(&own)[0].expected_gain - 0.6).abs() < 1e-12);
    }

    #[test]
    fn what_makes_figures_meaningless_stands_first() {
        let costly = finding("shared-buffers-small", 0.9, Confidence::High);
        let named = ranked(vec![costly], vec![], &[("fsync", "off")]);
        assert_eq!(named[..2], ["fsync-off", "shared-buffers-small"]);
    }

    /// A load that spends its time elsewhere takes back what the audit only knows.
    #[test]
    fn what_the_loads_show_no_cost_of_is_no_cause() {
        const SMALL: &[(&str, &str)] = &[("shared_buffers", "1024")];
        let with_time = |on_cpu: f64, reading: f64, settings: &[(&str, &str)]| {
            let mut stage = loaded("mine.sql", vec![]);
            let budget = Budget {
                sessions: 1.0,
                on_cpu,
                off_cpu: 1.0 - on_cpu,
                ..Budget::default()
            };
            let event = WaitEvent {
                kind: "IO".into(),
                event: "DataFileRead".into(),
                sessions: reading,
                ..WaitEvent::default()
            };
            let waits = WaitAnalysis {
                active_sessions: 1.0,
                events: vec![event],
                ..WaitAnalysis::default()
            };
            let point = PointObserved {
                budget: Some(budget),
                waits: Some(waits),
                ..PointObserved::default()
            };
            stage.arms.push(StageArm {
                observed: Some(ArmObserved {
                    points: vec![point],
                    ..ArmObserved::default()
                }),
                ..StageArm::default()
            });
            let mut analysis = run(vec![stage]);
            analysis.check = Some(audit(settings));
            causes(&analysis)
        };
        let has = |causes: &[Cause], id: &str| causes.iter().any(|cause| cause.id == id);
        assert!(has(&with_time(0.9, 0.5, SMALL), "shared-buffers-small"));
        assert!(!has(&with_time(0.9, 0.0, SMALL), "shared-buffers-small"));
        assert!(!has(&with_time(0.005, 0.9, &[]), "huge-pages"));
        let some = with_time(0.03, 0.9, &[]);
        let pages = some.iter().find(|cause| cause.id == "huge-pages").unwrap();
        assert!((pages.expected_gain - 0.03).abs() < 1e-9, "{pages:?}");
    }

    #[test]
    fn what_the_audit_knows_stands_before_full_cpus_that_nothing_else_explains() {
        let full = || finding(SATURATED, 0.5, Confidence::High);
        let shown = |findings: Vec<Finding>, settings: &[(&str, &str)]| -> Vec<Finding> {
            let mut analysis = run(vec![loaded("mine.sql", findings.clone())]);
            analysis.check = Some(audit(settings));
            with_audit(&analysis, &findings)
        };
        let ignored = &[("vacuum_defer_cleanup_age", "1000000")];
        let found = shown(vec![full()], ignored);
        assert_eq!(found[0].id, "horizon-held");
        assert_eq!(found[1].id, SATURATED);
        assert_eq!(found[1].cause.as_deref(), Some("horizon-held"));
        // Without it they stand first, and with a cause that was measured they stay that one's.
        assert_eq!(shown(vec![full()], &[])[0].id, SATURATED);
        let mut explained = full();
        explained.becomes_symptom_of("sequential-scan".into(), "scans".into());
        let found = shown(vec![explained], ignored);
        assert_eq!(found[0].id, SATURATED);
        assert_eq!(found[0].cause.as_deref(), Some("sequential-scan"));
    }

    /// The second of the audit and the windows of a load are held against each other.
    #[test]
    fn who_is_not_there_during_the_load_takes_no_cpu_from_it() {
        let of = |server: f64| {
            let mut analysis = crate::analyse(&fixtures::run(0.0, |_| 0.8));
            for point in &mut analysis.stages[0].arms[0].points {
                let cpus = |value: f64| Estimate {
                    estimate: value,
                    ..point.throughput_tps.clone()
                };
                let seen = [
                    (metrics::MACHINE_CPUS, cpus(1.98)),
                    (metrics::SERVER_CPUS, cpus(server)),
                    (metrics::CLIENT_CPUS, cpus(0.01)),
                ];
                point.metrics.extend(seen);
            }
            let mut facts: Facts = serde_json::from_str(RECORDED).unwrap();
            for (name, text) in [
                (facts::MACHINE_AT_FIRST, "cpu  1000 0 500 9000 0 0 0 0 0 0"),
                (facts::MACHINE_LATER, "cpu  1198 0 500 9002 0 0 0 0 0 0"),
                (facts::PROCESSES_AT_FIRST, "100 0 0 1\n101 5000000000 0 10"),
                (
                    facts::PROCESSES_LATER,
                    "100 0 0 1\n101 5600000000 1500000000 20",
                ),
                (facts::NANOSECONDS_BETWEEN, "1000000000"),
            ] {
                facts
                    .process
                    .insert(name.into(), Reading::Text(text.into()));
            }
            analysis.check = Some(check::check(&facts));
            let causes = causes(&analysis);
            causes.iter().any(|cause| cause.id == OTHERS)
        };
        assert!(of(0.63));
        assert!(!of(1.93));
    }

    #[test]
    fn both_loads_seeing_the_same_is_one_cause() {
        let named = ranked(
            vec![finding("shared-buffers-small", 0.1, Confidence::High)],
            vec![finding("shared-buffers-small", 0.4, Confidence::High)],
            &[],
        );
        assert_eq!(named, ["shared-buffers-small", "huge-pages"]);
    }
}
