//! A comparison held against thresholds, for CI: is HEAD worse than BASE by more than is allowed?
//!
//! A check fails where HEAD is shown to be worse and by more than the threshold; it passes where it is
//! shown not to be worse by more than that (non-inferiority: the interval ends before). Else it is
//! unclear, which is neither.

use serde::{Deserialize, Serialize};

use crate::compare::Compare;
use crate::counts::{Counts, median};
use crate::metrics::MetricId;
use crate::stats::{Direction, Verdict};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/guard/1";

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// Not worse by more than the threshold.
    Passed,
    /// Worse by more than the threshold.
    Failed,
    /// What was measured does not tell.
    Unclear,
    /// The servers can't be compared: they differ beyond what was planned.
    NotComparable,
}

impl Judged {
    /// The word for it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Unclear => "unclear",
            Self::NotComparable => "not comparable",
        }
    }
}

/// HEAD against BASE as a share; 0.01 is 1 % more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The figure.
    pub estimate: f64,
    /// The low end of its 95 % interval.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

/// One metric of one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// The workload.
    pub workload: String,
    /// Clients.
    pub clients: u32,
    /// The metric's id, or `instructions`.
    pub metric: String,
    /// How much worse it may become, as a share.
    pub threshold: f64,
    /// The metric of BASE, the median; `null` where the workload does not show it.
    pub base: Option<f64>,
    /// HEAD's.
    pub head: Option<f64>,
    /// What changed; `null` where the workload does not show the metric.
    pub change: Option<Change>,
    /// How it ended.
    pub judged: Judged,
    /// The recorded run; none for counts.
    pub run: Option<String>,
}

/// All checks of HEAD against BASE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Guarded {
    /// [`SCHEMA`].
    pub schema: String,
    /// The targets, as named.
    pub base: String,
    /// HEAD's.
    pub head: String,
    /// HEAD's commit, where it was built from a ref.
    pub commit: Option<String>,
    /// The checks.
    pub checks: Vec<Check>,
    /// What qualifies a comparison, in plain sentences.
    pub warnings: Vec<String>,
    /// Whether everything that was planned was measured.
    pub complete: bool,
    /// What kept it from measuring the rest: HEAD can't be built, a server does not start or died.
    #[serde(default)]
    pub stopped: Option<String>,
    /// Seconds that everything might take.
    pub budget_seconds: f64,
    /// Seconds that it took.
    pub seconds: f64,
}

impl Guarded {
    /// The checks that ended so.
    pub fn count(&self, judged: Judged) -> usize {
        self.checks.iter().filter(|c| c.judged == judged).count()
    }
}

/// The failed check whose commit is searched for: the first, or by time one whose throughput lost more than
/// half, where there is such a one. A block of time tells that at once, and counting takes as much longer as
/// the server has become slower.
pub fn searched(checks: &[Check]) -> Option<(&Check, bool)> {
    let failed = || checks.iter().filter(|c| c.judged == Judged::Failed);
    let lost = |check: &&Check| {
        let throughput = MetricId::find(&check.metric).is_ok_and(|m| m == MetricId::default());
        let change = check.change.as_ref();
        throughput && change.is_some_and(|change| change.high < -0.5)
    };
    let first = || failed().next().map(|check| (check, false));
    failed()
        .find(lost)
        .map(|check| (check, true))
        .or_else(first)
}

/// Judges a change against a threshold.
pub fn judge(change: Change, threshold: f64, better: Direction) -> Judged {
    // What is worse lies below zero from here on.
    let (estimate, low, high) = match better {
        Direction::HigherIsBetter => (change.estimate, change.low, change.high),
        Direction::LowerIsBetter => (-change.estimate, -change.high, -change.low),
    };
    if low >= -threshold {
        Judged::Passed
    } else if high < 0.0 && estimate < -threshold {
        Judged::Failed
    } else {
        Judged::Unclear
    }
}

