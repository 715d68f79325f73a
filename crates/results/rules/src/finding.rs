//! A bottleneck that was found: what a detector observed, joined with what its entry knows.

use serde::{Deserialize, Serialize};

use super::counterpart::{self, Counterpart};
use super::entry::{Entry, Family};
use super::subjects::Subjects;

pub use super::observation::{Judged, NotJudged, Observation, Verdict};
pub(super) use super::observation::{could_not_see, not_applicable, passed};
pub use super::severity::{Basis, Confidence, Severity};
pub use super::step::{Step, StepKind};

/// A bottleneck, found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The entry of the catalogue.
    pub id: String,
    /// The bottleneck in a few words.
    pub title: String,
    /// Its family.
    pub family: Family,
    /// How much it weighs here.
    pub severity: Severity,
    /// How far the evidence carries.
    pub confidence: Confidence,
    /// What it rests on.
    pub basis: Basis,
    /// What was seen, in a sentence with the figures.
    pub saw: String,
    /// Further figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The part of all time that would be won if the time that is spent there were gone and all else stayed as it
    /// is, 0 to 1. A remedy that leaves a part of it wins less, one that spares other work, too, wins more. None if
    /// nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_at_most: Option<f64>,
    /// The part of all time that the remedy is expected to win, 0 to 1, where more is known than the
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_expected: Option<f64>,
    /// What that expectation rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_rests_on: Option<String>,
    /// The part of all time that it is ordered by, 0 to 1, where that says nothing of what a remedy wins: of full
    /// CPUs, the work itself may vanish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_share: Option<f64>,
    /// Whether the gain is less than the time that it would free, for want of CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limited_by_cpus: bool,
    /// The share of the sessions' time in transactions that it accounts for, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_share: Option<f64>,
    /// What it is a symptom of; none if it is a cause itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symptom_of: Option<String>,
    /// The finding that it is a symptom of, by its id, where that was found, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The statements, functions and tables that it is about.
    #[serde(default, skip_serializing_if = "Subjects::is_empty")]
    pub subjects: Subjects,
    /// Why it matters.
    pub why: String,
    /// How much it has been seen to matter elsewhere.
    pub impact: String,
    /// What to do, in order.
    pub remedy: Vec<Step>,
    /// What a comparison would set against the server to measure it; none where none can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterpart: Option<Counterpart>,
    /// Where this is from.
    pub sources: Vec<String>,
}

/// What the circumstances make of an observation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Circumstances {
    /// `server_version_num`, if it is known.
    pub version: Option<u32>,
    /// The share of the sessions' time in transactions in which they ran, or were ready to.
    pub running: Option<f64>,
    /// The share in which they ran.
    pub on_cpu: Option<f64>,
    /// The part of the load's whole time that its sessions were in transactions: the rest its
    /// clients took.
    pub in_transactions: Option<f64>,
    /// The share of the machine's CPUs that was busy or not to be had.
    pub busy: Option<f64>,
    /// The server's part of what was busy.
    pub server_of_busy: Option<f64>,
    /// The share of the sessions' time in transactions in which they waited for the log to be flushed.
    pub flushing: Option<f64>,
}

/// A measured gain below this is light, whatever its kind of finding may bring elsewhere.
pub(super) const LITTLE: f64 = 0.1;
/// CPUs are full from this share of them on.
pub(super) const FULL: f64 = 0.85;

