//! Many runs of the same plan over time: when did the level change?
//!
//! A different question from comparing two builds: no pairs, unknown times of
//! change, several of them. E-divisive (Matteson and James, J. American
//! Statistical Association 109, 2014): split where the energy distance between
//! what is before and a stretch after is largest, keep the split if shuffling the
//! values within the present parts rarely gives one as large, and go on within the
//! parts. The stretch may end before the part does, so that a slowdown that was
//! repaired later does not hide itself. It assumes nothing about the shape of the
//! noise. A change that is real and too
//! small to matter is not reported: there is a minimum magnitude.

use pgassay_model::warning::Warning;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::caveat::{Caveat, add};
use super::estimate::{Estimate, summarize};
use super::order::{median_of_sorted, sorted_finite};
use super::simulate;

/// The longest history looked at; of a longer one, its latest part. The method
/// takes time and memory by the square of it.
pub const MOST_RUNS: usize = 500;

/// What counts as a change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
///
/// The statistic is nm/(n+m) times the energy distance 2·mean|X−Y| − mean|X−X′| −
/// mean|Y−Y′| (Székely and Rizzo, J. Statistical Planning and Inference 143, 2013)
/// of X = x[..at] and Y = x[at..end], both at least `shortest` long.
fn clearest_split(x: &[f64], shortest: usize) -> Option<(usize, f64)> {
    let len = x.len();
    if len < 2 * shortest {
        return None;
    }
    // within[j]: sum of the distances among x[..j]; after each row i the sums of
    // the distances among x[i..j]
    let mut within = vec![0.0; len + 1];
    for j in 0..len {
        let to_earlier: f64 = x[..j].iter().map(|v| (v - x[j]).abs()).sum();
        within[j + 1] = within[j] + to_earlier;
    }
    let mut of_stretch = within.clone();
    let mut best: Option<(usize, f64)> = None;
    for at in 1..=len - shortest {
        // the first of the stretch goes over to the left
        let mut reach = 0.0;
        for (sum, value) in of_stretch[at..]
            .iter_mut()
            .zip(std::iter::once(&x[at - 1]).chain(&x[at..]))
        {
            reach += (value - x[at - 1]).abs();
            *sum -= reach;
        }
        if at < shortest {
            continue;
        }
        let n = at as f64;
        for end in at + shortest..=len {
            let m = (end - at) as f64;
            let (left, right) = (within[at], of_stretch[end]);
            let across = within[end] - left - right;
            let energy = 2.0 * across / (n * m) - 2.0 * left / (n * n) - 2.0 * right / (m * m);
            let statistic = n * m / (n + m) * energy;
            if best.is_none_or(|(_, q)| statistic > q) {
                best = Some((at, statistic));
            }
        }
    }
    best
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

    /// The statistic of x[..at] and x[at..end], by its definition.
    pub(crate) fn statistic(x: &[f64], at: usize, end: usize) -> f64 {
        let mean = |a: &[f64], b: &[f64]| {
            a.iter()
                .flat_map(|a| b.iter().map(move |b| (a - b).abs()))
                .sum::<f64>()
                / (a.len() * b.len()) as f64
        };
        let (a, b) = (&x[..at], &x[at..end]);
        let weight = (a.len() * b.len()) as f64 / end as f64;
        weight * (2.0 * mean(a, b) - mean(a, a) - mean(b, b))
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
    fn a_slowdown_that_was_repaired_does_not_hide_itself() {
        let runs = levels(&[(1000.0, 12), (900.0, 8), (1000.0, 12)], 0.01, 8);
        let got = change_points(&runs, ChangeRule::default());
        assert_eq!(
            got.changes.iter().map(|c| c.index).collect::<Vec<_>>(),
            [12, 20]
        );
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
        fn the_clearest_split_is_that_of_the_definition(
            x in proptest::collection::vec(-5.0f64..5.0, 2..14), shortest in 1usize..4,
        ) {
            let mut want: Option<f64> = None;
            for at in shortest..x.len() {
                for end in at + shortest..=x.len() {
                    let q = statistic(&x, at, end);
                    want = Some(want.map_or(q, |w| w.max(q)));
                }
            }
            match (clearest_split(&x, shortest), want) {
                (Some((at, q)), Some(want)) => {
                    prop_assert!((q - want).abs() < 1e-9);
                    prop_assert!(at >= shortest && at + shortest <= x.len());
                }
                (None, None) => {}
                other => prop_assert!(false, "{other:?}"),
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
