//! The trials of one arm at one client count, reduced to estimates over trials.

use std::collections::BTreeMap;

use pgassay_model::plan::Plan;
use pgassay_model::point::Point;
use pgassay_model::trial::{ClientCalls, Trial};
use pgassay_model::warning::Warning;
use pgassay_model::workload::Dials;

use super::failed::example;
use super::machines;
use crate::ceiling::Ceiling;
use crate::levels::PointLevels;
use crate::measured::{LatencyRange, PointAnalysis, TrialAnalysis};
use crate::stats::Caveat;
use crate::trial_view::{Server, TrialView, median_share, others_busy};
use crate::{latency, metrics};

/// The share of the client's own ceiling from which on a figure is bent by it.
const NEAR_CEILING: f64 = 0.7;

/// A load thread busier than this leaves no doubt that the client bends the curve.
const BUSY_THREAD: f64 = 0.9;

/// What is known of trials that are not there, by the index of their point.
pub(super) struct Said<'a> {
    /// Why a point was left out from some trial on.
    pub skipped: &'a BTreeMap<u32, String>,
    /// What is said of trials that do not count.
    pub left_out: &'a BTreeMap<u32, Warning>,
}

impl Said<'_> {
    fn of(&self, point: u32, trials: usize, planned: u32) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some(reason) = self.skipped.get(&point) {
            warnings.push(Warning::new(
                "point-skipped",
                format!("left out from here on: {reason}"),
            ));
        }
        match self.left_out.get(&point) {
            Some(left_out) => warnings.push(left_out.clone()),
            None if trials < planned as usize => warnings.push(Warning::new(
                "trials-missing",
                format!("{trials} of {planned} trials were measured"),
            )),
            None => {}
        }
        warnings
    }
}

/// All points of a server's trials under one load that have at least one, by ascending clients.
/// `alone` are the trials of the client without a server. A server that is watched under its own load `may_idle`; of a
/// load that completes nothing there are no figures.
pub fn analyse(
    plan: &Plan,
    trials: &[&Trial],
    server: Server,
    alone: &[&Trial],
    said: &Said,
    may_idle: bool,
) -> Vec<PointAnalysis> {
    let mut points: Vec<PointAnalysis> = (0u32..)
        .zip(&plan.points)
        .filter_map(|(index, point)| {
            let here = |t: &&&Trial| t.slice.point == index;
            let trials: Vec<TrialView> = trials
                .iter()
                .filter(here)
                .map(|t| TrialView::of(t, server))
                .filter(|t| t.latency.is_some())
                .collect();
            if !may_idle && trials.iter().all(|t| t.record.transactions == 0) {
                return None;
            }
            let mut analysis = analyse_point(*point, &trials)?;
            analysis
                .warnings
                .splice(0..0, said.of(index, trials.len(), plan.trials));
            let records: Vec<&Trial> = trials.iter().map(|t| t.record).collect();
            analysis.detail = latency::analyse(&records, &plan.workload);
            let alone = alone.iter().filter(here).copied();
            note_ceiling(&mut analysis, Ceiling::of(point, alone));
            note_schedule(&mut analysis, &plan.workload.dials);
            Some(analysis)
        })
        .collect();
    points.sort_by_key(|p| p.point.clients);
    points
}

fn analyse_point(point: Point, trials: &[TrialView]) -> Option<PointAnalysis> {
    let mut metrics = metrics::over_trials(trials);
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    for (state, count) in trials.iter().flat_map(|t| &t.record.failures) {
        *failures.entry(state.clone()).or_default() += count;
    }
    let calls = calls(trials);
    let mut throughput_tps = metrics.remove(&metrics::THROUGHPUT)?;
    let levels = PointLevels::of(trials);
    let mut warnings = warnings(trials);
    if let Some(levels) = &levels {
        throughput_tps.warn(Caveat::SeveralLevels);
        warnings.insert(0, several_levels(levels));
    }
    Some(PointAnalysis {
        point,
        throughput_tps,
        levels,
        metrics,
        latency_us: latency_range(trials)?,
        client_calls_per_transaction: calls.map(|(calls, done)| calls.sum() as f64 / done),
        client_gathered_share: calls.and_then(|(calls, _)| calls.gathered_share()),
        others_share: others_share(trials),
        other_cpus: median_share(trials, TrialView::other_cpus),
        failures: failures.into_iter().collect(),
        ceiling_tps: None,
        detail: None,
        warnings,
        trials: trials.iter().map(reduce).collect(),
    })
}

/// The warning of a point whose trials lie at several levels, with what separates them.
fn several_levels(levels: &PointLevels) -> Warning {
    let mut text = format!(
        "throughput lies at {} levels: {} transactions a second; nothing was measured between them",
        levels.levels.len(),
        levels.in_words()
    );
    for separation in levels.separations() {
        text.push_str("; ");
        text.push_str(&separation);
    }
    let remedy = if levels.separated_by.is_empty() {
        "measure more trials (--trials), or give the load CPUs of its own (--pin)"
    } else if levels.are_separated_by(metrics::SHARED_CPU) {
        "measure each level by itself: --pin gives the load CPUs of its own, and taskset -c 0 pgassay … puts client and \
         server on one"
    } else {
        "keep what differs between the levels constant, and measure each level by itself"
    };
    Warning::new(Caveat::SeveralLevels.id(), text).with_remedy(remedy)
}

