//! Does it scale? A sweep over clients or CPUs, fitted by the Universal
//! Scalability Law; refused, with the reason, where the law says nothing.
//!
//! The law is fitted to one value for each count (the pseudo-median of its
//! trials). So the standard errors of the fit hold how far the law itself is from
//! the points; resampling the trials shows beside it what noise alone does. What
//! is reported is the wider of the two.

use pgassay_model::warning::Warning;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::caveat::{Caveat, add};
use super::estimate::{Estimate, FEWEST, LEVEL, summarize_positive};
use super::levels::levels;
use super::order::quantile_of_sorted;
use super::scaling_law::{Law, LeastSquares, least_squares};
use super::simulate;

/// The fewest different counts that three coefficients can be fitted to and still
/// be contradicted.
pub const FEWEST_COUNTS: usize = 4;

/// Above this root mean square residual, relative to the mean throughput, the law
/// does not describe the points.
pub const WORST_FIT: f64 = 0.15;

/// A fall from one count to the next by more than this, less than half of it
/// in the fit, is not what the law means by coherence.
pub const CLIFF: f64 = 0.15;

/// How far beyond the largest count fitted the law is asked.
pub const REACH: f64 = 2.0;

/// Resamples of the trials.
const RESAMPLES: usize = 500;

/// One count of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalingPoint {
    /// Clients or CPUs.
    pub n: u32,
    /// Throughput of each trial.
    pub throughput: Vec<f64>,
    /// The load generator, not the server, was the limit.
    pub client_bound: bool,
}

/// Why a point was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Exclusion {
    /// The load generator was the limit.
    ClientBound,
    /// More than the machine has cores.
    BeyondCores,
    /// Its trials lie at several levels, and none of them at the value between.
    SeveralLevels,
    /// No positive throughput was measured.
    NoThroughput,
}

/// Why no fit is given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Too few counts.
    #[error(
        "{have} different counts: {FEWEST_COUNTS} or more are needed to fit a scaling law; sweep over more, such as --clients 1,2,4,8,16"
    )]
    TooFewPoints {
        /// Different counts measured.
        have: usize,
    },
    /// Too few are left once those limited by the client are out.
    #[error(
        "only {have} of the counts were not limited by the client: the others measure the load generator; give it more threads or another machine"
    )]
    ClientBound {
        /// Counts left.
        have: usize,
        /// Counts left out.
        excluded: Vec<u32>,
    },
    /// Too few are left once those at several levels are out.
    #[error(
        "only {have} of the counts have one level of throughput: between the levels of the others nothing was measured"
    )]
    SeveralLevels {
        /// Counts left.
        have: usize,
        /// Counts left out.
        excluded: Vec<u32>,
    },
    /// Too few are left once those beyond the cores are out.
    #[error(
        "only {have} of the counts are within the {cores} cores of this machine: beyond them the scheduler is measured, not how the server scales"
    )]
    BeyondCores {
        /// Counts left.
        have: usize,
        /// Cores of the machine.
        cores: u32,
    },
    /// The method did not converge.
    #[error("no scaling law could be fitted to these points")]
    NoConvergence,
    /// The law does not describe the points.
    #[error(
        "the points are {:.0} % from the best fit on average: they do not follow the scaling law",
        100.0 * .relative_error
    )]
    BadFit {
        /// Root mean square residual by mean throughput.
        relative_error: f64,
    },
    /// Throughput breaks down between two counts.
    #[error(
        "throughput falls by {:.0} % between {from} and {to}, which the scaling law does not explain: look for a cause at {to} (memory, connections, a limit reached)",
        100.0 * .fall
    )]
    Cliff {
        /// The count before it.
        from: u32,
        /// The count after it.
        to: u32,
        /// The relative fall.
        fall: f64,
    },
}

/// Why no prediction is given.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum PredictionRefusal {
    /// Too far out.
    #[error("{n} is more than twice the largest count fitted, {largest}: nothing is said about it")]
    TooFar {
        /// What was asked for.
        n: f64,
        /// The largest fitted.
        largest: u32,
    },
    /// Below one.
    #[error("the law starts at 1, not {0}")]
    BelowOne(f64),
    /// The points do not determine the coefficients.
    #[error("the points do not determine the coefficients well enough to predict from them")]
    Undetermined,
}

/// A coefficient with its standard error (none where it is held at 0) and its
/// interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coefficient {
    /// The value and the wider of the two intervals below.
    pub value: Estimate,
    /// Standard error by the fit.
    pub standard_error: Option<f64>,
    /// 95 % interval by the fit, Student's t.
    pub by_fit: Option<(f64, f64)>,
    /// 95 % interval by resampling the trials, where every count has 6 or more.
    pub by_trials: Option<(f64, f64)>,
}

