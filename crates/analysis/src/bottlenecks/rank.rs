//! What holds the server back most: one order over what the loads showed and what the audit
//! knows. It is decided here and nowhere else.
//!
//! Each cause has an expected gain, the part of all time that may be won by removing it:
//!
//! * what a load measured: its gain, times the confidence;
//! * what the audit knows: what findings of its severity bring, times the confidence, and half
//!   of that, since under these loads nobody has measured it. If a load did measure it, the two
//!   are one cause, that of the load, and the half is no longer taken off. It can't bring more
//!   than the time that the loads spent where its cost would lie: huge pages nothing where no
//!   session is on a CPU, a larger cache nothing where no block is read;
//! * what a load of ours shows on a well-configured server too, such as a commit's wait for the
//!   disk: less, since it is no fault of this server.
//!
//! Gains know how much room the CPUs leave ([`super::finding::Circumstances`]): where they are
//! full, removing a wait brings next to nothing, and what takes CPU time ranks above it.
//!
//! What a load of ours causes itself, such as the queue for the few rows that it changes, is no
//! cause at all; the diagnosis lists it behind its other findings.
//!
//! What makes all figures those of something else (a build with assertions, a client at its
//! limit) stands before everything, whatever it costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::{Confidence, Finding, Severity};
use super::{Entry, Part, find};
use crate::analysis::Analysis;
use crate::check::CheckReport;

/// What is left of an expectation that nobody has measured here.
const NOT_MEASURED: f64 = 0.5;
/// What is left of a gain that a load of ours shows on a well-configured server, too: if most
/// of the time goes there, it still stands before what is moderate and only known, and behind
/// what is grave.
const EXPECTED_LEFT: f64 = 0.15;
/// The gain of a measured finding that cannot say one.
const UNSAID: f64 = 0.05;

/// The gain below which what the loads bound is no cause of theirs.
const NOTHING: f64 = 0.01;

/// What saw a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeenBy {
    /// The run's load.
    Load,
    /// The assay's second load.
    SecondLoad,
    /// The audit.
    Audit,
}

/// Something that holds the server back.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Cause {
    /// The entry of the catalogue.
    pub id: String,
    /// What saw it.
    pub seen_by: SeenBy,
    /// The load that showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// What was seen, in a sentence.
    pub what: String,
    /// What to do about it first.
    pub remedy: String,
    /// How far the evidence carries.
    pub confidence: Confidence,
    /// The part of all time that is expected to be won, 0 to 1: an order more than a promise.
    pub expected_gain: f64,
}

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
        for finding in &diagnosis.findings {
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
            let gain = measured_gain(finding, Some(workload)).max(known);
            let cause = cause(finding, seen_by, Some(workload), gain);
            // Both loads may show the same: the one under which it costs more stands for it.
            match causes.iter_mut().find(|known| known.id == cause.id) {
                Some(known) if known.expected_gain < cause.expected_gain => *known = cause,
                Some(_) => {}
                None => causes.push(cause),
            }
        }
    }
    let unmeasured = audit
        .into_iter()
        .filter(|f| f.severity >= Severity::Medium && !measured.contains(&f.id.as_str()));
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
    causes
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

/// Orders the findings of one load in the same way, the audit left aside.
pub(crate) fn order(findings: &mut [Finding], workload: Option<&str>) {
    let key = |finding: &Finding| {
        let gain = measured_gain(finding, workload);
        (invalidates(&finding.id), gain, finding.confidence)
    };
    findings.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2))
    });
}

fn invalidates(id: &str) -> bool {
    find(id).is_some_and(|entry| entry.invalidates_results)
}

/// The findings of an audit whose cost a load's finding measures: its own entry's, and others.
fn measures(finding: &Finding) -> impl Iterator<Item = &str> {
    let others = find(&finding.id).map_or(&[][..], |entry| entry.supersedes);
    std::iter::once(finding.id.as_str()).chain(others.iter().copied())
}

fn cause(finding: &Finding, seen_by: SeenBy, workload: Option<&str>, gain: f64) -> Cause {
    let first = finding.remedy.first();
    Cause {
        id: finding.id.clone(),
        seen_by,
        workload: workload.map(str::to_owned),
        what: finding.saw.clone(),
        remedy: first.map_or_else(String::new, |step| step.text.clone()),
        confidence: finding.confidence,
        expected_gain: gain,
    }
}

/// What is left of a gain at this confidence.
fn weight(confidence: Confidence) -> f64 {
    match confidence {
        Confidence::Low => 0.4,
        Confidence::Medium => 0.7,
        Confidence::High => 1.0,
    }
}

/// What a load measured, times the confidence.
fn measured_gain(finding: &Finding, workload: Option<&str>) -> f64 {
    let listed = |pick: fn(&Entry) -> &'static [&'static str]| {
        let loads = find(&finding.id).map_or(&[][..], pick);
        workload.is_some_and(|workload| loads.contains(&workload))
    };
    let left = if listed(|entry| entry.caused_by_workload) {
        0.0
    } else if listed(|entry| entry.expected_under) {
        EXPECTED_LEFT
    } else {
        1.0
    };
    if finding.severity == Severity::Info {
        return 0.0;
    }
    finding.gain_at_most.unwrap_or(UNSAID) * weight(finding.confidence) * left
}

/// What findings of this severity bring, times the confidence: the words of [`Severity`] as
/// numbers, which are a judgement and only good for an order.
fn known_gain(finding: &Finding) -> f64 {
    let gain = match finding.severity {
        Severity::High => 0.3,
        Severity::Medium => 0.1,
        Severity::Low => 0.03,
        Severity::Info => 0.0,
    };
    gain * weight(finding.confidence)
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

#[cfg(test)]
mod tests {
    use crate::profile::tree::CallTree;
    use serde_json::Value;

    use super::*;
    use crate::analysis::{StageAnalysis, StageArm};
    use crate::bottlenecks::Facts;
    use crate::bottlenecks::finding::{Basis, Circumstances, Observation};
    use crate::check;
    use crate::diagnose::{Diagnosis, SCHEMA};
    use crate::observed::waits::{WaitAnalysis, WaitEvent};
    use crate::observed::{ArmObserved, Budget, PointObserved};
    use crate::record::RecordedRun;
    use pgassay_model::reading::Reading;

    const RECORDED: &str = include_str!("../../tests/check/recorded/debian12-pg15.json");

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
    fn both_loads_seeing_the_same_is_one_cause() {
        let named = ranked(
            vec![finding("shared-buffers-small", 0.1, Confidence::High)],
            vec![finding("shared-buffers-small", 0.4, Confidence::High)],
            &[],
        );
        assert_eq!(named, ["shared-buffers-small", "huge-pages"]);
    }
}
