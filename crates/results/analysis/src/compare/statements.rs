//! A verdict for each statement of the workload: its latency in the same pairs, and its plan.

mod cpu;

pub(super) use cpu::held;

use hdrhistogram::Histogram;
use pgassay_model::comparison::{ComparisonPlan, Phase};
use pgassay_model::record::RecordedRun;
use pgassay_model::trial::{StatementRecord, Trial};
use pgassay_model::warning::Warning;

use super::model::{PointResult, StatementPlan, StatementResult};
use super::{pairs, plans};
use crate::stats::family::judge_family;
use crate::stats::verdict::Direction;
use crate::stats::{
    Comparison, Rule, Verdict, compare_in_order, compare_launches, summarize_positive,
};
use crate::trial_view::decode;

/// Executions beyond a percentile below which it is not told.
const BEYOND: u64 = 5;

/// One statement on one side: all slices together.
#[derive(Default)]
struct Side {
    /// Mean latency of each slice, µs.
    means: Vec<f64>,
    /// All executions.
    all: Option<Histogram<u64>>,
    /// Time of all executions, ns.
    time: f64,
    failures: u64,
}

impl Side {
    /// Takes a slice in; its mean latency, in µs.
    fn add(&mut self, record: &StatementRecord) -> Option<f64> {
        self.failures += record.failures;
        let histogram = decode(record.latency.as_deref()?)?;
        if histogram.is_empty() {
            return None;
        }
        let mean = histogram.mean();
        self.time += mean * histogram.len() as f64;
        self.means.push(mean / 1000.0);
        match &mut self.all {
            // Histograms of another program's bounds are left out rather than cut.
            Some(all) => drop(all.add(&histogram)),
            None => self.all = Some(histogram),
        }
        Some(mean / 1000.0)
    }

    fn calls(&self) -> u64 {
        self.all.as_ref().map_or(0, Histogram::len)
    }

    fn p99_us(&self) -> Option<f64> {
        let all = self.all.as_ref()?;
        (all.len() >= 100 * BEYOND).then(|| all.value_at_percentile(99.0) as f64 / 1000.0)
    }
}

/// Every statement of one arm at one point against A's; none where they were not measured one by one.
pub(super) fn of_pairs(
    run: &RecordedRun,
    comparison: &ComparisonPlan,
    arm: u32,
    point: u32,
) -> Vec<StatementResult> {
    let workload = &run.plan().workload;
    let trials = pairs::side_by_side(run, comparison, Phase::Pairs, arm, point);
    let against = comparison.against(arm);
    let noise = match against {
        0 => pairs::side_by_side(run, comparison, Phase::Noise, comparison.like_a(), point),
        // A's like stands at the first place only.
        _ => Vec::new(),
    };
    let planned = match (run.arm_facts.get(&against), run.arm_facts.get(&arm)) {
        (Some(a), Some(b)) => plans::both(a, b),
        _ => Vec::new(),
    };
    let mut results = Vec::new();
    for (script_index, commands) in (0u32..).zip(&workload.commands) {
        let Some(script) = workload.scripts.get(script_index as usize) else {
            continue;
        };
        for (command, text) in (0u32..).zip(commands) {
            if text.starts_with('\\') {
                continue;
            }
            let place = (script_index, command);
            let mut sides = [Side::default(), Side::default()];
            let launches = by_launch(comparison, &trials, place, &mut |side, record| {
                sides[side].add(record)
            });
            let mut equal = [Side::default(), Side::default()];
            let floor = by_launch(comparison, &noise, place, &mut |side, record| {
                equal[side].add(record)
            });
            let [a, b] = sides;
            if a.calls() + b.calls() + a.failures + b.failures == 0 {
                continue;
            }
            let of_statement = || planned.iter().filter(|pair| pair.place == Some(place));
            let parallel = cpu::parallel(of_statement());
            let cpu = cpu::of_statement(comparison, (&trials, &noise), place, parallel);
            // With some values only they may run it otherwise.
            let plan = of_statement().find(|pair| pair.changed());
            let plan = plan.or_else(|| of_statement().next());
            results.push((
                (a.time, b.time),
                StatementResult {
                    script: script.name.clone(),
                    script_index,
                    command,
                    text: text.clone(),
                    a: summarize_positive(&a.means),
                    b: summarize_positive(&b.means),
                    compared: compared(&launches, &floor, comparison),
                    p99_us: (a.p99_us(), b.p99_us()),
                    calls: (a.calls(), b.calls()),
                    failures: (a.failures, b.failures),
                    time_share: (0.0, 0.0),
                    plan: plan.map(|pair| StatementPlan {
                        a: pair.a.clone(),
                        b: pair.b.clone(),
                    }),
                    cpu,
                },
            ));
        }
    }
    let sum = |side: fn(&(f64, f64)) -> f64| results.iter().map(|(time, _)| side(time)).sum();
    let (all_a, all_b): (f64, f64) = (sum(|time| time.0), sum(|time| time.1));
    let share = |time: f64, all: f64| if all > 0.0 { time / all } else { 0.0 };
    results
        .into_iter()
        .map(|(time, result)| StatementResult {
            time_share: (share(time.0, all_a), share(time.1, all_b)),
            ..result
        })
        .collect()
}

