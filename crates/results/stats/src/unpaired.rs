//! Two recorded runs that were not interleaved, and what such a comparison is
//! worth.
//!
//! Trials of one run share its launch, its hour and its neighbours on the
//! machine. With one run a side, an interval over their trials says how well each
//! run knows itself, not how far two runs of the same thing lie apart. So a
//! verdict is given only where runs are the unit (several a side), or where it is
//! known how far apart equal runs lie; otherwise it is inconclusive, with the
//! difference between these two runs shown as what it is.

use super::caveat::Caveat;
use super::estimate::{Estimate, FEWEST, LEVEL};
use super::order::{Differences, median_of_sorted, sorted_finite};
use super::paired::{Comparison, EQUIVALENCE_LEVEL, Interval, Unit};
use super::rank_null::{RankNull, normal_cdf, normal_quantile};
use super::verdict::{Rule, StatsError, Verdict};

/// The fewest runs a side that can show a difference at 95 %: with 4 and 4 the
/// smallest p is 0.029.
pub const FEWEST_RUNS: usize = 4;

/// Compares recorded runs: the trials of each run of A, and of B.
///
/// `between_runs` is the standard deviation of the logarithm between runs of the
/// same thing (0.03 for 3 %), from a history of them, where one is known. With
/// [`FEWEST_RUNS`] or more runs a side it is not needed.
pub fn compare_runs(
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    between_runs: Option<f64>,
    rule: Rule,
) -> Result<Comparison, StatsError> {
    let rule = Rule::new(rule.delta, rule.direction)?;
    let mut dropped = false;
    let mut logs = |runs: &[Vec<f64>]| -> Vec<Vec<f64>> {
        runs.iter()
            .map(|trials| {
                let logs: Vec<f64> = trials.iter().map(|v| v.ln()).collect();
                let (sorted, odd) = sorted_finite(&logs); // also those of 0 or less
                dropped |= odd;
                sorted
            })
            .filter(|trials| !trials.is_empty())
            .collect()
    };
    let (a, b) = (logs(a), logs(b));
    let mut comparison = if a.len() >= FEWEST_RUNS && b.len() >= FEWEST_RUNS {
        let centres = |runs: &[Vec<f64>]| -> Vec<f64> {
            let centres: Vec<f64> = runs.iter().filter_map(|r| median_of_sorted(r)).collect();
            sorted_finite(&centres).0
        };
        shift(&centres(&a), &centres(&b), rule, Unit::Run, 0.0)?
    } else {
        let (x, y) = (sorted_finite(&a.concat()).0, sorted_finite(&b.concat()).0);
        let known = between_runs.filter(|s| s.is_finite() && *s >= 0.0);
        // the luck of either side's runs, averaged over them
        let luck = known.map(|s| s * (1.0 / a.len() as f64 + 1.0 / b.len() as f64).sqrt());
        let mut comparison = shift(&x, &y, rule, Unit::Trial, luck.unwrap_or(0.0))?;
        if x.len() < FEWEST || y.len() < FEWEST {
            comparison.verdict = Verdict::Inconclusive;
            comparison.warn(Caveat::TooFewTrials);
        }
        if known.is_none() {
            comparison.verdict = Verdict::Inconclusive;
            comparison.warn(Caveat::OneRun);
        }
        comparison
    };
    comparison.warn(Caveat::Unpaired);
    if dropped {
        comparison.warn(Caveat::NonFiniteDropped);
    }
    Ok(comparison)
}

