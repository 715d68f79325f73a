//! How likely each set of steps is to have brought the change.
//!
//! A change point model: the logarithm of the speed is constant but for a few steps, each with an
//! effect of its own. Steps between two neighbouring measured positions can't be told apart, so what is
//! weighed are sets of *segments*. The likelihood of a set is a Gaussian integral in closed form, as in
//! Bayesian selection of variables (George and McCulloch, 1993); what is not known of the noise (how far
//! launches scatter beyond their pairs) and of the effects' size is summed over a grid. Each position
//! that was built has luck of its own besides: the placement of its code. What is smaller than matters is
//! no cause: the prior of an effect has a gap around zero, without which no amount of measuring would
//! exclude that one more step changed a trifle.

use statrs::function::erf::erfc;

use super::matrix::{Matrix, dot};
use super::noise::Observation;

/// Chances of no cause, one, two … before anything was measured.
const PRIOR: [f64; 5] = [0.15, 0.66, 0.14, 0.04, 0.01];
/// Sets of four are weighed up to so many segments.
const MANY: usize = 13;
/// Variance between launches, in units of a block's own, with its weight.
const BETWEEN: [(f64, f64); 4] = [(0.0, 0.35), (0.3, 0.3), (1.0, 0.2), (3.0, 0.15)];
/// Size of an effect, in units of the whole difference, with its weight.
const SIZES: [(f64, f64); 2] = [(0.8, 0.7), (2.5, 0.3)];
/// The least effect of a cause, as a share of the whole difference.
const LEAST_SHARE: f64 = 0.1;
/// Sets less likely than this share of the likeliest are forgotten.
const NEGLIGIBLE: f64 = 1e-5;

/// A set of segments that holds the causes.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Which segments, ascending; none where there is no change at all.
    pub segments: Vec<usize>,
    /// How likely.
    pub probability: f64,
    /// The effect of each, where this is so.
    pub effects: Vec<f64>,
    /// Their covariance.
    pub covariance: Matrix,
}

/// What was learnt.
#[derive(Debug, Clone)]
pub struct Posterior {
    /// Positions that were measured, ascending; segment i lies between i and i + 1 of them.
    pub points: Vec<usize>,
    /// The sets that are not negligible, the likeliest first.
    pub sets: Vec<Hypothesis>,
    /// The variance to expect of a further block, launches included.
    pub block_variance: f64,
}

/// What is assumed beforehand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Standard deviation of the luck of each build, as a share.
    pub luck: f64,
    /// Least size of an effect worth a thought, as a share.
    pub matter: f64,
}

impl Posterior {
    /// Weighs all sets of segments between the positions that were measured, of `steps` steps in all.
    ///
    /// `None` where nothing was measured, or the figures can't be computed with.
    pub fn of(steps: usize, seen: &[Observation], prior: &Prior) -> Option<Self> {
        let mut points: Vec<usize> = seen.iter().flat_map(|o| [o.low, o.high]).collect();
        points.extend([0, steps]);
        points.sort_unstable();
        points.dedup();
        let lengths: Vec<usize> = points.windows(2).map(|w| w[1] - w[0]).collect();
        let typical = {
            let mut all: Vec<f64> = seen.iter().map(|o| o.variance).collect();
            all.sort_by(f64::total_cmp);
            *all.get(all.len() / 2)?
        };
        let difference = whole_difference(steps, seen).abs();
        let whole = difference.max(prior.matter);
        let least = (LEAST_SHARE * difference).max(prior.matter);
        let candidates = sets(lengths.len());
        let mut weights = vec![f64::NEG_INFINITY; candidates.len()];
        let mut parts: Vec<(f64, Model)> = Vec::new();
        for (between, chance) in BETWEEN {
            let model = Model::of(&points, seen, between * typical, prior.luck)?;
            for (size, of_size) in SIZES {
                let scale = (size * whole).powi(2);
                let known = (chance * of_size).ln();
                let model = Model {
                    scale,
                    least,
                    between: between * typical,
                    ..model.clone()
                };
                for (weight, set) in weights.iter_mut().zip(&candidates) {
                    let log = known + prior_of(set, &lengths, steps) + model.evidence(set);
                    *weight = log_sum(*weight, log);
                }
                parts.push((known, model));
            }
        }
        let best = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !best.is_finite() {
            return None;
        }
        let total = weights.iter().map(|w| (w - best).exp()).sum::<f64>();
        let mut kept: Vec<(f64, &Vec<usize>)> = weights
            .iter()
            .zip(&candidates)
            .map(|(weight, set)| ((weight - best).exp() / total, set))
            .filter(|(p, _)| *p >= NEGLIGIBLE / total)
            .collect();
        kept.sort_by(|a, b| b.0.total_cmp(&a.0));
        let sets: Vec<Hypothesis> = kept
            .iter()
            .map(|(probability, set)| {
                let (effects, covariance) = mixed(&parts, set);
                Hypothesis {
                    segments: (*set).clone(),
                    probability: *probability,
                    effects,
                    covariance,
                }
            })
            .collect();
        let likeliest = &sets.first()?.segments;
        let between = averaged(&parts, likeliest, |model| model.between);
        Some(Self {
            points,
            sets,
            block_variance: typical + between,
        })
    }

