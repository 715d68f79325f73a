//! What holds the server back most: one order over what the loads showed and what the audit
//! knows. It is decided here and nowhere else.
//!
//! The rule: the part of all time that removing a cause may win, as far as the CPUs have room for it, times how sure it
//! is; and a symptom below its cause.
//!
//! 1. *The part of all time* is what a load measured ([`Finding::gain`]). Gains know how much room the CPUs leave
//!    ([`super::finding::Circumstances`]): where they are full, removing a wait brings next to nothing, and what takes
//!    CPU time ranks above it. What a load of ours shows on a well-configured server too, such as a commit's wait for
//!    the disk, counts less, since it is no fault of this server; what such a load causes itself, such as the queue for
//!    the few rows that it changes, is no cause at all.
//! 2. *How sure it is* is its confidence. Who sees a wait and not what is behind it is not sure. Nor is it sure that all
//!    of a statement's time is won where no more is known than the step of its plan that takes it.
//! 3. *A symptom* never ranks above the finding that it is a symptom of ([`super::detect::links`]), and a fourth of what it
//!    measured counts: other causes of some size stand before it. A cause without a figure of its own has that of its
//!    symptom. What only usually is a symptom of something that was not found keeps its place.
//! 4. What makes all figures those of something else (a build with assertions, a client at its limit) stands before
//!    everything, whatever it costs.
//!
//! What the audit knows and no load measured has the gain that findings of its severity bring, times the confidence, and
//! half of that. If a load did measure it, the two are one cause, that of the load, and the half is no longer taken off.
//! It can't bring more than the time that the loads spent where its cost would lie: huge pages nothing where no session
//! is on a CPU, a larger cache nothing where no block is read.

use serde::{Deserialize, Serialize};

use super::finding::{Basis, Confidence, Finding, Severity};
use super::{Entry, find};

/// What is left of a gain that a load of ours shows on a well-configured server, too: if most
/// of the time goes there, it still stands before what is moderate and only known, and behind
/// what is grave.
const EXPECTED_LEFT: f64 = 0.15;
/// The gain of a measured finding that cannot say one.
const UNSAID: f64 = 0.05;

/// What is left where a finding names the place in a statement that takes the time, and not what is wrong there; and where
/// nothing says that anything is.
const PLACE_LEFT: f64 = 0.6;
const SOUND_PLACE_LEFT: f64 = 0.3;

/// What saw a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// What is left of a gain that is that of a cause which was found: mending that one wins it.
const SYMPTOM_LEFT: f64 = 0.25;

/// Orders the findings of one load in the same way, the audit left aside.
pub fn order(findings: &mut Vec<Finding>, workload: Option<&str>) {
    let weights = weights(findings, workload);
    let mut ranked: Vec<(f64, Finding)> = weights.into_iter().zip(findings.drain(..)).collect();
    let key = |(weight, finding): &(f64, Finding)| {
        let first = invalidates(&finding.id);
        (first, *weight, finding.cause.is_none(), finding.confidence)
    };
    ranked.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        let first = b.0.cmp(&a.0).then(b.1.total_cmp(&a.1));
        first.then(b.2.cmp(&a.2)).then(b.3.cmp(&a.3))
    });
    findings.extend(ranked.into_iter().map(|(_, finding)| finding));
}

/// What each finding of a load weighs: what it measured times the confidence, a symptom no more than its cause.
pub fn weights(findings: &[Finding], workload: Option<&str>) -> Vec<f64> {
    let mut own: Vec<f64> = findings
        .iter()
        .map(|finding| measured_gain(finding, workload))
        .collect();
    let cause_of = |finding: &Finding| {
        let cause = finding.cause.as_ref()?;
        findings.iter().position(|f| f.id == *cause)
    };
    for (at, symptom) in findings.iter().enumerate() {
        if let Some(cause) = cause_of(symptom).filter(|c| findings[*c].lacks_own_gain()) {
            own[cause] = own[cause].max(own[at]);
        }
    }
    let of_cause = |finding: &Finding| cause_of(finding).map(|cause| own[cause]);
    findings
        .iter()
        .zip(&own)
        .map(|(finding, own)| of_cause(finding).map_or(*own, |cause| SYMPTOM_LEFT * own.min(cause)))
        .collect()
}

