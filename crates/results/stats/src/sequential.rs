//! Stopping early without fooling oneself.
//!
//! Looking at p after every pair and stopping once it is below 0.05 calls equal
//! arms different far more often than 1 time in 20. Here the looks are planned
//! (after how many pairs), and the 5 % are spent over them (Lan and DeMets,
//! Biometrika 70, 1983, with the spending function that imitates O'Brien and
//! Fleming, 2.5 % to either side: little at first, nearly all at the end).
//!
//! How far the statistic must go at each look comes from the sign-flip
//! distribution itself, jointly over all looks so far: given the sizes of the
//! log-ratios that were measured, and in their order, the signs of equal arms are
//! independent coin flips, because the order within each pair was drawn. At least
//! 10,000 seeded draws of them give the share of equal arms that would have been
//! stopped; the observed signs are one more draw among them, so over seeds the rate
//! of false alarms is at most 5 % whatever noise both servers share. That it drifts or
//! comes in bursts changes the sizes and not the signs. Noise of one server alone that
//! lasts longer than a pair makes neighbouring signs dependent: where that is seen,
//! nothing is decided.
//!
//! Equivalence is decided at each look by two one-sided tests at the part of 5 %
//! that is spent there; the parts add up, which needs no assumption at all.

use super::caveat::Caveat;
use super::estimate::{FEWEST, LEVEL, is_autocorrelated, mid_ranks};
use super::paired::{Comparison, Unit, compare_logs, log_ratios};
use super::rank_null::{RankNull, normal_cdf, normal_quantile};
use super::simulate;
use super::verdict::{Rule, StatsError, Verdict};
use rand::Rng as _;
use serde::{Deserialize, Serialize};

/// Sign-flip draws for the boundaries.
pub const DRAWS: usize = 16_384;

/// A comparison that may stop early: its rule and its looks, set beforehand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sequential {
    rule: Rule,
    looks: Vec<usize>,
    seed: u64,
    draws: usize,
}

/// What to do after the pairs so far.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Measure on; nothing is decided before that many pairs.
    Continue {
        /// Pairs at the next look.
        until: usize,
    },
    /// Stop with this result. Its interval covers 95 % with the looks taken into
    /// account; its p is that of this look alone, to be held against `p_needed`.
    Stop {
        /// The result.
        comparison: Box<Comparison>,
        /// The p that a difference needed at this look.
        p_needed: f64,
    },
}

impl Sequential {
    /// A plan with looks after the given numbers of pairs, ascending, the first 6
    /// or more. The seed is that of the boundaries' draws.
    pub fn new(rule: Rule, looks: Vec<usize>, seed: u64) -> Result<Self, StatsError> {
        let rule = Rule::new(rule.delta, rule.direction)?;
        let ascending = looks.windows(2).all(|w| w[0] < w[1]);
        if !ascending || looks.first().is_none_or(|first| *first < FEWEST) {
            return Err(StatsError::BadLooks);
        }
        Ok(Self {
            rule,
            looks,
            seed,
            draws: DRAWS,
        })
    }

    /// A plan with that many looks, evenly spread up to `most` pairs.
    pub fn evenly(rule: Rule, most: usize, looks: usize, seed: u64) -> Result<Self, StatsError> {
        let mut at: Vec<usize> = (1..=looks).map(|i| most * i / looks).collect();
        at.retain(|pairs| *pairs >= FEWEST);
        at.dedup();
        Self::new(rule, at, seed)
    }

    /// The same with another number of draws. The rate of false alarms holds with
    /// any; with fewer the boundaries, and so the power, vary more with the seed.
    pub fn with_draws(mut self, draws: usize) -> Self {
        self.draws = draws.max(256);
        self
    }

    /// The planned looks, in pairs.
    pub fn looks(&self) -> &[usize] {
        &self.looks
    }

    /// Decides after all pairs so far, in the order measured. Between two looks
    /// it only says to continue, so that asking too often does no harm. A pair
    /// that was not measured (a value that is not finite) does not count.
    pub fn decide(&self, pairs: &[(f64, f64)]) -> Result<Decision, StatsError> {
        let mut warnings = Vec::new();
        let mut logs = log_ratios(pairs, &mut warnings);
        let last = self.looks[self.looks.len() - 1];
        logs.truncate(last); // more than planned decide nothing
        let Some(look) = self.looks.iter().position(|n| *n == logs.len()) else {
            let until = self
                .looks
                .iter()
                .copied()
                .find(|n| *n > logs.len())
                .unwrap_or(last);
            return Ok(Decision::Continue { until });
        };
        let (crossed, p_needed) = self.boundary(&logs, look);
        let before = if look == 0 { 0.0 } else { self.spent(look - 1) };
        let levels = (1.0 - p_needed, 1.0 - 2.0 * (self.spent(look) - before));
        let mut comparison = compare_logs(&logs, self.rule, Unit::Pair, levels)?;
        if matches!(comparison.verdict, Verdict::Faster | Verdict::Slower) && !crossed {
            comparison.verdict = Verdict::Inconclusive; // only where values are tied
        }
        let is_last = look + 1 == self.looks.len();
        if is_autocorrelated(&logs) {
            // Then the signs are no independent flips, on which the boundaries rest.
            comparison.verdict = Verdict::Inconclusive;
            comparison.warn(Caveat::AutocorrelatedPairs);
        }
        if comparison.verdict == Verdict::Inconclusive && !is_last {
            return Ok(Decision::Continue {
                until: self.looks[look + 1],
            });
        }
        comparison.ratio.level = comparison.ratio.level.min(LEVEL);
        for warning in warnings {
            comparison.warn(warning);
        }
        if !is_last {
            comparison.warn(Caveat::StoppedEarly);
        }
        Ok(Decision::Stop {
            comparison: Box::new(comparison),
            p_needed,
        })
    }

