//! The scaling law over a recorded sweep: what `pgassay fit` answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::curves;
use crate::stats::Estimate;
use crate::stats::scaling::{REACH, Scaling};
use crate::wire::{self, Curve};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/fit/1";

/// The fits of one run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Fit {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the run directory.
    pub run: String,
    /// The workload that was swept.
    pub workload: String,
    /// CPUs of the machine; counts beyond are left out.
    pub cpus: Option<u32>,
    /// One entry an arm; of loads inside the server, one a variant.
    pub arms: Vec<ArmFit>,
}

/// The fit of one arm, or why there is none.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ArmFit {
    /// Short name of the arm, or which variant of the load.
    pub label: String,
    /// The coefficients.
    pub scaling: Option<Scaling>,
    /// Why no fit is given.
    pub refused: Option<String>,
    /// What the coefficients say, in plain sentences.
    pub words: Vec<String>,
    /// Throughput, measured and fitted, at each client count of the run, and the
    /// fit at up to twice the largest that was fitted.
    pub points: Vec<FitPoint>,
}

/// One client count.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FitPoint {
    /// Clients.
    pub clients: u32,
    /// Measured; none where it is a prediction.
    pub measured_tps: Option<Estimate>,
    /// By the law, with the interval of the curve.
    pub fitted_tps: Option<Estimate>,
}

/// Fits every arm of a run. Projections to other numbers of clients only: a sweep
/// over clients says nothing about other numbers of CPUs.
pub fn fit(analysis: &Analysis) -> Fit {
    Fit {
        schema: SCHEMA.to_owned(),
        run: analysis.run.id.clone(),
        workload: analysis.main().plan.workload.name.clone(),
        cpus: analysis.host.cpus,
        arms: curves::of(analysis)
            .iter()
            .map(|curve| {
                let arm = analysis.arms.get(curve.arm).map(|arm| arm.label.clone());
                let label = curve.load.clone().or(arm).unwrap_or_default();
                fit_curve(label, curve, analysis.host.cpus, analysis.main().plan.seed)
            })
            .collect(),
    }
}

fn fit_curve(label: String, curve: &Curve, cpus: Option<u32>, seed: u64) -> ArmFit {
    let (scaling, refused) = match wire::of_points(&curve.points, cpus, seed) {
        Ok(scaling) => (Some(scaling), None),
        Err(refusal) => (None, Some(refusal.to_string())),
    };
    let at = |clients: u32| scaling.as_ref()?.predict(f64::from(clients)).ok();
    let mut points: Vec<FitPoint> = curve
        .points
        .iter()
        .map(|point| FitPoint {
            clients: point.clients,
            measured_tps: Some(point.throughput.clone()),
            fitted_tps: at(point.clients),
        })
        .collect();
    if let Some(largest) = scaling.as_ref().and_then(|s| s.fitted.last()) {
        let furthest = (f64::from(*largest) * REACH) as u32;
        if points.iter().all(|p| p.clients != furthest) {
            points.push(FitPoint {
                clients: furthest,
                measured_tps: None,
                fitted_tps: at(furthest),
            });
            points.sort_by_key(|p| p.clients);
        }
    }
    ArmFit {
        label,
        words: scaling.as_ref().map(words).unwrap_or_default(),
        scaling,
        refused,
        points,
    }
}

/// Contention, coherence and the peak in words; what the interval does not tell
/// from nothing is said to be so.
fn words(scaling: &Scaling) -> Vec<String> {
    let percent = |v: f64| format!("{:.2} %", 100.0 * v);
    let (sigma, kappa) = (&scaling.sigma.value, &scaling.kappa.value);
    let mut words = vec![if sigma.low > 0.0 {
        format!(
            "Contention: {} of the work can be done by only one at a time ({} to {}), so that more \
             clients can never do more than about {:.0} times what one does.",
            percent(sigma.estimate),
            percent(sigma.low),
            percent(sigma.high),
            (1.0 / sigma.estimate).max(1.0)
        )
    } else {
        format!(
            "Contention was not shown; up to {} of the work may be done by only one at a time.",
            percent(sigma.high)
        )
    }];
    words.push(if kappa.low > 0.0 {
        format!(
            "Coherence: each further client costs every other {:.1e} of its work ({:.1e} to {:.1e}), \
             so that throughput falls in the end.",
            kappa.estimate, kappa.low, kappa.high
        )
    } else {
        "Coherence was not shown: nothing here says that throughput falls in the end.".to_owned()
    });
    if let (Some(peak), true) = (&scaling.peak, kappa.low > 0.0) {
        let largest = scaling.fitted.last().copied().unwrap_or(0);
        let beyond = if peak.estimate > f64::from(largest) {
            ", beyond what was measured"
        } else {
            ""
        };
        words.push(format!(
            "Throughput is highest near {:.0} clients ({:.0} to {:.0}){beyond}.",
            peak.estimate, peak.low, peak.high
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ScalingPoint;
    use crate::stats::scaling;

    fn scaling(kappa: f64) -> Scaling {
        let law = |n: f64| 1000.0 * n / (1.0 + 0.05 * (n - 1.0) + kappa * n * (n - 1.0));
        let sweep: Vec<ScalingPoint> = [1u32, 2, 4, 8, 16, 32]
            .into_iter()
            .enumerate()
            .map(|(i, n)| ScalingPoint {
                n,
                // off the law by one part in a thousand, to both sides
                throughput: vec![law(f64::from(n)) * (1.0 + [1e-3, -1e-3][i % 2])],
                client_bound: false,
            })
            .collect();
        scaling::fit(&sweep, None, 1).expect("follows the law")
    }

    #[test]
    fn the_coefficients_are_put_into_words() {
        let said = words(&scaling(1e-3));
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("Contention: 5.") || said[0].starts_with("Contention: 4."));
        assert!(said[0].contains("20 times"), "{}", said[0]);
        assert!(said[2].contains("near 31 clients"), "{}", said[2]);
    }

    #[test]
    fn what_was_not_shown_is_not_claimed() {
        let said = words(&scaling(0.0));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[1].starts_with("Coherence was not shown"));
    }
}
