//! What a rule is, and what it can say.

use serde::{Deserialize, Serialize};

use super::Seen;

/// An entry of the registry.
#[derive(Debug)]
pub struct Rule {
    /// Stable name: in scripts, in `--explain`, and of its page in docs/rules.
    pub id: &'static str,
    /// What the rule asks, in a few words.
    pub title: &'static str,
    /// Its family.
    pub family: Family,
    /// What it must be able to see.
    pub needs: &'static [Need],
    /// Why it matters: the mechanism.
    pub why: &'static str,
    /// How much it has been seen to matter, or that nobody is known to have said.
    pub effect: &'static str,
    /// What is done about it in general; a finding names the command for the case.
    pub remedy: &'static str,
    /// Where this is from.
    pub sources: &'static [&'static str],
    /// Looks at what was seen.
    pub judge: fn(&Seen) -> Judged,
}

/// What bears on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Base pages, huge pages, page tables.
    Pages,
    /// Amounts of memory, NUMA, swap.
    Memory,
    /// CPU time, clocks, frequency, quotas, preemption.
    Processor,
    /// How the server and its libraries were compiled.
    Build,
    /// What the server's version lacks.
    Version,
    /// Sessions and locks.
    Sessions,
    /// Data device, file system, reads.
    Storage,
    /// WAL, checkpoints, durability.
    Wal,
    /// Settings whose cost is in the statements.
    Statements,
}

impl Family {
    /// The heading that it has in lists.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pages => "Memory pages",
            Self::Memory => "Memory",
            Self::Processor => "Processor",
            Self::Build => "Build",
            Self::Version => "Version",
            Self::Sessions => "Sessions",
            Self::Storage => "Storage",
            Self::Wal => "WAL and durability",
            Self::Statements => "Statements",
        }
    }
}

/// Something that a rule must be able to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// The host's /proc and /sys.
    Host,
    /// Files of the host that only root may read.
    HostAsRoot,
    /// The control group's files.
    Cgroup,
    /// The server's answers to plain SQL.
    Sql,
    /// Answers that take `pg_monitor` or `pg_read_all_settings`.
    SqlAsMonitor,
    /// /proc/PID of the server's processes, as their owner or root.
    Process,
    /// The server's executable.
    Binary,
}

impl Need {
    /// In a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::HostAsRoot => "host as root",
            Self::Cgroup => "control group",
            Self::Sql => "SQL",
            Self::SqlAsMonitor => "SQL as pg_monitor",
            Self::Process => "server's /proc/PID",
            Self::Binary => "executable",
        }
    }
}

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

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sure {
    /// The conditions are there; whether it bites depends on the load.
    Possible,
    /// The conditions and signs of the effect are there.
    Likely,
    /// The state itself was read.
    Certain,
}

impl Sure {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

/// Something that holds the server back, or spoils its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it weighs here.
    pub severity: Severity,
    /// How sure it is.
    pub sure: Sure,
    /// What was seen, with the figures.
    pub saw: String,
    /// What to do, in order.
    pub remedy: Vec<Step>,
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

impl Finding {
    /// A finding without a remedy yet.
    pub fn new(severity: Severity, sure: Sure, saw: impl Into<String>) -> Self {
        Self {
            severity,
            sure,
            saw: saw.into(),
            remedy: Vec::new(),
        }
    }

    /// The same with a command for the shell.
    pub fn shell(self, command: impl Into<String>) -> Self {
        self.step(StepKind::Shell, command)
    }

    /// The same with a statement for the server.
    pub fn sql(self, statement: impl Into<String>) -> Self {
        self.step(StepKind::Sql, statement)
    }

    /// The same with advice that is no command.
    pub fn advice(self, advice: impl Into<String>) -> Self {
        self.step(StepKind::Advice, advice)
    }

    fn step(mut self, kind: StepKind, text: impl Into<String>) -> Self {
        let text = text.into();
        self.remedy.push(Step { kind, text });
        self
    }

    /// As a rule's verdict.
    pub fn found(self) -> Judged {
        Ok(Verdict::Finding(self))
    }
}

/// What a rule concludes from what it saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it should not be.
    Finding(Finding),
    /// It is as it should be; what was seen.
    Passed(String),
}

/// A rule that could conclude nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aside {
    /// The question does not arise here; why.
    NotApplicable(String),
    /// What it needs could not be seen; why.
    CouldNotSee(String),
}

/// What becomes of a rule.
pub type Judged = Result<Verdict, Aside>;

/// Shorthand for a pass.
pub(super) fn passed(saw: impl Into<String>) -> Judged {
    Ok(Verdict::Passed(saw.into()))
}

/// Shorthand for a question that does not arise.
pub(super) fn not_applicable<T>(why: impl Into<String>) -> Result<T, Aside> {
    Err(Aside::NotApplicable(why.into()))
}

/// Shorthand for what could not be seen.
pub(super) fn could_not_see<T>(why: impl Into<String>) -> Result<T, Aside> {
    Err(Aside::CouldNotSee(why.into()))
}
