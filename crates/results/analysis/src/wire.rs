//! Throughput over concurrency of clients over the wire, and the scaling law over it.

use crate::measured::{PointAnalysis, StageArm};
use crate::metrics::{MetricId, SERVER_CPU, THROUGHPUT};
use crate::stats::Estimate;
use crate::stats::scaling::{self, Refusal, Scaling, ScalingPoint};

/// One load of a run over its client or session counts.
pub struct Curve<'a> {
    /// Which of the run's loads; none where it has one.
    pub load: Option<String>,
    /// Which arm: its index.
    pub arm: usize,
    /// One entry a count, ascending.
    pub points: Vec<CurvePoint<'a>>,
}

/// One count.
pub struct CurvePoint<'a> {
    /// Clients, or sessions.
    pub clients: u32,
    /// Units of work a second.
    pub throughput: Estimate,
    /// The same of each trial, where trials are told apart.
    pub trials: Vec<f64>,
    /// CPU time of the server for each unit, microseconds.
    pub server_cpu_us: Option<Estimate>,
    /// The client, and not the server, was what limited it.
    pub client_bound: bool,
    /// Everything else that is known of clients over the wire.
    pub wire: Option<&'a PointAnalysis>,
}

impl CurvePoint<'_> {
    /// A metric here; none where this load has it not.
    pub fn metric(&self, metric: MetricId) -> Option<Estimate> {
        match &self.wire {
            Some(point) => point.estimate(metric).cloned(),
            None if metric == THROUGHPUT => Some(self.throughput.clone()),
            None if metric == SERVER_CPU => self.server_cpu_us.clone(),
            None => None,
        }
    }
}

/// The points of clients over the wire.
pub(crate) fn wire(index: usize, arm: &StageArm) -> Curve<'_> {
    let points = arm.points.iter().map(|point| CurvePoint {
        clients: point.point.clients,
        throughput: point.throughput_tps.clone(),
        trials: point.trials.iter().map(|t| t.throughput_tps).collect(),
        server_cpu_us: point.estimate(SERVER_CPU).cloned(),
        client_bound: point.warnings.iter().any(|w| w.id == "client-bound"),
        wire: Some(point),
    });
    Curve {
        load: None,
        arm: index,
        points: points.collect(),
    }
}

/// The scaling law over the client counts of a server, or why there is none.
pub(crate) fn scaling(arm: &StageArm, cpus: Option<u32>, seed: u64) -> Result<Scaling, Refusal> {
    of_points(&wire(0, arm).points, cpus, seed)
}

/// The same over any curve's points.
pub(crate) fn of_points(
    points: &[CurvePoint],
    cpus: Option<u32>,
    seed: u64,
) -> Result<Scaling, Refusal> {
    let sweep: Vec<ScalingPoint> = points
        .iter()
        .map(|point| ScalingPoint {
            n: point.clients,
            throughput: point.trials.clone(),
            client_bound: point.client_bound,
        })
        .collect();
    scaling::fit(&sweep, cpus, seed)
}