/// A fitted scaling law.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scaling {
    /// λ: throughput of one alone.
    pub lambda: Coefficient,
    /// σ, contention: the share of work that only one at a time can do.
    pub sigma: Coefficient,
    /// κ, coherence: the cost of each pair.
    pub kappa: Coefficient,
    /// Where throughput is highest; none where the fit never falls.
    pub peak: Option<Estimate>,
    /// Counts that were fitted, ascending.
    pub fitted: Vec<u32>,
    /// Counts that were left out, and why.
    pub excluded: Vec<(u32, Exclusion)>,
    /// Root mean square residual by mean throughput.
    pub relative_error: f64,
    /// What qualifies the fit.
    pub warnings: Vec<Warning>,
    /// Covariance of λ, σ, κ by the fit.
    pub covariance: Option<[[f64; 3]; 3]>,
    /// λ, σ, κ of each resample of the trials; empty where there were too few. Not
    /// serialised: they are many, and can be drawn again.
    #[serde(skip)]
    pub resamples: Vec<[f64; 3]>,
}

/// Fits a sweep. `cores`, where given, are those the server and the load could
/// use; counts beyond are left out. The seed is that of the resampling.
pub fn fit(points: &[ScalingPoint], cores: Option<u32>, seed: u64) -> Result<Scaling, Refusal> {
    let mut excluded = Vec::new();
    let mut used: Vec<(u32, Vec<f64>)> = Vec::new();
    for point in points {
        let positive: Vec<f64> = point
            .throughput
            .iter()
            .copied()
            .filter(|v| v.is_finite() && *v > 0.0)
            .collect();
        let why = if point.client_bound {
            Some(Exclusion::ClientBound)
        } else if cores.is_some_and(|cores| point.n > cores) {
            Some(Exclusion::BeyondCores)
        } else if positive.is_empty() || point.n == 0 {
            Some(Exclusion::NoThroughput)
        } else if levels(&positive).is_some() {
            Some(Exclusion::SeveralLevels)
        } else {
            None
        };
        match why {
            Some(why) => excluded.push((point.n, why)),
            None => match used.iter_mut().find(|(n, _)| *n == point.n) {
                Some((_, trials)) => trials.extend(positive),
                None => used.push((point.n, positive)),
            },
        }
    }
    used.sort_by_key(|(n, _)| *n);
    if used.len() < FEWEST_COUNTS {
        return Err(too_few(used.len(), &excluded, cores));
    }
    let n: Vec<f64> = used.iter().map(|(n, _)| f64::from(*n)).collect();
    let x: Vec<f64> = used.iter().map(|(_, trials)| centre(trials)).collect();
    let best = least_squares(&n, &x).ok_or(Refusal::NoConvergence)?;
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let relative_error = (best.sum / x.len() as f64).sqrt() / mean;
    for i in 1..n.len() {
        let fall = 1.0 - x[i] / x[i - 1];
        let explained = 1.0 - best.law.at(n[i]) / best.law.at(n[i - 1]);
        if fall > CLIFF && explained < fall / 2.0 {
            return Err(Refusal::Cliff {
                from: used[i - 1].0,
                to: used[i].0,
                fall,
            });
        }
    }
    if relative_error > WORST_FIT {
        return Err(Refusal::BadFit { relative_error });
    }
    let mut warnings = Vec::new();
    if used.len() < 6 {
        add(&mut warnings, Caveat::FewPoints);
    }
    if n.iter()
        .zip(&x)
        .any(|(n, x)| (best.law.at(*n) / x - 1.0).abs() > 0.15)
    {
        add(&mut warnings, Caveat::FarPoints);
    }
    if !excluded.is_empty() {
        add(&mut warnings, Caveat::PointsExcluded);
    }
    let resamples = resample(&used, seed);
    let coefficient = |i: usize| coefficient(&best, &resamples, i);
    Ok(Scaling {
        lambda: coefficient(0),
        sigma: coefficient(1),
        kappa: coefficient(2),
        peak: peak(&best, &resamples),
        fitted: used.iter().map(|(n, _)| *n).collect(),
        excluded,
        relative_error,
        warnings,
        covariance: best.covariance.filter(|_| best.degrees > 0),
        resamples,
    })
}

