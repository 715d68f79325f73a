//! What is to be measured: arms × stages × points × trials.
//!
//! The plan is decided before the first measurement and recorded with the run.
//! An assay has one arm; a comparison has two or more. Every trial is a short
//! slice of load on one arm at one point, in the order of [`crate::schedule`].

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::axis::AxisValue;
use crate::confinement::ConfinementPlan;
use crate::pgio::PgioPlan;
use crate::point::Point;
use crate::primitives::{KernelsPlan, PrimitivesPlan};
use crate::scattered::ScatteredPlan;
use crate::stage::StageId;
use crate::workload::WorkloadPlan;

/// A whole experiment: servers, and the stages in which each of them is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What is measured: one server for an assay, several for a comparison.
    pub arms: Vec<Arm>,
    /// In which stages, the run's own load first; none until it is known what there is to measure.
    pub stages: Vec<Stage>,
    /// The observers that were asked for by name; empty for the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observe: Vec<String>,
    /// The machines that the load comes from, as typed; empty where it is the measuring process alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
}

/// One kind of load, over its points.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stage {
    /// By which its trials know it.
    pub id: StageId,
    /// What runs its trials.
    #[serde(default)]
    pub driver: DriverConfig,
    /// Its points, trials and windows.
    #[serde(flatten)]
    pub plan: Plan,
}

/// What runs the trials of a stage, and what it is to do beyond its plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DriverConfig {
    /// Scripts over the wire, by the load engine.
    #[default]
    Wire,
    /// Nothing: the server is watched under its own load.
    OwnLoad,
    /// The same scripts against a peer that answers at once.
    Ceiling,
    /// Sessions that call primitives inside the server.
    InServer(Box<PrimitivesPlan>),
    /// Threads on kernels, without a server.
    Kernels(Box<KernelsPlan>),
    /// One statement in several ways.
    QueryWays {
        /// Whether instructions are counted as well.
        instructions: bool,
    },
    /// PGIO's workload.
    Pgio(PgioPlan),
    /// Reads of scattered blocks.
    ScatteredRead(ScatteredPlan),
}

/// The points of a stage, how often and how long each is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// What the clients do; of other loads its name alone.
    pub workload: WorkloadPlan,
    /// Under which concurrency.
    pub points: Vec<Point>,
    /// Trials of each arm at each point.
    pub trials: u32,
    /// Load before the window of a trial that is not counted, in milliseconds.
    pub warmup_ms: u64,
    /// The counted window of a trial, in milliseconds.
    pub window_ms: u64,
    /// Seed of the schedule and of the clients' random numbers.
    pub seed: u64,
    /// Trials in which programs other than server and client, and the hypervisor's other guests, took more
    /// than this share of all CPU time do not count; none where all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed_above: Option<f64>,
}

/// One server under measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Short name in tables: `A`, `B`, or the target itself.
    pub label: String,
    /// The server in words.
    pub target: String,
    /// The target as typed, without passwords; empty where none was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub typed: String,
    /// Load on this running server was allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub load: bool,
    /// Settings asked for by `--set`, in the order given.
    pub settings: Vec<(String, String)>,
    /// What it was given of the machine.
    #[serde(flatten)]
    pub confinement: ConfinementPlan,
    /// What it has of each axis that is varied beside clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisValue>,
}

impl Experiment {
    /// Of one stage.
    pub fn single(arms: Vec<Arm>, stage: Stage) -> Self {
        Self {
            arms,
            stages: vec![stage],
            observe: Vec::new(),
            from: Vec::new(),
        }
    }

    /// A stage, where the experiment has it.
    pub fn stage(&self, id: StageId) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.id == id)
    }

    /// The plan of the first stage, the run's own load; an empty one until it is known.
    pub fn plan(&self) -> &Plan {
        static UNKNOWN: LazyLock<Plan> = LazyLock::new(Plan::default);
        self.stages.first().map_or(&UNKNOWN, |stage| &stage.plan)
    }

    /// The same, to be changed.
    pub fn plan_mut(&mut self) -> Option<&mut Plan> {
        self.stages.first_mut().map(|stage| &mut stage.plan)
    }

    /// Whether something beside clients is varied: its servers are the values.
    pub fn has_axes(&self) -> bool {
        self.arms.iter().any(|arm| !arm.axes.is_empty())
    }

    /// The trials that are planned in all, but for those beside the load that are not sure to be had.
    pub fn trials(&self) -> usize {
        let planned = self.stages.iter().filter(|stage| stage.id.is_promised());
        planned.map(|stage| stage.trials(self.arms.len())).sum()
    }
}

impl Stage {
    /// Scripts over the wire.
    pub fn wire(id: StageId, plan: Plan) -> Self {
        Self {
            id,
            driver: DriverConfig::Wire,
            plan,
        }
    }

    /// How many trials there are in all.
    pub fn trials(&self, arms: usize) -> usize {
        arms * self.plan.points.len() * self.plan.trials as usize
    }
}

impl Plan {
    /// Seconds that the load of all slices takes on one server, without what lies between.
    pub fn load_seconds(&self) -> f64 {
        let slices = self.points.len() * self.trials as usize;
        slices as f64 * (self.warmup_ms + self.window_ms) as f64 / 1000.0
    }

    /// The largest number of clients of any point; 0 without points.
    pub fn max_clients(&self) -> u32 {
        self.points.iter().map(|p| p.clients).max().unwrap_or(0)
    }
}
