//! Throughput over concurrency, whatever the load counts: what can be fitted and followed of any run.

use crate::analysis::{Analysis, PointAnalysis, StageArm};
use crate::metrics::{MetricId, SERVER_CPU, THROUGHPUT};
use crate::stats::Estimate;

/// One load of a run over its client or session counts.
pub(crate) struct Curve<'a> {
    /// Which of the run's loads; none where it has one.
    pub load: Option<String>,
    /// Which arm: its index.
    pub arm: usize,
    /// One entry a count, ascending.
    pub points: Vec<CurvePoint<'a>>,
}

/// One count.
pub(crate) struct CurvePoint<'a> {
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
    wire: Option<&'a PointAnalysis>,
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

/// All curves of a run that have a point: of clients over the wire one an arm, else one a variant.
pub(crate) fn of(analysis: &Analysis) -> Vec<Curve<'_>> {
    let load = analysis.main();
    let arms = load.arms.iter().enumerate();
    let mut curves: Vec<Curve> = arms.map(|(index, arm)| wire(index, arm)).collect();
    if load.id != pgassay_model::stage::StageId::Load {
        curves.extend(pgio(analysis));
        curves.extend(analysis.primitives.iter().map(|primitive| {
            let points = primitive.points.iter().map(|point| CurvePoint {
                clients: point.sessions,
                throughput: point.operations_per_second.clone(),
                trials: point.trials.clone(),
                server_cpu_us: Some(scaled(&point.server_cpu_ns_per_operation, 1e-3)),
                client_bound: false,
                wire: None,
            });
            Curve {
                load: Some(primitive.variant.title()),
                arm: 0,
                points: points.collect(),
            }
        }));
        curves.extend(scattered(analysis));
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
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

/// Blocks that PGIO's sessions looked at.
fn pgio(analysis: &Analysis) -> Option<Curve<'_>> {
    let points = analysis.pgio.as_ref()?.points.iter();
    let points = points.map(|point| CurvePoint {
        clients: point.sessions,
        throughput: point.logical_reads_per_second.clone(),
        trials: point.trials.clone(),
        server_cpu_us: point
            .logical_reads_per_cpu_second
            .as_ref()
            .map(|rate| inverse(rate, 1e6)),
        client_bound: false,
        wire: None,
    });
    Some(Curve {
        load: None,
        arm: 0,
        points: points.collect(),
    })
}

/// Cold executions of each way of reading.
fn scattered(analysis: &Analysis) -> Vec<Curve<'_>> {
    let variants = analysis.scattered_read.iter().flat_map(|s| &s.variants);
    let curve = |variant: &crate::scattered::VariantAnalysis| {
        let cold = variant.cold.as_ref()?;
        Some(Curve {
            load: Some(variant.title.clone()),
            arm: 0,
            points: vec![CurvePoint {
                clients: 1,
                throughput: inverse(&cold.execution_ms, 1e3),
                trials: Vec::new(),
                server_cpu_us: None,
                client_bound: false,
                wire: None,
            }],
        })
    };
    variants.filter_map(curve).collect()
}

fn scaled(estimate: &Estimate, factor: f64) -> Estimate {
    Estimate {
        estimate: estimate.estimate * factor,
        low: estimate.low * factor,
        high: estimate.high * factor,
        ..estimate.clone()
    }
}

/// `whole` divided by it: from milliseconds a rate per second with 1e3, from a rate per second
/// microseconds with 1e6.
fn inverse(estimate: &Estimate, whole: f64) -> Estimate {
    Estimate {
        estimate: whole / estimate.estimate,
        low: whole / estimate.high,
        high: whole / estimate.low,
        ..estimate.clone()
    }
}
