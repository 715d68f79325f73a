//! A bottleneck that was found: what a detector observed, joined with what its entry knows.

use serde::{Deserialize, Serialize};

use super::counterpart::{self, Counterpart};
use super::entry::{Entry, Family};
use super::subjects::Subjects;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing need be done.
    Info,
    /// A few percent, or only under some loads.
    Low,
    /// Measurable under ordinary loads.
    Medium,
    /// Decides how fast this server is, or makes its figures meaningless.
    High,
}

impl Severity {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How far the evidence carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The conditions are there; something else would look the same, or the load decides.
    Low,
    /// Conditions and signs are there; a part of the evidence is missing.
    Medium,
    /// The state itself was read, or the evidence names the cause.
    High,
}

impl Confidence {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What a finding's share is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A setting, a version, a file: what it costs was not measured.
    State,
    /// CPU samples of the server: of the time in which its sessions ran.
    CpuSamples,
    /// Wait events: of the time of sessions in a statement.
    WaitTime,
    /// Time of the machine: stolen, under pressure, beyond a quota.
    MachineTime,
    /// Throughput of windows with it and without.
    Throughput,
    /// Counters of the server over the windows.
    Counters,
    /// Time of statements, on a CPU and waiting: of the sessions' time in transactions.
    Statements,
}

impl Basis {
    /// Whether something was measured.
    pub fn is_measured(self) -> bool {
        self != Self::State
    }
}

/// A step of a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// How it is carried out.
    pub kind: StepKind,
    /// The command, the statement, or the advice.
    pub text: String,
}

/// How a step of a remedy is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// In a shell, mostly as root.
    Shell,
    /// In the server, mostly as superuser.
    Sql,
    /// By thinking.
    Advice,
}

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

impl Step {
    /// Advice that is no command.
    pub fn advice(text: impl Into<String>) -> Self {
        Self {
            kind: StepKind::Advice,
            text: text.into(),
        }
    }
}

/// What a remedy is expected to win.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expected {
    /// Of the share, 0 to 1.
    part: f64,
    /// What that rests on.
    rests_on: String,
}

/// What a detector saw of its bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    pub(super) severity: Option<Severity>,
    pub(super) confidence: Confidence,
    pub(super) basis: Basis,
    pub(super) share: Option<f64>,
    /// Of a share of statements or of waits, the share of the server's CPU time that goes with it.
    pub(super) of_cpu: Option<f64>,
    /// What the remedy is expected to win of the share.
    pub(super) expected: Option<Expected>,
    pub(super) saw: String,
    pub(super) evidence: Vec<String>,
    pub(super) why: Option<String>,
    pub(super) remedy: Vec<Step>,
    pub(super) sources: Vec<String>,
    /// The newest version that can show this; said where the server's is not known.
    pub(super) version_at_most: Option<u32>,
    /// What it is a symptom of.
    pub(super) symptom_of: Option<&'static str>,
    /// What it is about.
    pub(super) subjects: Subjects,
    /// Whether its share says nothing of what a remedy wins.
    pub(super) open: bool,
    /// The share of the sessions' time in transactions that it accounts for, if that is not the
    /// share itself.
    pub(super) covers: Option<f64>,
}

impl Observation {
    /// A state that was read; what it costs was not measured.
    pub(super) fn new(severity: Severity, confidence: Confidence, saw: impl Into<String>) -> Self {
        Self {
            severity: Some(severity),
            confidence,
            ..Self::measured(Basis::State, None, saw)
        }
    }

    /// Something measured: a share of what the basis says, if it can be put so.
    pub fn measured(basis: Basis, share: Option<f64>, saw: impl Into<String>) -> Self {
        Self {
            severity: None,
            confidence: Confidence::High,
            basis,
            share,
            of_cpu: None,
            expected: None,
            saw: saw.into(),
            evidence: Vec::new(),
            why: None,
            remedy: Vec::new(),
            sources: Vec::new(),
            version_at_most: None,
            symptom_of: None,
            subjects: Subjects::default(),
            open: false,
            covers: None,
        }
    }

    /// A share of CPU samples.
    pub(super) fn of_samples(share: f64, saw: impl Into<String>) -> Self {
        Self::measured(Basis::CpuSamples, Some(share), saw)
    }

    /// The same with another confidence.
    pub fn confidence(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
        self
    }

    /// The same with a weight of its own.
    pub(super) fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// The same as a sign of something else: of what usually is behind it.
    pub(super) fn symptom_of(mut self, cause: &'static str) -> Self {
        self.symptom_of = Some(cause);
        self
    }

    /// The same, with the share of the server's CPU time that goes with a share of statements or of waits.
    pub(super) fn of_cpu(mut self, share: f64) -> Self {
        self.of_cpu = Some(share);
        self
    }

    /// The same with the part of the share that the remedy is expected to win, and what that rests on.
    pub(super) fn expects(mut self, part: f64, rests_on: impl Into<String>) -> Self {
        self.expected = Some(Expected {
            part: part.clamp(0.0, 1.0),
            rests_on: rests_on.into(),
        });
        self
    }

    /// The same, with a share that says nothing of what a remedy wins: it may win more than that time.
    pub(super) fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// The same, accounting for this share of the sessions' time in transactions.
    pub(super) fn covers(mut self, share: f64) -> Self {
        self.covers = Some(share);
        self
    }

    /// The same, led by another sentence.
    pub(super) fn leading(mut self, saw: impl Into<String>) -> Self {
        let known = std::mem::replace(&mut self.saw, saw.into());
        let known = known.trim_end_matches('.').to_owned();
        self.evidence.insert(0, known);
        self
    }

    /// The same with a further figure.
    pub(super) fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// The same with further figures.
    pub(super) fn all_seen(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// The same with the mechanism of this case, if it is not the entry's usual one.
    pub(super) fn means(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// The same with a command for the shell.
    pub(super) fn shell(self, command: impl Into<String>) -> Self {
        self.step(StepKind::Shell, command)
    }

    /// The same with a statement for the server.
    pub(super) fn sql(self, statement: impl Into<String>) -> Self {
        self.step(StepKind::Sql, statement)
    }

    /// The same with advice that is no command.
    pub(super) fn advice(self, advice: impl Into<String>) -> Self {
        self.step(StepKind::Advice, advice)
    }

    pub(super) fn step(mut self, kind: StepKind, text: impl Into<String>) -> Self {
        let text = text.into();
        self.remedy.push(Step { kind, text });
        self
    }

    /// As the verdict of an audit.
    pub(super) fn found(self) -> Judged {
        Ok(Verdict::Found(Box::new(self)))
    }
}

/// What an audit concludes of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<F = Observation> {
    /// It is as it should not be.
    Found(Box<F>),
    /// It is as it should be; what was seen.
    Passed(String),
}

/// Why nothing could be concluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotJudged {
    /// The question does not arise here; why.
    NotApplicable(String),
    /// What it needs could not be seen; why.
    CouldNotSee(String),
}

/// What an audit makes of an entry.
pub type Judged = Result<Verdict, NotJudged>;

/// Shorthand for a pass.
pub(super) fn passed(saw: impl Into<String>) -> Judged {
    Ok(Verdict::Passed(saw.into()))
}

/// Shorthand for a question that does not arise.
pub(super) fn not_applicable<T>(why: impl Into<String>) -> Result<T, NotJudged> {
    Err(NotJudged::NotApplicable(why.into()))
}

/// Shorthand for what could not be seen.
pub(super) fn could_not_see<T>(why: impl Into<String>) -> Result<T, NotJudged> {
    Err(NotJudged::CouldNotSee(why.into()))
}
