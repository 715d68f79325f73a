//! A recorded run as a whole: raw, as it was seen.
//!
//! Text from `/proc` and rows from `pg_stat_*` are kept as read and interpreted only by
//! `crate::analyse`, so a newer program can read more out of an old run.

use std::collections::{BTreeMap, HashSet};

use crate::facts::Facts;
use crate::kernel_counts::KernelCounts;
use crate::observed::stacks::SymbolTable;
use crate::pgio::PgioCounters;
use crate::plan::{Plan, Stage};
use crate::query_cost::QueryCostRecord;
use crate::reading::Reading;
use crate::run::{Event, RunEnd, RunHeader};
use crate::server::ServerFacts;
use crate::stage::StageId;
use crate::storage::Storage;
use crate::trial::Trial;

use crate::comparison::{ArmFacts, ComparisonPlan};

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
    /// `facts/kernel-counts.json`, where kernels were counted under an emulator.
    pub kernel_counts: Option<KernelCounts>,
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
