//! What a run wrote down: raw, as it was seen.
//!
//! These types are the run directory's format. Text from `/proc` and rows from
//! `pg_stat_*` are kept as read and interpreted only by `crate::analyse`, so
//! a newer program can read more out of an old run. Fields are only ever added;
//! [`FORMAT`] counts the changes that an older program could not read.

use std::collections::{BTreeMap, HashSet};

use pgassay_model::observed::stacks::SymbolTable;
use pgassay_model::pgio::PgioCounters;
use pgassay_model::plan::{Experiment, Plan, Stage};
use pgassay_model::query_cost::QueryCostRecord;
use pgassay_model::reading::Reading;
use pgassay_model::server::ServerFacts;
use pgassay_model::stage::StageId;
use pgassay_model::storage::Storage;
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::check::Facts;
use crate::compare::plan::{ArmFacts, ComparisonPlan};

/// Version of the run directory's format that this program writes.
pub const FORMAT: u32 = 1;

/// `run.json`: written first, and again where a stage is decided on later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Always `pgassay/run/1`.
    pub schema: String,
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name of the run directory.
    pub id: String,
    /// The command that made the run: `assay`, `run` or `compare`.
    pub command: String,
    /// What was typed, passwords replaced by `***`.
    pub command_line: Vec<String>,
    /// Version of pgassay.
    pub pgassay_version: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// What is to be measured.
    pub experiment: Experiment,
}

/// One line of `events.jsonl`: something that happened beside the trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// UTC, RFC 3339.
    pub at: String,
    /// What it means for the results.
    #[serde(flatten)]
    pub what: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum EventKind {
    /// A server was started for an arm.
    Launched {
        /// Index into the plan's arms.
        arm: u32,
    },
    /// The run went on after an interruption.
    Resumed,
    /// Somebody asked for a pause, and no trial runs from here on.
    Paused {
        /// When it goes on by itself.
        at_most_seconds: u64,
    },
    /// The pause is over.
    Unpaused {
        /// How long it was.
        seconds: f64,
    },
    /// A point could not be reached and is left out from here on.
    PointSkipped {
        /// Which of the run's stages.
        stage: StageId,
        /// Index into its points.
        point: u32,
        /// Why, in words for the report.
        reason: String,
    },
    /// Something the reader must know.
    Warned {
        /// The warning.
        warning: Warning,
    },
    /// `pg_stat_database` after the last connection closed, as one JSON row.
    DatabaseAfter {
        /// Index into the plan's arms.
        arm: u32,
        /// The row, or why there is none.
        row: Reading,
    },
}

/// `end.json`: written last. A run without one was killed, or is still running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// How it ended.
    pub state: EndState,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// UTC, RFC 3339.
    pub at: String,
    /// From the start of the command to here, in seconds.
    pub elapsed_seconds: f64,
    /// Most resident memory of pgassay itself, in bytes.
    #[serde(default)]
    pub max_rss_bytes: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// Every slice of the plan was measured.
    Complete,
    /// Somebody pressed Ctrl-C, or the process was told to stop.
    Interrupted,
    /// The server died or could not be reached any more.
    ServerDied,
    /// Something else failed; the reason says what.
    Failed,
}

/// A run as it lies in its directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedRun {
    /// `run.json`.
    pub header: RunHeader,
    /// Host facts, source path to text.
    pub host: BTreeMap<String, Reading>,
    /// Server facts by arm.
    pub servers: BTreeMap<u32, ServerFacts>,
    /// What lies under each arm's data directory.
    pub storage: BTreeMap<u32, Storage>,
    /// What inspect saw in the server's executable, by arm.
    pub binaries: BTreeMap<u32, Result<pgassay_inspect::Binary, String>>,
    /// `facts/check.json`: what the audit looked at beside the host and the binary.
    pub check: Option<Facts>,
    /// Names of functions that CPU samples hit, by arm.
    pub symbols: BTreeMap<u32, SymbolTable>,
    /// All whole lines of `trials.jsonl`, in the order in which they ran.
    pub trials: Vec<Trial>,
    /// `facts/comparison.json`, where arms were compared.
    pub comparison: Option<ComparisonPlan>,
    /// `facts/arm-N.json` by arm, likewise.
    pub arm_facts: BTreeMap<u32, ArmFacts>,
    /// `facts/query-cost.json`, where a query's way was sampled.
    pub query_cost: Option<QueryCostRecord>,
    /// `facts/pgio-counters.json`.
    pub pgio_counters: Option<PgioCounters>,
    /// All whole lines of `events.jsonl`.
    pub events: Vec<Event>,
    /// `end.json`, or none.
    pub end: Option<RunEnd>,
    /// Another process holds the run: it is being measured now.
    pub running: bool,
    /// What was damaged when it was read, in words.
    pub damage: Vec<String>,
}

impl RecordedRun {
    /// The plan of the run's own load.
    pub fn plan(&self) -> &Plan {
        self.header.experiment.plan()
    }

    /// Which kind of load the run's own is.
    pub fn main_stage(&self) -> StageId {
        let first = self.header.experiment.stages.first();
        first.map(|stage| stage.id).unwrap_or_default()
    }

    /// A stage of the experiment, where it has it.
    pub fn stage(&self, id: StageId) -> Option<&Stage> {
        self.header.experiment.stage(id)
    }

    /// The trials of a stage, in the order in which they ran.
    pub fn trials_of(&self, stage: StageId) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| trial.stage == stage)
    }

    /// The same on one arm.
    pub fn trials_on(&self, stage: StageId, arm: u32) -> impl Iterator<Item = &Trial> {
        let of_stage = self.trials_of(stage);
        of_stage.filter(move |trial| trial.slice.arm == arm)
    }

    /// The slices of a stage that need not be measured again.
    pub fn measured(&self, stage: StageId) -> HashSet<u32> {
        let whole = self.trials_of(stage).filter(|trial| trial.counts());
        whole.map(|trial| trial.slice.index).collect()
    }
}
