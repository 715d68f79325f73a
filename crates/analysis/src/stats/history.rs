//! Many runs of the same plan over time: when did the level change?
//!
//! A different question from comparing two builds: no pairs, unknown times of
//! change, several of them. E-divisive (Matteson and James, J. American
//! Statistical Association 109, 2014): split where the energy distance between
//! the two parts is largest, keep the split if shuffling the values within the
//! present parts rarely gives one as large, and go on within the parts. It
//! assumes nothing about the shape of the noise. A change that is real and too
//! small to matter is not reported: there is a minimum magnitude.

use super::caveat::{Caveat, add};
use super::estimate::{Estimate, summarize};
use super::order::{median_of_sorted, sorted_finite};
use super::simulate;
use crate::warning::Warning;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

/// The longest history looked at; of a longer one, its latest part. The method
/// takes time by the square of it.
pub const MOST_RUNS: usize = 1_000;

/// What counts as a change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangeRule {
    /// The smallest relative change of the median, 0.02 for 2 %.
    pub magnitude: f64,
    /// The chance of finding a change in a history without one.
    pub alpha: f64,
    /// Shuffles in each test.
    pub permutations: u32,
    /// The fewest runs that make a level.
    pub shortest: usize,
    /// Seed of the shuffles.
    pub seed: u64,
}

impl Default for ChangeRule {
    fn default() -> Self {
        Self {
            magnitude: 0.02,
            alpha: 0.01,
            permutations: 999,
            shortest: 3,
            seed: 1,
        }
    }
}

/// A stretch of runs without a change among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Index of its first run.
    pub first: usize,
    /// Index of its last run.
    pub last: usize,
    /// The level, with the interval over its runs.
    pub value: Estimate,
}

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first run at the new level.
    pub index: usize,
    /// Relative change of the median: −0.05 is 5 % less than before.
    pub change: f64,
    /// Share of shuffles that gave a split as clear.
    pub p: f64,
}

/// The levels of a history and the changes between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// At least one, unless there were no values; in order.
    pub levels: Vec<Level>,
    /// One between each two levels.
    pub changes: Vec<ChangePoint>,
    /// What qualifies it.
    pub warnings: Vec<Warning>,
}

/// Finds the changes of level in the results of successive runs. They must be
/// positive (a throughput, a latency): changes are relative. Others are left out,
/// with a warning; indices are those of the slice given.
pub fn change_points(runs: &[f64], rule: ChangeRule) -> History {
    let mut warnings = Vec::new();
    let mut places: Vec<usize> = (0..runs.len()).collect();
    places.retain(|i| runs[*i].is_finite() && runs[*i] > 0.0);
    if places.len() < runs.len() {
        add(&mut warnings, Caveat::NonPositive);
    }
    if places.len() > MOST_RUNS {
        places.drain(..places.len() - MOST_RUNS);
        add(&mut warnings, Caveat::HistoryTruncated);
    }
    let logs: Vec<f64> = places.iter().map(|i| runs[*i].ln()).collect();
    let mut splits = divide(&logs, rule);
    drop_small(&logs, &mut splits, rule.magnitude);

    let bounds = bounds(logs.len(), &splits);
    let levels = bounds
        .windows(2)
        .filter_map(|w| {
            let value = summarize(&logs[w[0]..w[1]])?.map(f64::exp);
            Some(Level {
                first: places[w[0]],
                last: places[w[1] - 1],
                value,
            })
        })
        .collect();
    let changes = splits
        .iter()
        .zip(bounds.windows(3))
        .map(|(split, w)| ChangePoint {
            index: places[split.at],
            change: step(&logs, w).exp_m1(),
            p: split.p,
        })
        .collect();
    History {
        levels,
        changes,
        warnings,
    }
}

#[derive(Debug, Clone, Copy)]
struct Split {
    at: usize,
    p: f64,
}

fn bounds(len: usize, splits: &[Split]) -> Vec<usize> {
    let mut bounds = vec![0];
    bounds.extend(splits.iter().map(|s| s.at));
    bounds.push(len);
    bounds
}

/// The difference of the medians on both sides of the middle bound.
fn step(logs: &[f64], w: &[usize]) -> f64 {
    let median = |part: &[f64]| median_of_sorted(&sorted_finite(part).0).unwrap_or(0.0);
    median(&logs[w[1]..w[2]]) - median(&logs[w[0]..w[1]])
}

