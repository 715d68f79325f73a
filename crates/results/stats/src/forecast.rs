//! How many pairs will it take? Said before a comparison, from the A/A spread.

use super::noise_floor::NoiseFloor;
use super::rank_null::normal_quantile;
use serde::{Deserialize, Serialize};

/// Pairs needed on a machine with a given spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// The relative difference to be shown, 0.01 for 1 %.
    pub delta: f64,
    /// The chance of showing it.
    pub power: f64,
    /// Pairs until a true difference of δ is called faster or slower.
    pub pairs_difference: u64,
    /// Pairs until two equal arms are called equivalent within δ.
    pub pairs_equivalence: u64,
    /// `pairs_difference` should the spread be larger than it looked: held with
    /// a confidence of 90 %. This is the one to promise.
    pub pairs_promised: u64,
}

/// The most pairs a forecast speaks of; beyond, it is `None`.
pub const MOST_PAIRS: f64 = 1e7;

/// Forecasts from a measured noise floor. `None` where δ is 0 or the numbers make
/// no sense (a power outside 0.5 to 1, too many pairs to count).
pub fn forecast(floor: &NoiseFloor, delta: f64, power: f64) -> Option<Forecast> {
    // the standard error of a logarithm of a spread judged from n values; 1.3 for
    // its being judged from an interval's width (by simulation, see the tests)
    let doubt = 1.3 / (2.0 * floor.pairs.max(2) as f64).sqrt();
    let wider = floor.pair_spread * (normal_quantile(0.9) * doubt).exp();
    Some(Forecast {
        delta,
        power,
        pairs_difference: pairs_for_difference(floor.pair_spread, delta, power)?,
        pairs_equivalence: pairs_for_equivalence(floor.pair_spread, delta, power)?,
        pairs_promised: for_blocks(pairs_for_difference(wider, delta, power)?),
    })
}

/// The pairs that it takes because the interval includes the t interval of blocks: a sixth more, by
/// simulation, from 24 pairs on, where blocks begin to be formed.
fn for_blocks(pairs: u64) -> u64 {
    match pairs {
        0..24 => pairs,
        pairs => pairs + pairs / 6,
    }
}

/// How many times as many pairs it takes in so many launches to show what pairs show on one,
/// where launches do not differ. Few launches take more: their spread is less well known,
/// and of six all must agree. That the figures suffice is simulated in the tests.
pub fn more_in_launches(launches: u32) -> f64 {
    match launches {
        0..6 => 1.0, // fewer show nothing anyway
        launches => 1.0 + 4.0 / (f64::from(launches) - 3.5),
    }
}

/// Pairs until a true relative difference `effect` is shown at 95 %, with the
/// given chance, where one pair's log-ratio has standard deviation `spread`.
///
/// The formula of the t-test divided by the efficiency 3/π of the signed-rank
/// test, with Guenther's correction for few pairs (American Statistician 35,
/// 1981); that it holds is simulated in the tests.
pub fn pairs_for_difference(spread: f64, effect: f64, power: f64) -> Option<u64> {
    let shift = effect.ln_1p().abs();
    pairs(
        spread,
        shift,
        normal_quantile(0.975),
        quantile_of_power(power)?,
    )
}

/// Pairs until two arms that do not differ are called equivalent within `delta`,
/// with the given chance: both one-sided tests must succeed.
pub fn pairs_for_equivalence(spread: f64, delta: f64, power: f64) -> Option<u64> {
    let both = quantile_of_power((1.0 + power) / 2.0)?;
    pairs(spread, delta.ln_1p(), normal_quantile(0.95), both)
}

