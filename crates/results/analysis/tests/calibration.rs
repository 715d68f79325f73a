//! A small fixed-seed part of what `make calibrate` simulates at length: how often
//! equal arms are called different, and how often intervals hold the truth.

use pgassay_analysis::stats::simulate::{Noise, rng};
use pgassay_analysis::stats::{Direction, Rule, Verdict, compare};

const COMPARISONS: u32 = 2_000;

/// The shares of "different" and of intervals that hold the truth.
fn simulate(noise: Noise, pairs: usize, effect: f64) -> (f64, f64) {
    // with δ of 0 nothing is equivalent, so that every false alarm is counted
    let rule = Rule::new(0.0, Direction::HigherIsBetter).expect("a rule");
    let mut rng = rng(2026);
    let (mut different, mut held) = (0, 0);
    for _ in 0..COMPARISONS {
        let pairs = noise.pairs(pairs, 0.03, effect, &mut rng);
        let got = compare(&pairs, rule).expect("pairs");
        different += u32::from(matches!(got.verdict, Verdict::Faster | Verdict::Slower));
        held += u32::from(got.ratio.holds(1.0 + effect));
    }
    (
        f64::from(different) / f64::from(COMPARISONS),
        f64::from(held) / f64::from(COMPARISONS),
    )
}

#[test]
fn equal_arms_are_rarely_called_different_whatever_the_noise() {
    for noise in Noise::ALL {
        let (different, held) = simulate(noise, 12, 0.0);
        assert!(different <= 0.05, "{}: {different}", noise.name());
        assert!(held >= 0.93, "{}: {held}", noise.name());
        // a test that never says "different" would pass the above
        assert!(different >= 0.02, "{}: {different}", noise.name());
    }
}

#[test]
fn an_effect_is_covered_whatever_the_noise() {
    for noise in Noise::ALL {
        let (_, held) = simulate(noise, 12, -0.05);
        assert!((0.93..=0.98).contains(&held), "{}: {held}", noise.name());
    }
}