impl Circumstances {
    /// The part of all time that would be won without this share, all else staying as it is, and whether it is
    /// less than the share for want of CPUs: what waits now would run then, and needs one. `of_cpu` is
    /// the share of the server's CPU time that goes with a share of statements or of waits.
    fn gain(&self, basis: Basis, share: f64, of_cpu: Option<f64>) -> (f64, bool) {
        let cycle = self.in_transactions.unwrap_or(1.0);
        let mut sooner = 0.0;
        let (gain, busy) = match basis {
            // Of CPUs that are full every second saved is won.
            Basis::CpuSamples => {
                let of_busy = share * self.server_of_busy.unwrap_or(1.0);
                let gain = match self.busy {
                    Some(busy) if busy >= FULL => of_busy,
                    _ => share * self.running.unwrap_or(1.0) * cycle,
                };
                (gain, self.busy.map(|busy| busy * (1.0 - of_busy)))
            }
            // What queueing, sleeping and waking take of the CPUs is gone with the wait.
            Basis::WaitTime => {
                let freed = of_cpu.unwrap_or(0.0) * self.server_of_busy.unwrap_or(1.0);
                (share * cycle, self.busy.map(|busy| busy * (1.0 - freed)))
            }
            // Without the work, neither its waits nor its CPU time would be there. Of CPUs that are full
            // only the latter counts.
            Basis::Statements => {
                let of_busy = of_cpu.unwrap_or(share) * self.server_of_busy.unwrap_or(1.0);
                let is_full = self.busy.is_some_and(|busy| busy >= FULL);
                let busy = self.busy.map(|busy| if is_full { 1.0 } else { busy });
                // A flush waits for the kernel's threads, which wait for a CPU as sessions do, and more commits in
                // the same time share it (docs/how-to-read-a-report.md).
                if is_full {
                    let beside = self.flushing.unwrap_or(0.0).min(1.0 - share.min(1.0));
                    sooner = beside * of_busy * cycle;
                }
                (share * cycle, busy.map(|busy| busy * (1.0 - of_busy)))
            }
            Basis::State | Basis::MachineTime | Basis::Throughput | Basis::Counters => {
                (share, None)
            }
        };
        let room = busy.map_or(1.0, |busy| (1.0 - busy).clamp(0.0, 1.0));
        let gain = gain.clamp(0.0, 1.0);
        ((gain + sooner).min(room), room < gain)
    }

    /// The share of the sessions' time in transactions that a share accounts for.
    fn of_budget(&self, basis: Basis, share: f64) -> Option<f64> {
        let on_cpu = self.on_cpu?;
        match basis {
            Basis::CpuSamples => Some(share * on_cpu),
            Basis::WaitTime | Basis::Statements => Some(share),
            Basis::State | Basis::MachineTime | Basis::Throughput | Basis::Counters => None,
        }
    }
}

impl Finding {
    /// An observation with what its entry knows.
    pub fn new(entry: &Entry, seen: Observation, under: Circumstances) -> Self {
        let version = under.version.or(seen.version_at_most);
        let mut sources: Vec<String> = entry.sources.iter().map(|s| (*s).to_owned()).collect();
        sources.extend(entry.changes.iter().map(super::entry::Change::source));
        sources.extend(seen.sources);
        let mut remedy = seen.remedy;
        if remedy.is_empty() {
            remedy.push(Step::advice(entry.remedy));
        }
        let counterpart = counterpart::of(entry, &remedy, under.version);
        with_releases(entry, version, &mut remedy);
        let of = |part: f64| {
            let cpu = seen.of_cpu.map(|cpu| cpu * part);
            Some(under.gain(seen.basis, seen.share? * part, cpu))
        };
        let gain = of(1.0);
        let severity = seen.severity.unwrap_or(entry.severity);
        let severity = match gain {
            // Unless it is want of CPUs that makes it little.
            Some((gain, false)) if gain < LITTLE && !entry.invalidates_results => {
                severity.min(Severity::Low)
            }
            _ => severity,
        };
        let (expected, rests_on) = seen
            .expected
            .and_then(|expected| Some((of(expected.part)?.0, expected.rests_on)))
            .unzip();
        let of_budget = |share| under.of_budget(seen.basis, share);
        let (saw, confidence) = match &seen.symptom_of {
            Some(cause) => (
                format!("{}{}", seen.saw.trim_end_matches('.'), symptom_of(cause)),
                seen.confidence.min(Confidence::Medium),
            ),
            None => (seen.saw, seen.confidence),
        };
        Self {
            id: entry.id.to_owned(),
            title: entry.title.to_owned(),
            family: entry.family,
            severity,
            confidence,
            basis: seen.basis,
            saw,
            evidence: seen.evidence,
            gain_at_most: gain.map(|(gain, _)| gain).filter(|_| !seen.open),
            gain_expected: expected,
            gain_rests_on: rests_on,
            time_share: gain.map(|(gain, _)| gain).filter(|_| seen.open),
            limited_by_cpus: gain.is_some_and(|(_, limited)| limited),
            budget_share: seen.covers.or_else(|| seen.share.and_then(of_budget)),
            symptom_of: seen.symptom_of.map(str::to_owned),
            cause: None,
            subjects: seen.subjects,
            why: seen.why.unwrap_or_else(|| entry.why.to_owned()),
            impact: entry.impact.to_owned(),
            remedy,
            counterpart,
            sources,
        }
    }

