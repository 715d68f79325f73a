//! How far a run can be trusted, at a glance: one grade, by limits that were fixed beforehand.
//!
//! The grade says nothing about the server. It sums up what disturbed the measurement, so that a
//! reader who takes one figure away knows whether to measure again first.

use pgassay_model::run::RunState;
use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::measured::{PointAnalysis, RunInfo};
use crate::pgio::PgioPoint;
use crate::primitives::{PrimitiveAnalysis, PrimitivePoint};
use crate::stats::{Caveat, Estimate};
use pgassay_evidence::{metrics, number};

/// A grade, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Nothing that was looked at disturbed the run.
    Good,
    /// Disturbed, but the intervals hold what it did.
    Fair,
    /// So disturbed or so short that absolute figures are not worth quoting.
    Poor,
}

impl Grade {
    /// `good`, `fair`, `poor`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
        }
    }
}

/// A run's grade, and why it is not better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quality {
    /// The worst of the reasons' grades; good without any.
    pub grade: Grade,
    /// What lowered it, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// Something that lowered the grade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// The grade that it alone leaves.
    pub grade: Grade,
    /// In a few words, with the figure.
    pub text: String,
}

/// Shares of the machine's CPU time at the worst point from which on a run is fair, and poor.
pub const OTHERS: (f64, f64) = (0.05, 0.2);
/// The same for the time that the hypervisor gave to other guests.
pub const STEAL: (f64, f64) = (0.02, 0.1);
/// The interval's half width as a part of the figure, at the point in the middle, of operations inside the server or of kernels.
pub const SPREAD: (f64, f64) = (0.1, 0.3);
/// Trials of a point below which a run is fair, and poor: an interval of 95 % by ranks needs six.
const TRIALS: (usize, usize) = (6, 3);

/// What a point shows of how it was disturbed.
struct Seen {
    /// The share of the machine's CPU time that neither server nor client used.
    others: Option<f64>,
    /// That which the hypervisor gave to other guests.
    steal: Option<f64>,
    trials: usize,
    drifted: bool,
    /// Whether its trials lie at several levels.
    several_levels: bool,
}

/// Whether trials that follow each other resemble each other, or move in one direction.
fn drifted(rate: &Estimate) -> bool {
    let mut warnings = rate.warnings.iter();
    warnings.any(|w| *w == Caveat::Drift || *w == Caveat::Autocorrelated)
}

