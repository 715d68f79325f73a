//! Whether the throughput of a point's trials lies at several levels, and what tells these apart.

use pgassay_stats::{Level, levels};
use serde::{Deserialize, Serialize};

use crate::metrics::{self, MetricId};
use crate::number;
use crate::trial_view::TrialView;

/// An arrangement that chance brings about more often is not named.
const BY_CHANCE: f64 = 0.01;

/// What can be the cause of a level rather than its consequence.
const CAUSES: &[MetricId] = &[
    metrics::SHARED_CPU,
    metrics::pmu::CPU_MIGRATIONS,
    metrics::STEAL,
    metrics::CPU_THROTTLED,
    metrics::DEVICE_READS,
    metrics::BUFFER_MISSES,
    metrics::PAGE_TABLES,
];

/// The levels at which the trials of a point lie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointLevels {
    /// Throughput, the lowest level first; members are places in the point's trials.
    pub levels: Vec<Level>,
    /// What differs between the trials of the two levels, without exception; of more than two levels nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub separated_by: Vec<Separation>,
}

/// A quantity whose values in the trials of one level all lie below those of the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Separation {
    /// What it is.
    pub quantity: Quantity,
    /// The least and the most in trials of the lower level of throughput.
    pub lower: (f64, f64),
    /// The same of the higher level.
    pub higher: (f64, f64),
}

/// What is compared between the trials of two levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A metric of each trial.
    Metric(MetricId),
    /// CPUs that other programs used.
    OtherCpus,
    /// The place of the trial in the schedule.
    Order,
}

impl Quantity {
    /// Its name.
    fn name(self) -> &'static str {
        match self {
            Self::Metric(metric) => metric.heading,
            Self::OtherCpus => "CPUs that other programs used",
            Self::Order => "place in the run",
        }
    }

    /// Its unit; `share` for 0 to 1, empty for plain numbers.
    fn unit(self) -> &'static str {
        match self {
            Self::Metric(metric) => metric.unit,
            Self::OtherCpus | Self::Order => "",
        }
    }

    /// Its value in a trial; none where that was not observed.
    fn of(self, trial: &TrialView) -> Option<f64> {
        match self {
            Self::Metric(metric) => metric.in_view(trial),
            Self::OtherCpus => trial.other_cpus(),
            Self::Order => Some(f64::from(trial.record.slice.index)),
        }
    }
}

impl PointLevels {
    /// The levels of these trials; none where one explains them.
    pub fn of(trials: &[TrialView]) -> Option<Self> {
        let rates: Vec<f64> = trials.iter().map(TrialView::rate).collect();
        let levels = levels(&rates)?;
        let separated_by = match &levels[..] {
            [lower, higher] => separations(&candidates(trials), lower, higher),
            _ => Vec::new(),
        };
        Some(Self {
            levels,
            separated_by,
        })
    }

    /// `47,000 (8 trials) and 15,000 (12 trials)`, the highest first.
    pub fn in_words(&self) -> String {
        let each = self.levels.iter().rev().map(|level| {
            format!(
                "{} ({})",
                number::shown(&level.estimate).value,
                number::counted(level.members.len() as u64, "trial"),
            )
        });
        each.collect::<Vec<_>>().join(" and ")
    }

    /// What separates the levels, a clause each: `steal: 2 to 3 % in trials of the lower level, 0 % in those of the
    /// higher`.
    pub fn separations(&self) -> impl Iterator<Item = String> {
        self.separated_by.iter().map(|by| {
            format!(
                "{}: {} in trials of the lower level, {} in those of the higher",
                by.quantity.name(),
                between(by.lower, by.quantity.unit()),
                between(by.higher, by.quantity.unit()),
            )
        })
    }

    /// Whether the levels differ by this metric.
    pub fn are_separated_by(&self, metric: MetricId) -> bool {
        let metric = Quantity::Metric(metric);
        self.separated_by.iter().any(|by| by.quantity == metric)
    }
}

