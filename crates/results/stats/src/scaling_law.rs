//! The Universal Scalability Law and its least-squares fit: numbers in, numbers
//! out. What may be fitted and what a fit is worth is decided in `scaling`.
//!
//! X(N) = λN / (1 + σ(N−1) + κN(N−1)) (N. Gunther, Guerrilla Capacity Planning,
//! 2007): λ is what one does alone, σ the share of work that only one at a time
//! can do (contention), κ what each pair costs to keep in agreement (coherence).

use std::array;

/// How many times the sum of squares is computed before a fit is given up.
const EVALUATIONS: usize = 800;
/// The relative change of the sum of squares and of the coefficients at which a fit has
/// converged.
const TOLERANCE: f64 = 30.0 * f64::EPSILON;
/// The share of a column that must be independent of the others.
const DEPENDENT: f64 = 1e-14;

/// λ, σ and κ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law(pub [f64; 3]);

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
pub struct LeastSquares {
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
pub fn least_squares(n: &[f64], x: &[f64]) -> Option<LeastSquares> {
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
    let x = x.iter().map(|v| v / scale).collect();
    let problem = Problem { n, x, free };
    let (mut law, sum) = problem.minimum(problem.start()?)?;
    let triangle = Triangle::of(problem.linearized(law));
    let variance = if degrees > 0 {
        sum / degrees as f64
    } else {
        0.0
    };
    let unit = [scale, 1.0, 1.0];
    let covariance = triangle.determines(free).then(|| {
        let inverse = triangle.inverse_of_square();
        array::from_fn(|i| array::from_fn(|j| inverse[i][j] * variance * unit[i] * unit[j]))
    });
    law.0[0] *= scale;
    Some(LeastSquares {
        law,
        free,
        sum: sum * scale * scale,
        degrees,
        covariance,
    })
}

struct Problem<'a> {
    n: &'a [f64],
    x: Vec<f64>,
    free: [bool; 3],
}

impl Problem<'_> {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.n.iter().copied().zip(self.x.iter().copied())
    }

    /// A row of a linear problem: the factors of the parameters, 0 for those held, and
    /// the right-hand side.
    fn row(&self, factors: [f64; 3], right: f64) -> [f64; 4] {
        let [a, b, c] = array::from_fn(|i| if self.free[i] { factors[i] } else { 0.0 });
        [a, b, c, right]
    }

    /// Returns a first guess: N/X = (1 + σ(N−1) + κN(N−1)) / λ is linear in 1/λ, σ/λ and
    /// κ/λ; weighted so that its errors count as those of X do.
    fn start(&self) -> Option<Law> {
        let rows = self.points().filter(|(_, x)| *x > 0.0).map(|(n, x)| {
            let factors = [1.0, n - 1.0, n * (n - 1.0)];
            self.row(factors.map(|f| f * x * x / n), x)
        });
        let triangle = Triangle::of(rows.collect());
        if !triangle.determines(self.free) {
            return None;
        }
        let solved = triangle.solution();
        if solved[0] > 0.0 {
            Some(Law([
                1.0 / solved[0],
                solved[1] / solved[0],
                solved[2] / solved[0],
            ]))
        } else {
            let alone = self.points().map(|(n, x)| x / n).fold(0.0, f64::max);
            let [lambda, sigma, kappa, _] = self.row([alone, 0.1, 1e-3], 0.0);
            Some(Law([lambda, sigma, kappa]))
        }
    }

    fn sum_of_squares(&self, law: Law) -> f64 {
        self.points().map(|(n, x)| (law.at(n) - x).powi(2)).sum()
    }

    /// Returns the residuals as a linear function of the parameters, near a law.
    fn linearized(&self, law: Law) -> Vec<[f64; 4]> {
        let rows = self.points();
        rows.map(|(n, x)| self.row(law.gradient(n), law.at(n) - x))
            .collect()
    }

    /// Minimizes the sum of squares by the Levenberg–Marquardt method with the trust region
    /// of MINPACK (J. Moré, 1978). Returns the law and its sum; `None` where it does not
    /// converge.
    fn minimum(&self, mut law: Law) -> Option<(Law, f64)> {
        let mut sum = self.sum_of_squares(law);
        if !sum.is_finite() {
            return None;
        }
        let mut scale = [0.0; 3];
        let mut radius = f64::INFINITY;
        for _ in 0..EVALUATIONS {
            let rows = self.linearized(law);
            scale = array::from_fn(|i| column_length(&rows, i).max(scale[i]));
            let triangle = Triangle::of(rows);
            let farthest = radius.min(100.0 * length(law.0, scale));
            let (step, damping) = triangle.step_within(farthest, scale);
            let next = Law(array::from_fn(|i| law.0[i] - step[i]));
            let next_sum = self.sum_of_squares(next);
            // the fall of the sum; a step to ten times the residuals is not graded further
            let actual = if next_sum < 100.0 * sum {
                sum - next_sum
            } else {
                f64::NEG_INFINITY
            };
            let step_length = length(step, scale);
            let linear = triangle.image_square(step);
            let damped = damping * step_length * step_length;
            let predicted = linear + 2.0 * damped;
            let ratio = actual / predicted;
            if ratio <= 0.25 {
                let slope = linear + damped;
                let shorter = 0.5 * slope / (slope - 0.5 * actual.min(0.0));
                radius = shorter.max(0.1) * radius.min(10.0 * step_length);
            } else if damping == 0.0 || ratio >= 0.75 {
                radius = 2.0 * step_length;
            }
            // here sums differ by rounding only, and the last step is the best guess
            let flat = predicted <= TOLERANCE * sum && actual.abs() <= TOLERANCE * sum;
            if flat || ratio >= 1e-4 {
                (law, sum) = (next, next_sum);
            }
            if flat || radius <= TOLERANCE * length(law.0, scale) {
                return Some((law, sum));
            }
        }
        None
    }
}