    /// How much of the 5 % may be spent up to and with a look.
    fn spent(&self, look: usize) -> f64 {
        let share = self.looks[look] as f64 / self.looks[self.looks.len() - 1] as f64;
        let z = normal_quantile((3.0 + LEVEL) / 4.0);
        4.0 * normal_cdf(-z / share.sqrt())
    }

    /// Whether the statistic reaches its boundary at this look, and the p of this
    /// look alone that stands for the boundary.
    fn boundary(&self, logs: &[f64], look: usize) -> (bool, f64) {
        let mut rng = simulate::rng(self.seed);
        let words = self.draws.div_ceil(64);
        let draws = words * 64;
        // one bit for each pair and draw: on whose side the pair fell
        let signs: Vec<u64> = (0..logs.len() * words).map(|_| rng.next_u64()).collect();
        let mut alive = vec![true; draws];
        let mut stopped = 0usize;
        let mut boundary = f64::INFINITY;
        let mut reached = 0.0;
        for (at, &n) in self.looks[..=look].iter().enumerate() {
            let ranks = ranks_of_sizes(&logs[..n]);
            reached = f64::abs((0..n).map(|i| ranks[i] * logs[i].signum()).sum::<f64>());
            // twice the sum of the ranks on one side, less the whole, is the sum
            // of the signed ranks
            let whole: f64 = ranks.iter().sum();
            let mut sums = vec![-whole; draws];
            for (signs, rank) in signs.chunks_exact(words).zip(&ranks) {
                let step = [0.0, 2.0 * rank];
                for (word, sums) in signs.iter().zip(sums.chunks_exact_mut(64)) {
                    for (bit, sum) in sums.iter_mut().enumerate() {
                        *sum += step[(word >> bit & 1) as usize];
                    }
                }
            }
            // the observed signs are one more draw: hence the ones
            let may = (self.spent(at) * (draws + 1) as f64).floor() as usize;
            let room = may.saturating_sub(stopped + 1);
            let mut far: Vec<f64> = sums
                .iter()
                .zip(&alive)
                .map(|(sum, alive)| if *alive { sum.abs() } else { -1.0 })
                .collect();
            // the least value that no more than `room` of the draws reach
            let (_, over, _) = far.select_nth_unstable_by(room, |a, b| b.total_cmp(a));
            boundary = if may > stopped {
                *over + 1e-9
            } else {
                f64::INFINITY
            };
            for (sum, alive) in sums.iter().zip(&mut alive) {
                if *alive && sum.abs() >= boundary {
                    *alive = false;
                    stopped += 1;
                }
            }
        }
        // with T the sum of the ranks on one side, |W| ≥ c is T ≤ (total − c) / 2
        let total = (logs.len() * (logs.len() + 1) / 2) as f64;
        let k = ((total - boundary) / 2.0).floor();
        let p_needed = if k >= 0.0 {
            let null = RankNull::signed_rank(logs.len());
            (2.0 * null.at_most(k as u64)).min(1.0 - LEVEL)
        } else {
            0.0
        };
        (reached >= boundary, p_needed)
    }
}

