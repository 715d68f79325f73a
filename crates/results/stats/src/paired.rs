//! Paired comparison: is B different from A, by how much, and how sure are we?
//!
//! The pairs are measured next to each other, in an order that was drawn for
//! each. So if the arms are the same, the sign of every log-ratio is a coin flip
//! given its size, whatever the noise does (drifts, waves, bursts), and the
//! signed-rank test is exact without assuming anything about it. The interval
//! inverts the same test and excludes "no difference" exactly where p ≤ 0.05.
//! A mean would let one wild pair hide eleven clear ones; ranks do not.

use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::caveat::{Caveat, add};
use super::estimate::{Estimate, FEWEST, LEVEL, pseudo_median};
use super::noise_floor::NoiseFloor;
use super::order::{Walsh, sorted_finite};
use super::rank_null::RankNull;
use super::verdict::{Rule, StatsError, Verdict};

/// The level of the interval that decides equivalence: two one-sided tests at
/// 5 % each (Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987).
pub const EQUIVALENCE_LEVEL: f64 = 0.90;

/// The log-ratio that stands for "infinitely more": one side did nothing at all.
/// Only its rank matters.
const ALL_OR_NOTHING: f64 = 20.0;

/// What was drawn anew each time and so is what the interval speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Pairs of slices on the same two servers: the claim is about these launches.
    Pair,
    /// Pairs of launches: the claim is about the builds or settings.
    Launch,
    /// Recorded runs, not interleaved.
    Run,
    /// Trials inside one recorded run a side.
    Trial,
}

/// An interval of the ratio of B to A.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Its coverage.
    pub level: f64,
}

/// A comparison of one quantity at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// What was decided.
    pub verdict: Verdict,
    /// B divided by A; 1.02 is 2 % more. Its warnings are those of the comparison.
    pub ratio: Estimate,
    /// The interval that decides equivalence.
    pub equivalence_interval: Interval,
    /// Two-sided p-value of "no difference".
    pub p: f64,
    /// p after Holm's correction, where this is one of a family.
    pub p_family: Option<f64>,
    /// The rule that was set.
    pub rule: Rule,
    /// What the interval speaks of.
    pub unit: Unit,
    /// Measurements of each arm: pairs, also where the unit is the launch.
    pub pairs: usize,
    /// The standard deviation of one unit's log-ratio: 0.04 for 4 %. That of the
    /// normal distribution which would give an interval as wide.
    pub spread: Option<f64>,
    /// How much of the spread is the launches' and how much the pairs'.
    pub launch_spread: Option<LaunchSpread>,
    /// What identical arms show here.
    pub noise_floor: Option<NoiseFloor>,
}

/// Where the spread comes from; standard deviations of log-ratios.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaunchSpread {
    /// Between launches, beyond what their pairs explain.
    pub between: f64,
    /// Between the pairs of one launch.
    pub within: f64,
}

impl Comparison {
    /// Adds a warning to the figure unless it is there already.
    pub fn warn(&mut self, warning: impl Into<Warning>) {
        self.ratio.warn(warning);
    }

    /// The spread of a pair, also where launches are the unit.
    pub fn pair_spread(&self) -> Option<f64> {
        self.launch_spread.map(|s| s.within).or(self.spread)
    }

    /// Holds the result against the noise floor, which can only take a verdict away: a report must not
    /// call a difference shown that its own identical arms show, too. If they differ, the intervals are
    /// widened by the least difference between them; a difference below the floor, scaled to as many of
    /// its units as were compared, is inconclusive.
    pub fn with_noise_floor(mut self, floor: Option<(NoiseFloor, Unit)>) -> Self {
        match &floor {
            None => self.warn(Caveat::NoNoiseFloor),
            Some((floor, unit)) => {
                let compared = match unit {
                    Unit::Pair => self.pairs,
                    _ => self.ratio.n,
                };
                if floor.shifted() {
                    // What one launch was lucky with averages out over launches.
                    let averaged = match (unit, self.unit) {
                        (Unit::Pair, Unit::Launch) => (self.ratio.n as f64).sqrt(),
                        _ => 1.0,
                    };
                    self.widen(floor.least_difference() / averaged);
                    self.warn(Caveat::NoiseFloorShifted);
                }
                let decided = matches!(self.verdict, Verdict::Faster | Verdict::Slower);
                if decided && self.ratio.estimate.ln().abs() < floor.scaled_to(compared) {
                    self.verdict = Verdict::Inconclusive;
                    self.warn(Caveat::BelowNoiseFloor);
                }
            }
        }
        self.noise_floor = floor.map(|(floor, _)| floor);
        self
    }

