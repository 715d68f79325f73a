//! One question, measured several times: the pairs of several runs taken together.
//!
//! Runs on different machines have pairs of different spread, so their differences
//! can't be thrown into one heap. Two readings, by how many runs there are:
//!
//! - **6 runs or more**: the run is the unit, as the launch is within one. The
//!   interval speaks of machines and occasions like these.
//! - **fewer**: the pairs are the unit, ranked within their run only, and the test
//!   adds up the runs' signed-rank statistics with weights 1/((n + 1) σ): van
//!   Elteren's for a run of n pairs (Bulletin of the International Statistical
//!   Institute 37, 1960), and σ, how much pairs of equal servers spread there, so that
//!   a loud machine does not drown a quiet one. σ is known before the pairs are
//!   measured, so the weights don't depend on them. Under "no difference in any of
//!   them" every sign is a coin flip, so the null distribution is exact however the
//!   runs' noise differs. The interval inverts that test. It speaks of these runs,
//!   and of one difference common to them; where they are shown not to share one
//!   (Cochran's Q), there is no verdict.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::caveat::{Caveat, add};
use super::estimate::{Estimate, FEWEST, LEVEL};
use super::order::{Walsh, smallest, sorted_finite};
use super::paired::{
    self, Comparison, EQUIVALENCE_LEVEL, Interval, Unit, compare_logs, log_ratios,
};
use super::rank_null::RankNull;
use super::verdict::{Rule, StatsError, Verdict};

/// Runs are said to disagree where equal ones would do so in less than this share of cases.
/// Larger than 5 %, because with few runs the test rarely sees what is there (Higgins and
/// Thompson, Statistics in Medicine 21, 2002).
pub const DISAGREE: f64 = 0.10;

/// What the weights, as whole numbers, and so the statistic add up to at about most. Any weights
/// that don't depend on the signs keep the test exact; this is how finely they are expressed.
const FINENESS: f64 = 5_000.0;

/// One run: its pairs, and what is known of its noise beforehand.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Pairs (a, b).
    pub pairs: Vec<(f64, f64)>,
    /// How much a pair of equal servers spreads there: a standard deviation of log-ratios. Where
    /// one run has none, none is used.
    pub noise: Option<f64>,
}

/// Several runs' differences and their pooled one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pooled {
    /// All runs together.
    pub together: Comparison,
    /// Each run by itself, in the order given.
    pub runs: Vec<Comparison>,
    /// Whether they agree; none where fewer than two have a spread.
    pub agreement: Option<Agreement>,
}

/// How far runs differ from each other beyond what their pairs explain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Agreement {
    /// Cochran's Q: squared distances from the common difference, in standard errors.
    pub q: f64,
    /// Runs less one.
    pub degrees: u32,
    /// The chance of such a Q, or a larger one, where all share one difference.
    pub p: f64,
    /// The share of the variation between runs that is not noise (I²).
    pub between_share: f64,
    /// Standard deviation of the true differences between runs, as a log-ratio (DerSimonian and
    /// Laird, Controlled Clinical Trials 7, 1986).
    pub between: f64,
}

impl Agreement {
    /// Whether the runs are shown not to share one difference.
    pub fn disagree(&self) -> bool {
        self.p < DISAGREE
    }
}

