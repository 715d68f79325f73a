//! What is known of one host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pgassay_model::facts::{Facts, Place};
use pgassay_model::record::RecordedRun;
use pgassay_model::server::Origin;
use serde::{Deserialize, Serialize};

use super::traits::{cut, traits};
use crate::analysis::Analysis;
use crate::bottlenecks::{self, FactView, Finding, Severity, Step, StepKind};
use crate::check::{self, CheckReport, Outcome};
use crate::host::IDENTITY;
use crate::number;
use crate::stats::Estimate;
use crate::summary::Summary;

/// One collection: a server and its host, or a host alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// What it is called, by where it was read from.
    pub name: String,
    /// Where it was read from, for people.
    pub place: String,
    /// Which machine it is, so that two collections of one are told from those of two; none where
    /// nothing says.
    pub machine: Option<String>,
    /// What tells it from others of its name where nothing says which machine it is: those of one
    /// origin are one host, as db1.json and db1/facts.json of one directory.
    pub origin: String,
    /// Which of the machine's servers.
    pub server: Option<String>,
    /// When, UTC, RFC 3339.
    pub collected: String,
    /// What made it.
    pub source: Source,
    /// What it is held against.
    pub kind: KindKey,
    /// What is wrong.
    pub found: Vec<Found>,
    /// Entries of the catalogue that were judged and passed.
    pub passed: BTreeSet<String>,
    /// What it is like, name to value.
    pub traits: BTreeMap<String, String>,
    /// What it did under a load.
    pub measured: Option<Measured>,
    /// Whether an audit was made.
    pub audited: bool,
    /// Whether a load was looked at for what holds the server back.
    pub diagnosed: bool,
    /// Why the audit is not whole.
    pub incomplete: Option<String>,
}

/// What made a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// `pgassay collect`.
    Facts,
    /// A recorded run.
    Run,
    /// A run in the tables that `pgassay export` wrote.
    Tables,
}

/// Which host it is, and which server of it: its collections have the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub(super) machine: String,
    pub(super) server: Option<String>,
}

/// What makes hosts of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindKey {
    /// The CPU's name, or the architecture where that is not known.
    pub cpu: Option<String>,
    /// Logical CPUs.
    pub cpus: Option<u32>,
    /// PostgreSQL's major version.
    pub postgres: Option<String>,
    /// What the server is for.
    pub role: Role,
}

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It replays another's.
    Standby,
    /// pgassay launched it and removed it again.
    ThrowAway,
    /// Not known.
    Unknown,
    /// Only the host was looked at.
    NoServer,
}

impl Role {
    /// In a line about its kind.
    pub fn words(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Standby => "standby",
            Self::ThrowAway => "throw-away server",
            Self::Unknown => "server",
            Self::NoServer => "no server",
        }
    }
}

impl fmt::Display for KindKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cpu.as_deref().unwrap_or("unknown CPU"))?;
        if let Some(cpus) = self.cpus {
            write!(f, ", {}", number::counted(cpus, "CPU"))?;
        }
        if let Some(version) = &self.postgres {
            write!(f, ", PostgreSQL {version}")?;
        }
        write!(f, ", {}", self.role.words())
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The entry of the catalogue.
    pub id: String,
    /// How much it weighs there.
    pub severity: Severity,
    /// What was seen.
    pub saw: String,
    /// What to do there.
    pub remedy: Vec<Step>,
    /// The load that showed it; none where the audit did.
    pub under: Option<String>,
}

/// The highest throughput that a run found.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Workload, scale and protocol: what can be held against each other.
    pub work: String,
    /// How much, with its interval.
    pub rate: Estimate,
    /// Its unit.
    pub unit: String,
    /// At how many clients or sessions.
    pub clients: u32,
    /// The run.
    pub run: String,
    /// When it began.
    pub at: String,
}

/// Why something that lies there is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unused {
    /// It is something else.
    Foreign,
    /// It is cut short, or no longer what was written.
    Damaged,
    /// A newer pgassay wrote it.
    Newer,
    /// It is larger than facts are.
    TooLarge,
    /// It may not be read, or can't be.
    Unreadable,
    /// A link, which may lead elsewhere, or neither file nor directory.
    NoFile,
    /// It lies deeper than is looked.
    TooDeep,
    /// It is measured now.
    Running,
}

impl Unused {
    /// Whether a host may be missing for it.
    pub fn may_be_a_host(self) -> bool {
        !matches!(self, Self::Foreign | Self::Running)
    }

    /// In a list.
    pub fn words(self) -> &'static str {
        match self {
            Self::Foreign => "something else",
            Self::Damaged => "damaged",
            Self::Newer => "of a newer pgassay",
            Self::TooLarge => "too large",
            Self::Unreadable => "unreadable",
            Self::NoFile => "no file",
            Self::TooDeep => "too deep",
            Self::Running => "measured now",
        }
    }
}

impl Host {
    /// Of collected facts, their place being their origin.
    pub fn of_facts(name: impl Into<String>, place: impl Into<String>, facts: &Facts) -> Self {
        let report = check::check(facts);
        Self::of(name.into(), place.into(), facts, Some(&report))
    }