/// The Hodges–Lehmann shift of b against a, with the intervals that invert the
/// exact Mann–Whitney test, each widened by a known normal `luck`.
fn shift(
    a: &[f64],
    b: &[f64],
    rule: Rule,
    unit: Unit,
    luck: f64,
) -> Result<Comparison, StatsError> {
    if a.is_empty() || b.is_empty() {
        return Err(StatsError::NoPairs);
    }
    let null = RankNull::mann_whitney(a.len(), b.len());
    let differences = Differences { a, b };
    let centre = differences.median();
    let interval = |level: f64| {
        let z = normal_quantile((1.0 + level) / 2.0);
        let (k, covered) = match null.trim(level) {
            Some(k) => (k, level),
            None => (0, null.coverage_of_range()),
        };
        let (low, high) = (
            differences.nth(k + 1),
            differences.nth(differences.number() - k),
        );
        let widened = |reach: f64| reach.hypot(z * luck);
        (
            centre - widened(centre - low),
            centre + widened(high - centre),
            covered,
        )
    };
    let (wide, narrow) = (interval(LEVEL), interval(EQUIVALENCE_LEVEL));
    let enough = wide.2 >= LEVEL && narrow.2 >= EQUIVALENCE_LEVEL;
    let (below, above) = differences.around(0.0);
    let mut p = null.p_two_sided(below, above);
    if luck > 0.0 {
        // the standard error from the widened interval
        let se = (wide.1 - wide.0) / 2.0 / normal_quantile((1.0 + LEVEL) / 2.0);
        p = p.max(2.0 * normal_cdf(-centre.abs() / se));
    }
    Ok(Comparison {
        verdict: if enough {
            rule.decide((wide.0, wide.1), (narrow.0, narrow.1))
        } else {
            Verdict::Inconclusive
        },
        ratio: Estimate {
            estimate: centre.exp(),
            low: wide.0.exp(),
            high: wide.1.exp(),
            level: wide.2,
            n: a.len().min(b.len()),
            warnings: Vec::new(),
        },
        equivalence_interval: Interval {
            low: narrow.0.exp(),
            high: narrow.1.exp(),
            level: narrow.2,
        },
        p,
        p_family: None,
        rule,
        unit,
        pairs: a.len().min(b.len()),
        spread: None,
        launch_spread: None,
        noise_floor: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::simulate::{self, normal};
    use super::super::verdict::Direction;
    use super::*;
    use proptest::prelude::*;

    fn rule() -> Rule {
        Rule::new(0.01, Direction::HigherIsBetter).expect("a rule")
    }

    /// Runs with luck of their own, of some trials each.
    fn runs(count: usize, centre: f64, luck: f64, rng: &mut simulate::Rng) -> Vec<Vec<f64>> {
        (0..count)
            .map(|_| {
                let run = centre.ln() + luck * normal(rng);
                (0..10).map(|_| (run + 0.01 * normal(rng)).exp()).collect()
            })
            .collect()
    }

    fn has(comparison: &Comparison, caveat: Caveat) -> bool {
        comparison.ratio.warnings.iter().any(|w| *w == caveat)
    }

    #[test]
    fn one_run_a_side_has_a_figure_and_no_verdict() {
        let mut rng = simulate::rng(1);
        let (a, b) = (runs(1, 100.0, 0.0, &mut rng), runs(1, 110.0, 0.0, &mut rng));
        let got = compare_runs(&a, &b, None, rule()).expect("runs");
        assert_eq!(
            (got.verdict, got.unit),
            (Verdict::Inconclusive, Unit::Trial)
        );
        assert!(got.p < 0.001 && got.ratio.low > 1.05);
        assert!(has(&got, Caveat::OneRun) && has(&got, Caveat::Unpaired));
        // where equal runs are known to lie 2 % apart, 10 % are shown; at 6 % not
        let known = compare_runs(&a, &b, Some(0.02), rule()).expect("runs");
        assert_eq!(known.verdict, Verdict::Faster);
        assert!(known.ratio.low < got.ratio.low);
        let wide = compare_runs(&a, &b, Some(0.06), rule()).expect("runs");
        assert_eq!(wide.verdict, Verdict::Inconclusive);
        assert!(wide.p > 0.05);
    }

    #[test]
    fn several_runs_a_side_are_the_unit() {
        let mut rng = simulate::rng(2);
        let (a, b) = (
            runs(6, 100.0, 0.01, &mut rng),
            runs(6, 110.0, 0.01, &mut rng),
        );
        let got = compare_runs(&a, &b, None, rule()).expect("runs");
        assert_eq!(
            (got.verdict, got.unit, got.ratio.n),
            (Verdict::Faster, Unit::Run, 6)
        );
        assert!(has(&got, Caveat::Unpaired) && !has(&got, Caveat::OneRun));
    }

    #[test]
    fn runs_as_the_unit_and_a_known_spread_rarely_see_what_is_not_there() {
        let mut rng = simulate::rng(3);
        let times = 1000;
        let (mut by_runs, mut by_spread) = (0, 0);
        for _ in 0..times {
            let (a, b) = (
                runs(5, 100.0, 0.03, &mut rng),
                runs(5, 100.0, 0.03, &mut rng),
            );
            let differs = |c: Result<Comparison, StatsError>| {
                u32::from(matches!(
                    c.expect("runs").verdict,
                    Verdict::Faster | Verdict::Slower
                ))
            };
            by_runs += differs(compare_runs(&a, &b, None, rule()));
            by_spread += differs(compare_runs(&a[..1], &b[..1], Some(0.03), rule()));
        }
        assert!(by_runs <= 50, "{by_runs} of {times}");
        // 5 % and three standard deviations of the count
        assert!(by_spread <= 70, "{by_spread} of {times}");
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(
            compare_runs(&[], &[vec![1.0]], None, rule()),
            Err(StatsError::NoPairs)
        );
        let stalled = compare_runs(&[vec![0.0]], &[vec![1.0]], None, rule());
        assert_eq!(stalled, Err(StatsError::NoPairs));
        let few = compare_runs(&[vec![1.0, 1.1]], &[vec![2.0, 2.1]], Some(0.0), rule());
        let few = few.expect("runs");
        assert_eq!(few.verdict, Verdict::Inconclusive);
        assert!(has(&few, Caveat::TooFewTrials));
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_exchanges_the_verdict(
            a in proptest::collection::vec(0.5f64..2.0, 1..20),
            b in proptest::collection::vec(0.5f64..2.0, 1..20),
            spread in proptest::option::of(0.0f64..0.2),
        ) {
            let (a, b) = ([a], [b]);
            let x = compare_runs(&a, &b, spread, rule()).expect("runs");
            let y = compare_runs(&b, &a, spread, rule()).expect("runs");
            prop_assert_eq!(x.verdict, y.verdict.swapped());
            prop_assert!((x.ratio.estimate * y.ratio.estimate - 1.0).abs() < 1e-9);
            prop_assert!((x.ratio.low * y.ratio.high - 1.0).abs() < 1e-9);
            prop_assert!(x.ratio.low <= x.ratio.estimate && x.ratio.estimate <= x.ratio.high);
        }
    }
}
