//! A figure with its spread: the only form in which figures leave the analysis.

use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use super::caveat::{Caveat, add};
use super::order::{Walsh, sorted_finite};
use super::rank_null::RankNull;

/// The level of intervals where nothing else is said.
pub const LEVEL: f64 = 0.95;

/// The fewest trials, pairs or launches that have an interval at 95 %.
pub const FEWEST: usize = 6;

/// An estimate, the interval around it, and what must be known to read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The value, in the unit of the figure.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// The coverage of the interval: 0.95 where there are enough values, else
    /// what their whole range covers (0.9375 for five, 0 for one).
    pub level: f64,
    /// How many values it rests on.
    pub n: usize,
    /// What qualifies it, each once.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

impl Estimate {
    /// Adds a warning unless it is there already.
    pub fn warn(&mut self, warning: impl Into<Warning>) {
        add(&mut self.warnings, warning);
    }

    /// Half of the interval's width, in the unit of the figure.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether the interval, ends included, holds a value.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The same under an increasing function of the value.
    pub fn map(mut self, increasing: impl Fn(f64) -> f64) -> Self {
        self.estimate = increasing(self.estimate);
        self.low = increasing(self.low);
        self.high = increasing(self.high);
        self
    }
}

/// The Hodges–Lehmann pseudo-median of a sorted finite sample with the interval
/// that inverts the signed-rank test at `level`; where no such interval exists,
/// the range at its own coverage. `None` of an empty sample.
///
/// With ties the interval is valid all the same and errs on the wide side: its
/// ends are the limits of those of values spread apart by ever less.
pub fn pseudo_median(sorted: &[f64], null: &RankNull, level: f64) -> Option<Estimate> {
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let walsh = Walsh(sorted);
    let (low, high, level) = match null.trim(level) {
        Some(0) => (first, last, level),
        Some(k) => (walsh.nth(k + 1), walsh.nth(walsh.number() - k), level),
        None => (first, last, null.coverage_of_range()),
    };
    let mut warnings = Vec::new();
    if first == last && sorted.len() > 1 {
        add(&mut warnings, Caveat::IdenticalValues);
    }
    Some(Estimate {
        estimate: walsh.median(),
        low,
        high,
        level,
        n: sorted.len(),
        warnings,
    })
}

/// Summarises the trials of one quantity of any sign, in the order in which they
/// were measured. `None` where no finite value is left.
pub fn summarize(trials: &[f64]) -> Option<Estimate> {
    let (sorted, dropped) = sorted_finite(trials);
    let null = RankNull::signed_rank(sorted.len());
    let mut summary = pseudo_median(&sorted, &null, LEVEL)?;
    if dropped {
        summary.warn(Caveat::NonFiniteDropped);
    }
    if sorted.len() < FEWEST {
        summary.warn(Caveat::TooFewTrials);
    }
    let finite: Vec<f64> = trials.iter().copied().filter(|v| v.is_finite()).collect();
    for warning in serial_warnings(&finite) {
        summary.warn(warning);
    }
    Some(summary)
}

/// Summarises the trials of a quantity that is positive by nature (a throughput,
/// a latency, a cost), on the logarithms, so that "twice" and "half" weigh the
/// same. A trial of zero or less (a stalled server) cannot be logged: then the
/// plain values are summarised, with a warning.
pub fn summarize_positive(trials: &[f64]) -> Option<Estimate> {
    if trials.iter().any(|v| v.is_finite() && *v <= 0.0) {
        let mut summary = summarize(trials)?;
        summary.warn(Caveat::NonPositive);
        return Some(summary);
    }
    let logs: Vec<f64> = trials.iter().map(|v| v.ln()).collect();
    Some(summarize(&logs)?.map(f64::exp))
}

/// The robust standard deviation of the logarithms (1.4826 times the median
/// absolute deviation): a relative spread, 0.03 for 3 %. `None` below 2 positive
/// values.
pub fn relative_spread(trials: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = trials.iter().map(|v| v.ln()).collect();
    let (sorted, _) = sorted_finite(&logs);
    if sorted.len() < 2 {
        return None;
    }
    let centre = super::order::median_of_sorted(&sorted)?;
    let deviations: Vec<f64> = sorted.iter().map(|v| (v - centre).abs()).collect();
    let (deviations, _) = sorted_finite(&deviations);
    // 1 / Φ⁻¹(3/4): makes it the standard deviation where the values are normal
    super::order::median_of_sorted(&deviations).map(|mad| 1.482_602_218_505_602 * mad)
}

