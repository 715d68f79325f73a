//! A lab as data: what a TOML file in `labs/` says.
//!
//! Nothing in it is a command: every field is a name, a number or a setting, so that what a plan of
//! somebody else would run can be listed beforehand.

use pgassay_model::confinement::ConfinementPlan;
use serde::{Deserialize, Serialize};

use crate::host::HostSummary;
use crate::number;

/// Name and version of the serialized form.
pub const PLAN_SCHEMA: &str = "pgassay/lab-plan/1";

/// A published experiment, or your own: what is asked, what was published, what is measured here, and
/// which statements are held against it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LabPlan {
    /// [`PLAN_SCHEMA`], where it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Its name: lower-case letters, digits and hyphens.
    pub name: String,
    /// What it is about, in one line.
    pub title: String,
    /// What is asked.
    pub question: String,
    /// What the sources left open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_question: Option<String>,
    /// What can be told of the open question once the statements are checked, and what not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<String>,
    /// Where published figures come from.
    #[serde(default, rename = "source", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The servers.
    #[serde(rename = "arm")]
    pub arms: Vec<ArmPlan>,
    /// What is measured, in this order.
    #[serde(rename = "stage")]
    pub stages: Vec<StagePlan>,
    /// Published figures.
    #[serde(default, rename = "figure", skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    /// What is held against the measurement.
    #[serde(rename = "statement")]
    pub statements: Vec<Statement>,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Source {
    /// By which figures name it.
    pub id: String,
    /// Author, title and date.
    pub title: String,
    /// Where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The machine that its figures are from.
    pub hardware: String,
}

/// A server that is launched for the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ArmPlan {
    /// By which stages and statements name it.
    pub name: String,
    /// What is launched: `temp`, `temp:17`, `build:NAME`, the directory of an installation. A server that
    /// runs already is no arm of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Instead of a target: how it is built from the source that `--source` names, as `pgassay build
    /// --variant` takes it, such as `lse` or `no-outline-atomics cflags=-O3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The triplet of another processor, `aarch64-linux-gnu`: a variant is cross-built for it, of `temp` the archived
    /// one for it is fetched. Such an arm is inspected, or counted in an emulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The model of that processor that is emulated where it is counted: `cortex-a53`, `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// Settings, `name=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Variables of its environment in comparisons and runs, `NAME=VALUE`.
    #[serde(default, rename = "environment", skip_serializing_if = "Vec::is_empty")]
    pub launch_environment: Vec<String>,
    /// The CPUs that it is kept on in comparisons; all where none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// Instead of numbers of CPUs: which of those that a machine has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<Placed>,
    /// The command that it is started through in comparisons and runs, such as `numactl --interleave=all`; empty
    /// where none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wrap: String,
}

impl ArmPlan {
    /// The machine of its own that its target names, `ssh://db1` or `exec:COMMAND`; none of an arm of the machine
    /// that the lab runs on.
    pub fn machine(&self) -> Option<&str> {
        let target = self.target.as_deref()?;
        match target.strip_prefix("ssh://") {
            Some(rest) => rest
                .split_once('/')
                .map(|(host, _)| &target[.."ssh://".len() + host.len()])
                .or(Some(target)),
            None if target.starts_with("exec:") => Some(
                target
                    .split_once(" // ")
                    .map_or(target, |(command, _)| command),
            ),
            None => None,
        }
    }

    /// What it is given of the machine, on the CPUs that it names by number.
    pub fn confinement(&self) -> ConfinementPlan {
        ConfinementPlan {
            launch_environment: self.launch_environment.clone(),
            cpus: self.cpus.clone(),
            wrap: self.wrap.clone(),
        }
    }

    /// Whether it has an environment, CPUs or a wrapping command of its own.
    pub fn is_given(&self) -> bool {
        !self.launch_environment.is_empty() || self.is_placed()
    }

    /// Whether its CPUs, or how it is started, are its own.
    pub fn is_placed(&self) -> bool {
        self.is_kept() || !self.wrap.is_empty()
    }

    /// Whether it is kept on CPUs of its own.
    pub fn is_kept(&self) -> bool {
        !self.cpus.is_empty() || self.placed.is_some()
    }

    /// Whether it differs in more than what is launched.
    pub fn has_own(&self) -> bool {
        !self.settings.is_empty() || self.is_given()
    }
}

/// Which CPUs of whatever machine an arm is kept on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Placed {
    /// All but the last, which is left to the load; on a machine with one CPU, that.
    AllButOne,
}