    /// Of a recorded run: its first server, and the machine that it ran on; its place is its origin.
    pub fn of_run(
        name: impl Into<String>,
        place: impl Into<String>,
        run: &RecordedRun,
        analysis: &Analysis,
    ) -> Self {
        let facts = facts_of(run);
        let mut host = Self::of(name.into(), place.into(), &facts, analysis.check.as_ref());
        host.source = Source::Run;
        host.collected = cut(&analysis.run.started);
        let stages = analysis.stages.iter();
        let by_loads = stages.flat_map(|stage| {
            let of_stage = stage.diagnosis.iter().flat_map(|d| &d.findings);
            of_stage.map(|finding| (finding, &stage.plan.workload.name))
        });
        for (finding, under) in by_loads {
            host.shown_by_load(Found::of(finding, Some(under)));
        }
        host.diagnosed = analysis
            .stages
            .iter()
            .any(|stage| stage.diagnosis.is_some());
        let summary = Summary::of(analysis);
        host.measured = summary.peak.map(|peak| Measured {
            work: summary.work,
            rate: peak.rate,
            unit: peak.unit,
            clients: peak.clients,
            run: cut(&summary.run),
            at: cut(&summary.started),
        });
        host
    }

    /// Adds what a load showed, whether or not the audit had found it.
    pub fn shown_by_load(&mut self, found: Found) {
        // What a profile consists of is no bottleneck.
        if bottlenecks::find(&found.id).is_none_or(|entry| entry.id != found.id) {
            return;
        }
        // What the audit saw nothing of was not passed for that.
        self.passed.remove(&found.id);
        match self.found.iter_mut().find(|f| f.id == found.id) {
            Some(known) => known.under = found.under,
            None => self.found.push(found),
        }
    }

    /// Which host it is.
    pub fn identity(&self) -> Identity {
        let machine = match &self.machine {
            Some(machine) => format!("machine {machine}"),
            None => format!("origin {}", self.origin),
        };
        Identity {
            machine,
            server: self.server.clone(),
        }
    }

    /// Of the collections of a host the one of the highest rank counts.
    pub fn rank(&self) -> (bool, &str, &str) {
        (self.audited, &self.collected, &self.place)
    }

    fn of(name: String, place: String, facts: &Facts, report: Option<&CheckReport>) -> Self {
        let seen = FactView::new(facts);
        let machine = facts.host.get(IDENTITY).and_then(|r| r.text());
        let results = report.map_or(&[][..], |report| report.results.as_slice());
        Self {
            name: cut(&name),
            machine: machine.map(|id| cut(id.trim())).filter(|id| !id.is_empty()),
            origin: place.clone(),
            place,
            server: server(facts, &seen),
            collected: cut(&facts.collected),
            source: Source::Facts,
            kind: kind(facts, &seen),
            found: results
                .iter()
                .filter_map(|result| Some(Found::of(result.finding.as_ref()?, None)))
                .collect(),
            passed: results
                .iter()
                .filter(|result| result.outcome == Outcome::Passed)
                .map(|result| result.id.clone())
                .collect(),
            traits: traits(facts, &seen),
            measured: None,
            audited: report.is_some(),
            diagnosed: false,
            incomplete: report.and_then(CheckReport::unseen).map(|why| cut(&why)),
        }
    }
}

impl Found {
    pub(super) fn of(finding: &Finding, under: Option<&str>) -> Self {
        Self {
            id: finding.id.clone(),
            severity: finding.severity,
            saw: cut(&finding.saw),
            remedy: finding.remedy.clone(),
            under: under.map(cut),
        }
    }

    /// The commands and statements among what to do, by which remedies are the same.
    pub(super) fn commands(&self) -> Vec<&str> {
        let steps = self.remedy.iter();
        let commands = steps.filter(|step| step.kind != StepKind::Advice);
        commands.map(|step| step.text.as_str()).collect()
    }
}

/// What a run recorded, as facts.
fn facts_of(run: &RecordedRun) -> Facts {
    let mut facts = run.check.clone().unwrap_or_else(|| {
        let mut facts = Facts::empty("");
        facts.collected = run.header.started.clone();
        if let Some(server) = run.servers.get(&0) {
            facts.place = Place::Here("the run's".to_owned());
            facts.origin = Some(server.origin.clone());
            let answers = [("version", &server.version), ("settings", &server.settings)];
            let answers = answers.map(|(name, answer)| (name.to_owned(), answer.clone()));
            facts.server.extend(answers);
        }
        facts
    });
    if facts.host.is_empty() {
        facts.host = run.host.clone();
    }
    facts.binary = facts.binary.or_else(|| run.binaries.get(&0).cloned());
    facts
}

/// Which server of its machine: by its port and data directory, as far as they are known. One that
/// was made to be looked at is none of the machine's.
fn server(facts: &Facts, seen: &FactView) -> Option<String> {
    if matches!(facts.place, Place::NoServer) || launched(facts) {
        return None;
    }
    let of = |name: &str| seen.value(name).unwrap_or_default();
    Some(cut(&format!("{}:{}", of("port"), of("data_directory"))))
}

fn launched(facts: &Facts) -> bool {
    matches!(facts.origin, Some(Origin::Launched { .. }))
}

fn kind(facts: &Facts, seen: &FactView) -> KindKey {
    let role = match facts.place {
        Place::NoServer => Role::NoServer,
        _ if launched(facts) => Role::ThrowAway,
        _ => match seen
            .row("role")
            .ok()
            .and_then(|row| row.get("in_recovery")?.as_bool())
        {
            Some(true) => Role::Standby,
            Some(false) => Role::Primary,
            None => Role::Unknown,
        },
    };
    let host = seen.host_summary();
    let cpu = host.cpu_model.or(host.architecture);
    let cpu = cpu.or_else(|| Some(seen.machine().ok()?.to_owned()));
    KindKey {
        cpu: cpu.map(|cpu| cut(&cpu)),
        cpus: host.cpus,
        postgres: seen.version().ok().map(bottlenecks::major),
        role,
    }
}
