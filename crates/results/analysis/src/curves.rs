//! Throughput over concurrency, whatever the load counts: what can be fitted and followed of any run.

use crate::analysis::Analysis;
use crate::stats::Estimate;
use crate::wire::wire;

pub use crate::wire::{Curve, CurvePoint};

/// All curves of a run that have a point: of clients over the wire one an arm, else one a variant.
pub fn of(analysis: &Analysis) -> Vec<Curve<'_>> {
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