/// The ranks of the sizes; 0 where the value is 0, whose sign says nothing.
fn ranks_of_sizes(logs: &[f64]) -> Vec<f64> {
    let sizes: Vec<f64> = logs.iter().map(|v| v.abs()).collect();
    let mut ranks = mid_ranks(&sizes);
    for (rank, size) in ranks.iter_mut().zip(&sizes) {
        if *size == 0.0 {
            *rank = 0.0;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::super::simulate::Noise;
    use super::super::verdict::Direction;
    use super::*;

    fn plan(looks: &[usize], delta: f64) -> Sequential {
        let rule = Rule::new(delta, Direction::HigherIsBetter).expect("a rule");
        Sequential::new(rule, looks.to_vec(), 1).expect("a plan")
    }

    #[test]
    fn looks_are_checked() {
        let rule = Rule::new(0.01, Direction::HigherIsBetter).expect("a rule");
        for bad in [vec![], vec![5, 10], vec![12, 12], vec![24, 12]] {
            assert_eq!(Sequential::new(rule, bad, 1), Err(StatsError::BadLooks));
        }
        let plan = Sequential::evenly(rule, 60, 5, 1).expect("a plan");
        assert_eq!(plan.looks(), [12, 24, 36, 48, 60]);
        assert_eq!(
            Sequential::evenly(rule, 12, 4, 1).expect("a plan").looks(),
            [6, 9, 12]
        );
        assert_eq!(
            Sequential::evenly(rule, 60, 0, 1),
            Err(StatsError::BadLooks)
        );
    }

    #[test]
    fn nothing_is_decided_between_looks_and_the_last_one_ends_it() {
        let plan = plan(&[12, 24], 0.01);
        let clear: Vec<_> = (0..30)
            .map(|i| (100.0, 150.0 + f64::from(i * 7 % 30)))
            .collect();
        assert_eq!(
            plan.decide(&clear[..11]),
            Ok(Decision::Continue { until: 12 })
        );
        assert_eq!(
            plan.decide(&clear[..13]),
            Ok(Decision::Continue { until: 24 })
        );
        match plan.decide(&clear[..12]) {
            Ok(Decision::Stop {
                comparison,
                p_needed,
            }) => {
                assert_eq!(comparison.verdict, Verdict::Faster);
                assert!(comparison.p < p_needed && p_needed < 0.006, "{p_needed}");
                assert!(
                    comparison
                        .ratio
                        .warnings
                        .iter()
                        .any(|w| *w == Caveat::StoppedEarly)
                );
            }
            other => panic!("{other:?}"),
        }
        // alternating signs: nothing to be seen, and the last look says so
        let none: Vec<_> = (0..24)
            .map(|i| {
                (
                    100.0,
                    if i % 2 == 0 {
                        130.0 + f64::from(i)
                    } else {
                        75.0
                    },
                )
            })
            .collect();
        match plan.decide(&none) {
            Ok(Decision::Stop {
                comparison,
                p_needed,
            }) => {
                assert_eq!(comparison.verdict, Verdict::Inconclusive);
                assert!((0.03..0.0501).contains(&p_needed), "{p_needed}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn correlated_pairs_decide_nothing_however_clear() {
        let plan = plan(&[12, 24], 0.01);
        let rising: Vec<_> = (0..24).map(|i| (100.0, 150.0 + f64::from(i))).collect();
        assert_eq!(
            plan.decide(&rising[..12]),
            Ok(Decision::Continue { until: 24 })
        );
        match plan.decide(&rising) {
            Ok(Decision::Stop { comparison, .. }) => {
                assert_eq!(comparison.verdict, Verdict::Inconclusive);
                let warnings = &comparison.ratio.warnings;
                assert!(
                    warnings.contains(&Caveat::AutocorrelatedPairs.into()),
                    "{warnings:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_boundaries_are_those_of_obrien_and_fleming_where_noise_is_plain() {
        // five even looks, 0.05 two-sided: z 4.877, 3.357, 2.680, 2.290, 2.031, as
        // tables and packages of group-sequential designs give them (Jennison and
        // Turnbull, Group Sequential Methods, 1999)
        let mut rng = simulate::rng(9);
        let plan = plan(&[60, 120, 180, 240, 300], 0.01);
        let pairs = Noise::Independent.pairs(300, 0.03, 0.0, &mut rng);
        let logs = log_ratios(&pairs, &mut Vec::new());
        for (look, want) in [(2, 0.00736), (3, 0.0220), (4, 0.0423)] {
            let (_, p) = plan.boundary(&logs[..plan.looks[look]], look);
            assert!(
                (p / want - 1.0).abs() < 0.15,
                "look {look}: {p}, not {want}"
            );
        }
    }

    #[test]
    fn false_alarms_stay_rare_and_effects_are_found_sooner() {
        let looks = plan(&[8, 16, 24, 32], 0.0).with_draws(1024);
        let runs = 300;
        for noise in [Noise::Independent, Noise::Drifting] {
            let mut rng = simulate::rng(21);
            let mut run = |effect: f64| {
                let pairs = noise.pairs(32, 0.02, effect, &mut rng);
                for n in looks.looks() {
                    if let Ok(Decision::Stop { comparison, .. }) = looks.decide(&pairs[..*n]) {
                        return (comparison.verdict, *n);
                    }
                }
                panic!("the last look stops");
            };
            let alarms = (0..runs)
                .filter(|_| run(0.0).0 != Verdict::Inconclusive)
                .count();
            // 5 % and three standard deviations of that count
            assert!(alarms <= 26, "{}: {alarms} of {runs}", noise.name());
            let found: Vec<_> = (0..50).map(|_| run(-0.04)).collect();
            let slower = found.iter().filter(|(v, _)| *v == Verdict::Slower).count();
            let early = found.iter().filter(|(_, n)| *n < 32).count();
            assert!(
                slower >= 45 && early >= 35,
                "{}: {slower}, {early}",
                noise.name()
            );
        }
    }
}
