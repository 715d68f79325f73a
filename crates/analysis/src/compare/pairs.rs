//! From trials to pairs: who was measured beside whom.

use std::collections::BTreeMap;

use super::model::Pair;
use super::plan::{ComparisonPlan, Phase};
use crate::record::{RecordedRun, Trial};
use crate::samples;
use crate::stats::paired::{self, Comparison, Unit};
use crate::stats::{NoiseFloor, Rule, StatsError, compare_in_order, compare_launches};

/// The pairs of `other` beside A at one point, in the order of measurement. A
/// round in which either is missing gives none.
pub fn pairs(
    run: &RecordedRun,
    comparison: &ComparisonPlan,
    phase: Phase,
    other: u32,
    point: u32,
) -> Vec<Pair> {
    let mut rounds: BTreeMap<u32, [Option<&Trial>; 2]> = BTreeMap::new();
    for trial in &run.trials {
        let slice = trial.slice;
        let whole = trial.cut_short.is_none() && trial.window_ns > 0;
        if !whole || slice.point != point || comparison.phase_of(slice.round) != phase {
            continue;
        }
        let side = match slice.arm {
            0 => 0,
            arm if arm == other => 1,
            _ => continue,
        };
        // A slice that was repeated after an interruption counts as measured last.
        rounds.entry(slice.round).or_default()[side] = Some(trial);
    }
    rounds
        .into_iter()
        .filter_map(|(round, [a, b])| {
            let (a, b) = (a?, b?);
            Some(Pair {
                launch: comparison.launch_of(round),
                round,
                a_first: a.slice.index < b.slice.index,
                a_tps: tps(a),
                b_tps: tps(b),
                a_server_cpu_us: server_cpu_us(a),
                b_server_cpu_us: server_cpu_us(b),
            })
        })
        .collect()
}

fn tps(trial: &Trial) -> f64 {
    trial.transactions as f64 / (trial.window_ns as f64 / 1e9)
}

fn server_cpu_us(trial: &Trial) -> Option<f64> {
    if let Some(ns) = trial.server_cpu_ns {
        return (trial.transactions > 0).then(|| ns as f64 / 1e3 / trial.transactions as f64);
    }
    let sample = trial.samples.get(samples::SERVER_SCHEDSTAT)?;
    let cpus = samples::server_cpu_ns(sample)? as f64 / sample.elapsed_ns.max(1) as f64;
    (trial.transactions > 0).then(|| cpus * 1e6 / tps(trial))
}

/// A figure of both sides of a pair.
pub type Figure = fn(&Pair) -> Option<(f64, f64)>;

/// Transactions a second of both sides.
pub const THROUGHPUT: Figure = |pair| Some((pair.a_tps, pair.b_tps));

/// Server CPU time for each transaction of both sides.
pub const SERVER_CPU: Figure = |pair| Some((pair.a_server_cpu_us?, pair.b_server_cpu_us?));

/// One figure of all pairs, each launch's together.
pub fn by_launch(pairs: &[Pair], figure: Figure) -> Vec<Vec<(f64, f64)>> {
    let mut launches: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for pair in pairs {
        if let Some(both) = figure(pair) {
            launches.entry(pair.launch).or_default().push(both);
        }
    }
    launches.into_values().collect()
}

/// Compares one figure; with several launches they are the unit.
///
/// # Errors
/// Where there is no pair that has the figure.
pub fn compare(
    pairs: &[Pair],
    launches: u32,
    figure: Figure,
    rule: Rule,
) -> Result<Comparison, StatsError> {
    let by_launch = by_launch(pairs, figure);
    if launches > 1 {
        compare_launches(&by_launch, rule)
    } else {
        compare_in_order(&by_launch.concat(), rule)
    }
}

/// The noise floor: of pairs, or where several launches have some, of launches by
/// their pairs' centres.
pub fn noise_floor(noise: &[Pair]) -> Option<(NoiseFloor, Unit)> {
    let by_launch = by_launch(noise, THROUGHPUT);
    if by_launch.len() <= 1 {
        let floor = NoiseFloor::from_pairs(&by_launch.concat()).ok()?;
        return Some((floor, Unit::Pair));
    }
    let rule = Rule {
        delta: 0.0,
        direction: crate::stats::Direction::HigherIsBetter,
    };
    let centres: Vec<(f64, f64)> = by_launch
        .iter()
        .filter_map(|pairs| Some((1.0, paired::compare(pairs, rule).ok()?.ratio.estimate)))
        .collect();
    Some((NoiseFloor::from_pairs(&centres).ok()?, Unit::Launch))
}

/// How far the pairs of equal servers of the first launch lie apart.
pub fn floor_of_pairs(noise: &[Pair]) -> Option<NoiseFloor> {
    let by_launch = by_launch(noise, THROUGHPUT);
    NoiseFloor::from_pairs(by_launch.first()?).ok()
}