/// Pools runs.
///
/// # Errors
/// Where a run has no pair, or δ makes no sense.
pub fn pool(runs: &[Run], rule: Rule) -> Result<Pooled, StatsError> {
    let mut warnings = Vec::new();
    let logs: Vec<Vec<f64>> = runs
        .iter()
        .map(|run| sorted_finite(&log_ratios(&run.pairs, &mut warnings)).0)
        .collect();
    let noise: Option<Vec<f64>> = runs.iter().map(|run| run.noise).collect();
    let each = logs
        .iter()
        .map(|logs| compare_logs(logs, rule, Unit::Pair, (LEVEL, EQUIVALENCE_LEVEL)))
        .collect::<Result<Vec<Comparison>, _>>()?;
    let agreement = agreement(&each);
    let mut together = if each.len() >= FEWEST {
        let centres: Vec<f64> = each.iter().map(|run| run.ratio.estimate.ln()).collect();
        let mut over = compare_logs(&centres, rule, Unit::Run, (LEVEL, EQUIVALENCE_LEVEL))?;
        over.pairs = logs.iter().map(Vec::len).sum();
        over
    } else {
        stratified(&logs, noise.as_deref(), rule)?
    };
    if let Some(agreement) = &agreement
        && agreement.disagree()
    {
        add(&mut together.ratio.warnings, Caveat::RunsDisagree);
        if together.unit == Unit::Pair {
            together.verdict = Verdict::Inconclusive;
        }
    }
    for warning in warnings {
        together.warn(warning);
    }
    Ok(Pooled {
        together,
        runs: each,
        agreement,
    })
}