fn too_few(have: usize, excluded: &[(u32, Exclusion)], cores: Option<u32>) -> Refusal {
    let of = |why: Exclusion| -> Vec<u32> {
        excluded
            .iter()
            .filter(|e| e.1 == why)
            .map(|e| e.0)
            .collect()
    };
    let (client, beyond) = (of(Exclusion::ClientBound), of(Exclusion::BeyondCores));
    let several = of(Exclusion::SeveralLevels);
    match cores {
        _ if !client.is_empty() && have + client.len() >= FEWEST_COUNTS => Refusal::ClientBound {
            have,
            excluded: client,
        },
        _ if !several.is_empty() && have + several.len() >= FEWEST_COUNTS => {
            Refusal::SeveralLevels {
                have,
                excluded: several,
            }
        }
        Some(cores) if !beyond.is_empty() => Refusal::BeyondCores { have, cores },
        _ => Refusal::TooFewPoints { have },
    }
}

fn centre(trials: &[f64]) -> f64 {
    summarize_positive(trials).map_or(f64::NAN, |s| s.estimate)
}

/// Fits to trials drawn again, with replacement, at each count: the spread of
/// their fits is what the noise of the trials does to the coefficients.
fn resample(used: &[(u32, Vec<f64>)], seed: u64) -> Vec<[f64; 3]> {
    if used.iter().any(|(_, trials)| trials.len() < FEWEST) {
        return Vec::new();
    }
    let mut rng = simulate::rng(seed);
    let n: Vec<f64> = used.iter().map(|(n, _)| f64::from(*n)).collect();
    // drawing from n values shows (n−1)/n of their variance: stretched to match
    let stretched: Vec<(f64, Vec<f64>)> = used
        .iter()
        .map(|(_, trials)| {
            let (middle, f) = (centre(trials).ln(), trials.len() as f64);
            let stretch = (f / (f - 1.0)).sqrt();
            (
                middle,
                trials
                    .iter()
                    .map(|v| middle + (v.ln() - middle) * stretch)
                    .collect(),
            )
        })
        .collect();
    let mut resamples = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let x: Vec<f64> = stretched
            .iter()
            .map(|(_, logs)| {
                let drawn: Vec<f64> = (0..logs.len())
                    .map(|_| logs[rng.random_range(0..logs.len())].exp())
                    .collect();
                centre(&drawn)
            })
            .collect();
        if let Some(fit) = least_squares(&n, &x) {
            resamples.push(fit.law.0);
        }
    }
    resamples
}

/// The 95 % interval of a function of the law over the resamples.
fn resampled(resamples: &[[f64; 3]], value: impl Fn(Law) -> f64) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = resamples.iter().map(|r| value(Law(*r))).collect();
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    Some((
        quantile_of_sorted(&values, tail)?,
        quantile_of_sorted(&values, 1.0 - tail)?,
    ))
    .filter(|(low, high)| low.is_finite() && high.is_finite())
}

fn t_quantile(degrees: usize) -> f64 {
    StudentsT::new(0.0, 1.0, degrees.max(1) as f64)
        .map_or(f64::INFINITY, |t| t.inverse_cdf((1.0 + LEVEL) / 2.0))
}

/// The estimate with the wider of what two ways give.
fn widest(
    estimate: f64,
    n: usize,
    intervals: [Option<(f64, f64)>; 2],
    least: f64,
) -> Option<Estimate> {
    let mut known = intervals.into_iter().flatten();
    let first = known.next()?;
    let (low, high) = known.fold(first, |a, b| (a.0.min(b.0), a.1.max(b.1)));
    Some(Estimate {
        estimate,
        low: low.max(least).min(estimate),
        high: high.max(estimate),
        level: LEVEL,
        n,
        warnings: Vec::new(),
    })
}

fn coefficient(best: &LeastSquares, resamples: &[[f64; 3]], i: usize) -> Coefficient {
    let value = best.law.0[i];
    let points = best.degrees + best.free.iter().filter(|f| **f).count();
    let standard_error = best
        .covariance
        .filter(|_| best.free[i] && best.degrees > 0)
        .map(|c| c[i][i].sqrt());
    let t = t_quantile(best.degrees);
    let by_fit = standard_error.map(|se| (value - t * se, value + t * se));
    let by_trials = resampled(resamples, |law| law.0[i]);
    let mut estimate =
        widest(value, points, [by_fit, by_trials], 0.0).unwrap_or_else(|| Estimate {
            estimate: value,
            low: value,
            high: value,
            level: 0.0,
            n: points,
            warnings: Vec::new(),
        });
    if !best.free[i] {
        estimate.warn(Caveat::BoundedAtZero);
    }
    Coefficient {
        value: estimate,
        standard_error,
        by_fit,
        by_trials,
    }
}