/// How a stage measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// All its arms at once, interleaved, with a noise floor: `pgassay compare`.
    Compare,
    /// One arm: `pgassay run`.
    Run,
    /// Two arms by counted instructions of one session: `pgassay compare --by instructions`; arms with a `host` in
    /// an emulator, with the atomics that they execute.
    Count,
    /// The executables of its arms, which are not run: `pgassay inspect`.
    Inspect,
}

impl Measure {
    /// The command that does it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Compare => "compare",
            Self::Run => "run",
            Self::Count => "compare --by instructions",
            Self::Inspect => "inspect",
        }
    }
}

/// One kind of measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StagePlan {
    /// By which statements name it.
    pub id: String,
    /// How it measures.
    pub measure: Measure,
    /// The arms, the first of which is the one that others are held against; all where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<String>,
    /// A registered workload, or a script beside the plan.
    #[serde(default = "select_only")]
    pub workload: String,
    /// Client counts, or sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<u32>,
    /// Scales of pgbench's tables; each is measured by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scale: Vec<u32>,
    /// Sizes of shared_buffers, such as `1GB`; each is measured by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_buffers: Vec<String>,
    /// Numbers of CPUs that the servers are kept on; each is measured by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Which threads of the cores the servers get: `on`, `off`, `only-first`; each is measured by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smt: Vec<String>,
    /// On which memory node the servers run and have their memory: its number, `interleave`, `local`; each is
    /// measured by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<String>,
    /// Settings for all its arms, `name=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// How statements travel: `simple`, `extended`, `prepared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Counted seconds of a slice or trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Trials at each point of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// Size of each of pgio's tables, or of that of scattered-read, such as `1GB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// pgio's tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<u32>,
    /// The ways of reading of scattered-read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// What looks on: `waits`, `sched`, `perf`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observe: Vec<String>,
    /// Its part of the lab's time; 1 where nothing is said.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: f64,
}

fn select_only() -> String {
    "select-only".to_owned()
}

fn one() -> f64 {
    1.0
}

fn is_one(weight: &f64) -> bool {
    *weight == 1.0
}

/// A figure that was published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Figure {
    /// By which statements name it.
    pub id: String,
    /// The source's id.
    pub source: String,
    /// What it is of.
    pub what: String,
    /// The figure, with its unit.
    pub value: String,
}

/// Something that was published, or is supposed, in a form that a measurement can agree or disagree with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Statement {
    /// Its name within the lab.
    pub id: String,
    /// The statement in words.
    pub says: String,
    /// The published figures that it rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<String>,
    /// How it is tested.
    pub test: Test,
    /// Without what it can't be told.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub needs: Needs,
    /// It bears on the question that the sources left open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// How a statement is tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Test {
    /// One figure divided by another lies in a range.
    Ratio {
        /// Above.
        of: Operand,
        /// Below.
        over: Operand,
        /// The range.
        range: Range,
    },
    /// A figure lies in a range.
    Value {
        /// The figure.
        of: Operand,
        /// The range.
        range: Range,
    },
    /// The arms come in this order by throughput, or another metric, the best first.
    Order {
        /// The stage.
        stage: String,
        /// The arms, the best first.
        arms: Vec<String>,
        /// At how many clients.
        clients: Clients,
        /// By what.
        #[serde(default = "throughput")]
        quantity: String,
    },
    /// Throughput is highest at a number of clients in a range, and no longer grows after it.
    Peak {
        /// The stage.
        stage: String,
        /// The arm.
        arm: String,
        /// The range, of clients.
        range: Range,
    },
    /// The share of CPU samples, or of waiting sessions, lies in a range.
    Share {
        /// The stage.
        stage: String,
        /// The arm.
        arm: String,
        /// Of what.
        of: ShareOf,
        /// The function, wait event or lock, such as `s_lock`, `LWLock:ProcArray`, `buffer-header`.
        name: String,
        /// At how many clients.
        clients: Clients,
        /// The range, 0 to 1.
        range: Range,
    },
    /// Nothing in this program can test it.
    Untested {
        /// Why not.
        why: String,
    },
}

impl Test {
    /// The stages that it speaks of.
    pub fn stages(&self) -> Vec<&str> {
        match self {
            Self::Ratio { of, over, .. } => vec![&of.stage, &over.stage],
            Self::Value { of, .. } => vec![&of.stage],
            Self::Order { stage, .. } | Self::Peak { stage, .. } | Self::Share { stage, .. } => {
                vec![stage]
            }
            Self::Untested { .. } => Vec::new(),
        }
    }
}

