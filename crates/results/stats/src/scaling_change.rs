//! Did scaling change between two builds, and in which coefficient?

use super::estimate::{Estimate, LEVEL};
use super::scaling::{Coefficient, Scaling};
use serde::{Deserialize, Serialize};

/// What changed between the scaling of two builds, B less A.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScalingChange {
    /// λ of B divided by that of A.
    pub lambda_ratio: Estimate,
    /// σ of B less that of A.
    pub sigma: Estimate,
    /// κ of B less that of A.
    pub kappa: Estimate,
}

impl ScalingChange {
    /// Compares two fits. The intervals are 95 % each; a change is shown where one
    /// does not hold "no change".
    pub fn between(a: &Scaling, b: &Scaling) -> Self {
        let difference = |x: &Coefficient, y: &Coefficient, f: fn(f64) -> f64| {
            // independent sides: half-widths add as squares, each end with the
            // half-width that points to it
            let (x, y) = (&x.value, &y.value);
            let (fx, fy) = (f(x.estimate), f(y.estimate));
            let centre = fy - fx;
            Estimate {
                estimate: centre,
                low: centre - (fy - f(y.low)).hypot(f(x.high) - fx),
                high: centre + (f(y.high) - fy).hypot(fx - f(x.low)),
                level: x.level.min(y.level),
                n: x.n.min(y.n),
                warnings: Vec::new(),
            }
        };
        let log = |v: f64| v.max(f64::MIN_POSITIVE).ln();
        Self {
            lambda_ratio: difference(&a.lambda, &b.lambda, log).map(f64::exp),
            sigma: difference(&a.sigma, &b.sigma, |v| v),
            kappa: difference(&a.kappa, &b.kappa, |v| v),
        }
    }

    /// Whether contention changed.
    pub fn sigma_changed(&self) -> bool {
        self.sigma.level >= LEVEL && !self.sigma.holds(0.0)
    }

    /// Whether coherence changed.
    pub fn kappa_changed(&self) -> bool {
        self.kappa.level >= LEVEL && !self.kappa.holds(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scaling::{fit, tests::sweep};
    use super::*;

    #[test]
    fn tells_which_coefficient_changed() {
        let a = fit(&sweep([1000.0, 0.05, 1e-3], 8, 0.005, 1), None, 1).expect("a fit");
        let b = fit(&sweep([1000.0, 0.05, 2e-3], 8, 0.005, 2), None, 1).expect("a fit");
        let change = ScalingChange::between(&a, &b);
        assert!(
            change.kappa_changed() && !change.sigma_changed(),
            "{change:?}"
        );
        assert!(change.lambda_ratio.holds(1.0));
        let same = ScalingChange::between(&a, &a);
        assert!(!same.kappa_changed() && same.kappa.estimate == 0.0);
    }
}