/// The stratified signed-rank test over sorted log-ratios, its estimate and intervals; no run is
/// without pairs.
fn stratified(
    logs: &[Vec<f64>],
    noise: Option<&[f64]>,
    rule: Rule,
) -> Result<Comparison, StatsError> {
    let rule = Rule::new(rule.delta, rule.direction)?; // its fields are public
    let lengths: Vec<usize> = logs.iter().map(Vec::len).collect();
    let pairs = lengths.iter().sum();
    if pairs == 0 {
        return Err(StatsError::NoPairs);
    }
    let weights = weights(&lengths, noise);
    let sizes: Vec<(usize, u64)> = lengths.into_iter().zip(weights).collect();
    let strata: Vec<(Walsh, u64)> = logs
        .iter()
        .zip(&sizes)
        .map(|(x, (_, weight))| (Walsh(x), *weight))
        .collect();
    let null = RankNull::stratified(&sizes);
    let weighed = Weighed(&strata);
    let interval = |level: f64| match null.trim(level) {
        Some(k) => (weighed.nth(k + 1), weighed.nth(weighed.len() - k), level),
        None => (
            weighed.nth(1),
            weighed.nth(weighed.len()),
            null.coverage_of_range(),
        ),
    };
    let (wide, narrow) = (interval(LEVEL), interval(EQUIVALENCE_LEVEL));
    let of_level = |(low, high, level): (f64, f64, f64), asked: f64| match level >= asked {
        true => (low, high),
        false => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let enough = pairs >= FEWEST;
    let verdict = match enough {
        true => rule.decide(of_level(wide, LEVEL), of_level(narrow, EQUIVALENCE_LEVEL)),
        false => Verdict::Inconclusive,
    };
    let (below, above) = weighed.around(0.0);
    let mut comparison = Comparison {
        verdict,
        ratio: Estimate {
            estimate: weighed.median().exp(),
            low: wide.0.exp(),
            high: wide.1.exp(),
            level: wide.2,
            n: pairs,
            warnings: Vec::new(),
        },
        equivalence_interval: Interval {
            low: narrow.0.exp(),
            high: narrow.1.exp(),
            level: narrow.2,
        },
        p: null.p_two_sided(below, above),
        p_family: None,
        rule,
        unit: Unit::Pair,
        pairs,
        spread: None,
        launch_spread: None,
        noise_floor: None,
    };
    if !enough {
        comparison.warn(Caveat::TooFewPairs);
    }
    Ok(comparison)
}

/// 1/((n + 1) σ) of each run, as whole numbers without a common divisor.
fn weights(lengths: &[usize], noise: Option<&[f64]>) -> Vec<u64> {
    let usable = noise.filter(|noise| noise.iter().all(|s| s.is_finite() && *s > 0.0));
    let quietest = usable.map_or(1.0, |noise| {
        noise.iter().copied().fold(f64::INFINITY, f64::min)
    });
    let raw: Vec<f64> = (lengths.iter().enumerate())
        .map(|(run, n)| {
            let louder = usable
                .and_then(|noise| noise.get(run))
                .map_or(1.0, |s| s / quietest);
            // Beyond this a run counts for nothing anyhow.
            1.0 / ((*n as f64 + 1.0) * louder.min(100.0))
        })
        .collect();
    let least = raw.iter().copied().fold(f64::INFINITY, f64::min);
    let averages = |n: usize| (n * (n + 1)) as f64 / 2.0;
    let runs = raw.iter().zip(lengths);
    let sum: f64 = runs.map(|(w, n)| w / least * averages(*n)).sum();
    // Weights that are multiples of the least one come out even.
    let scale = (FINENESS / sum).round().max(10.0);
    let whole: Vec<u64> = (raw.iter().map(|w| (w / least * scale).round() as u64)).collect();
    let divisor = whole.iter().copied().fold(0, gcd).max(1);
    whole.into_iter().map(|weight| weight / divisor).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// The Walsh averages of all runs, each counting as often as its run weighs.
struct Weighed<'a>(&'a [(Walsh<'a>, u64)]);

impl Weighed<'_> {
    fn len(&self) -> u64 {
        self.0.iter().map(|(x, weight)| weight * x.number()).sum()
    }

    fn around(&self, value: f64) -> (u64, u64) {
        self.0.iter().fold((0, 0), |(below, above), (x, weight)| {
            let (under, over) = x.around(value);
            (below + weight * under, above + weight * over)
        })
    }

    /// The average of the given rank, from 1.
    fn nth(&self, rank: u64) -> f64 {
        let ends = self
            .0
            .iter()
            .filter_map(|(x, _)| Some((*x.0.first()?, *x.0.last()?)));
        let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (a, b)| {
            (low.min(a), high.max(b))
        });
        let all = self.len();
        smallest(low, high, rank, |value| all - self.around(value).1)
    }

    fn median(&self) -> f64 {
        let len = self.len();
        let upper = self.nth(len / 2 + 1);
        match len % 2 {
            1 => upper,
            _ => (self.nth(len / 2) + upper) / 2.0,
        }
    }
}

/// Cochran's Q over the runs' estimates, each with the standard error that the signed-rank interval
/// of its pairs stands for.
fn agreement(runs: &[Comparison]) -> Option<Agreement> {
    let known: Vec<(f64, f64)> = runs
        .iter()
        .filter_map(|run| {
            let error = paired::standard_error(run.spread?, run.ratio.n);
            (error > 0.0).then(|| (run.ratio.estimate.ln(), 1.0 / (error * error)))
        })
        .collect();
    if known.len() < 2 {
        return None;
    }
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| known.iter().map(f).sum::<f64>();
    let weights = sum(&|(_, w)| *w);
    let common = sum(&|(x, w)| x * w) / weights;
    let q = sum(&|(x, w)| w * (x - common) * (x - common));
    let degrees = (known.len() - 1) as f64;
    let squares = sum(&|(_, w)| w * w);
    Some(Agreement {
        q,
        degrees: known.len() as u32 - 1,
        p: 1.0 - ChiSquared::new(degrees).ok()?.cdf(q),
        between_share: ((q - degrees) / q).max(0.0),
        between: ((q - degrees) / (weights - squares / weights))
            .max(0.0)
            .sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::simulate::{self, Noise};
    use super::super::verdict::Direction;
    use super::*;

    fn rule(delta: f64) -> Rule {
        Rule::new(delta, Direction::HigherIsBetter).unwrap()
    }

    fn of(logs: &[f64]) -> Run {
        run(
            logs.iter().map(|log| (100.0, 100.0 * log.exp())).collect(),
            None,
        )
    }

    fn run(pairs: Vec<(f64, f64)>, noise: Option<f64>) -> Run {
        Run { pairs, noise }
    }

    fn simulated(n: usize, noise: f64, effect: f64, rng: &mut simulate::Rng) -> Run {
        run(Noise::Independent.pairs(n, noise, effect, rng), Some(noise))
    }

    /// By all sign flips, one by one: how often the weighted statistic is as far out.
    #[test]
    fn p_is_the_enumeration_of_all_sign_flips_within_runs() {
        let runs: [Vec<f64>; 3] = [
            vec![0.031, -0.012, 0.024, 0.008, 0.017],
            vec![0.09, 0.13, -0.05, 0.21],
            vec![-0.002, 0.004, 0.006],
        ];
        let weights = weights(&[5, 4, 3], None);
        // The ranks of the absolute values within each run, with the run's weight.
        let mut flips: Vec<(u64, bool)> = Vec::new();
        for (run, weight) in runs.iter().zip(&weights) {
            for value in run {
                let rank = run.iter().filter(|v| v.abs() <= value.abs()).count() as u64;
                flips.push((rank * weight, *value > 0.0));
            }
        }
        let seen: u64 = flips.iter().filter(|(_, up)| *up).map(|(w, _)| w).sum();
        let all: u64 = flips.iter().map(|(w, _)| w).sum();
        let rest = all - seen.max(all - seen);
        let at_most = (0u32..1 << flips.len())
            .filter(|signs| {
                let t: u64 = (0..flips.len())
                    .filter(|i| signs >> i & 1 == 1)
                    .map(|i| flips[i].0)
                    .sum();
                t <= rest
            })
            .count();
        let p = 2.0 * at_most as f64 / f64::from(1 << flips.len());
        let got = pool(&runs.each_ref().map(|x| of(x)), rule(0.01)).unwrap();
        assert!((got.together.p - p).abs() < 1e-12, "{} {p}", got.together.p);
        assert_eq!((got.together.pairs, got.together.unit), (12, Unit::Pair));
    }

    #[test]
    fn one_run_pooled_is_that_run() {
        let mut rng = simulate::rng(3);
        for n in [6, 20, 200] {
            let pairs = Noise::HeavyTailed.pairs(n, 0.03, 0.02, &mut rng);
            let alone = paired::compare(&pairs, rule(0.01)).unwrap();
            let pooled = pool(&[run(pairs, Some(0.03))], rule(0.01))
                .unwrap()
                .together;
            for (got, want) in [
                (pooled.p, alone.p),
                (pooled.ratio.estimate, alone.ratio.estimate),
                (pooled.ratio.low, alone.ratio.low),
                (pooled.ratio.high, alone.ratio.high),
            ] {
                assert!((got - want).abs() < 1e-9, "{n}: {got} {want}");
            }
            assert_eq!(pooled.verdict, alone.verdict);
        }
    }

    #[test]
    fn a_quiet_machine_is_not_drowned_by_a_loud_one() {
        let mut rng = simulate::rng(8);
        let quiet = simulated(12, 0.004, -0.02, &mut rng);
        let loud = simulated(12, 0.15, -0.02, &mut rng);
        let got = pool(&[quiet, loud], rule(0.005)).unwrap();
        assert_eq!(got.together.verdict, Verdict::Slower, "{got:?}");
        assert!(got.together.ratio.holds(0.98) && !got.agreement.unwrap().disagree());
    }

    #[test]
    fn runs_that_disagree_have_no_common_verdict() {
        let mut rng = simulate::rng(4);
        let up = simulated(40, 0.01, 0.08, &mut rng);
        let down = simulated(20, 0.01, -0.03, &mut rng);
        let got = pool(&[up, down], rule(0.01)).unwrap();
        let agreement = got.agreement.unwrap();
        assert!(agreement.disagree() && agreement.between > 0.03 && agreement.between_share > 0.9);
        assert_eq!(got.together.verdict, Verdict::Inconclusive);
        assert!(
            got.together
                .ratio
                .warnings
                .iter()
                .any(|w| *w == Caveat::RunsDisagree)
        );
        assert_eq!(
            got.runs.iter().map(|run| run.verdict).collect::<Vec<_>>(),
            [Verdict::Faster, Verdict::Slower]
        );
    }

    #[test]
    fn from_six_runs_on_the_run_is_the_unit() {
        let mut rng = simulate::rng(6);
        let runs: Vec<_> = (0..6)
            .map(|_| simulated(10, 0.01, 0.05, &mut rng))
            .collect();
        let got = pool(&runs, rule(0.01)).unwrap().together;
        assert_eq!((got.unit, got.ratio.n, got.pairs), (Unit::Run, 6, 60));
        assert_eq!((got.verdict, got.p), (Verdict::Faster, 0.03125));
        assert_eq!(
            pool(&runs[..5], rule(0.01)).unwrap().together.unit,
            Unit::Pair
        );
    }

    #[test]
    fn too_little_is_told() {
        assert_eq!(pool(&[], rule(0.01)), Err(StatsError::NoPairs));
        assert_eq!(pool(&[of(&[])], rule(0.01)), Err(StatsError::NoPairs));
        let few = pool(&[of(&[0.1, 0.2]), of(&[0.1, 0.2, 0.3])], rule(0.01)).unwrap();
        assert_eq!(few.together.verdict, Verdict::Inconclusive);
        // 3 and 3 in the same direction: p = 2/64, where neither could show anything alone.
        let both = pool(&[of(&[0.1, 0.2, 0.3]), of(&[0.1, 0.2, 0.4])], rule(0.01)).unwrap();
        assert_eq!(
            (both.together.verdict, both.together.p),
            (Verdict::Faster, 0.03125)
        );
    }

    /// At no difference, with runs whose noise differs fivefold, "different" is said in at most 5 %.
    #[test]
    fn false_alarms_and_coverage() {
        let mut rng = simulate::rng(11);
        let (mut alarms, mut covered) = (0, 0);
        for _ in 0..500 {
            let runs = [(11, 0.01), (23, 0.05), (11, 0.02)].map(|(n, noise)| {
                let pairs = Noise::Drifting.pairs(n, noise, 0.0, &mut rng);
                run(pairs, Some(noise))
            });
            let got = pool(&runs, rule(0.0)).unwrap().together;
            // Without the rule that runs which disagree have no verdict.
            alarms += u32::from(got.p <= 0.05);
            covered += u32::from(got.ratio.holds(1.0));
        }
        // 500 draws at 5 %: a standard error of 1 %; the seed is fixed.
        assert!(alarms <= 35, "{alarms}");
        assert!(covered >= 465, "{covered}");
    }

    #[test]
    fn how_far_runs_lie_apart_by_hand() {
        // Differences of 0 and 0.1, standard errors of 0.01 and 0.02: the common one is
        // (0 · 10,000 + 0.1 · 2,500) / 12,500 = 0.02; Q = 4 + 16.
        let with = |estimate: f64, error: f64| {
            let mut run = pool(&[of(&[0.1; 12])], rule(0.01)).unwrap().together;
            run.ratio.estimate = estimate.exp();
            run.spread = Some(error * (12.0 * 3.0 / std::f64::consts::PI).sqrt());
            run
        };
        let got = agreement(&[with(0.0, 0.01), with(0.1, 0.02)]).unwrap();
        assert!((got.q - 20.0).abs() < 1e-9 && got.degrees == 1, "{got:?}");
        assert!((got.between_share - 0.95).abs() < 1e-9);
        // (20 − 1) / (12,500 − 106,250,000 / 12,500) = 19 / 4,000
        assert!((got.between - (19.0_f64 / 4000.0).sqrt()).abs() < 1e-9);
        // The chi-squared distribution with one degree: 2 (1 − Φ(√20)).
        assert!((got.p - 7.744_216e-6).abs() < 1e-11, "{}", got.p);
        assert!(agreement(&[with(0.0, 0.01)]).is_none());
    }
}
