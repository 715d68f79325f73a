//! From what a load or a profile shows to findings, ranked: the other view of the catalogue.

use pgassay_model::plan::Plan;
use serde::{Deserialize, Serialize};

use crate::host::HostSummary;
use crate::measured::{ArmAnalysis, StageArm};
use crate::observed::{Budget, WaitAnalysis};
use crate::profile::Summary;
use crate::profile::difference::Difference;
use crate::profile::flame::Flame;
use crate::profile::tree::CallTree;
use crate::reference::Reference;
use crate::{metrics, wire};

pub use crate::bottlenecks::{
    Basis, Cause, Confidence, Evidence, Finding, RunEvidence, SeenBy, Severity, major,
    version_number,
};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/diagnosis/1";

/// All that was found, ranked, and what could not be seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was looked at: a run's name or a file's.
    pub subject: String,
    /// `server_version_num`, where it is known.
    pub version_num: Option<u32>,
    /// The findings, the largest expected gain first.
    pub findings: Vec<Finding>,
    /// Where the time goes, in plain sentences: true whatever was found.
    pub time: Vec<String>,
    /// The share of the sessions' time in transactions that the findings account for, 0 to 1; none
    /// where the time could not be accounted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<f64>,
    /// CPU samples in figures.
    #[serde(default)]
    pub profile: Option<Summary>,
    /// The same as a flame graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flame: Option<Flame>,
    /// The samples, and those that they are held against; not in JSON, there are formats of their
    /// own for them.
    #[serde(skip)]
    pub stacks: CallTree,
    /// What changed from another profile, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// What holding the server against a reference showed, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// What could not be seen, and so was not judged.
    pub not_seen: Vec<String>,
}

/// Looks for all entries of the catalogue.
pub fn diagnose(subject: &str, evidence: &Evidence) -> Diagnosis {
    let mut findings = crate::bottlenecks::load(evidence);
    let workload = evidence.run.map(|run| run.workload);
    crate::bottlenecks::order(&mut findings, workload);
    let explained = explained(evidence, &findings);
    crate::bottlenecks::disturbed(evidence, &mut findings);
    let mut time = time(evidence);
    time.extend(explained.map(|share| {
        format!(
            "The findings account for {:.0} % of the sessions' time in transactions.",
            100.0 * share
        )
    }));
    Diagnosis {
        schema: SCHEMA.to_owned(),
        subject: subject.to_owned(),
        version_num: evidence.version,
        findings,
        time,
        explained,
        profile: evidence.profile.cloned(),
        flame: None,
        stacks: CallTree::default(),
        difference: None,
        reference: None,
        not_seen: not_seen(evidence),
    }
}

/// Diagnoses the one server of a run under one load; none where there are several, or clients did
/// not load it over the wire.
pub(crate) fn of_stage(
    run: &str,
    host: &HostSummary,
    servers: &[ArmAnalysis],
    plan: &Plan,
    loaded: &[StageArm],
) -> Option<Diagnosis> {
    let ([arm], [load]) = (servers, loaded) else {
        return None;
    };
    let point = load.points.iter().max_by_key(|p| p.point.clients)?;
    let observed = load
        .observed
        .as_ref()
        .and_then(|o| o.points.iter().find(|p| p.clients == point.point.clients));
    let scaling = wire::scaling(load, host.cpus, plan.seed);
    let evidence = Evidence {
        version: arm.server.as_ref().and_then(|s| s.version_num),
        profile: observed.and_then(|o| o.profile.as_ref()),
        run: Some(RunEvidence {
            workload: &plan.workload.name,
            ours: Some(&plan.workload).filter(|_| !observed.is_some_and(|o| o.own_load)),
            host,
            arm,
            load,
            point,
            observed,
            scaling: scaling.as_ref().ok(),
        }),
    };
    let mut diagnosis = diagnose(run, &evidence);
    // The report has it at its own place.
    diagnosis.profile = None;
    let unavailable = load.observed.iter().flat_map(|o| &o.unavailable);
    diagnosis
        .not_seen
        .extend(unavailable.map(|u| format!("{}: {}", u.observer, u.why)));
    Some(diagnosis)
}