/// The checks of a comparison's first other arm, one for each client count and threshold.
pub fn checks(compare: &Compare, run: &str, thresholds: &[(MetricId, f64)]) -> Vec<Check> {
    let workload = &compare.analysis.main().plan.workload.name;
    let of = compare.results.iter().filter(|result| result.arm == 1);
    of.flat_map(|result| {
        thresholds.iter().map(move |(metric, threshold)| {
            let change = result.comparison(compare.metric, *metric).map(|c| Change {
                estimate: c.ratio.estimate - 1.0,
                low: c.ratio.low - 1.0,
                high: c.ratio.high - 1.0,
            });
            let judged = match change {
                _ if compare.verdict == Verdict::NotComparable => Judged::NotComparable,
                // A verdict of the comparison itself never stands against its own warnings, such as a
                // noise floor as large: no failure without it.
                Some(change) => match judge(change, *threshold, metric.better) {
                    Judged::Failed
                        if *metric == compare.metric
                            && result.compared.verdict == Verdict::Inconclusive =>
                    {
                        Judged::Unclear
                    }
                    judged => judged,
                },
                None => Judged::Unclear,
            };
            let values = |pick: fn((f64, f64)) -> f64| {
                let pairs = result.pairs.iter().filter_map(|pair| pair.both(*metric));
                median(pairs.map(pick).collect())
            };
            Check {
                base: values(|(base, _)| base),
                head: values(|(_, head)| head),
                workload: workload.clone(),
                clients: result.clients,
                metric: metric.id.to_owned(),
                threshold: *threshold,
                change,
                judged,
                run: Some(run.to_owned()),
            }
        })
    })
    .collect()
}

/// The check of counted instructions.
pub fn check_of_counts(counts: &Counts, threshold: f64) -> Check {
    let difference = counts.counted.difference;
    let change = Change {
        estimate: difference.estimate,
        low: difference.low,
        high: difference.high,
    };
    Check {
        workload: counts.workload.clone(),
        clients: 1,
        metric: "instructions".to_owned(),
        threshold,
        base: Some(counts.counted.instructions.0),
        head: Some(counts.counted.instructions.1),
        judged: judge(change, threshold, Direction::LowerIsBetter),
        change: Some(change),
        run: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_fails_only_where_worse_by_more_is_shown() {
        let change = |estimate: f64, low: f64, high: f64| Change {
            estimate,
            low,
            high,
        };
        let up = Direction::HigherIsBetter;
        for (seen, judged) in [
            (change(0.0, -0.01, 0.01), Judged::Passed),
            (change(0.1, 0.08, 0.12), Judged::Passed),
            (change(-0.015, -0.018, -0.012), Judged::Passed),
            (change(-0.05, -0.07, -0.03), Judged::Failed),
            // Worse is shown, by more is not.
            (change(-0.015, -0.03, -0.001), Judged::Unclear),
            (change(-0.05, -0.2, 0.1), Judged::Unclear),
        ] {
            assert_eq!(judge(seen, 0.02, up), judged, "{seen:?}");
            let mirrored = change(-seen.estimate, -seen.high, -seen.low);
            assert_eq!(judge(mirrored, 0.02, Direction::LowerIsBetter), judged);
        }
        assert_eq!(
            judge(change(f64::NAN, f64::NAN, f64::NAN), 0.02, up),
            Judged::Unclear
        );
    }

    #[test]
    fn what_lost_most_of_its_speed_is_searched_by_time() {
        let check = |metric: &str, judged: Judged, high: f64| Check {
            workload: "select-only".to_owned(),
            clients: 4,
            metric: metric.to_owned(),
            threshold: 0.05,
            base: None,
            head: None,
            change: Some(Change {
                estimate: high - 0.01,
                low: high - 0.02,
                high,
            }),
            judged,
            run: None,
        };
        let counted = check("instructions", Judged::Failed, 1382.0);
        let searched = |second: Check| {
            let checks = [counted.clone(), second];
            searched(&checks).map(|(check, time)| (check.metric.clone(), time))
        };
        let of = |metric: &str, time: bool| Some((metric.to_owned(), time));
        assert_eq!(
            searched(check("throughput", Judged::Failed, -0.99)),
            of("throughput", true)
        );
        assert_eq!(
            searched(check("throughput", Judged::Failed, -0.06)),
            of("instructions", false)
        );
        assert_eq!(
            searched(check("throughput", Judged::Unclear, -0.6)),
            of("instructions", false)
        );
    }
}
