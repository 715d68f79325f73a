//! From trials to pairs: who was measured beside whom.

use std::collections::BTreeMap;

use pgassay_model::comparison::{ComparisonPlan, Phase};
use pgassay_model::record::RecordedRun;
use pgassay_model::trial::Trial;

use super::model::Pair;
use crate::metrics::{self, MetricId};
use crate::stats::paired::{self, Comparison, Unit};
use crate::stats::{NoiseFloor, Rule, StatsError, compare_in_order, compare_launches};
use crate::trial_view::{Server, TrialView};

/// The pairs of `other` beside A of its place at one point, in the order of measurement. A
/// round in which either is missing gives none.
pub fn pairs(
    run: &RecordedRun,
    comparison: &ComparisonPlan,
    phase: Phase,
    other: u32,
    point: u32,
) -> Vec<Pair> {
    let trials = side_by_side(run, comparison, phase, other, point).into_iter();
    let servers = [0, other].map(|arm| Server::of(run, arm));
    trials
        .map(|(round, [a, b])| Pair {
            launch: comparison.launch_of(round),
            round,
            a_first: a.slice.index < b.slice.index,
            metrics: both(&values(a, servers[0]), &values(b, servers[1])),
        })
        .collect()
}

/// The trials of each pair, A's first, and its round.
pub fn side_by_side<'r>(
    run: &'r RecordedRun,
    comparison: &ComparisonPlan,
    phase: Phase,
    other: u32,
    point: u32,
) -> Vec<(u32, [&'r Trial; 2])> {
    let a = comparison.against(other);
    let mut rounds: BTreeMap<u32, [Option<&Trial>; 2]> = BTreeMap::new();
    for trial in &run.trials {
        let slice = trial.slice;
        let whole = trial.cut_short.is_none() && trial.window_ns > 0;
        if !whole || slice.point != point || comparison.phase_of(slice.round) != phase {
            continue;
        }
        let side = match slice.arm {
            arm if arm == a => 0,
            arm if arm == other => 1,
            _ => continue,
        };
        // A slice that was repeated after an interruption counts as measured last.
        rounds.entry(slice.round).or_default()[side] = Some(trial);
    }
    rounds
        .into_iter()
        .filter_map(|(round, [a, b])| Some((round, [a?, b?])))
        .collect()
}

fn values(trial: &Trial, server: Server) -> BTreeMap<MetricId, f64> {
    metrics::of_trial(&TrialView::of(trial, server))
}

fn both(
    a: &BTreeMap<MetricId, f64>,
    b: &BTreeMap<MetricId, f64>,
) -> BTreeMap<MetricId, (f64, f64)> {
    a.iter()
        .filter_map(|(metric, a)| Some((*metric, (*a, *b.get(metric)?))))
        .collect()
}

/// One metric of all pairs, each launch's together.
pub fn by_launch(pairs: &[Pair], metric: MetricId) -> Vec<Vec<(f64, f64)>> {
    let mut launches: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for pair in pairs {
        if let Some(both) = pair.both(metric) {
            launches.entry(pair.launch).or_default().push(both);
        }
    }
    launches.into_values().collect()
}

/// The rule for a metric, by its own direction.
pub fn rule(metric: MetricId, delta: f64) -> Rule {
    Rule {
        delta,
        direction: metric.better,
    }
}

/// Compares one metric by its own direction; with several launches they are the unit.
///
/// # Errors
/// Where there is no pair that has the metric.
pub fn compare(
    pairs: &[Pair],
    launches: u32,
    metric: MetricId,
    delta: f64,
) -> Result<Comparison, StatsError> {
    let rule = rule(metric, delta);
    let by_launch = by_launch(pairs, metric);
    if launches > 1 {
        compare_launches(&by_launch, rule)
    } else {
        compare_in_order(&by_launch.concat(), rule)
    }
}

/// The noise floor: of pairs, or where several launches have some, of launches by
/// their pairs' centres.
pub fn noise_floor(noise: &[Pair], metric: MetricId) -> Option<(NoiseFloor, Unit)> {
    floor_of(&by_launch(noise, metric), rule(metric, 0.0))
}

/// The same of pairs of values, each launch's together.
pub fn floor_of(by_launch: &[Vec<(f64, f64)>], rule: Rule) -> Option<(NoiseFloor, Unit)> {
    if by_launch.len() <= 1 {
        let floor = NoiseFloor::from_pairs(&by_launch.concat()).ok()?;
        return Some((floor, Unit::Pair));
    }
    let centres: Vec<(f64, f64)> = by_launch
        .iter()
        .filter_map(|pairs| Some((1.0, paired::compare(pairs, rule).ok()?.ratio.estimate)))
        .collect();
    Some((NoiseFloor::from_pairs(&centres).ok()?, Unit::Launch))
}

/// How far the pairs of equal servers of the first launch lie apart.
pub fn floor_of_pairs(noise: &[Pair], metric: MetricId) -> Option<NoiseFloor> {
    let by_launch = by_launch(noise, metric);
    NoiseFloor::from_pairs(by_launch.first()?).ok()
}