/// Whether an entry makes the results of a run invalid.
pub fn invalidates(id: &str) -> bool {
    find(id).is_some_and(|entry| entry.invalidates_results)
}

/// The findings of an audit whose cost a load's finding measures: its own entry's, and others.
pub fn measures(finding: &Finding) -> impl Iterator<Item = &str> {
    let others = find(&finding.id).map_or(&[][..], |entry| entry.supersedes);
    std::iter::once(finding.id.as_str()).chain(others.iter().copied())
}

/// A finding as the cause that a report's headline names.
pub fn cause(finding: &Finding, seen_by: SeenBy, workload: Option<&str>, gain: f64) -> Cause {
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
    let place = match finding.basis {
        Basis::Statements if finding.time_share.is_some() => match finding.severity {
            Severity::Low => SOUND_PLACE_LEFT,
            _ => PLACE_LEFT,
        },
        _ => 1.0,
    };
    finding.gain().unwrap_or(UNSAID) * weight(finding.confidence) * left * place
}

/// What findings of this severity bring, times the confidence: the words of [`Severity`] as
/// numbers, which are a judgement and only good for an order.
pub fn known_gain(finding: &Finding) -> f64 {
    let gain = match finding.severity {
        Severity::High => 0.3,
        Severity::Medium => 0.1,
        Severity::Low => 0.03,
        Severity::Info => 0.0,
    };
    gain * weight(finding.confidence)
}

#[cfg(test)]
mod tests {
    use super::super::finding::{Circumstances, Observation};
    use super::*;

    fn finding(id: &str, basis: Basis, share: f64, under: Circumstances) -> Finding {
        let seen = Observation::measured(basis, Some(share), format!("{id}."));
        Finding::new(find(id).unwrap(), seen, under)
    }

    fn waits(id: &str, share: f64, confidence: Confidence) -> Finding {
        let mut finding = finding(id, Basis::WaitTime, share, Circumstances::default());
        finding.confidence = confidence;
        finding
    }

    fn ordered(mut findings: Vec<Finding>) -> Vec<String> {
        order(&mut findings, None);
        findings.into_iter().map(|f| f.id).collect()
    }

    /// Half of the time stood behind a seventh of it, because it usually is a symptom of something.
    #[test]
    fn the_larger_part_of_the_time_stands_first() {
        let mut half = waits("wal-flush", 0.49, Confidence::Medium);
        half.symptom_of = Some("many small commits".into());
        let seventh = waits("round-trips", 0.14, Confidence::High);
        assert_eq!(ordered(vec![seventh, half]), ["wal-flush", "round-trips"]);
    }

    /// Programs beside the server that took most of the CPUs stood below the only node of a plan.
    #[test]
    fn the_place_of_a_statements_time_stands_behind_a_cause_of_its_size() {
        let place = || {
            let under = Circumstances::default();
            let seen = Observation::measured(Basis::Statements, Some(0.95), "Aggregate.").open();
            Finding::new(find("plan-node").unwrap(), seen, under)
        };
        let others = waits("cpu-others", 0.88, Confidence::High);
        assert_eq!(ordered(vec![place(), others])[0], "cpu-others");
        let flush = waits("wal-flush", 0.3, Confidence::High);
        assert_eq!(ordered(vec![flush, place()])[0], "plan-node");
    }