/// Compares a point with what the client can do at most.
fn note_ceiling(point: &mut PointAnalysis, ceiling: Option<Ceiling>) {
    let Some(most) = ceiling.map(|ceiling| ceiling.most_tps()) else {
        return;
    };
    point.ceiling_tps = Some(most);
    let share = point.throughput_tps.estimate / most;
    if share > NEAR_CEILING {
        point.warnings.push(
            Warning::new(
                "near-ceiling",
                format!(
                    "this is {:.0} % of what the client itself can do at most ({most:.0} \
                     transactions a second): the figure says as much about it as about the server",
                    share * 100.0
                ),
            )
            .with_remedy("give the client more threads with --threads, or CPUs of its own"),
        );
    }
}

/// Says where a rate was not kept, and what was left out for a latency limit.
fn note_schedule(point: &mut PointAnalysis, dials: &Dials) {
    let Some(detail) = &point.detail else {
        return;
    };
    let (behind, skipped, late) = (detail.behind, detail.skipped, detail.late);
    let all = detail.all.count + skipped + behind;
    if let Some(rate) = dials.rate_tps
        && behind > all / 100
    {
        point.warnings.push(Warning::new(
            "behind-schedule",
            format!(
                "the rate of {rate}{} a second was not kept: {behind} transactions that were due had \
                 not begun",
                dials
                    .rate_end_tps
                    .map_or_else(String::new, |end| format!(" to {end}"))
            ),
        ));
    }
    if let Some(limit) = dials.latency_limit_ms
        && skipped + late > 0
    {
        point.warnings.push(Warning::new(
            "latency-limit",
            format!(
                "{skipped} starts were left out and {late} transactions took longer than {limit} ms"
            ),
        ));
    }
}

fn latency_range(trials: &[TrialView]) -> Option<LatencyRange> {
    let of_trials = || trials.iter().filter_map(|t| t.latency.as_ref());
    let count: u64 = of_trials().map(|latency| latency.len()).sum();
    let sum: f64 = of_trials()
        .map(|latency| latency.mean() * latency.len() as f64)
        .sum();
    let max = of_trials().map(|latency| latency.max()).max()?;
    Some(LatencyRange {
        count,
        mean: sum / count.max(1) as f64 / 1000.0,
        max: max as f64 / 1000.0,
    })
}

fn reduce(trial: &TrialView) -> TrialAnalysis {
    let mut metrics = metrics::of_trial(trial);
    metrics.remove(&metrics::THROUGHPUT);
    TrialAnalysis {
        index: trial.record.slice.index,
        throughput_tps: trial.rate(),
        metrics,
    }
}

/// The share of all CPU time that neither server nor client used; the median of the trials.
fn others_share(trials: &[TrialView]) -> Option<f64> {
    median_share(trials, TrialView::others_share)
}

/// The load threads' system calls of all trials, and the transactions that they were for.
fn calls(trials: &[TrialView]) -> Option<(ClientCalls, f64)> {
    let mut sum = ClientCalls::default();
    let mut done = 0;
    for record in trials.iter().map(|t| t.record) {
        let calls = record.client_calls?;
        sum.receive += calls.receive;
        sum.send += calls.send;
        sum.wait += calls.wait;
        sum.enter += calls.enter;
        sum.gathered += calls.gathered;
        done += record.transactions;
    }
    (done > 0).then_some((sum, done as f64))
}

fn warnings(trials: &[TrialView]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let busiest = trials
        .iter()
        .filter_map(|t| t.record.busiest_thread_share)
        .fold(0.0, f64::max);
    if busiest > BUSY_THREAD {
        warnings.push(
            Warning::new(
                "client-bound",
                format!(
                    "a load thread{} was busy {:.0} % of the time: the server could go faster",
                    machines::busiest(trials)
                        .map_or_else(String::new, |name| format!(" of {name}")),
                    busiest * 100.0
                ),
            )
            .with_remedy("give the client more threads with --threads"),
        );
    }
    warnings.extend(others_busy(others_share(trials)));
    warnings.extend(machines::warnings(trials));
    warnings.extend(short_readings(trials));
    let failed: u64 = trials.iter().flat_map(|t| t.record.failures.values()).sum();
    if failed > 0 {
        let records: Vec<_> = trials.iter().map(|trial| trial.record).collect();
        let example = example(&records);
        let text = match example.is_empty() {
            true => format!("{failed} transactions failed"),
            false => format!("{failed} transactions failed.{example}"),
        };
        warnings.push(Warning::new("failures", text));
    }
    warnings
}

/// Says in how many trials readings covered too little of the window to count.
fn short_readings(trials: &[TrialView]) -> Option<Warning> {
    let short = trials.iter().filter(|t| t.has_short_samples()).count();
    (short > 0).then(|| {
        Warning::new(
            "readings-short",
            format!(
                "in {short} of {} trials, readings of server and machine covered less than half of the window and \
                 do not count: pgassay had no CPU, or was stopped",
                trials.len()
            ),
        )
        .with_remedy("measure with longer windows (--duration), or when the machine is quiet")
    })
}