    /// Moves both ends of both intervals outwards by a log-ratio; a verdict that no longer follows
    /// from them becomes inconclusive.
    pub fn widen(&mut self, by: f64) {
        self.ratio.low *= (-by).exp();
        self.ratio.high *= by.exp();
        self.equivalence_interval.low *= (-by).exp();
        self.equivalence_interval.high *= by.exp();
        let narrow = &self.equivalence_interval;
        let margin = self.rule.delta.ln_1p();
        let holds = match self.verdict {
            Verdict::Faster | Verdict::Slower => !self.ratio.holds(1.0),
            Verdict::Equivalent => -margin < narrow.low.ln() && narrow.high.ln() < margin,
            Verdict::Inconclusive | Verdict::NotComparable => true,
        };
        if !holds {
            self.verdict = Verdict::Inconclusive;
        }
    }

    /// Marks the arms as differing beyond the plan; the figures stay to be seen.
    pub fn not_comparable(mut self, why: Warning) -> Self {
        self.verdict = Verdict::NotComparable;
        self.warn(why);
        self
    }
}

/// Compares the arms of pairs (a, b) measured side by side in random order.
///
/// Fewer than 6 pairs give figures and never a verdict but inconclusive. A pair
/// with a value that is not finite was not measured and is left out with a
/// warning; one in which one arm got nothing done at all stands as the largest
/// difference there is.
pub fn compare(pairs: &[(f64, f64)], rule: Rule) -> Result<Comparison, StatsError> {
    let mut warnings = Vec::new();
    let logs = log_ratios(pairs, &mut warnings);
    let mut comparison = compare_logs(&logs, rule, Unit::Pair, (LEVEL, EQUIVALENCE_LEVEL))?;
    for warning in warnings {
        comparison.warn(warning);
    }
    Ok(comparison)
}

/// ln(b / a) of each pair that was measured.
pub fn log_ratios(pairs: &[(f64, f64)], warnings: &mut Vec<Warning>) -> Vec<f64> {
    let mut logs = Vec::with_capacity(pairs.len());
    for &(a, b) in pairs {
        if !(a.is_finite() && b.is_finite()) {
            add(warnings, Caveat::NonFiniteDropped);
            continue;
        }
        logs.push(match (a > 0.0, b > 0.0) {
            (true, true) => (b.ln() - a.ln()).clamp(-ALL_OR_NOTHING, ALL_OR_NOTHING),
            (a, b) => {
                add(warnings, Caveat::NonPositive);
                ALL_OR_NOTHING * f64::from(i8::from(b) - i8::from(a))
            }
        });
    }
    logs
}

/// Compares by log-ratios, with the levels of the interval that decides a
/// difference and of the one that decides equivalence.
pub fn compare_logs(
    logs: &[f64],
    rule: Rule,
    unit: Unit,
    (wide, narrow): (f64, f64),
) -> Result<Comparison, StatsError> {
    let rule = Rule::new(rule.delta, rule.direction)?; // its fields are public
    let (sorted, _) = sorted_finite(logs);
    let null = RankNull::signed_rank(sorted.len());
    let mut log_ratio = pseudo_median(&sorted, &null, wide).ok_or(StatsError::NoPairs)?;
    let equivalence = pseudo_median(&sorted, &null, narrow).ok_or(StatsError::NoPairs)?;
    let enough = sorted.len() >= FEWEST;
    if !enough {
        log_ratio.warn(match unit {
            Unit::Launch => Caveat::TooFewLaunches,
            _ => Caveat::TooFewPairs,
        });
    }
    // where no interval of that level exists, it is the whole line
    let of_level = |e: &Estimate, level: f64| {
        if e.level >= level {
            (e.low, e.high)
        } else {
            (f64::NEG_INFINITY, f64::INFINITY)
        }
    };
    let verdict = if enough {
        rule.decide(of_level(&log_ratio, wide), of_level(&equivalence, narrow))
    } else {
        Verdict::Inconclusive
    };
    let (below, above) = Walsh(&sorted).around(0.0);
    Ok(Comparison {
        verdict,
        p: null.p_two_sided(below, above),
        p_family: None,
        ratio: log_ratio.map(f64::exp),
        equivalence_interval: Interval {
            low: equivalence.low.exp(),
            high: equivalence.high.exp(),
            level: equivalence.level,
        },
        rule,
        unit,
        pairs: sorted.len(),
        spread: spread(&sorted, &null),
        launch_spread: None,
        noise_floor: None,
    })
}