/// The share of the budget that findings account for. Findings overlap: those of waits account
/// for no more than there is of waits, and those of CPU samples for no more than there is on the
/// CPUs.
fn explained(evidence: &Evidence, findings: &[Finding]) -> Option<f64> {
    let budget = evidence.run?.budget()?;
    let off = budget.off.as_ref()?;
    let waits: f64 = off.waits.iter().map(|w| w.sessions).sum();
    let of = |basis: Basis| -> f64 {
        let weighty = findings.iter().filter(|f| f.severity > Severity::Info);
        let shares = weighty.filter(|f| f.basis == basis);
        added(shares.filter_map(|f| f.budget_share))
    };
    let waiting = of(Basis::WaitTime).min(budget.share(waits + off.unnamed));
    let running = of(Basis::CpuSamples).min(budget.share(budget.on_cpu));
    let ready = of(Basis::MachineTime).min(budget.share(budget.ready));
    // Time of statements is the same time by another division, and two findings may be about one
    // statement: the largest counts. So it is with what was counted.
    let by_statement = findings
        .iter()
        .filter(|f| matches!(f.basis, Basis::Statements | Basis::Counters));
    let by_statement = by_statement.filter_map(|f| f.budget_share);
    let largest = by_statement.fold(0.0, f64::max);
    Some((waiting + running + ready).max(largest).clamp(0.0, 1.0))
}

/// A sum that is 0 where there is nothing to add up: `sum` has -0 then, which is printed as such.
fn added(shares: impl Iterator<Item = f64>) -> f64 {
    shares.fold(0.0, |sum, share| sum + share)
}

/// Where the time goes at the largest client count.
fn time(evidence: &Evidence) -> Vec<String> {
    let mut sentences = Vec::new();
    let Some(run) = &evidence.run else {
        return sentences;
    };
    match (run.budget(), run.waits()) {
        (Some(budget), _) => sentences.push(spent(run, budget)),
        (None, Some(waits)) => sentences.push(sampled(run, waits)),
        (None, None) => {}
    }
    let busy = |metric| Some(run.point.estimate(metric)?.estimate);
    if let (Some(machine), Some(client), Some(cpus)) = (
        busy(metrics::MACHINE_CPUS),
        busy(metrics::CLIENT_CPUS),
        run.host.cpus,
    ) {
        sentences.push(if run.is_own_load() {
            format!("Of {cpus} CPUs {machine:.2} were busy.")
        } else {
            format!(
                "Of {cpus} CPUs {machine:.2} were busy, {client:.2} of them with the load's client."
            )
        });
    }
    if let Some(profile) = evidence.profile {
        let classes: Vec<String> = profile
            .classes
            .iter()
            .take(4)
            .map(|c| format!("{} {:.0} %", c.class.title(), 100.0 * c.share))
            .collect();
        sentences.push(format!(
            "The server's CPU time went to: {}.",
            classes.join(", ")
        ));
    }
    sentences
}

/// Wait events that the sentence names.
const NAMED: usize = 3;
/// Parts of a session below this are left out.
const SLIGHT: f64 = 0.005;