    /// Adds what another detector saw of the same: the weightier observation leads, and two
    /// kinds of evidence are surer than one.
    pub(super) fn join(&mut self, mut other: Self) {
        let weight = |finding: &Self| (finding.gain().unwrap_or(0.0), finding.confidence);
        let ((own, sure), (others, others_sure)) = (weight(self), weight(&other));
        if own.total_cmp(&others).then(sure.cmp(&others_sure)).is_lt() {
            std::mem::swap(self, &mut other);
        }
        self.confidence = self.confidence.max(other.confidence);
        if self.symptom_of.is_some() && other.symptom_of.is_some() {
            self.confidence = self.confidence.min(Confidence::Medium);
        }
        if self.basis != other.basis {
            let both = self.budget_share.into_iter().chain(other.budget_share);
            let of_statements = [self.basis, other.basis].contains(&Basis::Statements);
            // The waits for something and the CPU time spent on it are different times; a statement's has both.
            self.budget_share = both.reduce(|a, b| match of_statements {
                true => a.max(b),
                false => (a + b).min(1.0),
            });
        }
        self.subjects.join(other.subjects);
        self.counterpart = self.counterpart.take().or(other.counterpart.take());
        for text in std::iter::once(other.saw).chain(other.evidence) {
            let text = text.trim_end_matches('.').to_owned();
            if !self.evidence.contains(&text) {
                self.evidence.push(text);
            }
        }
    }

    /// The part of all time that findings are ordered by: what is expected to be won, else what is won without the
    /// time that is spent there, else that time; none if nothing can be said.
    pub fn gain(&self) -> Option<f64> {
        self.said().or(self.time_share)
    }

    /// The part of all time that a figure is told for.
    fn said(&self) -> Option<f64> {
        self.gain_expected.or(self.gain_at_most)
    }

    /// `about 1.30 times the throughput`, `worth …` of the time alone; none if nothing can be said, or nothing would
    /// be gained.
    pub fn gain_in_brief(&self) -> Option<String> {
        let factor = 1.0 / (1.0 - self.said()?);
        let about = if self.gain_expected.is_some() {
            "about"
        } else {
            "worth"
        };
        // Beyond that the figure says nothing.
        (1.005..20.0)
            .contains(&factor)
            .then(|| format!("{about} {factor:.2} times the throughput"))
    }

    /// The gain in words; none if nothing can be said.
    pub fn gain_in_words(&self) -> Option<String> {
        let share = self.said()?;
        Some(if share >= 0.95 {
            "nearly all of the time is spent there".to_owned()
        } else if share < 0.005 && self.limited_by_cpus {
            "without it, throughput would be no higher, since the CPUs have no room for more"
                .to_owned()
        } else {
            let limited = if self.limited_by_cpus {
                "; the CPUs have no room for more than that"
            } else {
                ""
            };
            let how = if self.gain_expected.is_some() {
                "without it, throughput would be about"
            } else {
                "without that time and with all else as it is, throughput would be"
            };
            format!("{how} {:.2} times as high{limited}", 1.0 / (1.0 - share))
        })
    }
}

/// The end of the sentence of a symptom.
pub(super) fn symptom_of(cause: &str) -> String {
    format!(", a symptom of {cause}.")
}

/// Adds what releases do about it: an upgrade for a server that lacks a change, a condition if
/// its version is unknown, nothing for one that has it.
fn with_releases(entry: &Entry, version: Option<u32>, remedy: &mut Vec<Step>) {
    let lacking: Vec<_> = entry
        .changes
        .iter()
        .filter(|change| version.is_none_or(|v| !change.is_in(v)))
        .collect();
    if let Some(newest) = lacking.last() {
        let what: Vec<&str> = lacking.iter().map(|change| change.what).collect();
        let what = what.join("; ");
        let step = match version {
            Some(_) => format!("upgrade to PostgreSQL {} or later: {what}", newest.version),
            None => format!(
                "if the server is older than PostgreSQL {}, upgrade: {what}",
                newest.version
            ),
        };
        // What cures it comes first; what only helps, last.
        let cures = version.is_some() && entry.until == Some(newest.since);
        let at = if cures { 0 } else { remedy.len() };
        remedy.insert(at, Step::advice(step));
    }
    if entry.open {
        remedy.push(Step::advice("no release cures this"));
    }
}