impl Quality {
    /// Judges a run by its points; `None` where no point was measured.
    pub fn of<'a>(
        points: impl IntoIterator<Item = &'a PointAnalysis>,
        run: &RunInfo,
        warnings: &[Warning],
    ) -> Option<Self> {
        let seen = points.into_iter().map(|point| Seen {
            others: point.others_share,
            steal: point.estimate(metrics::STEAL).map(|steal| steal.estimate),
            trials: point.trials.len(),
            drifted: drifted(&point.throughput_tps),
            several_levels: point.levels.is_some(),
        });
        Self::of_seen(&seen.collect::<Vec<_>>(), run, warnings)
    }

    /// Judges a run of PGIO likewise.
    pub fn of_pgio(points: &[PgioPoint], run: &RunInfo, warnings: &[Warning]) -> Option<Self> {
        let seen = points.iter().map(|point| Seen {
            others: point.others_share,
            steal: point.steal_share,
            trials: point.trials.len(),
            drifted: drifted(&point.logical_reads_per_second),
            several_levels: false,
        });
        Self::of_seen(&seen.collect::<Vec<_>>(), run, warnings)
    }

    fn of_seen(points: &[Seen], run: &RunInfo, warnings: &[Warning]) -> Option<Self> {
        let fewest = points.iter().map(|point| point.trials).min()?;
        let largest =
            |of: fn(&Seen) -> Option<f64>| points.iter().filter_map(of).fold(0.0, f64::max);
        let mut reasons = of_run(run, warnings);
        let others = largest(|point| point.others);
        reasons.extend(beyond(others, OTHERS).map(|grade| {
            let text = format!(
                "other work took up to {:.0} % of the CPU time",
                100.0 * others
            );
            Reason::new(grade, text)
        }));
        let steal = largest(|point| point.steal);
        reasons.extend(beyond(steal, STEAL).map(|grade| {
            let text = format!(
                "the hypervisor gave up to {:.0} % of the time to others",
                100.0 * steal
            );
            Reason::new(grade, text)
        }));
        reasons.extend(few(fewest));
        let drifting = points.iter().filter(|point| point.drifted).count();
        let at_levels = points.iter().filter(|point| point.several_levels).count();
        for (does, here) in [("drifted", drifting), ("lies at several levels", at_levels)] {
            if here > 0 {
                let all = number::counted(points.len() as u64, "point");
                let text = format!("throughput {does} at {here} of {all}");
                reasons.push(Reason::new(Grade::Fair, text));
            }
        }
        Some(Self::because(reasons))
    }

    /// Judges operations inside the server or of kernels, whose trials are too short for what the machine
    /// counts; `None` where none was measured.
    ///
    /// One session that never waits would be on a CPU all the time: what it was not, others had. Primitives
    /// that sleep are few, so the one in the middle tells.
    pub fn of_primitives(
        primitives: &[PrimitiveAnalysis],
        run: &RunInfo,
        warnings: &[Warning],
    ) -> Option<Self> {
        let points = || primitives.iter().flat_map(|primitive| &primitive.points);
        let fewest = points().map(|point| point.trials.len()).min()?;
        let mut reasons = of_run(run, warnings);
        let lost = |point: &PrimitivePoint| {
            let busy = point.operations_per_second.estimate
                * point.server_cpu_ns_per_operation.estimate
                / 1e9;
            (1.0 - busy).max(0.0)
        };
        let alone = points().filter(|point| point.sessions == 1);
        let others = middle(alone.map(lost)).unwrap_or(0.0);
        reasons.extend(beyond(others, OTHERS).map(|grade| {
            let text = format!(
                "an operation on its own had no CPU for {:.0} % of the time",
                100.0 * others
            );
            Reason::new(grade, text)
        }));
        reasons.extend(few(fewest));
        let spread = points().map(|point| {
            let rate = &point.operations_per_second;
            rate.half_width() / rate.estimate
        });
        let spread = middle(spread).unwrap_or(0.0);
        reasons.extend(beyond(spread, SPREAD).map(|grade| {
            let text = format!(
                "intervals of ±{:.0} % at the point in the middle",
                100.0 * spread
            );
            Reason::new(grade, text)
        }));
        Some(Self::because(reasons))
    }

    fn because(mut reasons: Vec<Reason>) -> Self {
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.grade));
        Self {
            grade: reasons.first().map_or(Grade::Good, |worst| worst.grade),
            reasons,
        }
    }

    /// The reasons in one clause; empty for a good run.
    pub fn why(&self) -> String {
        let texts: Vec<&str> = self.reasons.iter().map(|reason| &*reason.text).collect();
        texts.join("; ")
    }
}

impl Reason {
    fn new(grade: Grade, text: String) -> Self {
        Self { grade, text }
    }
}

/// What lowers the grade of any run.
fn of_run(run: &RunInfo, warnings: &[Warning]) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if run.state != RunState::Complete {
        let text = format!(
            "{} of {} trials were measured",
            run.trials_measured, run.trials_planned
        );
        reasons.push(Reason::new(Grade::Poor, text));
    }
    if warnings.iter().any(|warning| warning.id == "not-alone") {
        let text = "another measurement ran on this machine".to_owned();
        reasons.push(Reason::new(Grade::Poor, text));
    }
    reasons
}

/// Of the fewest trials that a point has.
fn few(fewest: usize) -> Option<Reason> {
    let grade = match fewest {
        n if n < TRIALS.1 => Grade::Poor,
        n if n < TRIALS.0 => Grade::Fair,
        _ => return None,
    };
    let text = match fewest {
        1 => "one trial at a point".to_owned(),
        n => format!("only {n} trials at a point"),
    };
    Some(Reason::new(grade, text))
}

/// The finite value in the middle.
fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What a share beyond these limits leaves.
fn beyond(share: f64, (fair, poor): (f64, f64)) -> Option<Grade> {
    match share {
        share if share >= poor => Some(Grade::Poor),
        share if share >= fair => Some(Grade::Fair),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_graded_by_fixed_limits() {
        let grades = [0.0, 0.049, 0.05, 0.19, 0.2, 1.0].map(|share| beyond(share, OTHERS));
        let (fair, poor) = (Some(Grade::Fair), Some(Grade::Poor));
        assert_eq!(grades, [None, None, fair, fair, poor, poor]);
        assert!(Grade::Good < Grade::Fair && Grade::Fair < Grade::Poor);
    }
}
