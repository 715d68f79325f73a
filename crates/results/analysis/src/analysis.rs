//! The analysed form of a run: what every report format renders.
//!
//! Text, HTML, JSON and markdown are views of this one value, so none of them
//! knows more than another. Units stand in the names. Serialized it is the
//! document `pgassay/analysis/1`, described in `docs/schema/analysis-1.json`.

use std::sync::LazyLock;

use pgassay_model::kernel_counts::KernelCounts;
use pgassay_model::plan::Plan;
use pgassay_model::primitives::Compiled;
use pgassay_model::scattered::ScatteredPlan;
use pgassay_model::stage::StageId;
use pgassay_model::storage::Storage;
use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::axes::Course;
use crate::check::CheckReport;
use crate::diagnose::{Cause, Diagnosis};
use crate::host::HostSummary;
use crate::measured::{ArmAnalysis, RunInfo, StageArm};
use crate::pgio::PgioAnalysis;
use crate::primitives::PrimitiveAnalysis;
use crate::quality::Quality;
use crate::query_cost::QueryCost;
use crate::scattered::VariantAnalysis;
use crate::scattered::remedies::Remedy;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/analysis/1";

/// Everything that was concluded from one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// [`SCHEMA`].
    pub schema: String,
    /// Which run this is.
    pub run: RunInfo,
    /// The result in a few plain sentences, the most important first.
    pub headline: Vec<String>,
    /// The machine that it ran on.
    pub host: HostSummary,
    /// The servers, in the experiment's order.
    pub arms: Vec<ArmAnalysis>,
    /// What each load showed of them, in the experiment's order: the run's own load first.
    pub stages: Vec<StageAnalysis>,
    /// Throughput over what was varied beside clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Course>,
    /// Primitives inside the server, where they were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primitives: Vec<PrimitiveAnalysis>,
    /// How the functions that measured them were compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primitives_compiled: Option<Compiled>,
    /// Where the CPU time of a query goes, over the wire and inside the server, where it was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_cost: Option<QueryCost>,
    /// What kernels execute on other processors, counted under an emulator; no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_counts: Option<KernelCounts>,
    /// The audit of host and server, where one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReport>,
    /// Scattered reads, where they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scattered_read: Option<ScatteredAnalysis>,
    /// What holds the server back by all loads and the audit together, the most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// PGIO's workload, where it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pgio: Option<PgioAnalysis>,
    /// How far it was disturbed; none where no load had points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// What qualifies the run as a whole.
    pub warnings: Vec<Warning>,
}

impl Analysis {
    /// The run's own load: its first stage, an empty one until it is known.
    pub fn main(&self) -> &StageAnalysis {
        static UNKNOWN: LazyLock<StageAnalysis> = LazyLock::new(StageAnalysis::default);
        self.stages.first().unwrap_or(&UNKNOWN)
    }

    /// The loads after it that clients put on the server over the wire.
    pub fn further_loads(&self) -> impl Iterator<Item = &StageAnalysis> {
        let further = self.stages.iter().skip(1);
        further.filter(|stage| stage.has_points())
    }
}

/// What one load of the experiment showed, from its own trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageAnalysis {
    /// Which load it is.
    pub id: StageId,
    /// Its plan, as recorded.
    pub plan: Plan,
    /// One entry a server, in the order of [`Analysis::arms`].
    pub arms: Vec<StageArm>,
    /// Known bottlenecks that were found, where one server was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
}

impl StageAnalysis {
    /// Whether clients loaded a server over the wire.
    pub fn has_points(&self) -> bool {
        self.arms.iter().any(|arm| !arm.points.is_empty())
    }
}

/// Scattered reads: the table, and each way of reading it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScatteredAnalysis {
    /// What was read and how.
    pub plan: ScatteredPlan,
    /// The ways of reading that were measured.
    pub variants: Vec<VariantAnalysis>,
    /// Of somebody's own reads: which of the ways that were tried reads less.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// What lies under the data directory.
    pub storage: Option<Storage>,
}
