//! Comparing by launches: servers that were created and started several times.

use super::estimate::{FEWEST, LEVEL};
use super::order::{Walsh, sorted_finite};
use super::paired::{Comparison, EQUIVALENCE_LEVEL, LaunchSpread, Unit, compare_logs, log_ratios};
use super::verdict::{Rule, StatsError};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The most observations with which the intervals include Student's t interval.
const FEW: usize = 12;

/// With few observations the signed-rank test decides almost by signs alone: seven launches that lie
/// a little to one side are the same to it as seven that lie far. Student's t weighs how far. Both must
/// agree, so each interval becomes the hull of the two, and p the larger.
pub fn include_t_interval(comparison: &mut Comparison, centres: &[f64]) {
    let n = centres.len();
    if !(FEWEST..=FEW).contains(&n) {
        return;
    }
    let count = n as f64;
    let mean = centres.iter().sum::<f64>() / count;
    let squares: f64 = centres.iter().map(|v| (v - mean) * (v - mean)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let Ok(t) = StudentsT::new(0.0, 1.0, count - 1.0) else {
        return;
    };
    let reach = |level: f64| error * t.inverse_cdf(0.5 + level / 2.0);
    let hull = |low: &mut f64, high: &mut f64, reach: f64| {
        *low = low.min((mean - reach).exp());
        *high = high.max((mean + reach).exp());
    };
    let wide = &mut comparison.ratio;
    hull(&mut wide.low, &mut wide.high, reach(LEVEL));
    let narrow = &mut comparison.equivalence_interval;
    hull(&mut narrow.low, &mut narrow.high, reach(EQUIVALENCE_LEVEL));
    if error > 0.0 {
        comparison.p = comparison.p.max(2.0 * t.cdf(-(mean / error).abs()));
    }
    comparison.widen(0.0);
}

/// Compares by launches: each entry holds the pairs of one launch of A beside one
/// launch of B. What a launch is lucky or unlucky with (memory layout, the page
/// allocator, the place of its processes) is the same in all its pairs, so the
/// pairs of one launch are one observation, and the interval is over launches.
pub fn compare_launches(
    launches: &[Vec<(f64, f64)>],
    rule: Rule,
) -> Result<Comparison, StatsError> {
    let mut warnings = Vec::new();
    let mut centres = Vec::new();
    let (mut within, mut degrees, mut inherited) = (0.0, 0.0, 0.0);
    for launch in launches {
        let (logs, _) = sorted_finite(&log_ratios(launch, &mut warnings));
        if logs.is_empty() {
            continue;
        }
        centres.push(Walsh(&logs).median());
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        within += logs.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
        degrees += n - 1.0;
        inherited += 1.0 / n;
    }
    let mut comparison = compare_logs(&centres, rule, Unit::Launch, (LEVEL, EQUIVALENCE_LEVEL))?;
    include_t_interval(&mut comparison, &centres);
    comparison.pairs = launches.iter().map(Vec::len).sum();
    let n = centres.len() as f64;
    if n >= 2.0 && degrees > 0.0 {
        let mean = centres.iter().sum::<f64>() / n;
        let seen = centres.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
        let within = within / degrees;
        comparison.launch_spread = Some(LaunchSpread {
            between: (seen - within * inherited / n).max(0.0).sqrt(),
            within: within.sqrt(),
        });
    }
    for warning in warnings {
        comparison.warn(warning);
    }
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use super::super::caveat::Caveat;
    use super::super::paired::compare;
    use super::super::paired::tests::{has, rule};
    use super::super::simulate::{self, Noise};
    use super::super::verdict::Verdict;
    use super::*;

    #[test]
    fn few_launches_must_also_lie_far_enough_to_one_side() {
        // seven launches on the same side decide by signs, p = 1/64, however near to nothing
        let launch = |by: f64| vec![(100.0, 100.0 * (1.0 + by)); 10];
        let near: Vec<_> = [0.0004, 0.0005, 0.0003, 0.03, 0.0002, 0.04, 0.0001]
            .map(launch)
            .to_vec();
        let got = compare_launches(&near, rule(0.0001)).expect("launches");
        assert_eq!(got.verdict, Verdict::Inconclusive, "{got:?}");
        assert!(got.p > 0.05 && got.ratio.holds(1.0));
        let clear: Vec<_> = [0.04, 0.05, 0.03, 0.06, 0.04, 0.05, 0.045]
            .map(launch)
            .to_vec();
        let got = compare_launches(&clear, rule(0.01)).expect("launches");
        assert_eq!(got.verdict, Verdict::Faster);
        assert!(got.p < 0.016 && got.ratio.low > 1.03, "{got:?}");
    }

    #[test]
    fn launches_are_the_unit_where_they_differ() {
        let mut rng = simulate::rng(3);
        let runs = 400;
        let (mut by_pairs, mut by_launches) = (0, 0);
        for _ in 0..runs {
            let measured =
                simulate::launches(Noise::Independent, (8, 10), (0.02, 0.02), 0.0, &mut rng);
            let differs = |v: Verdict| matches!(v, Verdict::Faster | Verdict::Slower);
            let pooled = compare(&measured.concat(), rule(0.001)).expect("pairs");
            by_pairs += u32::from(differs(pooled.verdict));
            let launches = compare_launches(&measured, rule(0.001)).expect("launches");
            by_launches += u32::from(differs(launches.verdict));
            assert_eq!((launches.ratio.n, launches.pairs), (8, 80));
        }
        assert!(by_launches * 20 <= runs, "{by_launches} of {runs}");
        assert!(
            by_pairs * 4 > runs,
            "only {by_pairs} of {runs}: then why launches?"
        );
    }

    #[test]
    fn the_spread_of_launches_is_told_from_that_of_pairs() {
        let mut rng = simulate::rng(4);
        let measured =
            simulate::launches(Noise::Independent, (200, 20), (0.03, 0.02), 0.0, &mut rng);
        let got = compare_launches(&measured, rule(0.01)).expect("launches");
        let spread = got.launch_spread.expect("many launches");
        assert!(
            (spread.between / (0.02 * 2f64.sqrt()) - 1.0).abs() < 0.15,
            "{spread:?}"
        );
        assert!(
            (spread.within / (0.03 * 2f64.sqrt()) - 1.0).abs() < 0.05,
            "{spread:?}"
        );
        let few = compare_launches(&measured[..5], rule(0.01)).expect("launches");
        assert_eq!(few.verdict, Verdict::Inconclusive);
        assert!(has(&few, Caveat::TooFewLaunches));
    }
}