/// Where the law peaks; the interval by the fit is that of the logarithm, by the
/// delta method.
fn peak(best: &LeastSquares, resamples: &[[f64; 3]]) -> Option<Estimate> {
    let peak = best.law.peak()?;
    let [_, sigma, kappa] = best.law.0;
    let slope = [0.0, -0.5 / (1.0 - sigma).max(1e-9), -0.5 / kappa];
    let by_fit = best.covariance.filter(|_| best.degrees > 0).map(|c| {
        let reach = t_quantile(best.degrees) * quadratic(&c, slope).sqrt();
        (peak * (-reach).exp(), peak * reach.min(700.0).exp())
    });
    let by_trials = resampled(resamples, |law| law.peak().unwrap_or(f64::INFINITY));
    let points = best.degrees + best.free.iter().filter(|f| **f).count();
    widest(peak, points, [by_fit, by_trials], 1.0)
}

fn quadratic(c: &[[f64; 3]; 3], g: [f64; 3]) -> f64 {
    let mut sum = 0.0;
    for i in 0..3 {
        for j in 0..3 {
            sum += g[i] * c[i][j] * g[j];
        }
    }
    sum.max(0.0)
}

impl Scaling {
    /// The law with the fitted parameters.
    pub fn law(&self) -> Law {
        Law([
            self.lambda.value.estimate,
            self.sigma.value.estimate,
            self.kappa.value.estimate,
        ])
    }

    /// The fitted throughput at n, without an interval: for drawing the curve.
    pub fn throughput(&self, n: f64) -> f64 {
        self.law().at(n)
    }

