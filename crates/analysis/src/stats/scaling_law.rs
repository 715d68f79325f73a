//! The Universal Scalability Law and its least-squares fit: numbers in, numbers
//! out. What may be fitted and what a fit is worth is decided in `scaling`.
//!
//! X(N) = λN / (1 + σ(N−1) + κN(N−1)) (N. Gunther, Guerrilla Capacity Planning,
//! 2007): λ is what one does alone, σ the share of work that only one at a time
//! can do (contention), κ what each pair costs to keep in agreement (coherence).

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn, Matrix3, Vector3};

/// λ, σ and κ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law(pub [f64; 3]);

impl Law {
    fn denominator(self, n: f64) -> f64 {
        let [_, sigma, kappa] = self.0;
        // away from the physical range it may reach 0, where a step of the fit
        // must merely look bad
        (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)).max(1e-9)
    }

    /// Throughput at n.
    pub fn at(self, n: f64) -> f64 {
        self.0[0] * n / self.denominator(n)
    }

    /// The derivatives of the throughput at n by λ, σ and κ.
    pub fn gradient(self, n: f64) -> [f64; 3] {
        let d = self.denominator(n);
        let by_sigma = -self.0[0] * n * (n - 1.0) / (d * d);
        [n / d, by_sigma, by_sigma * n]
    }

    /// Where throughput is highest; none where it never falls.
    pub fn peak(self) -> Option<f64> {
        let [_, sigma, kappa] = self.0;
        (kappa > 0.0).then(|| ((1.0 - sigma).max(0.0) / kappa).sqrt().max(1.0))
    }
}

/// A least-squares fit, some parameters perhaps held at 0.
#[derive(Debug, Clone)]
pub(crate) struct LeastSquares {
    pub law: Law,
    /// Which of λ, σ, κ were fitted; the others are 0.
    pub free: [bool; 3],
    /// Sum of the squared residuals.
    pub sum: f64,
    /// Points less fitted parameters.
    pub degrees: usize,
    /// Of λ, σ, κ; rows and columns of those held are 0. `None` where the points
    /// do not determine them.
    pub covariance: Option<[[f64; 3]; 3]>,
}

/// Fits by least squares with σ, κ ≥ 0. Where the free fit leaves that range, the
/// best fit on its border is taken (one of them, or both, held at 0), which is the
/// constrained minimum. `None` where nothing converges.
pub(crate) fn least_squares(n: &[f64], x: &[f64]) -> Option<LeastSquares> {
    let physical = |fit: &LeastSquares| fit.law.0.iter().all(|v| v.is_finite() && *v >= 0.0);
    if let Some(fit) = on_face(n, x, [true, true, true]).filter(physical) {
        return Some(fit);
    }
    let border = [[true, true, false], [true, false, true]];
    border
        .into_iter()
        .filter_map(|free| on_face(n, x, free).filter(physical))
        .min_by(|a, b| a.sum.total_cmp(&b.sum))
        .or_else(|| on_face(n, x, [true, false, false]).filter(physical))
}

/// Fits with the given parameters free and the others 0.
fn on_face(n: &[f64], x: &[f64], free: [bool; 3]) -> Option<LeastSquares> {
    let fitted = free.iter().filter(|f| **f).count();
    let degrees = n.len().checked_sub(fitted)?;
    let scale = x.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    if scale <= 0.0 || !scale.is_finite() {
        return None;
    }
    // in units of the largest throughput and of one unit's: all near 1
    let x: Vec<f64> = x.iter().map(|v| v / scale).collect();
    let problem = Problem {
        n,
        x: &x,
        free,
        law: start(n, &x, free)?,
    };
    let (problem, report) = LevenbergMarquardt::new()
        .with_patience(200)
        .minimize(problem);
    if !report.termination.was_successful() {
        return None;
    }
    let sum = 2.0 * report.objective_function;
    let covariance = covariance(
        &problem,
        if degrees > 0 {
            sum / degrees as f64
        } else {
            0.0
        },
    );
    let mut law = problem.law;
    law.0[0] *= scale;
    let unit = [scale, 1.0, 1.0];
    Some(LeastSquares {
        law,
        free,
        sum: sum * scale * scale,
        degrees,
        covariance: covariance.map(|c| {
            std::array::from_fn(|i| std::array::from_fn(|j| c[(i, j)] * unit[i] * unit[j]))
        }),
    })
}

/// A first guess: N/X = (1 + σ(N−1) + κN(N−1)) / λ is linear in 1/λ, σ/λ and κ/λ;
/// weighted so that its errors count as those of X do.
fn start(n: &[f64], x: &[f64], free: [bool; 3]) -> Option<Law> {
    let mut normal = Matrix3::<f64>::zeros();
    let mut right = Vector3::<f64>::zeros();
    for (&n, &x) in n.iter().zip(x) {
        if x <= 0.0 {
            continue;
        }
        let weight = (x * x / n).powi(2);
        let row = [1.0, n - 1.0, n * (n - 1.0)];
        let row = Vector3::from_fn(|i, _| if free[i] { row[i] } else { 0.0 });
        normal += weight * row * row.transpose();
        right += weight * row * (n / x);
    }
    for i in 0..3 {
        if !free[i] {
            normal[(i, i)] = 1.0;
        }
    }
    let solved = normal.lu().solve(&right)?;
    if solved[0] > 0.0 {
        Some(Law([
            1.0 / solved[0],
            solved[1] / solved[0],
            solved[2] / solved[0],
        ]))
    } else {
        let alone = n.iter().zip(x).map(|(n, x)| x / n).fold(0.0, f64::max);
        Some(Law([
            alone,
            if free[1] { 0.1 } else { 0.0 },
            if free[2] { 1e-3 } else { 0.0 },
        ]))
    }
}

