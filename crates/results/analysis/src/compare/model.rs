//! The concluded form of a comparison: what every report format renders.
//!
//! Serialized it is the document `pgassay/compare/1`, described in
//! `docs/schema/compare-1.json`.

use std::collections::BTreeMap;

use pgassay_model::axis::AxisValue;
use pgassay_model::comparison::ComparisonPlan;
use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::metrics::MetricId;
use crate::stats::scaling_change::ScalingChange;
use crate::stats::{Comparison, Estimate, Forecast, NoiseFloor, Verdict};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/compare/1";

/// Everything that was concluded from one comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compare {
    /// [`SCHEMA`].
    pub schema: String,
    /// What the verdict is about.
    pub metric: MetricId,
    /// Over all arms and points: the worst that was shown, else the least sure.
    pub verdict: Verdict,
    /// The verdict in plain sentences, the most important first.
    pub headline: Vec<String>,
    /// What was planned beyond an ordinary run; none for recorded runs.
    pub plan: Option<ComparisonPlan>,
    /// One entry for each other arm and client count, against A.
    pub results: Vec<PointResult>,
    /// What differs between the arms, planned and not.
    pub differences: Vec<Difference>,
    /// Whether scaling changed, one entry for each other arm.
    pub scaling: Vec<ArmScaling>,
    /// What qualifies the comparison as a whole.
    pub warnings: Vec<Warning>,
    /// The arms by themselves, from the rounds in which they were compared; of
    /// recorded runs A's analysis with B's arms appended.
    pub analysis: Analysis,
}

/// One arm against A of its place at one client count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointResult {
    /// Index of the arm that is held against A.
    pub arm: u32,
    /// Its label.
    pub label: String,
    /// Clients.
    pub clients: u32,
    /// What both have of each axis that was varied beside clients; empty where none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisValue>,
    /// The compared metric at A, over its slices.
    pub a: Option<Estimate>,
    /// The same at the other.
    pub b: Option<Estimate>,
    /// The compared metric, the other against A: the verdict.
    pub compared: Comparison,
    /// All other metrics that both show. They are not in the verdict's family.
    pub others: BTreeMap<MetricId, Comparison>,
    /// Every pair, in the order of measurement.
    pub pairs: Vec<Pair>,
    /// Every pair of A beside its like: the noise floor.
    pub noise: Vec<Pair>,
    /// How long it takes here, by the noise floor.
    pub forecast: Option<Forecast>,
    /// Each statement of the workload, where they were measured one by one: those that got slower
    /// first, then those that run otherwise or got faster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<StatementResult>,
    /// The statements' CPU time held against the server's; none where statements were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statements_cpu: Option<StatementsCpu>,
}

/// What all statements take of the server's CPUs one at a time, against what the server used under the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementsCpu {
    /// CPU time of each statement times its calls, of all CPU time of the server in the same slices, A's first:
    /// 1 where the statements account for all of it. None where a statement or the server was not measured.
    pub accounted: (Option<f64>, Option<f64>),
    /// Why statements have no CPU time, where that is so.
    pub unavailable: Option<String>,
    /// What qualifies the statements' CPU time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// CPU time of a statement in the server, by a session that ran it with no load beside it, after each slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementCpu {
    /// An execution at A, microseconds, over its slices; parallel workers included.
    pub a: Option<Estimate>,
    /// The same at the other.
    pub b: Option<Estimate>,
    /// The other against A, in pairs that drew the same values. All statements of the comparison are one
    /// family; none where no pair has it on both sides.
    pub compared: Option<Comparison>,
    /// How often it was executed for that, A's first.
    pub executions: (u64, u64),
}

/// One statement at one client count, the other arm against A.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementResult {
    /// The script in which it stands.
    pub script: String,
    /// Place of the script in the workload, from 0.
    pub script_index: u32,
    /// Place of the statement among the script's commands, from 0.
    pub command: u32,
    /// Its text in a line, cut where it is long.
    pub text: String,
    /// Mean latency at A, microseconds, over its slices.
    pub a: Option<Estimate>,
    /// The same at the other.
    pub b: Option<Estimate>,
    /// Mean latency of the other against A. All statements of the comparison are one family of their
    /// own; none where no pair has it on both sides.
    pub compared: Option<Comparison>,
    /// 99th percentile of all its executions together, microseconds, A's first; none where fewer than
    /// five lie beyond it.
    pub p99_us: (Option<f64>, Option<f64>),
    /// How often it ended well in the pairs, A's first.
    pub calls: (u64, u64),
    /// How often it failed.
    pub failures: (u64, u64),
    /// Its share of the time of all statements, 0 to 1, A's first.
    pub time_share: (f64, f64),
    /// How the servers run it; none where they could not be asked on both sides.
    pub plan: Option<StatementPlan>,
    /// CPU time in the server; none where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<StatementCpu>,
}