/// The time budget in a sentence: every session is in one of its parts.
fn spent(run: &RunEvidence, budget: &Budget) -> String {
    let mut parts = vec![
        format!("{:.2} ran on a CPU", budget.on_cpu),
        format!("{:.2} waited for one", budget.ready),
    ];
    match &budget.off {
        None => parts.push(format!("{:.2} were off the CPU", budget.off_cpu)),
        Some(off) => {
            let shown = off.waits.iter().filter(|w| w.sessions >= SLIGHT);
            let named: Vec<_> = shown.take(NAMED).collect();
            parts.extend(
                named
                    .iter()
                    .map(|w| format!("{:.2} waited at {}", w.sessions, w.name())),
            );
            let all: f64 = off.waits.iter().map(|w| w.sessions).sum();
            let others = all - named.iter().map(|w| w.sessions).sum::<f64>();
            let rest = [
                (others, "waited at other events"),
                (off.unnamed, "were off the CPU at no wait event"),
                (off.client, "waited for the client within a transaction"),
                (off.idle, "waited for the client's next transaction"),
                (off.hidden, "hid what they did"),
            ];
            let rest = rest.iter().filter(|(sessions, _)| *sessions >= SLIGHT);
            parts.extend(rest.map(|(sessions, what)| format!("{sessions:.2} {what}")));
        }
    }
    let of = match run.is_own_load() {
        true => "Of".to_owned(),
        false => format!("With {}, of", run.clients()),
    };
    format!(
        "{of} {:.2} sessions on average {}.",
        budget.sessions,
        parts.join(", ")
    )
}

/// The same by samples of wait events alone, which can't tell who ran.
fn sampled(run: &RunEvidence, waits: &WaitAnalysis) -> String {
    let mut parts = vec![format!(
        "{:.2} at no wait event, which ran or waited for a CPU",
        waits.running_sessions
    )];
    let events = waits.events.iter().filter(|e| e.sessions >= SLIGHT);
    let events = events.take(NAMED);
    parts.extend(events.map(|e| format!("{:.2} at {}", e.sessions, e.name())));
    format!(
        "With {} {:.2} sessions were seen in a statement on average: {}. Where CPUs are scarce \
         this sees too few of those that ran.",
        run.clients(),
        waits.active_sessions,
        parts.join(", ")
    )
}

fn not_seen(evidence: &Evidence) -> Vec<String> {
    let mut missing = Vec::new();
    if evidence.version.is_none() {
        missing.push(
            "the server's version, and so what a newer one would change (--server-version \
             supplies it)"
                .to_owned(),
        );
    }
    if let Some(run) = &evidence.run {
        if let Some(why) = run.observed.and_then(|o| o.no_budget.as_ref()) {
            missing.push(format!(
                "how long sessions ran, waited for a CPU, and waited for something else: {why}"
            ));
        }
        if run.budget().is_some_and(|budget| budget.by_samples) {
            missing.push(
                "how long sessions and workers that came and went within the measured time waited \
                 for a CPU: only their CPU time is known, and the rest is by samples of wait events"
                    .to_owned(),
            );
        }
        match run.waits() {
            None => missing.push("wait events: none were sampled (--observe waits)".to_owned()),
            Some(waits) if waits.hidden_sessions > 0.5 => missing.push(format!(
                "the state of {:.0} sessions: the role may not see them (grant pg_read_all_stats)",
                waits.hidden_sessions
            )),
            Some(_) => {}
        }
    }
    match evidence.profile {
        None => missing.push("CPU samples: none were taken (--observe perf)".to_owned()),
        Some(profile) => {
            if !profile.call_chains {
                missing.push(
                    "callers: the samples carry no call chains, so a lock function does not show \
                     for which lock it was called (record with perf record -g)"
                        .to_owned(),
                );
            }
            if profile.unnamed_share > 0.1 {
                missing.push(format!(
                    "symbols: {:.0} % of the CPU samples have none (install the debug symbols, or \
                     take a server that was not stripped)",
                    100.0 * profile.unnamed_share
                ));
            }
            missing.extend(
                profile
                    .remarks
                    .iter()
                    .map(|r| format!("of the samples: {r}")),
            );
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_explained_is_no_minus_nothing() {
        let none = [0.5; 0].into_iter();
        assert_eq!(format!("{:.0} %", 100.0 * added(none)), "0 %");
        assert_eq!(added([0.25, 0.5].into_iter()), 0.75);
    }

    #[test]
    fn without_evidence_nothing_is_found() {
        let diagnosis = diagnose("nothing", &Evidence::default());
        assert!(diagnosis.findings.is_empty());
        assert!(!diagnosis.not_seen.is_empty());
    }
}