/// The standard deviation that the values would have if they were normal, judged
/// by how wide the test's own interval is; so it holds what the test will do with
/// heavy tails. `None` below 2 values.
///
/// The half-width is t·σ/√(n·3/π), 3/π being the efficiency of the signed-rank
/// test where the values are normal (Lehmann, Nonparametrics, 1975).
pub fn spread(sorted: &[f64], null: &RankNull) -> Option<f64> {
    let n = sorted.len() as f64;
    let (first, last) = (sorted.first()?, sorted.last()?);
    if sorted.len() < 2 {
        return None;
    }
    if sorted.len() < FEWEST {
        let mean = sorted.iter().sum::<f64>() / n;
        let squares: f64 = sorted.iter().map(|v| (v - mean) * (v - mean)).sum();
        return Some((squares / (n - 1.0)).sqrt());
    }
    // the interval at 80 %, well inside the tails, is the steadier gauge
    let walsh = Walsh(sorted);
    let (width, tail) = match null.trim(0.80) {
        Some(k) => (
            walsh.nth(walsh.number() - k) - walsh.nth(k + 1),
            null.at_most(k),
        ),
        None => (last - first, null.at_most(0)),
    };
    let t = StudentsT::new(0.0, 1.0, n - 1.0)
        .ok()?
        .inverse_cdf(1.0 - tail);
    Some(width / 2.0 / t * (n * 3.0 / std::f64::consts::PI).sqrt())
}