/// At this z a test of the trials' order warns: 1 in 100 by chance.
const SERIAL_Z: f64 = 2.576;

/// The longest series whose order is tested; longer ones by their latest part,
/// since the trend test compares all pairs.
const SERIAL_MOST: usize = 2_000;

/// Whether trials, in the order measured, drift (Mann–Kendall) or resemble their
/// neighbours (autocorrelation of the ranks at lag 1): both make an interval that
/// takes them for independent too narrow.
fn serial_warnings(values: &[f64]) -> Vec<Caveat> {
    let values = &values[values.len().saturating_sub(SERIAL_MOST)..];
    let n = values.len();
    let mut warnings = Vec::new();
    if n < 8 {
        return warnings;
    }
    let f = n as f64;
    let mut score = 0.0;
    for (i, a) in values.iter().enumerate() {
        for b in &values[i + 1..] {
            score += f64::from(i8::from(b > a) - i8::from(b < a));
        }
    }
    let sd = (f * (f - 1.0) * (2.0 * f + 5.0) / 18.0).sqrt();
    if (f64::abs(score) - 1.0) / sd > SERIAL_Z {
        warnings.push(Caveat::Drift);
    }
    if lag_one_z(values) > SERIAL_Z {
        warnings.push(Caveat::Autocorrelated);
    }
    warnings
}

/// The autocorrelation of the ranks at lag 1, in standard errors; its mean under independence is 0.
fn lag_one_z(values: &[f64]) -> f64 {
    let f = values.len() as f64;
    let ranks = mid_ranks(values);
    let mean = (f + 1.0) / 2.0;
    let all: f64 = ranks.iter().map(|r| (r - mean) * (r - mean)).sum();
    let lagged: f64 = ranks
        .windows(2)
        .map(|w| (w[0] - mean) * (w[1] - mean))
        .sum();
    // its mean under independence is −1/n
    match all > 0.0 {
        true => (lagged / all + 1.0 / f) * f.sqrt(),
        false => 0.0,
    }
}

/// Whether values in the order measured are positively correlated with their neighbours: a one-sided
/// test at 5 %, so that it errs towards blocking too much. Below 8 values nothing can be seen.
pub fn is_autocorrelated(values: &[f64]) -> bool {
    values.len() >= 8 && lag_one_z(values) > 1.645
}