    /// How likely a segment holds a cause.
    pub fn changed(&self, segment: usize) -> f64 {
        let holds = |set: &&Hypothesis| set.segments.contains(&segment);
        self.sets.iter().filter(holds).map(|s| s.probability).sum()
    }
}

/// The difference between the ends by the blocks that compared them; 0 where none did.
pub(super) fn whole_difference(steps: usize, seen: &[Observation]) -> f64 {
    let ends = seen.iter().filter(|o| o.low == 0 && o.high == steps);
    let (weighted, weight) = ends.fold((0.0, 0.0), |(sum, weight), o| {
        (sum + o.effect / o.variance, weight + 1.0 / o.variance)
    });
    if weight > 0.0 { weighted / weight } else { 0.0 }
}

/// All sets of few segments.
fn sets(segments: usize) -> Vec<Vec<usize>> {
    let most = if segments <= MANY { 4 } else { 3 };
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..most.min(segments) {
        last = last
            .iter()
            .flat_map(|set| {
                let from = set.last().map_or(0, |s| s + 1);
                (from..segments).map(move |next| {
                    let mut longer = set.clone();
                    longer.push(next);
                    longer
                })
            })
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// ln of the chance of one cause in each of these segments and none elsewhere.
fn prior_of(set: &[usize], lengths: &[usize], steps: usize) -> f64 {
    let ways: f64 = set.iter().map(|s| (lengths[*s] as f64).ln()).sum();
    let choices: f64 = (0..set.len())
        .map(|i| (steps.saturating_sub(i).max(1) as f64 / (i + 1) as f64).ln())
        .sum();
    PRIOR[set.len()].ln() + ways - choices
}

/// What was seen, whitened, for one assumption about the noise.
#[derive(Debug, Clone)]
struct Model {
    gram: Matrix,
    moments: Vec<f64>,
    constant: f64,
    scale: f64,
    least: f64,
    between: f64,
}

impl Model {
    fn of(points: &[usize], seen: &[Observation], between: f64, luck: f64) -> Option<Self> {
        let mut pairs: Vec<(usize, usize)> = seen.iter().map(|o| (o.low, o.high)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let n = pairs.len();
        let mut y = Vec::with_capacity(n);
        let mut noise = Matrix::from_fn(n, |i, j| luck.powi(2) * shared(pairs[i], pairs[j]));
        let mut constant = 0.0;
        for (row, pair) in pairs.iter().enumerate() {
            let of_pair = || seen.iter().filter(|o| (o.low, o.high) == *pair);
            let variance = |o: &Observation| o.variance + between;
            let precision: f64 = of_pair().map(|o| 1.0 / variance(o)).sum();
            let mean = of_pair().map(|o| o.effect / variance(o)).sum::<f64>() / precision;
            y.push(mean);
            noise[(row, row)] += 1.0 / precision;
            // What blocks of one pair say of each other, which their mean does not hold.
            constant -= 0.5
                * of_pair()
                    .map(|o| (o.effect - mean).powi(2) / variance(o) + variance(o).ln())
                    .sum::<f64>();
            constant -= 0.5 * precision.ln();
        }
        let segments = points.len() - 1;
        let factor = noise.cholesky()?;
        let within = |s: usize| {
            let holds = |(low, high): &(usize, usize)| *low <= points[s] && points[s + 1] <= *high;
            let rows: Vec<f64> = pairs
                .iter()
                .map(|p| f64::from(u8::from(holds(p))))
                .collect();
            factor.whiten(&rows)
        };
        let white: Vec<Vec<f64>> = (0..segments).map(within).collect();
        let z = factor.whiten(&y);
        constant -= 0.5 * (dot(&z, &z) + factor.ln_determinant());
        Some(Self {
            gram: Matrix::from_fn(segments, |i, j| dot(&white[i], &white[j])),
            moments: white.iter().map(|column| dot(column, &z)).collect(),
            constant,
            scale: 0.0,
            least: 0.0,
            between,
        })
    }

    /// The effects of a set and their covariance; and ln of its evidence.
    fn solve(&self, set: &[usize]) -> Option<(Vec<f64>, Matrix, f64)> {
        let k = set.len();
        let b: Vec<f64> = set.iter().map(|s| self.moments[*s]).collect();
        let g = Matrix::from_fn(k, |i, j| {
            f64::from(u8::from(i == j)) + self.scale * self.gram[(set[i], set[j])]
        });
        let factor = g.cholesky()?;
        let z = factor.whiten(&b);
        let inverse = factor.inverse_columns();
        let effects: Vec<f64> = inverse.iter().map(|c| self.scale * dot(c, &z)).collect();
        let covariance = Matrix::from_fn(k, |i, j| self.scale * dot(&inverse[i], &inverse[j]));
        let matters: f64 = (0..k)
            .map(|i| self.matters(effects[i], covariance[(i, i)]))
            .sum();
        let explained = 0.5 * (self.scale * dot(&z, &z) - factor.ln_determinant());
        let evidence = self.constant + explained + matters;
        Some((effects, covariance, evidence))
    }

    /// ln of what the gap around zero makes of an effect's evidence: how likely it is to lie outside
    /// after what was seen, against before.
    fn matters(&self, effect: f64, variance: f64) -> f64 {
        let after = beyond(self.least, effect, variance).max(1e-300);
        (after / beyond(self.least, 0.0, self.scale)).ln()
    }

    fn evidence(&self, set: &[usize]) -> f64 {
        match set {
            [] => self.constant,
            // The same as below, without the matrices: most of the time goes here.
            [s] => {
                let g = 1.0 + self.scale * self.gram[(*s, *s)];
                let (effect, variance) = (self.scale * self.moments[*s] / g, self.scale / g);
                self.constant - 0.5 * g.ln()
                    + 0.5 * self.moments[*s] * effect
                    + self.matters(effect, variance)
            }
            _ => self
                .solve(set)
                .map_or(f64::NEG_INFINITY, |(_, _, evidence)| evidence),
        }
    }
}

/// The chance that a normal figure lies at least so far from zero.
fn beyond(least: f64, mean: f64, variance: f64) -> f64 {
    let width = (2.0 * variance).sqrt();
    0.5 * (erfc((least - mean) / width) + erfc((least + mean) / width))
}

/// How the luck of builds is shared by two comparisons, in units of its variance.
fn shared(a: (usize, usize), b: (usize, usize)) -> f64 {
    let same = |x: usize, y: usize| f64::from(u8::from(x == y));
    same(a.0, b.0) + same(a.1, b.1) - same(a.0, b.1) - same(a.1, b.0)
}

/// The mean of something over the assumptions, by how well each explains a set.
fn averaged(parts: &[(f64, Model)], set: &[usize], of: impl Fn(&Model) -> f64) -> f64 {
    let weighed = weighed(parts, set);
    weighed.iter().map(|(w, model)| w * of(model)).sum()
}

fn weighed<'m>(parts: &'m [(f64, Model)], set: &[usize]) -> Vec<(f64, &'m Model)> {
    let logs: Vec<f64> = parts.iter().map(|(w, m)| w + m.evidence(set)).collect();
    let best = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logs.iter().map(|log| (log - best).exp()).sum();
    logs.iter()
        .zip(parts)
        .map(|(log, (_, model))| ((log - best).exp() / total, model))
        .collect()
}

/// Effects and covariance of a set over all assumptions.
fn mixed(parts: &[(f64, Model)], set: &[usize]) -> (Vec<f64>, Matrix) {
    let solved: Vec<(f64, Vec<f64>, Matrix)> = weighed(parts, set)
        .into_iter()
        .filter_map(|(weight, model)| {
            let (effects, covariance, _) = model.solve(set)?;
            Some((weight, effects, covariance))
        })
        .collect();
    let mean_of = |i: usize| solved.iter().map(|(w, effects, _)| w * effects[i]).sum();
    let mean: Vec<f64> = (0..set.len()).map(mean_of).collect();
    let covariance = Matrix::from_fn(set.len(), |i, j| {
        let second = solved.iter().map(|(w, e, c)| w * (c[(i, j)] + e[i] * e[j]));
        second.sum::<f64>() - mean[i] * mean[j]
    });
    (mean, covariance)
}

fn log_sum(a: f64, b: f64) -> f64 {
    let most = a.max(b);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + ((a - most).exp() + (b - most).exp()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(low: usize, high: usize, effect: f64) -> Observation {
        Observation {
            low,
            high,
            effect,
            variance: 0.0025f64.powi(2),
        }
    }

    const PRIOR: Prior = Prior {
        luck: 0.002,
        matter: 0.01,
    };

    #[test]
    fn a_change_is_placed_between_the_positions_that_show_it() {
        let all = [
            seen(0, 16, -0.05),
            seen(0, 8, 0.001),
            seen(8, 16, -0.049),
            seen(0, 12, -0.051),
            seen(12, 16, 0.0),
        ];
        let posterior = Posterior::of(16, &all, &PRIOR).unwrap();
        assert_eq!(posterior.points, [0, 8, 12, 16]);
        let best = &posterior.sets[0];
        assert_eq!(best.segments, [1]);
        assert!(best.probability > 0.9, "{best:?}");
        assert!((best.effects[0] + 0.05).abs() < 0.004);
        let sum: f64 = posterior.sets.iter().map(|s| s.probability).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{sum}");
    }

    #[test]
    fn two_causes_and_none() {
        let two = [seen(0, 16, -0.08), seen(0, 8, -0.05), seen(8, 16, -0.03)];
        let posterior = Posterior::of(16, &two, &PRIOR).unwrap();
        assert_eq!(posterior.sets[0].segments, [0, 1]);
        let none = [seen(0, 16, 0.001), seen(0, 16, -0.002)];
        let posterior = Posterior::of(16, &none, &PRIOR).unwrap();
        assert!(posterior.sets[0].segments.is_empty());
        assert!(Posterior::of(4, &[], &PRIOR).is_none());
    }

    /// The expected values were computed by the same formulas with 60 digits. In the second case, a
    /// search by counts, almost nothing separates the last segments.
    #[test]
    fn probabilities_and_effects_are_those_computed_with_sixty_digits() {
        let v = 0.0025f64.powi(2);
        let pairs: &[(usize, usize, f64, f64)] = &[
            (0, 16, -0.08, v),
            (0, 16, -0.083, v),
            (0, 8, -0.05, v),
            (8, 16, -0.03, v),
            (4, 8, -0.05, v),
        ];
        let counts: &[(usize, usize, f64, f64)] = &[
            (0, 20, -0.2911, 8e-9),
            (0, 20, -0.2913, 1.2e-8),
            (7, 19, -0.29125, 8e-9),
            (15, 19, -0.06676, 8e-9),
            (18, 19, -0.03, 1.0),
        ];
        let of_pairs: &[(f64, f64)] = &[
            (-0.0502821709710589, 9.261621841e-6),
            (-0.0306725305751246, 1.25450319e-5),
        ];
        let of_two: &[(f64, f64)] = &[
            (-0.22444846173841, 1.7547149e-8),
            (-0.0667600355577083, 1.288822675e-8),
        ];
        let of_three: &[(f64, f64)] = &[
            (-0.224448454236152, 1.754713347e-8),
            (-0.0335042321854227, 0.03674856315),
            (-0.0332558108757308, 0.03674856268),
        ];
        for (steps, luck, seen, segments, probability, effects) in [
            (16, 0.002, pairs, vec![1, 2], 0.999259224549341, of_pairs),
            (20, 0.0, counts, vec![1, 2], 0.73465411144281, of_two),
            (20, 0.0, counts, vec![1, 2, 3], 0.0205084470537694, of_three),
        ] {
            let observation = |&(low, high, effect, variance)| Observation {
                low,
                high,
                effect,
                variance,
            };
            let seen: Vec<Observation> = seen.iter().map(observation).collect();
            let posterior = Posterior::of(steps, &seen, &Prior { luck, ..PRIOR }).unwrap();
            let mut sets = posterior.sets.iter();
            let set = sets.find(|s| s.segments == segments).unwrap();
            let near = |got: f64, want: f64| (got / want - 1.0).abs() < 1e-7;
            assert!(near(set.probability, probability), "{set:?}");
            for (i, (effect, variance)) in effects.iter().enumerate() {
                let error = (set.effects[i] - effect).abs();
                assert!(error < 1e-7 * variance.sqrt(), "{set:?}");
                assert!(near(set.covariance[(i, i)], *variance), "{set:?}");
            }
        }
    }

    /// The evidence does not depend on whether blocks of a pair were told one by one or as one.
    #[test]
    fn blocks_of_one_pair_are_taken_together() {
        let parts = [seen(0, 4, -0.02), seen(0, 4, -0.02), seen(0, 2, 0.0)];
        let half = Observation {
            variance: seen(0, 1, 0.0).variance / 2.0,
            ..seen(0, 4, -0.02)
        };
        let points = [0, 2, 4];
        let apart = Model::of(&points, &parts, 0.0, 0.001).unwrap();
        let one = Model::of(&points, &[half, seen(0, 2, 0.0)], 0.0, 0.001).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * a.abs();
        for i in 0..2 {
            assert!(near(apart.moments[i], one.moments[i]), "{apart:?} {one:?}");
            for j in 0..2 {
                assert!(
                    near(apart.gram[(i, j)], one.gram[(i, j)]),
                    "{apart:?} {one:?}"
                );
            }
        }
    }
}