/// What `value` makes of a statement's record on both sides (0 is A's), each launch's together.
pub(super) fn by_launch(
    comparison: &ComparisonPlan,
    trials: &[(u32, [&Trial; 2])],
    place: (u32, u32),
    value: &mut dyn FnMut(usize, &StatementRecord) -> Option<f64>,
) -> Vec<Vec<(f64, f64)>> {
    let mut launches: Vec<(u32, Vec<(f64, f64)>)> = Vec::new();
    for (round, [of_a, of_b]) in trials {
        let mut of = |side, trial| record(trial, place).and_then(|record| value(side, record));
        let (x, y) = (of(0, of_a), of(1, of_b));
        let (Some(x), Some(y)) = (x, y) else { continue };
        let launch = comparison.launch_of(*round);
        match launches.last_mut() {
            Some((last, pairs)) if *last == launch => pairs.push((x, y)),
            _ => launches.push((launch, vec![(x, y)])),
        }
    }
    launches.into_iter().map(|(_, pairs)| pairs).collect()
}

fn record(trial: &Trial, (script, command): (u32, u32)) -> Option<&StatementRecord> {
    let script = trial.scripts.get(script as usize)?;
    script.statements.get(command as usize)
}

/// A time of a statement as the whole is compared: by pairs, or by launches where there are several, and held
/// against what it does between equal servers, where these were measured.
pub(super) fn compared(
    launches: &[Vec<(f64, f64)>],
    noise: &[Vec<(f64, f64)>],
    comparison: &ComparisonPlan,
) -> Option<Comparison> {
    let rule = Rule {
        delta: comparison.delta,
        direction: Direction::LowerIsBetter,
    };
    let mut compared = match comparison.launches > 1 {
        true => compare_launches(launches, rule).ok()?,
        false => compare_in_order(&launches.concat(), rule).ok()?,
    };
    if let Some(floor) = pairs::floor_of(noise, rule) {
        compared = compared.with_noise_floor(Some(floor));
    }
    if !comparison.looks.is_empty() {
        compared.verdict = Verdict::Inconclusive;
        compared.warn(Warning::new(
            "other-stop-rule",
            "how many pairs there are was decided by looks at another figure: no verdict on statements",
        ));
    }
    Some(compared)
}

/// Holm's correction over all statements, points and arms, for latency and for CPU time; then those that changed
/// come first.
pub(super) fn judge(results: &mut [PointResult]) {
    judge_by(results, |statement| statement.compared.as_mut());
    judge_by(results, |statement| {
        statement.cpu.as_mut()?.compared.as_mut()
    });
    for result in results {
        result.statements.sort_by(|x, y| {
            let keys = (rank(x), rank(y));
            keys.0.cmp(&keys.1).then(weight(y).total_cmp(&weight(x)))
        });
    }
}

/// One figure of all statements as one family.
fn judge_by(
    results: &mut [PointResult],
    figure: fn(&mut StatementResult) -> Option<&mut Comparison>,
) {
    let statements = results.iter_mut().flat_map(|result| &mut result.statements);
    let mut figures: Vec<&mut Comparison> = statements.filter_map(figure).collect();
    let mut family: Vec<Comparison> = figures.iter().map(|one| (**one).clone()).collect();
    if family.len() > 1 {
        judge_family(&mut family);
    }
    for (one, judged) in figures.iter_mut().zip(family) {
        **one = judged;
    }
}

/// What must not be missed comes first.
fn rank(statement: &StatementResult) -> u8 {
    match (statement.verdict(), statement.plan_changed()) {
        (Some(Verdict::Slower), _) => 0,
        (_, true) => 1,
        (Some(Verdict::Faster), _) => 2,
        _ if statement.changed() => 2,
        _ => 3,
    }
}

/// Of those that changed how far the latency moved, of the others their time.
fn weight(statement: &StatementResult) -> f64 {
    match (rank(statement), &statement.compared) {
        (0..=2, Some(compared)) => compared.ratio.estimate.ln().abs(),
        (0..=2, None) => 0.0,
        _ => statement.time_share.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics;

    /// Pairs in which the second is slower by this factor, give or take a little.
    fn pairs(factor: f64) -> Vec<Vec<(f64, f64)>> {
        let pair = |i: u32| {
            let a = 100.0 + f64::from(i % 3);
            (a, a * factor * (1.0 + 0.001 * f64::from(i % 5)))
        };
        vec![(0..12).map(pair).collect()]
    }

    #[test]
    fn what_equal_servers_show_too_is_no_difference_of_a_statement() {
        let plan = ComparisonPlan {
            metric: metrics::THROUGHPUT.id.to_owned(),
            delta: 0.01,
            power: 0.8,
            launches: 1,
            noise_rounds: 12,
            noise_each_launch: false,
            pairs: Some(12),
            most_pairs: 12,
            looks: Vec::new(),
            same: false,
            places: 1,
            typed: Vec::new(),
        };
        let verdict = |noise: &[Vec<(f64, f64)>]| {
            let compared = compared(&pairs(1.03), noise, &plan).unwrap();
            (compared.verdict, compared.noise_floor.is_some())
        };
        assert_eq!(verdict(&[]), (Verdict::Slower, false));
        assert_eq!(verdict(&pairs(1.0)), (Verdict::Slower, true));
        assert_eq!(verdict(&pairs(1.05)), (Verdict::Inconclusive, true));
    }
}