/// How two servers run a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementPlan {
    /// The nodes at A: `Index Scan on t using t_pkey`.
    pub a: String,
    /// At the other.
    pub b: String,
}

impl StatementPlan {
    /// Whether they run it otherwise.
    pub fn changed(&self) -> bool {
        self.a != self.b
    }
}

impl StatementResult {
    /// What was decided of its latency.
    pub fn verdict(&self) -> Option<Verdict> {
        self.compared.as_ref().map(|compared| compared.verdict)
    }

    /// The other's CPU time against A's.
    pub fn cpu_compared(&self) -> Option<&Comparison> {
        self.cpu.as_ref()?.compared.as_ref()
    }

    /// What was decided of its CPU time.
    pub fn cpu_verdict(&self) -> Option<Verdict> {
        self.cpu_compared().map(|compared| compared.verdict)
    }

    /// Whether its latency or its CPU time was shown to differ, or its plan does.
    pub fn changed(&self) -> bool {
        let differs = |verdict| matches!(verdict, Some(Verdict::Slower | Verdict::Faster));
        differs(self.verdict()) || differs(self.cpu_verdict()) || self.plan_changed()
    }

    /// Whether the servers run it otherwise.
    pub fn plan_changed(&self) -> bool {
        self.plan.as_ref().is_some_and(StatementPlan::changed)
    }
}

/// Two slices measured next to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Launch, from 0.
    pub launch: u32,
    /// Round, from 0.
    pub round: u32,
    /// A was measured first.
    pub a_first: bool,
    /// Every metric that both slices show: A's value, then the other's.
    pub metrics: BTreeMap<MetricId, (f64, f64)>,
}

impl Pair {
    /// A metric of both slices, A's first; none where one of them does not show it.
    pub fn both(&self, metric: MetricId) -> Option<(f64, f64)> {
        self.metrics.get(&metric).copied()
    }

    /// A metric of the other divided by A's.
    pub fn ratio(&self, metric: MetricId) -> Option<f64> {
        self.both(metric).map(|(a, b)| b / a)
    }
}

/// Something in which an arm differs from A.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Index of the arm that is held against A.
    pub arm: u32,
    /// Of what kind.
    pub kind: Kind,
    /// What it is: a setting's name, `version`, a function.
    pub name: String,
    /// At A.
    pub a: String,
    /// At the other arm.
    pub b: String,
    /// It was asked for, or follows from the targets that were named.
    pub planned: bool,
}

/// Kinds of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Version of the server.
    Version,
    /// How the executable was built.
    Build,
    /// Atomic instructions of a function.
    Code,
    /// A setting in force.
    Setting,
    /// The shape of a query's plan.
    Plan,
    /// Size or rows of a table.
    Data,
    /// Blocks read into shared buffers for each transaction.
    Misses,
}

/// Whether an arm scales otherwise than A.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmScaling {
    /// Index of the arm that is held against A.
    pub arm: u32,
    /// Its label.
    pub label: String,
    /// What changed between the two fits.
    pub change: Option<ScalingChange>,
    /// Why nothing can be said.
    pub refused: Option<String>,
    /// The same in plain sentences.
    pub words: Vec<String>,
}

impl PointResult {
    /// A metric of the other against A's; none where one of them does not show it.
    pub fn comparison(&self, compared: MetricId, metric: MetricId) -> Option<&Comparison> {
        match metric == compared {
            true => Some(&self.compared),
            false => self.others.get(&metric),
        }
    }

    /// The noise floor, where equal servers were measured.
    pub fn noise_floor(&self) -> Option<&NoiseFloor> {
        self.compared.noise_floor.as_ref()
    }
}
