//! Runs that were recorded apart, held against each other, and what that is worth.

use pgassay_model::warning::Warning;

use super::model::{Compare, PointResult, SCHEMA};
use super::{pairs, words, worst};
use crate::analysis::{Analysis, StageAnalysis};
use crate::measured::{ArmAnalysis, PointAnalysis, StageArm};
use crate::metrics::{METRICS, MetricId};
use crate::stats::family::judge_family;
use crate::stats::{Verdict, compare_runs};
use crate::{axes, history};

/// Why recorded runs can't be held against each other.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// One side has no run.
    #[error("there is no run on one of the sides")]
    NoRun,
    /// The runs did other work.
    #[error("{a} ran {of_a} and {b} ran {of_b}: these runs aren't comparable")]
    OtherWork {
        /// A run of A.
        a: String,
        /// What it ran.
        of_a: String,
        /// A run of B, or another of A.
        b: String,
        /// What that ran.
        of_b: String,
    },
    /// One has several servers, which differ by what was varied.
    #[error(
        "{run} ran {work}: its servers differ, so that no one of them can stand for the run; \
         pgassay report {run} holds them against each other"
    )]
    SeveralServers {
        /// Which.
        run: String,
        /// What it ran.
        work: String,
    },
    /// They do not show the metric.
    #[error("the runs do not show {0}")]
    NotShown(MetricId),
    /// No client count in common.
    #[error("the runs have no client count in common")]
    NoCommonPoint,
}

/// Holds the runs of B against those of A by one metric. `run_spread` is how far equal runs are
/// known to lie apart (0.03 for 3 %), where that is known.
///
/// # Errors
/// Where they did other work, or at other client counts.
pub fn compare_recorded(
    a: &[Analysis],
    b: &[Analysis],
    metric: MetricId,
    delta: f64,
    run_spread: Option<f64>,
) -> Result<Compare, Refusal> {
    let (Some(first), Some(other)) = (a.first(), b.first()) else {
        return Err(Refusal::NoRun);
    };
    for run in a.iter().chain(b) {
        if axes::has_several_servers(&run.arms) {
            return Err(Refusal::SeveralServers {
                run: run.run.id.clone(),
                work: work(run),
            });
        }
        if work(run) != work(first) {
            return Err(Refusal::OtherWork {
                a: first.run.id.clone(),
                of_a: work(first),
                b: run.run.id.clone(),
                of_b: work(run),
            });
        }
    }
    let mut results = Vec::new();
    let points = first.main().arms.first().map(|arm| &arm.points);
    for point in points.into_iter().flatten() {
        let clients = point.point.clients;
        let (Some(of_a), Some(of_b)) = (at(a, clients), at(b, clients)) else {
            continue;
        };
        let held = |metric: MetricId| {
            let of = |side: &[&PointAnalysis]| {
                let runs = side.iter().map(|p| p.values(metric).collect::<Vec<f64>>());
                runs.filter(|values| !values.is_empty()).collect::<Vec<_>>()
            };
            let rule = pairs::rule(metric, delta);
            compare_runs(&of(&of_a), &of(&of_b), run_spread, rule).ok()
        };
        let Some(compared) = held(metric) else {
            continue;
        };
        let others = METRICS.iter().filter(|other| **other != metric);
        let one = |side: &[&PointAnalysis]| side.first()?.estimate(metric).cloned();
        results.push(PointResult {
            arm: 1,
            label: "B".to_owned(),
            clients,
            axes: Vec::new(),
            a: one(&of_a),
            b: one(&of_b),
            compared,
            others: others
                .filter_map(|other| Some((*other, held(*other)?)))
                .collect(),
            pairs: Vec::new(),
            noise: Vec::new(),
            forecast: None,
            statements: Vec::new(),
            statements_cpu: None,
        });
    }
    if results.is_empty() {
        let shown = |side: &[Analysis]| {
            let runs = side.iter().flat_map(|run| run.main().arms.first());
            let mut points = runs.flat_map(|arm| &arm.points);
            points.any(|point| point.values(metric).next().is_some())
        };
        return Err(match shown(a) && shown(b) {
            true => Refusal::NoCommonPoint,
            false => Refusal::NotShown(metric),
        });
    }
    let mut family: Vec<_> = results.iter().map(|r| r.compared.clone()).collect();
    if family.len() > 1 {
        judge_family(&mut family);
    }
    for (result, judged) in results.iter_mut().zip(family) {
        result.compared = judged;
    }
    let mut warnings = vec![worth(a.len().min(b.len()), run_spread)];
    if first.host != other.host {
        warnings.push(Warning::new(
            "other-machine",
            "The two sides were recorded on machines that differ, or that changed in between: \
             what the machine does is in the difference.",
        ));
        for result in &mut results {
            if result.compared.verdict != Verdict::Inconclusive
                && first.host.cpu_model != other.host.cpu_model
            {
                result.compared = result.compared.clone().not_comparable(Warning::new(
                    "beyond-the-plan",
                    "they ran on different processors.",
                ));
            }
        }
    }
    let mut analysis = first.clone();
    // They are those of one of the two.
    analysis.causes.clear();
    let sides = [("A", first), ("B", other)];
    analysis.arms = sides
        .into_iter()
        .filter_map(|(label, side)| {
            Some(ArmAnalysis {
                label: label.to_owned(),
                ..side.arms.first()?.clone()
            })
        })
        .collect();
    analysis.stages = vec![StageAnalysis {
        arms: sides
            .into_iter()
            .filter_map(|(label, side)| {
                Some(StageArm {
                    label: label.to_owned(),
                    ..side.main().arms.first()?.clone()
                })
            })
            .collect(),
        diagnosis: None,
        ..first.main().clone()
    }];
    analysis.warnings.extend(other.warnings.iter().cloned());
    warnings.extend(analysis.warnings.iter().cloned());
    let mut compare = Compare {
        schema: SCHEMA.to_owned(),
        metric,
        verdict: worst(results.iter().map(|r| r.compared.verdict)),
        headline: Vec::new(),
        plan: None,
        scaling: super::scaling(&analysis),
        results,
        differences: Vec::new(),
        warnings,
        analysis,
    };
    compare.headline = words::headline(&compare);
    compare.headline.push(compare.warnings[0].text.clone());
    Ok(compare)
}

fn work(run: &Analysis) -> String {
    history::done(&run.main().plan.workload, &run.arms)
}

/// The point at that count of each run's first arm; none where a run lacks it.
fn at(runs: &[Analysis], clients: u32) -> Option<Vec<&PointAnalysis>> {
    runs.iter()
        .map(|run| {
            let mut points = run.main().arms.first()?.points.iter();
            points.find(|p| p.point.clients == clients)
        })
        .collect()
}

/// What a comparison without pairs is worth, in words.
fn worth(runs: usize, run_spread: Option<f64>) -> Warning {
    let text = match (runs, run_spread) {
        (n, _) if n >= crate::stats::unpaired::FEWEST_RUNS => format!(
            "Not interleaved: {n} runs a side are the unit, so what differs from run to run is in \
             the interval; what changed on the machine between the two sides is not."
        ),
        (_, Some(spread)) => format!(
            "Not interleaved: the interval allows for equal runs lying {:.1} % apart, as was given.",
            100.0 * spread
        ),
        _ => "Not interleaved, and one run a side: an interval over their trials says how well \
              each run knows itself, not how far two runs of the same thing lie apart. There is \
              no verdict in it."
            .to_owned(),
    };
    Warning::new("worth", text).with_remedy(
        "measure both together with pgassay compare A B, or record 4 or more runs a side",
    )
}
