//! Which comparison comes next: the one that is expected to tell most about where the causes are, for
//! what it costs.
//!
//! The expected information gain of a comparison is the mutual information of what it will show and the
//! set of causes (Lindley, 1956): the entropy of its predicted outcome, less what of that is noise.

use super::noise::Observation;
use super::posterior::{Hypothesis, Posterior};
use super::range::{Range, Rules};

/// Sets less likely than this are left out of the prediction.
const LEAST: f64 = 2e-3;
/// A segment less likely to hold a cause is not split.
const SPLIT: f64 = 0.02;

/// What a comparison is expected to tell, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The position nearer to the good end.
    pub low: usize,
    /// The other.
    pub high: usize,
    /// Expected information gain.
    pub gain: f64,
    /// What it costs, in blocks: itself, and what has to be built first.
    pub cost: f64,
}

/// The comparison with the most expected information for its cost; `None` where none tells anything.
pub fn choose(
    range: &Range,
    posterior: &Posterior,
    seen: &[Observation],
    rules: &Rules,
) -> Option<Candidate> {
    let mut points: Vec<usize> = posterior
        .points
        .iter()
        .copied()
        .filter(|p| !range.unbuildable.contains(p))
        .collect();
    for (segment, ends) in posterior.points.windows(2).enumerate() {
        if posterior.changed(segment) >= SPLIT {
            points.extend(range.middle(ends[0], ends[1]));
        }
    }
    points.sort_unstable();
    points.dedup();
    let sets: Vec<&Hypothesis> = posterior
        .sets
        .iter()
        .filter(|set| set.probability >= LEAST)
        .collect();
    let mut best: Option<Candidate> = None;
    for (at, &low) in points.iter().enumerate() {
        for &high in &points[at + 1..] {
            let before = seen.iter().filter(|o| (o.low, o.high) == (low, high));
            // The luck of the two builds is the same in each repetition, which tells less and less.
            let repeated = 1.0 + before.count() as f64;
            let noise = posterior.block_variance + 2.0 * rules.luck.powi(2) * repeated;
            let unbuilt = [low, high]
                .iter()
                .filter(|p| !range.built.contains(p))
                .count();
            let candidate = Candidate {
                low,
                high,
                gain: information(posterior, &sets, (low, high), noise),
                cost: 1.0 + rules.build_cost * unbuilt as f64,
            };
            let worth = |c: &Candidate| c.gain / c.cost;
            if best.as_ref().is_none_or(|b| worth(&candidate) > worth(b)) {
                best = Some(candidate);
            }
        }
    }
    best.filter(|candidate| candidate.gain > 1e-9)
}

/// A part of the predicted outcome: its weight, mean and variance.
type Part = (f64, f64, f64);

fn information(
    posterior: &Posterior,
    sets: &[&Hypothesis],
    (low, high): (usize, usize),
    noise: f64,
) -> f64 {
    // What share of each segment's steps lies within.
    let within: Vec<f64> = posterior
        .points
        .windows(2)
        .map(|ends| {
            let from = ends[0].max(low);
            let to = ends[1].min(high);
            to.saturating_sub(from) as f64 / (ends[1] - ends[0]) as f64
        })
        .collect();
    let mut parts: Vec<Part> = Vec::new();
    for set in sets {
        parts_of(set, &within, noise, &mut parts);
    }
    let total: f64 = parts.iter().map(|p| p.0).sum();
    if total <= 0.0 {
        return 0.0;
    }
    for part in &mut parts {
        part.0 /= total;
    }
    let known: f64 = parts
        .iter()
        .map(|(w, _, v)| w * 0.5 * (std::f64::consts::TAU * std::f64::consts::E * v).ln())
        .sum();
    (entropy(&parts) - known).max(0.0)
}

/// The outcomes that a set predicts: of each cause in a segment that is split, both.
fn parts_of(set: &Hypothesis, within: &[f64], noise: f64, parts: &mut Vec<Part>) {
    let k = set.segments.len();
    let shares: Vec<f64> = set.segments.iter().map(|s| within[*s]).collect();
    for choice in 0..1u32 << k {
        let seen = |i: usize| choice >> i & 1 == 1;
        let weight: f64 = (0..k)
            .map(|i| if seen(i) { shares[i] } else { 1.0 - shares[i] })
            .product();
        if weight <= 0.0 {
            continue;
        }
        let sum = |of: &dyn Fn(usize) -> f64| (0..k).filter(|i| seen(*i)).map(of).sum::<f64>();
        let mean = sum(&|i| set.effects[i]);
        let variance = sum(&|i| sum(&|j| set.covariance[(i, j)]));
        parts.push((
            set.probability * weight,
            mean,
            variance.max(0.0) + noise.max(f64::MIN_POSITIVE),
        ));
    }
}

/// The differential entropy of a mixture of normal distributions, by quadrature.
fn entropy(parts: &[Part]) -> f64 {
    let ends = |sign: f64| parts.iter().map(move |(_, m, v)| m + sign * 4.5 * v.sqrt());
    let from = ends(-1.0).fold(f64::INFINITY, f64::min);
    let to = ends(1.0).fold(f64::NEG_INFINITY, f64::max);
    let finest = parts
        .iter()
        .map(|p| p.2.sqrt())
        .fold(f64::INFINITY, f64::min);
    let points = ((to - from) / finest * 1.6).clamp(24.0, 400.0);
    let width = (to - from) / points;
    (0..points as usize)
        .map(|i| from + (i as f64 + 0.5) * width)
        .map(|y| {
            let density: f64 = parts
                .iter()
                .map(|(w, m, v)| {
                    w * (-(y - m).powi(2) / (2.0 * v)).exp() / (std::f64::consts::TAU * v).sqrt()
                })
                .sum();
            if density > 0.0 {
                -density * density.ln() * width
            } else {
                0.0
            }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::posterior::Prior;

    #[test]
    fn the_entropy_of_one_normal_is_known() {
        let v: f64 = 0.0004;
        let exact = 0.5 * (std::f64::consts::TAU * std::f64::consts::E * v).ln();
        assert!((entropy(&[(1.0, 3.0, v)]) - exact).abs() < 1e-3);
        // Two that lie far apart hold one bit more.
        let two = entropy(&[(0.5, 0.0, v), (0.5, 1.0, v)]);
        assert!((two - exact - std::f64::consts::LN_2).abs() < 1e-2, "{two}");
    }

    #[test]
    fn the_first_split_is_the_middle_and_what_can_t_be_built_is_left_out() {
        let seen = [Observation {
            low: 0,
            high: 32,
            effect: -0.05,
            variance: 0.003f64.powi(2),
        }];
        let prior = Prior {
            luck: 0.0,
            matter: 0.01,
        };
        let posterior = Posterior::of(32, &seen, &prior).unwrap();
        let rules = Rules::default();
        let mut range = Range::new(32);
        let first = choose(&range, &posterior, &seen, &rules).unwrap();
        assert!([first.low, first.high].contains(&16), "{first:?}");
        range.unbuildable.extend(14..20);
        let around = choose(&range, &posterior, &seen, &rules).unwrap();
        assert!(
            [around.low, around.high]
                .iter()
                .any(|p| *p == 13 || *p == 20),
            "{around:?}"
        );
    }
}