fn covariance(problem: &Problem<'_>, variance: f64) -> Option<Matrix3<f64>> {
    let mut information = Matrix3::<f64>::zeros();
    for n in problem.n {
        let g = problem.law.gradient(*n);
        let g = Vector3::from_fn(|i, _| if problem.free[i] { g[i] } else { 0.0 });
        information += g * g.transpose();
    }
    // σ and κ differ by orders of magnitude: scaled to a unit diagonal first
    let size = Vector3::from_fn(|i, _| {
        let d = information[(i, i)].sqrt();
        if problem.free[i] && d > 0.0 { d } else { 1.0 }
    });
    let scaled = Matrix3::from_fn(|i, j| {
        if i == j && !problem.free[i] {
            1.0
        } else {
            information[(i, j)] / (size[i] * size[j])
        }
    });
    let inverse = scaled.try_inverse()?;
    let covariance = Matrix3::from_fn(|i, j| {
        if problem.free[i] && problem.free[j] {
            inverse[(i, j)] * variance / (size[i] * size[j])
        } else {
            0.0
        }
    });
    let sound = (0..3).all(|i| covariance[(i, i)].is_finite() && covariance[(i, i)] >= 0.0);
    sound.then_some(covariance)
}

struct Problem<'a> {
    n: &'a [f64],
    x: &'a [f64],
    free: [bool; 3],
    law: Law,
}

impl Problem<'_> {
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        (0..3).filter(|i| self.free[*i])
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, values: &DVector<f64>) {
        let places: Vec<usize> = self.places().collect();
        for (place, value) in places.into_iter().zip(values.iter()) {
            self.law.0[place] = *value;
        }
    }

    fn params(&self) -> DVector<f64> {
        DVector::from_iterator(self.places().count(), self.places().map(|i| self.law.0[i]))
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let points = self.n.iter().zip(self.x);
        Some(DVector::from_iterator(
            self.n.len(),
            points.map(|(n, x)| self.law.at(*n) - x),
        ))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let places: Vec<usize> = self.places().collect();
        Some(DMatrix::from_fn(
            self.n.len(),
            places.len(),
            |row, column| self.law.gradient(self.n[row])[places[column]],
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const N: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    proptest! {
        #[test]
        fn finds_the_law_that_made_the_points(
            lambda in 1.0f64..1e6, sigma in 0.0f64..0.5, kappa in 0.0f64..0.01,
        ) {
            let law = Law([lambda, sigma, kappa]);
            let x: Vec<f64> = N.iter().map(|n| law.at(*n)).collect();
            let got = least_squares(&N, &x).expect("a fit").law.0;
            prop_assert!((got[0] / lambda - 1.0).abs() < 1e-5);
            prop_assert!((got[1] - sigma).abs() < 1e-5 && (got[2] - kappa).abs() < 1e-6);
        }

        #[test]
        fn the_gradient_is_the_derivative(n in 1.0f64..200.0, sigma in 0.0f64..0.5, kappa in 0.0f64..0.01) {
            let law = Law([10.0, sigma, kappa]);
            for (i, slope) in law.gradient(n).into_iter().enumerate() {
                let step = 1e-6 * law.0[i].max(1e-3);
                let [mut less, mut more] = [law; 2];
                less.0[i] -= step;
                more.0[i] += step;
                let want = (more.at(n) - less.at(n)) / (2.0 * step);
                prop_assert!((slope - want).abs() <= 1e-4 * want.abs().max(1e-3));
            }
        }

        #[test]
        fn the_bounded_fit_is_the_best_in_its_range(
            noise in proptest::collection::vec(0.9f64..1.1, 7), sigma in 0.0f64..0.02,
        ) {
            let law = Law([100.0, sigma, 0.0]);
            let x: Vec<f64> = N.iter().zip(&noise).map(|(n, e)| law.at(*n) * e).collect();
            let fit = least_squares(&N, &x).expect("a fit");
            prop_assert!(fit.law.0.iter().all(|v| *v >= 0.0));
            let sum = |law: Law| N.iter().zip(&x).map(|(n, x)| (law.at(*n) - x).powi(2)).sum::<f64>();
            prop_assert!((sum(fit.law) - fit.sum).abs() <= 1e-6 * fit.sum);
            for (i, step) in [(0, 0.1), (1, 1e-4), (2, 1e-6)] {
                for sign in [-1.0, 1.0] {
                    let mut near = fit.law;
                    near.0[i] = (near.0[i] + sign * step).max(0.0);
                    prop_assert!(sum(near) >= fit.sum * (1.0 - 1e-9));
                }
            }
        }
    }
}