/// Splits as long as the clearest split left is clearer than chance.
fn divide(x: &[f64], rule: ChangeRule) -> Vec<Split> {
    let mut splits: Vec<Split> = Vec::new();
    let mut rng = simulate::rng(rule.seed);
    let shortest = rule.shortest.max(1);
    loop {
        let bounds = bounds(x.len(), &splits);
        let clearest = bounds
            .windows(2)
            .filter_map(|w| {
                let (at, q) = clearest_split(&x[w[0]..w[1]], shortest)?;
                Some((w[0] + at, q))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((at, q)) = clearest.filter(|(_, q)| *q > 0.0) else {
            return splits;
        };
        // the shuffles that may be as clear before the split is given up
        let most = (rule.alpha * f64::from(rule.permutations + 1)).floor() as u32;
        let mut as_clear = 0;
        let mut shuffled = x.to_vec();
        for _ in 0..rule.permutations {
            let best = bounds
                .windows(2)
                .filter_map(|w| {
                    let part = &mut shuffled[w[0]..w[1]];
                    part.shuffle(&mut rng);
                    clearest_split(part, shortest).map(|(_, q)| q)
                })
                .fold(0.0, f64::max);
            as_clear += u32::from(best >= q);
            if as_clear >= most {
                return splits;
            }
        }
        let p = f64::from(as_clear + 1) / f64::from(rule.permutations + 1);
        let place = splits.partition_point(|s| s.at < at);
        splits.insert(place, Split { at, p });
    }
}

/// Where a part is split most clearly, and the statistic there; the first of
/// several.
fn clearest_split(x: &[f64], shortest: usize) -> Option<(usize, f64)> {
    if x.len() < 2 * shortest {
        return None;
    }
    let statistics = energies(x);
    let mut best: Option<(usize, f64)> = None;
    for at in shortest..=x.len() - shortest {
        if best.is_none_or(|(_, q)| statistics[at] > q) {
            best = Some((at, statistics[at]));
        }
    }
    best
}

/// nm/(n+m) times the energy distance of x[..at] and x[at..] for every `at`,
/// 2·mean|X−Y| − mean|X−X′| − mean|Y−Y′| (Székely and Rizzo, J. Statistical
/// Planning and Inference 143, 2013). 0 at the ends.
fn energies(x: &[f64]) -> Vec<f64> {
    let len = x.len();
    let mut statistics = vec![0.0; len + 1];
    // sums of distances: within the left part, within the right, and across
    let (mut left, mut right, mut across) = (0.0, 0.0, 0.0);
    let to = |part: &[f64], value: f64| part.iter().map(|v| (v - value).abs()).sum::<f64>();
    for (i, value) in x.iter().enumerate() {
        right += to(&x[i + 1..], *value);
    }
    for at in 1..len {
        // x[at − 1] goes from the right part to the left
        let (before, after) = (to(&x[..at - 1], x[at - 1]), to(&x[at..], x[at - 1]));
        across += after - before;
        left += before;
        right -= after;
        let (n, m) = (at as f64, (len - at) as f64);
        let energy = 2.0 * across / (n * m) - 2.0 * left / (n * n) - 2.0 * right / (m * m);
        statistics[at] = n * m / (n + m) * energy;
    }
    statistics
}

/// Joins levels that differ by less than the magnitude, the nearest first.
fn drop_small(logs: &[f64], splits: &mut Vec<Split>, magnitude: f64) {
    let least = if magnitude > 0.0 {
        magnitude.ln_1p()
    } else {
        0.0
    };
    loop {
        let bounds = bounds(logs.len(), splits);
        let smallest = bounds
            .windows(3)
            .map(|w| step(logs, w).abs())
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match smallest {
            Some((at, size)) if size < least => splits.remove(at),
            _ => return,
        };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::stats) fn statistics(x: &[f64]) -> Vec<f64> {
        energies(x)
    }

    fn levels(parts: &[(f64, usize)], spread: f64, seed: u64) -> Vec<f64> {
        let mut rng = simulate::rng(seed);
        parts
            .iter()
            .flat_map(|(level, count)| std::iter::repeat_n(*level, *count))
            .map(|level| level * (spread * simulate::normal(&mut rng)).exp())
            .collect()
    }

    #[test]
    fn finds_when_and_how_much() {
        let runs = levels(&[(1000.0, 20), (950.0, 15), (1100.0, 25)], 0.01, 4);
        let got = change_points(&runs, ChangeRule::default());
        assert_eq!(
            got.changes.iter().map(|c| c.index).collect::<Vec<_>>(),
            [20, 35]
        );
        assert!((got.changes[0].change + 0.05).abs() < 0.01);
        assert!((got.changes[1].change - 1100.0 / 950.0 + 1.0).abs() < 0.02);
        assert!(got.changes.iter().all(|c| c.p <= 0.01));
        assert_eq!(got.levels.len(), 3);
        assert_eq!((got.levels[1].first, got.levels[1].last), (20, 34));
        assert!(got.levels[1].value.holds(950.0));
    }

    #[test]
    fn a_change_that_is_too_small_to_matter_is_not_reported() {
        let runs = levels(&[(1000.0, 30), (1015.0, 30)], 0.002, 5);
        let found = |magnitude| {
            let rule = ChangeRule {
                magnitude,
                ..ChangeRule::default()
            };
            change_points(&runs, rule).changes.len()
        };
        assert_eq!((found(0.01), found(0.02)), (1, 0));
    }

    #[test]
    fn steady_histories_rarely_have_one() {
        let rule = ChangeRule {
            magnitude: 0.0,
            permutations: 199,
            ..ChangeRule::default()
        };
        let alarms = (0..200)
            .filter(|seed| {
                let rule = ChangeRule {
                    seed: *seed,
                    ..rule
                };
                !change_points(&levels(&[(100.0, 24)], 0.05, seed + 1), rule)
                    .changes
                    .is_empty()
            })
            .count();
        // 1 % of 200, and three standard deviations
        assert!(alarms <= 6, "{alarms} of 200");
    }

    #[test]
    fn odd_histories() {
        for runs in [vec![], vec![1.0], vec![5.0; 30], vec![f64::NAN, 0.0, -1.0]] {
            let got = change_points(&runs, ChangeRule::default());
            assert!(got.changes.is_empty());
            assert_eq!(got.levels.is_empty(), !runs.iter().any(|v| *v > 0.0));
        }
        // a failed run in between shifts no index
        let mut runs = levels(&[(1000.0, 20), (900.0, 20)], 0.01, 6);
        runs.insert(3, f64::NAN);
        let got = change_points(&runs, ChangeRule::default());
        assert_eq!(got.changes[0].index, 21);
        assert!(got.warnings.iter().any(|w| *w == Caveat::NonPositive));
        let long = vec![1.0; MOST_RUNS + 5];
        let rule = ChangeRule {
            permutations: 9,
            ..ChangeRule::default()
        };
        let got = change_points(&long, rule);
        assert_eq!(got.levels[0].first, 5);
        assert!(got.warnings.iter().any(|w| *w == Caveat::HistoryTruncated));
    }

    proptest! {
        #[test]
        fn energies_are_those_of_their_definition(x in proptest::collection::vec(-5.0f64..5.0, 2..20)) {
            let mean = |a: &[f64], b: &[f64]| {
                a.iter().flat_map(|a| b.iter().map(move |b| (a - b).abs())).sum::<f64>()
                    / (a.len() * b.len()) as f64
            };
            let got = energies(&x);
            for at in 1..x.len() {
                let (a, b) = x.split_at(at);
                let weight = (a.len() * b.len()) as f64 / x.len() as f64;
                let want = weight * (2.0 * mean(a, b) - mean(a, a) - mean(b, b));
                prop_assert!((got[at] - want).abs() < 1e-9);
            }
        }

        #[test]
        fn the_unit_does_not_matter(factor in 0.01f64..100.0, seed in 0u64..20) {
            let runs = levels(&[(10.0, 12), (12.0, 12)], 0.02, seed);
            let rule = ChangeRule { permutations: 99, ..ChangeRule::default() };
            let scaled: Vec<f64> = runs.iter().map(|v| v * factor).collect();
            let at = |runs: &[f64]| {
                change_points(runs, rule).changes.iter().map(|c| c.index).collect::<Vec<_>>()
            };
            prop_assert_eq!(at(&runs), at(&scaled));
        }
    }
}