    #[test]
    fn what_nobody_is_sure_of_counts_for_less() {
        let sure = || waits("hot-row", 0.3, Confidence::High);
        let of = |share, confidence| ordered(vec![waits("hot-page", share, confidence), sure()]);
        assert_eq!(of(0.4, Confidence::Medium)[0], "hot-row");
        assert_eq!(of(0.5, Confidence::Medium)[0], "hot-page");
        assert_eq!(of(0.7, Confidence::Low)[0], "hot-row");
    }

    #[test]
    fn a_symptom_stands_below_its_cause_and_other_causes_and_above_what_is_little() {
        let of = |cause: f64| {
            let mut symptom = waits("wal-flush", 0.6, Confidence::Medium);
            symptom.cause = Some("forced-checkpoints".into());
            let cause = waits("forced-checkpoints", cause, Confidence::High);
            ordered(vec![
                waits("hot-page", 0.05, Confidence::High),
                symptom,
                cause,
                waits("round-trips", 0.2, Confidence::High),
                waits("hot-row", 0.5, Confidence::High),
            ])
        };
        let below = [
            "hot-row",
            "forced-checkpoints",
            "round-trips",
            "wal-flush",
            "hot-page",
        ];
        assert_eq!(of(0.4), below);
        // Larger than the symptom, the cause stands above it by itself.
        let above = [
            "forced-checkpoints",
            "hot-row",
            "round-trips",
            "wal-flush",
            "hot-page",
        ];
        assert_eq!(of(0.9), above);
        // Of a finding that is not there it is nobody's.
        let mut alone = waits("wal-flush", 0.6, Confidence::Medium);
        alone.cause = Some("forced-checkpoints".into());
        let found = ordered(vec![waits("hot-page", 0.1, Confidence::High), alone]);
        assert_eq!(found, ["wal-flush", "hot-page"]);
    }

    #[test]
    fn a_cause_without_a_figure_stands_where_its_symptom_stood() {
        let mut symptom = finding(
            "cpu-saturated",
            Basis::MachineTime,
            0.5,
            Circumstances::default(),
        );
        symptom.cause = Some("horizon-held".into());
        let seen = Observation::new(Severity::High, Confidence::Medium, "Held.");
        let entry = find("horizon-held").unwrap();
        let held = Finding::new(entry, seen, Circumstances::default());
        let found = ordered(vec![
            waits("hot-page", 0.2, Confidence::High),
            symptom,
            held,
        ]);
        assert_eq!(found, ["horizon-held", "hot-page", "cpu-saturated"]);
    }

    #[test]
    fn where_the_cpus_have_no_room_their_own_time_stands_above_waits() {
        let under = |busy| Circumstances {
            busy: Some(busy),
            server_of_busy: Some(1.0),
            ..Circumstances::default()
        };
        let of = |busy: f64| {
            ordered(vec![
                finding("hot-row", Basis::WaitTime, 0.6, under(busy)),
                finding("detoasting", Basis::CpuSamples, 0.3, under(busy)),
            ])
        };
        assert_eq!(of(0.2)[0], "hot-row");
        assert_eq!(of(0.9)[0], "detoasting");
    }

    #[test]
    fn what_makes_figures_those_of_something_else_stands_first() {
        let assertions = waits("assertions", 0.01, Confidence::Medium);
        let found = ordered(vec![waits("hot-row", 0.9, Confidence::High), assertions]);
        assert_eq!(found, ["assertions", "hot-row"]);
    }

    #[test]
    fn what_a_load_of_ours_does_everywhere_counts_for_little_and_what_it_causes_for_nothing() {
        let of = |id: &str, workload| {
            let findings = [waits(id, 0.5, Confidence::High)];
            weights(&findings, workload)[0]
        };
        assert!((of("wal-flush", None) - 0.5).abs() < 1e-9);
        let expected = of("wal-flush", Some("tpcb-like"));
        assert!((expected - 0.5 * EXPECTED_LEFT).abs() < 1e-9, "{expected}");
        assert_eq!(of("hot-row", Some("tpcb-like")), 0.0);
    }
}