/// The smallest relative difference that so many pairs show with the given chance.
pub fn difference_within_reach(spread: f64, pairs: u64, power: f64) -> Option<f64> {
    let enough = |d: f64| pairs_for_difference(spread, d, power).is_some_and(|n| n <= pairs);
    let (mut low, mut high) = (1e-5f64, 10.0f64);
    if !enough(high) {
        return None;
    }
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

fn quantile_of_power(power: f64) -> Option<f64> {
    (0.5..1.0).contains(&power).then(|| normal_quantile(power))
}

fn pairs(spread: f64, shift: f64, z_test: f64, z_power: f64) -> Option<u64> {
    if !(spread >= 0.0 && spread.is_finite() && shift > 0.0) {
        return None;
    }
    let n = ((z_test + z_power) * spread / shift).powi(2) + z_test * z_test / 2.0;
    let n = (n * std::f64::consts::PI / 3.0)
        .ceil()
        .max(super::FEWEST as f64);
    (n <= MOST_PAIRS).then_some(n as u64)
}

#[cfg(test)]
mod tests {
    use super::super::launches::compare_launches;
    use super::super::paired::compare;
    use super::super::simulate::{self, Noise, normal, rng};
    use super::super::verdict::{Direction, Rule, Verdict};
    use super::*;

    /// The share of simulated comparisons with a verdict.
    fn share(spread: f64, effect: f64, delta: f64, pairs: u64, wanted: Verdict) -> f64 {
        let rule = Rule::new(delta, Direction::HigherIsBetter).expect("a rule");
        let mut rng = rng(7);
        let runs = 600;
        let hits = (0..runs)
            .filter(|_| {
                let pairs: Vec<_> = (0..pairs)
                    .map(|_| (1.0, (effect.ln_1p() + spread * normal(&mut rng)).exp()))
                    .collect();
                compare(&pairs, rule).expect("pairs").verdict == wanted
            })
            .count();
        hits as f64 / f64::from(runs)
    }

    #[test]
    fn the_pairs_forecast_suffice_and_are_not_many_too_many() {
        for (spread, effect) in [(0.03, -0.03), (0.04, -0.02), (0.10, -0.05)] {
            let n = pairs_for_difference(spread, effect, 0.9).expect("a number");
            let kept = share(spread, effect, 0.001, n, Verdict::Slower);
            assert!(
                (0.87..=0.95).contains(&kept),
                "{spread} {effect}: {n} pairs, {kept}"
            );
            let fewer = share(spread, effect, 0.001, n * 7 / 10, Verdict::Slower);
            assert!(
                fewer < 0.87,
                "{spread} {effect}: 7/10 of {n} pairs, {fewer}"
            );
        }
        for (spread, delta) in [(0.03, 0.03), (0.04, 0.02)] {
            let n = pairs_for_equivalence(spread, delta, 0.8).expect("a number");
            let kept = share(spread, 0.0, delta, n, Verdict::Equivalent);
            assert!(
                (0.77..=0.87).contains(&kept),
                "{spread} {delta}: {n} pairs, {kept}"
            );
        }
    }

    #[test]
    fn what_is_promised_from_few_aa_pairs_is_kept() {
        let rule = Rule::new(0.001, Direction::HigherIsBetter).expect("a rule");
        for noise in [Noise::Independent, Noise::HeavyTailed, Noise::Bimodal] {
            let mut rng = rng(11);
            let runs = 200;
            let kept = (0..runs)
                .filter(|_| {
                    let same = noise.pairs(20, 0.02, 0.0, &mut rng);
                    let floor = NoiseFloor::from_pairs(&same).expect("pairs");
                    let n = forecast(&floor, 0.03, 0.9)
                        .expect("a number")
                        .pairs_promised;
                    let pairs = noise.pairs(n as usize, 0.02, -0.03, &mut rng);
                    compare(&pairs, rule).expect("pairs").verdict == Verdict::Slower
                })
                .count();
            let kept = kept as f64 / f64::from(runs);
            assert!(kept >= 0.88, "{}: {kept}", noise.name());
        }
    }

    #[test]
    fn what_is_within_reach_inverts_the_forecast() {
        let reach = difference_within_reach(0.08, 300, 0.9).expect("a difference");
        assert!(pairs_for_difference(0.08, reach, 0.9).expect("pairs") <= 300);
        assert!(pairs_for_difference(0.08, reach * 0.98, 0.9).expect("pairs") > 300);
        assert_eq!(difference_within_reach(0.08, 5, 0.9), None);
    }

    #[test]
    fn launches_keep_what_pairs_promise() {
        let mut rng = rng(5);
        let spread = 0.1;
        let needed = pairs_for_difference(spread, 0.03, 0.9).expect("pairs");
        let rule = Rule::new(0.01, Direction::HigherIsBetter).expect("rule");
        for launches in [6, 8, 12, 20] {
            let all = needed as f64 * more_in_launches(launches);
            let each = (all / f64::from(launches)).ceil() as usize;
            let runs = 300;
            let found = (0..runs)
                .filter(|_| {
                    let size = (launches as usize, each);
                    // both arms of a pair have noise of their own
                    let noise = (spread / std::f64::consts::SQRT_2, 0.0);
                    let measured =
                        simulate::launches(Noise::Independent, size, noise, -0.03, &mut rng);
                    let got = compare_launches(&measured, rule).expect("launches");
                    got.verdict == Verdict::Slower
                })
                .count();
            assert!(found * 100 >= runs * 87, "{launches}: {found} of {runs}");
        }
    }

    #[test]
    fn forecasts_that_make_no_sense_are_none() {
        assert_eq!(pairs_for_difference(0.05, 0.0, 0.9), None);
        assert_eq!(pairs_for_difference(0.05, 0.01, 1.0), None);
        assert_eq!(pairs_for_difference(f64::NAN, 0.01, 0.9), None);
        assert_eq!(pairs_for_difference(0.5, 1e-6, 0.9), None);
        assert_eq!(pairs_for_equivalence(0.05, 0.0, 0.9), None);
        assert_eq!(pairs_for_difference(0.0, 0.01, 0.9), Some(6));
    }
}