/// The standard error of the pseudo-median of n values with that [`spread`]: 3/π is the test's
/// efficiency where the values are normal, which is what the spread was taken for.
pub fn standard_error(spread: f64, n: usize) -> f64 {
    spread / (n as f64 * 3.0 / std::f64::consts::PI).sqrt()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::launches::compare_launches;
    use super::super::simulate::{self, Noise};
    use super::super::verdict::Direction;
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn rule(delta: f64) -> Rule {
        Rule::new(delta, Direction::HigherIsBetter).expect("a rule")
    }

    pub(crate) fn has(comparison: &Comparison, caveat: Caveat) -> bool {
        comparison.ratio.warnings.iter().any(|w| *w == caveat)
    }

    #[test]
    fn five_pairs_show_nothing_and_six_may() {
        let pairs: Vec<_> = (0..6).map(|i| (100.0, 200.0 + f64::from(i))).collect();
        let five = compare(&pairs[..5], rule(0.01)).expect("pairs");
        assert_eq!(five.verdict, Verdict::Inconclusive);
        assert_eq!((five.ratio.level, five.p), (0.9375, 0.0625));
        assert!(has(&five, Caveat::TooFewPairs));
        let six = compare(&pairs, rule(0.01)).expect("pairs");
        assert_eq!((six.verdict, six.p), (Verdict::Faster, 0.03125));
        assert!(six.ratio.warnings.is_empty());
    }

    #[test]
    fn one_wild_pair_does_not_hide_eleven_clear_ones() {
        let mut pairs: Vec<_> = (0..11)
            .map(|i| (100.0, 103.0 + f64::from(i) / 10.0))
            .collect();
        pairs.push((100.0, 10.0));
        let got = compare(&pairs, rule(0.01)).expect("pairs");
        assert_eq!(got.verdict, Verdict::Faster);
        let mean: f64 = pairs.iter().map(|(a, b)| (b / a).ln()).sum::<f64>() / 12.0;
        assert!(mean < 0.0);
    }

    #[test]
    fn identical_pairs_are_equivalent_and_say_so() {
        let same = compare(&[(3.0, 3.0); 12], rule(0.01)).expect("pairs");
        assert_eq!(
            (same.verdict, same.p, same.spread),
            (Verdict::Equivalent, 1.0, Some(0.0))
        );
        assert_eq!((same.ratio.low, same.ratio.high), (1.0, 1.0));
        assert!(has(&same, Caveat::IdenticalValues));
        // counts that differ by the same factor in every pair
        let factor = compare(&[(100.0, 102.0); 12], rule(0.01)).expect("pairs");
        assert_eq!(factor.verdict, Verdict::Faster);
    }

    #[test]
    fn unusable_pairs() {
        assert_eq!(compare(&[], rule(0.01)), Err(StatsError::NoPairs));
        assert_eq!(
            compare(&[(f64::NAN, 1.0)], rule(0.01)),
            Err(StatsError::NoPairs)
        );
        let bad = Rule {
            delta: -1.0,
            direction: Direction::HigherIsBetter,
        };
        assert_eq!(compare(&[(1.0, 1.0)], bad), Err(StatsError::BadDelta(-1.0)));
        let mut pairs: Vec<_> = (0..12).map(|i| (100.0 + f64::from(i), 110.0)).collect();
        pairs.push((f64::INFINITY, 1.0));
        pairs.push((100.0, 0.0));
        pairs.push((0.0, 0.0));
        let got = compare(&pairs, rule(0.01)).expect("pairs");
        assert_eq!(got.pairs, 14);
        assert!(has(&got, Caveat::NonFiniteDropped) && has(&got, Caveat::NonPositive));
    }

    #[test]
    fn the_noise_floor_is_put_beside_the_result() {
        let mut rng = simulate::rng(5);
        let same = Noise::Independent.pairs(40, 0.03, 0.0, &mut rng);
        let floor = NoiseFloor::from_pairs(&same).expect("pairs");
        assert!((floor.pair_spread / (0.03 * 2f64.sqrt()) - 1.0).abs() < 0.3);
        assert!(floor.floor > 0.005 && floor.floor < 0.03, "{}", floor.floor);
        let clear = Noise::Independent.pairs(40, 0.03, 0.1, &mut rng);
        let got = compare(&clear, rule(0.01)).expect("pairs");
        assert!(has(
            &got.clone().with_noise_floor(None),
            Caveat::NoNoiseFloor
        ));
        let got = got.with_noise_floor(Some((floor.clone(), Unit::Pair)));
        assert_eq!(got.verdict, Verdict::Faster);
        assert!(!has(&got, Caveat::BelowNoiseFloor));

        // the same few pairs against a floor that is far above them
        let slight: Vec<_> = (0..12)
            .map(|i| (100.0, 101.5 + f64::from(i) / 100.0))
            .collect();
        let got = compare(&slight, rule(0.01)).expect("pairs");
        assert_eq!(got.verdict, Verdict::Faster);
        let got = got.with_noise_floor(Some((floor, Unit::Pair)));
        assert_eq!(got.verdict, Verdict::Inconclusive);
        assert!(has(&got, Caveat::BelowNoiseFloor));
    }

    #[test]
    fn a_floor_that_is_shifted_widens_the_intervals() {
        let told_apart: Vec<_> = (0..12)
            .map(|i| (100.0, 105.0 + f64::from(i % 3) / 10.0))
            .collect();
        let shifted = NoiseFloor::from_pairs(&told_apart).expect("pairs");
        assert!(shifted.shifted());
        let by_5 = |b: f64| (0..40).map(move |i| (100.0, b + f64::from(i % 4) / 10.0));
        // 4 % more where equal servers lie 5 % apart, and 20 % more
        let by = shifted.least_difference().exp();
        assert!((1.04..1.055).contains(&by), "{by}");
        for (b, verdict) in [
            (104.0, Verdict::Inconclusive),
            (120.0, Verdict::Faster),
            (100.0, Verdict::Inconclusive),
        ] {
            let pairs: Vec<_> = by_5(b).collect();
            let alone = compare(&pairs, rule(0.01)).expect("pairs");
            assert_ne!(alone.verdict, Verdict::Inconclusive);
            let got = alone
                .clone()
                .with_noise_floor(Some((shifted.clone(), Unit::Pair)));
            assert_eq!(got.verdict, verdict, "{b}");
            assert!((alone.ratio.low / got.ratio.low - by).abs() < 1e-9);
            assert!((got.ratio.high / alone.ratio.high - by).abs() < 1e-9);
        }
    }

    fn some_pairs() -> impl Strategy<Value = Vec<(f64, f64)>> {
        proptest::collection::vec((0.5f64..2.0, 0.5f64..2.0), 1..40)
    }

    proptest! {
        #[test]
        fn exchanging_the_arms_exchanges_the_verdict(pairs in some_pairs(), delta in 0.0f64..0.3) {
            let swapped: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let (x, y) = (compare(&pairs, rule(delta)).expect("pairs"), compare(&swapped, rule(delta)).expect("pairs"));
            prop_assert_eq!(x.verdict, y.verdict.swapped());
            prop_assert!((x.ratio.estimate * y.ratio.estimate - 1.0).abs() < 1e-12);
            prop_assert!((x.ratio.low * y.ratio.high - 1.0).abs() < 1e-12);
            prop_assert_eq!(x.p, y.p);
        }

        #[test]
        fn the_direction_exchanges_faster_and_slower(pairs in some_pairs(), delta in 0.0f64..0.3) {
            let down = Rule { delta, direction: Direction::LowerIsBetter };
            let (x, y) = (compare(&pairs, rule(delta)).expect("pairs"), compare(&pairs, down).expect("pairs"));
            prop_assert_eq!(x.verdict, y.verdict.swapped());
            prop_assert_eq!(x.ratio, y.ratio);
        }

        #[test]
        fn the_order_of_pairs_does_not_matter(mut pairs in some_pairs(), turn in 0usize..40) {
            let before = compare(&pairs, rule(0.01)).expect("pairs");
            let len = pairs.len();
            pairs.rotate_left(turn % len);
            prop_assert_eq!(before, compare(&pairs, rule(0.01)).expect("pairs"));
        }

        #[test]
        fn the_unit_of_the_quantity_does_not_matter(pairs in some_pairs(), factor in 1e-3f64..1e6) {
            let x = compare(&pairs, rule(0.01)).expect("pairs");
            let scaled: Vec<_> = pairs.iter().map(|(a, b)| (a * factor, b * factor)).collect();
            let y = compare(&scaled, rule(0.01)).expect("pairs");
            prop_assert_eq!(x.verdict, y.verdict);
            prop_assert!((x.ratio.estimate - y.ratio.estimate).abs() < 1e-9);
        }

        #[test]
        fn p_and_the_interval_agree(pairs in some_pairs()) {
            let x = compare(&pairs, rule(0.0)).expect("pairs");
            prop_assert!(x.ratio.low <= x.ratio.estimate && x.ratio.estimate <= x.ratio.high);
            if x.pairs >= FEWEST {
                prop_assert_eq!(x.p <= 0.05 + 2e-12, !x.ratio.holds(1.0));
                prop_assert!(x.equivalence_interval.low >= x.ratio.low);
                prop_assert!(x.equivalence_interval.high <= x.ratio.high);
            } else {
                prop_assert_eq!(x.verdict, Verdict::Inconclusive);
            }
        }

        #[test]
        fn nothing_makes_it_panic(
            pairs in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..30), delta in any::<f64>(),
        ) {
            let rule = Rule { delta, direction: Direction::LowerIsBetter };
            let _ = (compare(&pairs, rule), compare_launches(&[pairs.clone(), pairs.clone()], rule), NoiseFloor::from_pairs(&pairs));
        }
    }
}
