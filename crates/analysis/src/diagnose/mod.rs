//! From evidence to findings: which known bottleneck it is, and what to do.
//!
//! A rule looks at what was seen and says what that is known to mean, or nothing.
//! It never invents: without a rule there is no finding, and every number in a
//! finding comes from the evidence. What PostgreSQL changed in which version, and
//! the commit that did it, stands in `known.rs`.
//!
//! [`RULES`] is the registry: adding a rule is a function in one of the files
//! beside this one and a line there.

mod checkpoint_rules;
mod finding;
mod known;
mod profile_rules;
mod ranking;
mod registry;
mod run_rules;
mod scaling_rules;
#[cfg(test)]
mod scaling_tests;
mod version;
mod wait_rules;

use serde::{Deserialize, Serialize};

use crate::analysis::{Analysis, ArmAnalysis, PointAnalysis};
use crate::fit;
use crate::host::HostSummary;
use crate::observed::{PointObserved, WaitAnalysis};
use crate::profile::Summary;
use crate::profile::difference::Difference;
use crate::profile::flame::Flame;
use crate::stats::scaling::Scaling;

pub use finding::{Finding, Sureness};
pub use ranking::{Cause, SeenBy, causes, finding as finding_of};
pub use registry::{RULES, Rule};
pub use version::{major, version_number};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/diagnosis/1";

/// What is known of a server under load.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// `server_version_num`, 150018 for 15.18 and 90404 for 9.4.4.
    pub version: Option<u32>,
    /// CPU samples.
    pub profile: Option<&'a Summary>,
    /// A recorded run.
    pub run: Option<RunEvidence<'a>>,
}

/// What a run shows of one server, at its largest client count.
#[derive(Debug, Clone, Copy)]
pub struct RunEvidence<'a> {
    /// The load's name.
    pub workload: &'a str,
    /// The machine.
    pub host: &'a HostSummary,
    /// The server.
    pub arm: &'a ArmAnalysis,
    /// The largest client count that was measured.
    pub point: &'a PointAnalysis,
    /// What observers saw there.
    pub observed: Option<&'a PointObserved>,
    /// The scaling law over all client counts, where it holds.
    pub scaling: Option<&'a Scaling>,
}

impl<'a> RunEvidence<'a> {
    /// The wait samples.
    pub fn waits(&self) -> Option<&'a WaitAnalysis> {
        self.observed?.waits.as_ref()
    }
}

/// All that was found, ranked, and what could not be seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// CPU samples in figures.
    #[serde(default)]
    pub profile: Option<Summary>,
    /// The same as a flame graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flame: Option<Flame>,
    /// What changed from another profile, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// What could not be seen, and so was not judged.
    pub not_seen: Vec<String>,
}

/// Applies all rules.
pub fn diagnose(subject: &str, evidence: &Evidence) -> Diagnosis {
    let mut findings: Vec<Finding> = RULES
        .iter()
        .filter_map(|rule| (rule.apply)(evidence))
        .collect();
    // CPU samples are shares of running; waits of all time in statements: one scale for both.
    if let Some(running) = running_share(evidence) {
        for finding in &mut findings {
            let by_samples = finding
                .evidence
                .iter()
                .any(|e| e.contains(" of the samples"));
            if by_samples && let Some(gain) = &mut finding.gain_at_most {
                *gain *= running;
            }
        }
    }
    let workload = evidence.run.map(|run| run.workload);
    ranking::order(&mut findings, workload);
    Diagnosis {
        schema: SCHEMA.to_owned(),
        subject: subject.to_owned(),
        version_num: evidence.version,
        findings,
        time: time(evidence),
        profile: evidence.profile.cloned(),
        flame: None,
        difference: None,
        not_seen: not_seen(evidence),
    }
}

/// Diagnoses the one server of a run; none where there are several, or nothing was measured.
pub fn of_run(analysis: &Analysis) -> Option<Diagnosis> {
    let [arm] = analysis.arms.as_slice() else {
        return None;
    };
    let point = arm.points.iter().max_by_key(|p| p.point.clients)?;
    let observed = arm
        .observed
        .as_ref()
        .and_then(|o| o.points.iter().find(|p| p.clients == point.point.clients));
    let scaling = fit::scaling(arm, analysis.host.cpus, analysis.plan.seed);
    let evidence = Evidence {
        version: arm.server.as_ref().and_then(|s| s.version_num),
        profile: observed.and_then(|o| o.profile.as_ref()),
        run: Some(RunEvidence {
            workload: &analysis.plan.workload.name,
            host: &analysis.host,
            arm,
            point,
            observed,
            scaling: scaling.as_ref().ok(),
        }),
    };
    let mut diagnosis = diagnose(&analysis.run.id, &evidence);
    // The report has it at its own place.
    diagnosis.profile = None;
    let unavailable = arm.observed.iter().flat_map(|o| &o.unavailable);
    diagnosis
        .not_seen
        .extend(unavailable.map(|u| format!("{}: {}", u.observer, u.why)));
    Some(diagnosis)
}

/// The part of the time of sessions in a statement in which they ran, or were ready to.
fn running_share(evidence: &Evidence) -> Option<f64> {
    let waits = evidence.run?.waits()?;
    (waits.active_sessions > 0.0).then(|| waits.running_sessions / waits.active_sessions)
}

/// Where the time goes at the largest client count.
fn time(evidence: &Evidence) -> Vec<String> {
    let mut sentences = Vec::new();
    let Some(run) = &evidence.run else {
        return sentences;
    };
    if let Some(waits) = run.waits() {
        let mut parts = vec![format!(
            "{:.2} ran or waited for a CPU",
            waits.running_sessions
        )];
        let events = waits.events.iter().filter(|e| e.sessions >= 0.005).take(3);
        parts.extend(events.map(|e| format!("{:.2} waited at {}", e.sessions, e.name())));
        sentences.push(format!(
            "With {} {:.2} sessions were in a statement on average: {}.",
            match run.point.point.clients {
                1 => "1 client".to_owned(),
                n => format!("{n} clients"),
            },
            waits.active_sessions,
            parts.join(", "),
        ));
    }
    if let (Some(machine), Some(cpus)) = (&run.point.machine_cpus, run.host.cpus) {
        let queue = run.observed.and_then(|o| o.scheduling.run_queue);
        let queue = queue.map_or(String::new(), |q| {
            format!("; {q:.2} server processes waited for one")
        });
        sentences.push(format!(
            "Of {cpus} CPUs {:.2} were busy, {:.2} of them with the load's client{queue}.",
            machine.estimate, run.point.client_cpus.estimate,
        ));
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

fn not_seen(evidence: &Evidence) -> Vec<String> {
    let mut missing = Vec::new();
    if evidence.version.is_none() {
        missing.push(
            "the server's version: what a newer one changed can't be told for sure \
             (--server-version says it)"
                .to_owned(),
        );
    }
    if let Some(run) = &evidence.run {
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
                    "callers: the samples carry no call chains, so a lock function does not say \
                     for which lock it was called (record with perf record -g)"
                        .to_owned(),
                );
            }
            if profile.unnamed_share > 0.1 {
                missing.push(format!(
                    "{:.0} % of the samples lie in functions that nothing names (install the \
                     debug symbols, or take a server that was not stripped)",
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
    fn without_evidence_nothing_is_found() {
        let diagnosis = diagnose("nothing", &Evidence::default());
        assert!(diagnosis.findings.is_empty());
        assert!(!diagnosis.not_seen.is_empty());
    }
}
