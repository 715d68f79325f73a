//! What a detector saw, and what an audit concludes of it.

use super::severity::{Basis, Confidence, Severity};
use super::step::{Step, StepKind};
use super::subjects::{Subjects, Suspect};
use pgassay_evidence::observed::statements::StatementTime;

/// What a remedy is expected to win.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expected {
    /// Of the share, 0 to 1.
    pub(super) part: f64,
    /// What that rests on.
    pub(super) rests_on: String,
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

impl Observation {
    /// The same, accounting for the time of these statements.
    pub(super) fn of_statements<'s>(
        mut self,
        statements: impl IntoIterator<Item = &'s StatementTime>,
    ) -> Self {
        let ids = statements.into_iter().map(|statement| statement.id.clone());
        self.subjects.statements.extend(ids);
        self
    }

    /// The same with the statement that most of the time goes to, where there is one.
    pub(super) fn most_in(self, statement: Option<&StatementTime>) -> Self {
        let named = statement.map(|s| format!("the one with the most time: {}", s.named()));
        self.all_seen(named).of_statements(statement)
    }

    /// The same, accounting for the CPU time of these functions.
    pub(super) fn of_functions<S: Into<String>>(
        mut self,
        symbols: impl IntoIterator<Item = S>,
    ) -> Self {
        let symbols = symbols.into_iter().map(Into::into);
        self.subjects.functions.extend(symbols);
        self
    }

    /// The same about these tables.
    pub(super) fn of_relations<S: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        self.subjects
            .relations
            .extend(names.into_iter().map(Into::into));
        self
    }

    /// The same, saying what other programs have of the CPUs.
    pub(super) fn of_other_programs(mut self, is: bool) -> Self {
        self.subjects.other_programs |= is;
        self
    }

    /// The same with what is usually behind it.
    pub(super) fn suspects(mut self, suspect: Suspect) -> Self {
        self.subjects.suspect = Some(suspect);
        self
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