/// A range in words.
fn between((least, most): (f64, f64), unit: &str) -> String {
    let (least, most, unit) = match unit {
        "share" => (100.0 * least, 100.0 * most, "%"),
        unit => (least, most, unit),
    };
    let [least, most] = [least, most].map(number::short);
    let range = match least == most {
        true => least,
        false => format!("{least} to {most}"),
    };
    format!("{range} {unit}").trim_end().to_owned()
}

/// A quantity with its value in each trial.
type Candidate = (Quantity, Vec<f64>);

/// Everything observed in each trial that can have caused its level.
fn candidates(trials: &[TrialView]) -> Vec<Candidate> {
    let metrics = CAUSES.iter().map(|metric| Quantity::Metric(*metric));
    let all = metrics.chain([Quantity::OtherCpus, Quantity::Order]);
    all.filter_map(|quantity| {
        let values: Option<Vec<f64>> = trials.iter().map(|trial| quantity.of(trial)).collect();
        Some((quantity, values?))
    })
    .collect()
}

/// Those that separate two levels, unless so many candidates would do that by chance.
fn separations(candidates: &[Candidate], lower: &Level, higher: &Level) -> Vec<Separation> {
    let (n, k) = (
        lower.members.len() + higher.members.len(),
        lower.members.len(),
    );
    if 2.0 / arrangements(n, k) * candidates.len() as f64 > BY_CHANCE {
        return Vec::new();
    }
    let range = |values: &[f64], level: &Level| {
        let here = level.members.iter().map(|i| values[*i]);
        here.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| {
            (least.min(v), most.max(v))
        })
    };
    candidates
        .iter()
        .filter_map(|(quantity, values)| {
            let (low, high) = (range(values, lower), range(values, higher));
            (low.1 < high.0 || high.1 < low.0).then_some(Separation {
                quantity: *quantity,
                lower: low,
                higher: high,
            })
        })
        .collect()
}

/// In how many ways k of n can be chosen.
fn arrangements(n: usize, k: usize) -> f64 {
    (1..=k).map(|i| (n - k + i) as f64 / i as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_stats::summarize_positive;

    fn level(at: f64, members: Vec<usize>) -> Level {
        let values = vec![at; members.len()];
        Level {
            estimate: summarize_positive(&values).unwrap(),
            members,
        }
    }

    #[test]
    fn what_separates_every_trial_is_named() {
        let (lower, higher) = (
            level(15_000.0, (0..12).collect()),
            level(47_000.0, (12..20).collect()),
        );
        let of = |value: fn(usize) -> f64| (0..20).map(value).collect::<Vec<_>>();
        let sharing = Quantity::Metric(metrics::SHARED_CPU);
        let candidates = [
            (sharing, of(|i| if i < 12 { 0.9 } else { 0.02 })),
            (Quantity::OtherCpus, of(|i| (i % 3) as f64)),
        ];
        let found = separations(&candidates, &lower, &higher);
        assert_eq!(found.len(), 1);
        let point = PointLevels {
            levels: vec![lower, higher],
            separated_by: found,
        };
        assert!(point.are_separated_by(metrics::SHARED_CPU));
        let clauses: Vec<String> = point.separations().collect();
        assert_eq!(
            clauses,
            [
                "CPU shared with the client: 90 % in trials of the lower level, 2 % in those of the higher"
            ]
        );
        assert_eq!(point.in_words(), "47,000 (8 trials) and 15,000 (12 trials)");
    }

    #[test]
    fn few_trials_separate_by_chance() {
        let (lower, higher) = (level(10.0, vec![0, 1, 2]), level(90.0, vec![3, 4, 5]));
        let values = (0..6).map(f64::from).collect();
        assert_eq!(
            separations(&[(Quantity::Order, values)], &lower, &higher),
            []
        );
        assert_eq!(arrangements(20, 8), 125_970.0);
    }
}