fn length(v: [f64; 3], scale: [f64; 3]) -> f64 {
    let squares = v.iter().zip(scale).map(|(v, scale)| (v * scale).powi(2));
    squares.sum::<f64>().sqrt()
}

fn column_length(rows: &[[f64; 4]], k: usize) -> f64 {
    rows.iter().map(|row| row[k] * row[k]).sum::<f64>().sqrt()
}

/// The triangle R of the QR factorization of three columns, and Qᵀ times a right-hand
/// side in the fourth.
struct Triangle([[f64; 4]; 3]);

impl Triangle {
    /// Factors by the modified Gram–Schmidt method. The diagonal is 0 where a column depends
    /// on those before it.
    fn of(mut rows: Vec<[f64; 4]>) -> Self {
        let before: [f64; 3] = array::from_fn(|k| column_length(&rows, k));
        let mut r = [[0.0; 4]; 3];
        for k in 0..3 {
            let after = column_length(&rows, k);
            if after <= DEPENDENT * before[k] {
                continue;
            }
            r[k][k] = after;
            rows.iter_mut().for_each(|row| row[k] /= after);
            for j in k + 1..4 {
                r[k][j] = rows.iter().map(|row| row[k] * row[j]).sum();
                rows.iter_mut().for_each(|row| row[j] -= r[k][j] * row[k]);
            }
        }
        Self(r)
    }

    /// Whether these columns are independent.
    fn determines(&self, free: [bool; 3]) -> bool {
        (0..3).all(|i| !free[i] || self.0[i][i] > 0.0)
    }

    /// Solves R v = right, with 0 for dependent columns.
    fn solve(&self, right: [f64; 3]) -> [f64; 3] {
        let mut v = [0.0; 3];
        for (k, row) in self.0.iter().enumerate().rev() {
            if row[k] != 0.0 {
                v[k] = (right[k] - (k + 1..3).map(|j| row[j] * v[j]).sum::<f64>()) / row[k];
            }
        }
        v
    }

    fn solution(&self) -> [f64; 3] {
        self.solve(self.0.map(|row| row[3]))
    }

    /// Returns the solution within a length, to one part in ten, and the damping that keeps
    /// it there.
    fn step_within(&self, farthest: f64, scale: [f64; 3]) -> ([f64; 3], f64) {
        let mut step = self.solution();
        if length(step, scale) <= 1.1 * farthest {
            return (step, 0.0);
        }
        let (mut low, mut high, mut damping) = (0.0, f64::INFINITY, 1e-3f64);
        for _ in 0..100 {
            let mut rows = self.0.to_vec();
            for i in 0..3 {
                let mut row = [0.0; 4];
                row[i] = scale[i] * damping.sqrt();
                rows.push(row);
            }
            step = Self::of(rows).solution();
            match length(step, scale) / farthest {
                share if share > 1.1 => low = damping,
                share if share < 0.9 => high = damping,
                _ => break,
            }
            damping = match (low, high) {
                (0.0, _) => damping / 1e3,
                (_, f64::INFINITY) => damping * 1e3,
                _ => f64::sqrt(low * high),
            };
        }
        (step, damping)
    }

    /// Returns |R v|².
    fn image_square(&self, v: [f64; 3]) -> f64 {
        let image = |row: &[f64; 4]| row.iter().zip(v).map(|(r, v)| r * v).sum::<f64>();
        self.0.iter().map(|row| image(row).powi(2)).sum()
    }

    /// Returns (RᵀR)⁻¹, with 0 for dependent columns.
    fn inverse_of_square(&self) -> [[f64; 3]; 3] {
        let unit = |j| array::from_fn(|i| f64::from(u8::from(i == j)));
        let columns: [[f64; 3]; 3] = array::from_fn(|j| self.solve(unit(j)));
        array::from_fn(|i| array::from_fn(|j| columns.iter().map(|c| c[i] * c[j]).sum()))
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
