//! The speed at each measured position of a range by least squares, with nothing assumed about causes.

use super::matrix::{Cholesky, Matrix, dot};
use super::noise::Observation;
use super::posterior::Posterior;
use super::range::Rules;

/// What a position's level may be before anything is measured, as a standard deviation of its logarithm.
const BEFORE: f64 = 10.0;
/// The variance from which on a change is unknown: its interval would span a factor of fifty.
const UNKNOWN: f64 = 1.0;

/// The speed at each measured position by least squares, with nothing assumed about causes.
pub(super) struct Levels {
    moments: Vec<f64>,
    information: Option<Cholesky>,
}

impl Levels {
    pub(super) fn of(posterior: &Posterior, seen: &[Observation], rules: &Rules) -> Self {
        let points = &posterior.points;
        let n = points.len() - 1;
        let place = |p: usize| points.binary_search(&p).unwrap_or(0);
        // Next to nothing is known before: that keeps apart what no comparison joins.
        let before = |i, j| f64::from(u8::from(i == j)) / BEFORE.powi(2);
        let mut information = Matrix::from_fn(n, before);
        let mut moments = vec![0.0; n];
        for o in seen {
            let repeated = seen
                .iter()
                .filter(|x| (x.low, x.high) == (o.low, o.high))
                .count();
            let between = posterior.block_variance - typical(seen);
            let variance =
                o.variance + between.max(0.0) + 2.0 * rules.luck.powi(2) * repeated as f64;
            let ends = [(place(o.low), -1.0), (place(o.high), 1.0)];
            // The first position is the reference: its level is 0.
            let unknown = || {
                ends.iter()
                    .filter(|(p, _)| *p > 0)
                    .map(|(p, sign)| (p - 1, *sign))
            };
            for (i, a) in unknown() {
                moments[i] += a * o.effect / variance;
                for (j, b) in unknown() {
                    information[(i, j)] += a * b / variance;
                }
            }
        }
        Self {
            moments,
            information: information.cholesky(),
        }
    }

    /// What some segments change together, with its variance.
    pub(super) fn across(&self, segments: &[usize]) -> (f64, f64) {
        let mut contrast = vec![0.0; self.moments.len()];
        for s in segments {
            contrast[*s] += 1.0;
            if *s > 0 {
                contrast[s - 1] -= 1.0;
            }
        }
        let unknown = (0.0, f64::INFINITY);
        let Some(information) = &self.information else {
            return unknown;
        };
        let contrast = information.whiten(&contrast);
        let variance = dot(&contrast, &contrast);
        match variance > UNKNOWN {
            true => unknown,
            false => (dot(&contrast, &information.whiten(&self.moments)), variance),
        }
    }
}

fn typical(seen: &[Observation]) -> f64 {
    let mut all: Vec<f64> = seen.iter().map(|o| o.variance).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}