/// Ranks from 1, equal values sharing the mean of theirs.
pub fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let value = values[order[start]];
        let end = start
            + order[start..]
                .iter()
                .take_while(|i| values[**i] == value)
                .count()
                .max(1);
        let shared = (start + 1 + end) as f64 / 2.0;
        for i in &order[start..end] {
            ranks[*i] = shared;
        }
        start = end;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(estimate: &Estimate) -> Vec<&str> {
        estimate.warnings.iter().map(|w| w.id.as_str()).collect()
    }

    #[test]
    fn few_trials_give_their_range_at_its_true_coverage() {
        assert_eq!(summarize(&[]), None);
        let one = summarize_positive(&[7.0]).expect("a value");
        assert!((one.estimate - 7.0).abs() < 1e-12);
        assert_eq!(
            (one.low, one.high, one.level, one.n),
            (one.estimate, one.estimate, 0.0, 1)
        );
        assert_eq!(ids(&one), ["too-few-trials"]);

        let five = summarize(&[5.0, 1.0, 3.0, 2.0, 4.5]).expect("values");
        assert_eq!((five.low, five.high, five.level), (1.0, 5.0, 0.9375));
        assert_eq!(ids(&five), ["too-few-trials"]);

        let six = summarize(&[5.0, 1.0, 3.0, 2.0, 4.5, 2.5]).expect("values");
        assert_eq!((six.low, six.high, six.level), (1.0, 5.0, 0.95));
        assert_eq!(ids(&six), Vec::<&str>::new());
    }

    #[test]
    fn identical_and_unusable_values_are_told() {
        let same = summarize_positive(&[3.0; 8]).expect("values");
        assert!(same.low == same.high && same.low == same.estimate);
        assert_eq!(ids(&same), ["identical-values"]);

        let odd = summarize(&[f64::NAN, f64::INFINITY, 2.0]).expect("one is left");
        assert_eq!((odd.n, odd.estimate), (1, 2.0));
        assert_eq!(ids(&odd), ["non-finite-dropped", "too-few-trials"]);
        assert_eq!(summarize(&[f64::NAN]), None);

        let stalled = summarize_positive(&[10.0, 11.0, 0.0, 12.0, 10.5, 11.5]).expect("values");
        assert_eq!((stalled.low, stalled.high), (0.0, 12.0));
        assert_eq!(ids(&stalled), ["non-positive-values"]);
    }

    #[test]
    fn a_trend_and_a_wave_are_told_and_noise_is_not() {
        // the last digits of the squares: no order to speak of
        let noise: Vec<f64> = (0..40u32)
            .map(|i| 100.0 + f64::from(i * i * 7919 % 101))
            .collect();
        assert_eq!(
            ids(&summarize_positive(&noise).expect("values")),
            Vec::<&str>::new()
        );
        let rising: Vec<f64> = noise
            .iter()
            .enumerate()
            .map(|(i, v)| v + 5.0 * i as f64)
            .collect();
        assert!(ids(&summarize_positive(&rising).expect("values")).contains(&"drift"));
        let wave: Vec<f64> = (0..40)
            .map(|i| 100.0 + 10.0 * (f64::from(i) / 3.0).sin())
            .collect();
        assert_eq!(
            ids(&summarize_positive(&wave).expect("values")),
            ["autocorrelated"]
        );
    }

    #[test]
    fn serialises_as_documented() {
        let json =
            serde_json::to_value(summarize(&[1.0, 2.0, 4.0]).expect("values")).expect("json");
        assert_eq!(
            json,
            serde_json::json!({
                "estimate": 2.25, "low": 1.0, "high": 4.0, "level": 0.75, "n": 3,
                "warnings": [{"id": "too-few-trials", "text": Caveat::TooFewTrials.text()}]
            })
        );
    }

    #[test]
    fn the_spread_is_relative_and_robust() {
        // logs 0, ±0.01, ±0.02 and one wild value
        let x: Vec<f64> = [-0.02, -0.01, 0.0, 0.01, 0.02]
            .iter()
            .map(|v: &f64| v.exp())
            .collect();
        let spread = relative_spread(&x).expect("values");
        assert!((spread - 0.014826).abs() < 1e-6, "{spread}");
        let mut wild = x.clone();
        wild.push(50.0);
        assert!(relative_spread(&wild).expect("values") < 0.03);
        assert_eq!(relative_spread(&[1.0]), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_estimate_and_order_does_not_matter(
            mut values in proptest::collection::vec(0.1f64..100.0, 1..60),
        ) {
            let a = summarize_positive(&values).expect("values");
            prop_assert!(a.low <= a.estimate && a.estimate <= a.high);
            prop_assert!(a.level <= LEVEL && a.n == values.len());
            values.reverse();
            let b = summarize_positive(&values).expect("values");
            prop_assert_eq!((a.estimate, a.low, a.high), (b.estimate, b.low, b.high));
        }

        #[test]
        fn scaling_the_values_scales_the_estimate(
            values in proptest::collection::vec(0.1f64..100.0, 1..40), factor in 0.01f64..1000.0,
        ) {
            let a = summarize_positive(&values).expect("values");
            let scaled: Vec<f64> = values.iter().map(|v| v * factor).collect();
            let b = summarize_positive(&scaled).expect("values");
            for (a, b) in [(a.estimate, b.estimate), (a.low, b.low), (a.high, b.high)] {
                prop_assert!((a * factor - b).abs() <= 1e-9 * b);
            }
        }

        #[test]
        fn nothing_makes_it_panic(values in proptest::collection::vec(any::<f64>(), 0..30)) {
            let _ = (summarize(&values), summarize_positive(&values), relative_spread(&values));
        }
    }
}
