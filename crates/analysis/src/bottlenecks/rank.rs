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
//! A symptom stands behind a cause whose gain is at least half of its own: full CPUs behind the
//! statement that fills them.
//!
//! What a load of ours causes itself, such as the queue for the few rows that it changes, is no
//! cause at all; the diagnosis lists it behind its other findings.
//!
//! What makes all figures those of something else (a build with assertions, a client at its
//! limit) stands before everything, whatever it costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::{Confidence, Finding, Severity};
use super::{Entry, find};

/// What is left of a gain that a load of ours shows on a well-configured server, too: if most
/// of the time goes there, it still stands before what is moderate and only known, and behind
/// what is grave.
const EXPECTED_LEFT: f64 = 0.15;
/// The gain from which on a cause may be that of the symptoms beside it.
const CAUSE: f64 = 0.1;
/// The gain of a measured finding that cannot say one.
const UNSAID: f64 = 0.05;

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
    /// The command that would measure what it costs, in words; none where none would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Vec<String>>,
    /// How far the evidence carries.
    pub confidence: Confidence,
    /// The part of all time that is expected to be won, 0 to 1: an order more than a promise.
    pub expected_gain: f64,
}

/// Orders the findings of one load in the same way, the audit left aside.
pub(crate) fn order(findings: &mut [Finding], workload: Option<&str>) {
    // A symptom whose cause may be among the others stands behind it: one that is about as large.
    let is_cause = |f: &&Finding| f.symptom_of.is_none() && f.confidence > Confidence::Low;
    let causes = findings.iter().filter(is_cause);
    let largest = causes
        .map(|f| measured_gain(f, workload))
        .fold(0.0, f64::max);
    let key = |finding: &Finding| {
        let gain = measured_gain(finding, workload);
        let shown = finding.symptom_of.is_some() && largest >= CAUSE && largest >= 0.5 * gain;
        (invalidates(&finding.id), !shown, gain, finding.confidence)
    };
    findings.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        let first = b.0.cmp(&a.0).then(b.1.cmp(&a.1));
        first.then(b.2.total_cmp(&a.2)).then(b.3.cmp(&a.3))
    });
}

pub(crate) fn invalidates(id: &str) -> bool {
    find(id).is_some_and(|entry| entry.invalidates_results)
}

/// The findings of an audit whose cost a load's finding measures: its own entry's, and others.
pub(crate) fn measures(finding: &Finding) -> impl Iterator<Item = &str> {
    let others = find(&finding.id).map_or(&[][..], |entry| entry.supersedes);
    std::iter::once(finding.id.as_str()).chain(others.iter().copied())
}

pub(crate) fn cause(
    finding: &Finding,
    seen_by: SeenBy,
    workload: Option<&str>,
    gain: f64,
) -> Cause {
    let first = finding.remedy.first();
    Cause {
        id: finding.id.clone(),
        seen_by,
        workload: workload.map(str::to_owned),
        what: finding.saw.clone(),
        remedy: first.map_or_else(String::new, |step| step.text.clone()),
        measure: None,
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
pub(crate) fn measured_gain(finding: &Finding, workload: Option<&str>) -> f64 {
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
    finding.gain().unwrap_or(UNSAID) * weight(finding.confidence) * left
}

/// What findings of this severity bring, times the confidence: the words of [`Severity`] as
/// numbers, which are a judgement and only good for an order.
pub(crate) fn known_gain(finding: &Finding) -> f64 {
    let gain = match finding.severity {
        Severity::High => 0.3,
        Severity::Medium => 0.1,
        Severity::Low => 0.03,
        Severity::Info => 0.0,
    };
    gain * weight(finding.confidence)
}
