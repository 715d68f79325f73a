//! Runs that were recorded apart, held against each other, and what that is worth.

use super::model::{Compare, PointResult, SCHEMA};
use super::{words, worst};
use crate::analysis::{Analysis, ArmAnalysis, PointAnalysis, StageAnalysis, StageArm};
use crate::stats::family::judge_family;
use crate::stats::{Direction, Rule, Verdict, compare_runs};
use crate::warning::Warning;

/// Why recorded runs can't be held against each other.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// One side has no run.
    #[error("there is no run on one of the sides")]
    NoRun,
    /// The runs did other work.
    #[error("{a} ran {of_a} and {b} ran {of_b}: these can't be held against each other")]
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
    /// No client count in common.
    #[error("the runs have no client count in common")]
    NoCommonPoint,
}

/// Holds the runs of B against those of A. `run_spread` is how far equal runs are
/// known to lie apart (0.03 for 3 %), where that is known.
///
/// # Errors
/// Where they did other work, or at other client counts.
pub fn compare_recorded(
    a: &[Analysis],
    b: &[Analysis],
    delta: f64,
    run_spread: Option<f64>,
) -> Result<Compare, Refusal> {
    let (Some(first), Some(other)) = (a.first(), b.first()) else {
        return Err(Refusal::NoRun);
    };
    for run in a.iter().chain(b) {
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
        let held = |value: fn(&PointAnalysis) -> Vec<f64>, direction| {
            let of = |side: &[&PointAnalysis]| side.iter().map(|p| value(p)).collect::<Vec<_>>();
            compare_runs(
                &of(&of_a),
                &of(&of_b),
                run_spread,
                Rule { delta, direction },
            )
        };
        let throughput = held(
            |p| p.trials.iter().map(|t| t.throughput_tps).collect(),
            Direction::HigherIsBetter,
        );
        let cpu = held(
            |p| {
                let trials = p.trials.iter();
                trials
                    .filter_map(|t| t.server_cpu_us_per_transaction)
                    .collect()
            },
            Direction::LowerIsBetter,
        );
        let Ok(throughput) = throughput else { continue };
        results.push(PointResult {
            arm: 1,
            label: "B".to_owned(),
            clients,
            a_tps: of_a.first().map(|p| p.throughput_tps.clone()),
            b_tps: of_b.first().map(|p| p.throughput_tps.clone()),
            throughput,
            server_cpu: cpu.ok(),
            pairs: Vec::new(),
            noise: Vec::new(),
            forecast: None,
        });
    }
    if results.is_empty() {
        return Err(Refusal::NoCommonPoint);
    }
    let mut family: Vec<_> = results.iter().map(|r| r.throughput.clone()).collect();
    if family.len() > 1 {
        judge_family(&mut family);
    }
    for (result, judged) in results.iter_mut().zip(family) {
        result.throughput = judged;
    }
    let mut warnings = vec![worth(a.len().min(b.len()), run_spread)];
    if first.host != other.host {
        warnings.push(Warning::new(
            "other-machine",
            "The two sides were recorded on machines that differ, or that changed in between: \
             what the machine does is in the difference.",
        ));
        for result in &mut results {
            if result.throughput.verdict != Verdict::Inconclusive
                && first.host.cpu_model != other.host.cpu_model
            {
                result.throughput = result.throughput.clone().not_comparable(Warning::new(
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
        verdict: worst(results.iter().map(|r| r.throughput.verdict)),
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
    let workload = &run.main().plan.workload;
    format!(
        "{} at scale {}, {} protocol",
        workload.name, workload.scale, workload.protocol
    )
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
