//! The concluded form of a comparison: what every report format renders.
//!
//! Serialized it is the document `pgassay/compare/1`, described in
//! `docs/schema/compare-1.json`.

use std::collections::BTreeMap;

use pgassay_model::warning::Warning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::comparison::ComparisonPlan;
use crate::metrics::MetricId;
use crate::stats::scaling_change::ScalingChange;
use crate::stats::{Comparison, Estimate, Forecast, NoiseFloor, Verdict};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/compare/1";

/// Everything that was concluded from one comparison.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
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

/// One arm against A at one client count.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PointResult {
    /// Index of the arm that is held against A.
    pub arm: u32,
    /// Its label.
    pub label: String,
    /// Clients.
    pub clients: u32,
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
}

/// Two slices measured next to each other.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
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
