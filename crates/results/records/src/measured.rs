//! The rows of what was measured: points, trials, metrics.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_analysis::Analysis;
use pgassay_analysis::curves::Curve;
use pgassay_analysis::measured::PointAnalysis;
use pgassay_analysis::metrics::{METRICS, MetricId, SERVER_CPU, THROUGHPUT};
use pgassay_analysis::stats::{Direction, Estimate};
use pgassay_model::plan::Stage;
use pgassay_model::record::RecordedRun;
use pgassay_model::run::EventKind;
use pgassay_model::warning::Warning;

use crate::tables::{Metric, Point, Trial};
use crate::values::{finite, int, word};

/// Whether more of a metric is better.
pub(crate) fn better(metric: MetricId) -> String {
    match metric.better {
        Direction::HigherIsBetter => "higher".to_owned(),
        Direction::LowerIsBetter => "lower".to_owned(),
    }
}

fn ids(warnings: &[Warning]) -> Option<String> {
    let ids: Vec<&str> = warnings.iter().map(|w| w.id.as_str()).collect();
    (!ids.is_empty()).then(|| ids.join(","))
}

/// Throughput over clients, of each load and server.
pub(crate) fn points(run: &str, analysis: &Analysis, curves: &[Curve<'_>]) -> Vec<Point> {
    let mut rows = Vec::new();
    for stage in &analysis.stages {
        for (arm, loaded) in stage.arms.iter().enumerate() {
            rows.extend(loaded.points.iter().map(|point| Point {
                run: run.to_owned(),
                stage: word(stage.id),
                variant: None,
                arm: int(arm),
                workload: stage.plan.workload.name.clone(),
                clients: int(point.point.clients),
                unit: stage.id.work().rate.to_owned(),
                throughput: point.throughput_tps.estimate,
                low: point.throughput_tps.low,
                high: point.throughput_tps.high,
                trials: int(point.throughput_tps.n),
                client_bound: point.warnings.iter().any(|w| w.id == "client-bound"),
                warnings: ids(&point.warnings),
            }));
        }
    }
    let load = analysis.main();
    for curve in curves {
        let inside = curve.points.iter().filter(|point| point.wire.is_none());
        rows.extend(inside.map(|point| Point {
            run: run.to_owned(),
            stage: word(load.id),
            variant: curve.load.clone(),
            arm: int(curve.arm),
            workload: load.plan.workload.name.clone(),
            clients: int(point.clients),
            unit: load.id.work().rate.to_owned(),
            throughput: point.throughput.estimate,
            low: point.throughput.low,
            high: point.throughput.high,
            trials: int(point.throughput.n),
            client_bound: point.client_bound,
            warnings: None,
        }));
    }
    rows
}

/// Where a row of metrics belongs.
struct Place<'a> {
    run: &'a str,
    stage: String,
    variant: Option<String>,
    arm: usize,
    clients: u32,
}

impl Place<'_> {
    fn row(&self, metric: MetricId, value: f64) -> Metric {
        Metric {
            run: self.run.to_owned(),
            stage: self.stage.clone(),
            variant: self.variant.clone(),
            arm: int(self.arm),
            clients: int(self.clients),
            trial: None,
            metric: metric.id.to_owned(),
            unit: metric.unit.to_owned(),
            better: better(metric),
            value,
            low: None,
            high: None,
            level: None,
            trials: None,
        }
    }

    fn estimate(&self, metric: MetricId, of: &Estimate) -> Metric {
        Metric {
            low: finite(of.low),
            high: finite(of.high),
            level: finite(of.level),
            trials: Some(int(of.n)),
            ..self.row(metric, of.estimate)
        }
    }

    /// The estimates at a point, and what its trials show.
    fn of_point(&self, point: &PointAnalysis, rows: &mut Vec<Metric>) {
        for metric in METRICS {
            let over = point.estimate(*metric);
            rows.extend(over.map(|estimate| self.estimate(*metric, estimate)));
        }
        for trial in &point.trials {
            for metric in METRICS {
                rows.extend(trial.value(*metric).map(|value| Metric {
                    trial: Some(int(trial.index)),
                    ..self.row(*metric, value)
                }));
            }
        }
    }
}