fn throughput() -> String {
    "throughput".to_owned()
}

/// What a share is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ShareOf {
    /// CPU samples in a function itself.
    Function,
    /// Sessions at a wait event, of those that are active.
    Wait,
    /// CPU samples in the functions that take a lock, whichever these are, by their callers: `buffer-header`,
    /// `proc-array`, `mapping-partition`.
    Lock,
}

/// A figure of the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Operand {
    /// The stage.
    pub stage: String,
    /// The arm.
    pub arm: String,
    /// A metric such as `throughput` or `p99`; `query-cpu:WAY` of query loops, `amplification:WAY` and
    /// `execution:WAY` of scattered reads, `pgio-reads-per-session`; of counts `instructions`, `locked`, and
    /// under emulation `lse`, `exclusive`; of inspected builds `lse`, `exclusive`, `outline-calls`.
    #[serde(default = "throughput")]
    pub quantity: String,
    /// At how many clients.
    #[serde(default)]
    pub clients: Clients,
    /// At which scale, where the stage has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// At which size of shared_buffers, where the stage has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_buffers: Option<String>,
    /// On how many CPUs, where the stage has several numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// With which threads of the cores, where the stage has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt: Option<String>,
    /// On which memory nodes, where the stage has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<String>,
}

/// At how many clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Clients {
    /// At so many.
    Exactly(u32),
    /// Relative to what was measured.
    Named(Named),
    /// Where the stage has one point.
    #[default]
    Only,
}

/// A number of clients relative to what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// The most that were measured.
    Most,
    /// The fewest.
    Fewest,
    /// Where the arm's throughput is highest.
    Peak,
}

/// A range with open or closed ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Range {
    /// The lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

impl Range {
    /// `at least 1.02`, `0.95 to 1.05`.
    pub fn words(&self) -> String {
        let n = number::short;
        match (self.at_least, self.at_most) {
            (Some(low), Some(high)) => format!("{} to {}", n(low), n(high)),
            (Some(low), None) => format!("at least {}", n(low)),
            (None, Some(high)) => format!("at most {}", n(high)),
            (None, None) => "anything".to_owned(),
        }
    }
}

/// Without what a statement can't be told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Needs {
    /// An architecture, as `uname -m` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// At least so many CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory pages of this size, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u64>,
    /// Something that no program can look up, such as a second machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub besides: Option<String>,
}

impl Needs {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What this machine lacks, and what it has instead; none where nothing.
    pub fn lacking(&self, host: &HostSummary) -> Option<String> {
        let mut lacks = Vec::new();
        let here = host.architecture.as_deref();
        if let Some(wanted) = &self.architecture
            && here != Some(wanted)
        {
            lacks.push(format!("{wanted} ({} here)", here.unwrap_or("unknown")));
        }
        if let Some(wanted) = self.cpus
            && host.cpus.is_none_or(|cpus| cpus < wanted)
        {
            let here = host.cpus.map_or("unknown".to_owned(), |n| n.to_string());
            lacks.push(format!("{wanted} CPUs ({here} here)"));
        }
        if let Some(wanted) = self.page_size
            && host.page_size_bytes != Some(wanted)
        {
            let here = host.page_size_bytes.map(number::bytes);
            lacks.push(format!(
                "pages of {} ({} here)",
                number::bytes(wanted),
                here.as_deref().unwrap_or("unknown")
            ));
        }
        lacks.extend(self.besides.clone());
        (!lacks.is_empty()).then(|| lacks.join(", "))
    }
}

impl StagePlan {
    /// Whether it chooses the CPUs of its servers.
    pub fn places_servers(&self) -> bool {
        !(self.cpus.is_empty() && self.smt.is_empty() && self.numa.is_empty())
    }
}

impl LabPlan {
    /// An arm by its name.
    pub fn arm(&self, name: &str) -> Option<&ArmPlan> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// A stage by its id.
    pub fn stage(&self, id: &str) -> Option<&StagePlan> {
        self.stages.iter().find(|stage| stage.id == id)
    }

    /// The names of a stage's arms, in its order.
    pub fn arms_of<'a>(&'a self, stage: &'a StagePlan) -> Vec<&'a str> {
        match stage.arms.as_slice() {
            [] => self.arms.iter().map(|arm| arm.name.as_str()).collect(),
            named => named.iter().map(String::as_str).collect(),
        }
    }
}
