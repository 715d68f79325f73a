//! A bottleneck that was found: what a detector observed, joined with what its entry knows.

use serde::{Deserialize, Serialize};

use super::entry::{Entry, Family};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
}

impl Basis {
    /// The part of all time that a share is; `running` is the part of the time of sessions in
    /// a statement in which they ran, if it is known.
    fn of_all_time(self, share: f64, running: Option<f64>) -> f64 {
        let scale = match self {
            Self::CpuSamples => running.unwrap_or(1.0),
            Self::State
            | Self::WaitTime
            | Self::MachineTime
            | Self::Throughput
            | Self::Counters => 1.0,
        };
        (share * scale).clamp(0.0, 1.0)
    }

    /// Whether something was measured.
    pub fn is_measured(self) -> bool {
        self != Self::State
    }
}

/// A step of a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// How it is carried out.
    pub kind: StepKind,
    /// The command, the statement, or the advice.
    pub text: String,
}

/// How a step of a remedy is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The part of all time that would be won if the cause were gone altogether, 0 to 1: an
    /// upper bound. None if nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_at_most: Option<f64>,
    /// Why it matters.
    pub why: String,
    /// How much it has been seen to matter elsewhere.
    pub impact: String,
    /// What to do, in order.
    pub remedy: Vec<Step>,
    /// Where this is from.
    pub sources: Vec<String>,
}

/// What the circumstances make of an observation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Circumstances {
    /// `server_version_num`, if it is known.
    pub version: Option<u32>,
    /// The part of the time of sessions in a statement in which they ran.
    pub running: Option<f64>,
}

impl Finding {
    /// An observation with what its entry knows.
    pub(super) fn new(entry: &Entry, seen: Observation, under: Circumstances) -> Self {
        let version = under.version.or(seen.version_at_most);
        let mut sources: Vec<String> = entry.sources.iter().map(|s| (*s).to_owned()).collect();
        sources.extend(entry.changes.iter().map(super::entry::Change::source));
        sources.extend(seen.sources);
        let mut remedy = seen.remedy;
        if remedy.is_empty() {
            remedy.push(Step::advice(entry.remedy));
        }
        with_releases(entry, version, &mut remedy);
        Self {
            id: entry.id.to_owned(),
            title: entry.title.to_owned(),
            family: entry.family,
            severity: seen.severity.unwrap_or(entry.severity),
            confidence: seen.confidence,
            basis: seen.basis,
            saw: seen.saw,
            evidence: seen.evidence,
            gain_at_most: seen
                .share
                .map(|share| seen.basis.of_all_time(share, under.running)),
            why: seen.why.unwrap_or_else(|| entry.why.to_owned()),
            impact: entry.impact.to_owned(),
            remedy,
            sources,
        }
    }

    /// Adds what another detector saw of the same: the weightier observation leads, and two
    /// kinds of evidence are surer than one.
    pub(super) fn join(&mut self, mut other: Self) {
        let weight = |finding: &Self| (finding.gain_at_most.unwrap_or(0.0), finding.confidence);
        let ((own, sure), (others, others_sure)) = (weight(self), weight(&other));
        if own.total_cmp(&others).then(sure.cmp(&others_sure)).is_lt() {
            std::mem::swap(self, &mut other);
        }
        self.confidence = self.confidence.max(other.confidence);
        for text in std::iter::once(other.saw).chain(other.evidence) {
            let text = text.trim_end_matches('.').to_owned();
            if !self.evidence.contains(&text) {
                self.evidence.push(text);
            }
        }
    }

    /// The gain in words; none if nothing can be said.
    pub fn gain_in_words(&self) -> Option<String> {
        let share = self.gain_at_most?;
        Some(if share >= 0.95 {
            "nearly all of the time is spent there".to_owned()
        } else {
            format!(
                "without it, throughput could be at most {:.2} times as high",
                1.0 / (1.0 - share)
            )
        })
    }
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

/// What a detector saw of its bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    pub(super) severity: Option<Severity>,
    pub(super) confidence: Confidence,
    pub(super) basis: Basis,
    pub(super) share: Option<f64>,
    pub(super) saw: String,
    pub(super) evidence: Vec<String>,
    pub(super) why: Option<String>,
    pub(super) remedy: Vec<Step>,
    pub(super) sources: Vec<String>,
    /// The newest version that can show this; said where the server's is not known.
    pub(super) version_at_most: Option<u32>,
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
    pub(super) fn measured(basis: Basis, share: Option<f64>, saw: impl Into<String>) -> Self {
        Self {
            severity: None,
            confidence: Confidence::High,
            basis,
            share,
            saw: saw.into(),
            evidence: Vec::new(),
            why: None,
            remedy: Vec::new(),
            sources: Vec::new(),
            version_at_most: None,
        }
    }

    /// A share of CPU samples.
    pub(super) fn of_samples(share: f64, saw: impl Into<String>) -> Self {
        Self::measured(Basis::CpuSamples, Some(share), saw)
    }

    pub(super) fn confidence(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
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
