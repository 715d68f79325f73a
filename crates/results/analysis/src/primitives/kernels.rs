//! What kernels say: the forms of each family held together.

use super::{PrimitiveAnalysis, PrimitivePoint};
use crate::number;

/// A sentence a family: its forms by the CPU time of an operation, at the most threads that have a CPU
/// each.
pub fn headline(forms: &[PrimitiveAnalysis], cpus: Option<u32>) -> Vec<String> {
    let mut families: Vec<&str> = forms.iter().map(|f| f.variant.primitive.as_str()).collect();
    families.dedup();
    families
        .into_iter()
        .filter_map(|family| {
            let of_family = forms.iter().filter(|f| f.variant.primitive == family);
            let mut costs: Vec<(&str, &PrimitivePoint)> = of_family
                .filter_map(|form| Some((form.variant.variant.as_str(), at_most(form, cpus)?)))
                .collect();
            costs.sort_by(|a, b| cost(a.1).total_cmp(&cost(b.1)));
            let threads = costs.first()?.1.sessions;
            let named: Vec<String> = costs
                .iter()
                .map(|(name, point)| format!("{name} {}", nanoseconds(cost(point))))
                .collect();
            Some(format!(
                "{family}, CPU time of an operation in {}: {}.",
                number::counted(threads, "thread"),
                named.join("; ")
            ))
        })
        .collect()
}

/// The point with the most threads of those that have a CPU each; else the first.
fn at_most(form: &PrimitiveAnalysis, cpus: Option<u32>) -> Option<&PrimitivePoint> {
    let has_cpus = |point: &&PrimitivePoint| cpus.is_none_or(|cpus| point.sessions <= cpus);
    form.points
        .iter()
        .filter(has_cpus)
        .max_by_key(|point| point.sessions)
        .or_else(|| form.points.first())
}

fn cost(point: &PrimitivePoint) -> f64 {
    point.server_cpu_ns_per_operation.estimate
}

fn nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns >= 1e4 => format!("{:.0} µs", ns / 1e3),
        ns if ns >= 100.0 => format!("{ns:.0} ns"),
        ns => format!("{ns:.1} ns"),
    }
}