    /// Throughput at n with the interval of the fitted curve there, at most twice
    /// as far as was fitted. Warned where n lies outside what was measured.
    pub fn predict(&self, n: f64) -> Result<Estimate, PredictionRefusal> {
        let (smallest, largest) = match (self.fitted.first(), self.fitted.last()) {
            (Some(first), Some(last)) => (*first, *last),
            _ => return Err(PredictionRefusal::Undetermined),
        };
        if n.is_nan() || n < 1.0 {
            return Err(PredictionRefusal::BelowOne(n));
        }
        if n > REACH * f64::from(largest) {
            return Err(PredictionRefusal::TooFar { n, largest });
        }
        let law = self.law();
        let free = [&self.lambda, &self.sigma, &self.kappa];
        let free = free.iter().filter(|c| c.standard_error.is_some()).count();
        let by_fit = self.covariance.as_ref().map(|c| {
            let degrees = self.fitted.len().saturating_sub(free);
            let reach = t_quantile(degrees) * quadratic(c, law.gradient(n)).sqrt();
            (law.at(n) - reach, law.at(n) + reach)
        });
        let by_trials = resampled(&self.resamples, |law| law.at(n));
        let mut estimate = widest(law.at(n), self.fitted.len(), [by_fit, by_trials], 0.0)
            .ok_or(PredictionRefusal::Undetermined)?;
        if n < f64::from(smallest) || n > f64::from(largest) {
            estimate.warn(Caveat::Extrapolated);
        }
        Ok(estimate)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::simulate::normal;
    use super::*;

    const COUNTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

    fn point(n: u32, throughput: Vec<f64>) -> ScalingPoint {
        ScalingPoint {
            n,
            throughput,
            client_bound: false,
        }
    }

    pub(crate) fn sweep(law: [f64; 3], trials: usize, noise: f64, seed: u64) -> Vec<ScalingPoint> {
        let mut rng = simulate::rng(seed);
        COUNTS
            .iter()
            .map(|n| {
                let x = Law(law).at(f64::from(*n));
                point(
                    *n,
                    (0..trials)
                        .map(|_| x * (noise * normal(&mut rng)).exp())
                        .collect(),
                )
            })
            .collect()
    }

    #[test]
    fn what_cannot_be_fitted_is_refused_with_the_reason() {
        let points = sweep([1000.0, 0.05, 1e-3], 1, 0.0, 1);
        assert_eq!(
            fit(&points[..3], None, 1),
            Err(Refusal::TooFewPoints { have: 3 })
        );
        assert_eq!(fit(&[], None, 1), Err(Refusal::TooFewPoints { have: 0 }));
        assert_eq!(
            fit(&points, Some(4), 1),
            Err(Refusal::BeyondCores { have: 3, cores: 4 })
        );
        let mut bound = points.clone();
        bound[3..].iter_mut().for_each(|p| p.client_bound = true);
        let refused = fit(&bound, None, 1);
        assert!(
            matches!(&refused, Err(Refusal::ClientBound { have: 3, excluded }) if *excluded == [8, 16, 32, 64]),
            "{refused:?}"
        );
        let mut cliff = points.clone();
        cliff[6].throughput = vec![cliff[5].throughput[0] * 0.2];
        assert!(matches!(
            fit(&cliff, None, 1),
            Err(Refusal::Cliff {
                from: 32,
                to: 64,
                ..
            })
        ));
        let wild = COUNTS
            .iter()
            .zip([9.0, 1.0, 7.9, 9.0, 80.0, 75.0, 300.0])
            .map(|(n, x)| point(*n, vec![x]));
        let wild: Vec<_> = wild.collect();
        assert!(matches!(
            fit(&wild, None, 1),
            Err(Refusal::BadFit { .. } | Refusal::Cliff { .. })
        ));
        let none: Vec<_> = COUNTS
            .iter()
            .map(|n| point(*n, vec![0.0, f64::NAN]))
            .collect();
        assert_eq!(fit(&none, None, 1), Err(Refusal::TooFewPoints { have: 0 }));
    }

    #[test]
    fn excluded_points_are_listed_and_do_not_count() {
        let mut points = sweep([1000.0, 0.05, 1e-3], 1, 0.0, 1);
        points[6].client_bound = true;
        points[6].throughput = vec![1.0];
        let got = fit(&points, Some(16), 1).expect("five are left");
        assert_eq!(got.fitted, [1, 2, 4, 8, 16]);
        assert_eq!(
            got.excluded,
            [(32, Exclusion::BeyondCores), (64, Exclusion::ClientBound)]
        );
        assert!((got.sigma.value.estimate - 0.05).abs() < 1e-6);
        assert!(got.warnings.iter().any(|w| *w == Caveat::PointsExcluded));
        assert!(got.warnings.iter().any(|w| *w == Caveat::FewPoints));
    }

    #[test]
    fn predicts_to_twice_the_largest_count_and_no_further() {
        let got = fit(&sweep([1000.0, 0.05, 1e-3], 8, 0.02, 3), None, 1).expect("a fit");
        let inside = got.predict(20.0).expect("inside");
        assert!(inside.low < inside.estimate && inside.estimate < inside.high);
        assert!(inside.warnings.is_empty());
        let outside = got.predict(128.0).expect("twice");
        assert!(outside.warnings.iter().any(|w| *w == Caveat::Extrapolated));
        let relative = |e: &Estimate| e.half_width() / e.estimate;
        assert!(relative(&outside) > relative(&inside));
        assert_eq!(
            got.predict(129.0),
            Err(PredictionRefusal::TooFar {
                n: 129.0,
                largest: 64
            })
        );
        assert_eq!(got.predict(0.5), Err(PredictionRefusal::BelowOne(0.5)));
    }

    #[test]
    fn counts_at_several_levels_are_left_out() {
        let mut points = sweep([1000.0, 0.05, 1e-3], 1, 0.0, 1);
        let low = (0..6).map(|i| 300.0 + f64::from(i));
        let high = (0..6).map(|i| 900.0 + f64::from(i));
        points[0].throughput = low.chain(high).collect();
        let fitted = fit(&points, None, 1).unwrap();
        assert_eq!(fitted.excluded, [(1, Exclusion::SeveralLevels)]);
        let two = points[0].throughput.clone();
        points[1..4]
            .iter_mut()
            .for_each(|p| p.throughput = two.clone());
        let refused = fit(&points, None, 1);
        assert!(
            matches!(&refused, Err(Refusal::SeveralLevels { have: 3, excluded }) if *excluded == [1, 2, 4, 8]),
            "{refused:?}"
        );
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let truth = [1000.0, 0.05, 1e-3];
        let runs = 40;
        let mut held = [0; 4];
        for seed in 0..runs {
            let got = fit(&sweep(truth, 6, 0.03, seed + 100), None, 1).expect("a fit");
            for (i, c) in [&got.lambda, &got.sigma, &got.kappa]
                .into_iter()
                .enumerate()
            {
                held[i] += u32::from(c.value.holds(truth[i]));
            }
            let peak = got.peak.expect("kappa is far from 0");
            held[3] += u32::from(peak.holds((0.95f64 / 1e-3).sqrt()));
        }
        for held in held {
            // 95 % less two standard deviations of so few; `calibrate` runs many
            assert!(f64::from(held) >= 0.88 * runs as f64, "{held} of {runs}");
        }
    }
}