/// Each metric at each number of clients, over trials and in each of them.
pub(crate) fn metrics(run: &str, analysis: &Analysis, curves: &[Curve<'_>]) -> Vec<Metric> {
    let mut rows = Vec::new();
    for stage in &analysis.stages {
        for (arm, loaded) in stage.arms.iter().enumerate() {
            for point in &loaded.points {
                let place = Place {
                    run,
                    stage: word(stage.id),
                    variant: None,
                    arm,
                    clients: point.point.clients,
                };
                place.of_point(point, &mut rows);
            }
        }
    }
    for curve in curves {
        for point in curve.points.iter().filter(|point| point.wire.is_none()) {
            let place = Place {
                run,
                stage: word(analysis.main().id),
                variant: curve.load.clone(),
                arm: curve.arm,
                clients: point.clients,
            };
            for metric in [THROUGHPUT, SERVER_CPU] {
                let over = point.metric(metric);
                rows.extend(over.map(|estimate| place.estimate(metric, &estimate)));
            }
        }
    }
    rows.retain(|row| row.value.is_finite());
    rows
}

/// Every trial that was planned, with why it was lost where it was.
pub(crate) fn trials(run: &RecordedRun, analysis: &Analysis) -> Vec<Trial> {
    let stages = run.header.experiment.stages.iter();
    stages
        .flat_map(|stage| of_stage(run, analysis, stage))
        .collect()
}

fn of_stage(run: &RecordedRun, analysis: &Analysis, stage: &Stage) -> Vec<Trial> {
    let id = analysis.run.id.as_str();
    let kind = word(stage.id);
    let clients = |point: u32| {
        let point = stage.plan.points.get(point as usize);
        point.map_or(0, |point| int(point.clients))
    };
    let analysed = analysis.stages.iter().find(|of| of.id == stage.id);
    let kept: BTreeSet<u32> = analysed
        .iter()
        .flat_map(|of| &of.arms)
        .flat_map(|arm| &arm.points)
        .flat_map(|point| &point.trials)
        .map(|trial| trial.index)
        .collect();
    // Those of a comparison's noise floor are at no point, and count.
    let by_rule = stage.plan.disturbed_above.is_some() && run.comparison.is_none();
    let mut rows = Vec::new();
    let mut begun: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for trial in run.trials_of(stage.id) {
        let slice = trial.slice;
        let left_out = by_rule && !kept.is_empty() && !kept.contains(&slice.index);
        let lost = match &trial.cut_short {
            Some(why) => Some(("cut-short", Some(why.clone()))),
            None if !trial.counts() => Some(("left-out", Some("nothing was measured".to_owned()))),
            None if left_out => Some(("disturbed", None)),
            None => None,
        };
        *begun.entry((slice.arm, slice.point)).or_default() += usize::from(trial.counts());
        let seconds = trial.window_ns as f64 / 1e9;
        rows.push(Trial {
            run: id.to_owned(),
            stage: kind.clone(),
            arm: int(slice.arm),
            clients: clients(slice.point),
            trial: Some(int(slice.index)),
            round: Some(int(slice.round)),
            counted: lost.is_none(),
            lost: lost.as_ref().map(|(lost, _)| (*lost).to_owned()),
            why: lost.and_then(|(_, why)| why),
            seconds: Some(seconds),
            transactions: Some(int(trial.transactions)),
            failures: Some(int(trial.failures.values().sum::<u64>())),
            retries: Some(int(trial.retries)),
            throughput: finite(trial.transactions as f64 / seconds),
        });
    }
    // How many pairs a comparison needs is decided on the way: none is planned beforehand.
    if !stage.id.is_promised() || run.comparison.is_some() {
        return rows;
    }
    let skipped = |at: u32| {
        run.events.iter().find_map(|event| match &event.what {
            EventKind::PointSkipped {
                stage: of,
                point,
                reason,
            } if *of == stage.id && *point == at => Some(reason.clone()),
            _ => None,
        })
    };
    let ended = match word(analysis.run.state) {
        complete if complete == "complete" => "not-measured".to_owned(),
        state => state,
    };
    for arm in 0..run.header.experiment.arms.len() as u32 {
        for (point, _) in (0u32..).zip(&stage.plan.points) {
            let there = begun.get(&(arm, point)).copied().unwrap_or(0);
            let missing = (stage.plan.trials as usize).saturating_sub(there);
            let cut = rows
                .iter()
                .filter(|row| row.arm == int(arm) && row.clients == clients(point))
                .filter(|row| matches!(row.lost.as_deref(), Some("cut-short" | "left-out")))
                .count();
            let why = skipped(point);
            let lost = match &why {
                Some(_) => "point-skipped".to_owned(),
                None => ended.clone(),
            };
            for _ in 0..missing.saturating_sub(cut).min(MOST_MISSING) {
                rows.push(Trial {
                    run: id.to_owned(),
                    stage: kind.clone(),
                    arm: int(arm),
                    clients: clients(point),
                    trial: None,
                    round: None,
                    counted: false,
                    lost: Some(lost.clone()),
                    why: why.clone().or_else(|| analysis.run.reason.clone()),
                    seconds: None,
                    transactions: None,
                    failures: None,
                    retries: None,
                    throughput: None,
                });
            }
        }
    }
    rows
}

/// Trials that did not begin, told of one point: a plan from elsewhere may name any number.
const MOST_MISSING: usize = 10_000;
