//! Tables and charts over the metrics of a load's points: a specification in, blocks out.

use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::measured::{PointAnalysis, StageArm};
use pgassay_analysis::metrics::{MetricId, STEAL};
use pgassay_analysis::stats::Estimate;

use super::{evidence, interval, levels, place, points, thinning};
use crate::document::{Cell, Column, Dot, Notes, Series, Table, Value};
use crate::number;

/// A column: a metric, with a heading that is as short as the table allows.
pub struct MetricColumn {
    /// What it shows.
    pub metric: MetricId,
    /// Its heading.
    pub head: &'static str,
    /// The heading's second line: the unit.
    pub unit: &'static str,
    /// The higher, the sooner it is left out where there is no room.
    pub rank: u8,
}

/// A column of a table's specification.
pub const fn column(
    metric: MetricId,
    head: &'static str,
    unit: &'static str,
    rank: u8,
) -> MetricColumn {
    MetricColumn {
        metric,
        head,
        unit,
        rank,
    }
}

impl MetricColumn {
    /// Its heading in a table, and by what its values are to be multiplied: times of which the largest
    /// has five digits in microseconds are told in milliseconds, all of the column.
    pub fn heading(&self, largest: f64) -> (Column, f64) {
        let (factor, unit) = time_unit(self.unit, largest);
        (Column::figures(self.head, unit, self.rank), factor)
    }
}

/// The unit in which times up to `largest` are legible, and the factor that leads to it.
pub fn time_unit(unit: &'static str, largest: f64) -> (f64, &'static str) {
    match unit {
        "µs" if largest >= 1e4 => (1e-3, "ms"),
        "µs/tx" if largest >= 1e4 => (1e-3, "ms/tx"),
        unit => (1.0, unit),
    }
}

/// The largest of some values; 0 where there is none.
pub fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| value.is_finite()).fold(0.0, f64::max)
}

/// A table of metrics, a row for each arm and client count.
pub struct PointTable {
    /// What is said before how wide the intervals are.
    pub caption: &'static str,
    /// The metrics.
    pub columns: &'static [MetricColumn],
    /// Whether what qualifies a point as a whole is marked here.
    pub marked: bool,
}

impl PointTable {
    /// The table of one load.
    pub fn of(&self, load: &StageAnalysis, notes: &mut Notes) -> Table {
        let several = load.arms.len() > 1;
        let mut columns = vec![Column::figures("clients", "", 0)];
        if several {
            columns.push(Column::words("server", 0));
        }
        let all = points(load);
        let headings = self.columns.iter().map(|column| {
            let estimates = all.iter().filter_map(|(_, p)| p.estimate(column.metric));
            column.heading(largest(estimates.map(|e| e.estimate)))
        });
        let (headings, factors): (Vec<Column>, Vec<f64>) = headings.unzip();
        columns.extend(headings);
        let rows = all.iter().map(|(arm, point)| {
            let at = place(load, arm, point.point.clients);
            let clients = point.point.clients;
            let mut clients = Cell {
                value: Value::Link(
                    number::count(u64::from(clients)),
                    evidence::of(load, arm, clients),
                ),
                marks: Vec::new(),
            };
            if self.marked {
                clients = clients.marked(notes.marks(&point.warnings, &at));
            }
            let mut row = vec![clients];
            if several {
                row.push(Cell::plain(&arm.label));
            }
            row.extend(self.columns.iter().zip(&factors).map(|(column, factor)| {
                let about = format!("{} at {at}", column.metric.heading);
                notes.maybe(shown(point, column.metric, *factor).as_ref(), &about)
            }));
            row
        });
        let rows = rows.collect();
        let estimates = all.iter().flat_map(|(_, point)| {
            let of = self.columns.iter();
            of.filter_map(|column| point.estimate(column.metric))
        });
        Table {
            caption: format!("{} {}", self.caption, levels(estimates)),
            columns,
            rows,
            folded: false,
            marks: vec![],
        }
    }
}

/// The estimate as a table shows it: shares in per cent, times in the column's unit.
fn shown(point: &PointAnalysis, metric: MetricId, factor: f64) -> Option<Estimate> {
    let estimate = point.estimate(metric)?.clone();
    let factor = if metric == STEAL { 100.0 } else { factor };
    if factor == 1.0 {
        return Some(estimate);
    }
    Some(Estimate {
        estimate: estimate.estimate * factor,
        low: estimate.low * factor,
        high: estimate.high * factor,
        ..estimate
    })
}

/// A line of a chart: one metric of one arm over clients. `what` names a point for a pointer.
pub fn series(
    arm: &StageArm,
    (label, unit): (&str, &str),
    metric: MetricId,
    what: impl Fn(&PointAnalysis) -> String,
) -> Series {
    let estimates = arm.points.iter().filter_map(|point| {
        let x = f64::from(point.point.clients);
        Some(interval(x, point.estimate(metric)?, &what(point), unit))
    });
    let dots = arm.points.iter().flat_map(|p| dots(p, metric, unit));
    Series {
        evidence: None,
        label: label.to_owned(),
        look: 0,
        lane: (0, 1),
        estimates: estimates.collect(),
        dots: dots.collect(),
    }
}

/// One dot a trial, set apart sideways in the order in which they ran.
fn dots(point: &PointAnalysis, metric: MetricId, unit: &str) -> Vec<Dot> {
    let count = point.trials.len();
    let offset = |i: usize| match count {
        0 | 1 => 0.0,
        _ => 2.0 * i as f64 / (count - 1) as f64 - 1.0,
    };
    let trials = point.trials.iter().enumerate();
    trials
        .step_by(thinning(count, super::MOST_DOTS))
        .filter_map(|(i, trial)| {
            let y = trial.value(metric)?;
            Some(Dot {
                x: f64::from(point.point.clients),
                y,
                offset: offset(i),
                tip: format!("trial {}: {} {unit}", trial.index + 1, number::single(y)),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_analysis::metrics::{P50, P99};

    #[test]
    fn a_metric_that_no_trial_shows_is_missing_and_not_zero() {
        const COLUMNS: &[MetricColumn] =
            &[column(P50, "p50", "µs", 0), column(P99, "p99", "µs", 1)];
        let mut notes = Notes::default();
        let table = PointTable {
            caption: "Latency.",
            columns: COLUMNS,
            marked: false,
        };
        let estimate = Estimate {
            estimate: 8.0,
            low: 7.0,
            high: 9.0,
            level: 0.95,
            n: 6,
            warnings: vec![],
        };
        let mut point: PointAnalysis = serde_json::from_value(serde_json::json!({
            "point": {"clients": 4, "threads": 1, "variant": 0},
            "throughput_tps": estimate,
            "metrics": {"p50": estimate},
            "latency_us": {"count": 6, "mean": 8.0, "max": 9.0},
            "failures": [], "trials": [], "warnings": [],
        }))
        .expect("a point");
        point.point.clients = 4;
        let load = StageAnalysis {
            arms: vec![StageArm {
                points: vec![point],
                ..StageArm::default()
            }],
            ..StageAnalysis::default()
        };
        let made = table.of(&load, &mut notes);
        assert_eq!(made.rows[0].len(), 3);
        assert_eq!(made.columns[1].unit, "µs");
        assert_eq!(time_unit("µs", 99_000.0), (1e-3, "ms"));
        assert_eq!(time_unit("tps", 99_000.0), (1.0, "tps"));
        assert!(made.rows[0][1].is_estimate());
        assert!(matches!(made.rows[0][2].value, Value::Missing));
    }
}
