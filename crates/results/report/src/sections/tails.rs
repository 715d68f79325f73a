//! Latency in detail: far percentiles, their curve, and latency over time.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::latency::{LatencyDetail, ROWS_PER_DECADE};
use pgassay_analysis::measured::{PointAnalysis, StageArm};

use super::percentiles::{Row, laid_out};
use super::{place, points};
use crate::document::{
    Axis, Block, Chart, Depth, HeatColumn, HeatMap, Interval, Notes, Scale, Section, Series, Table,
};
use crate::number;

/// Curves in one picture: more can't be told apart.
const MOST_CURVES: usize = 4;
/// The percentiles, their curve, and a picture over time of the largest point: a page has room for one.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let detailed = detailed(load);
    if detailed.is_empty() {
        return None;
    }
    let mut blocks = vec![
        Block::Table(percentiles(&detailed)),
        Block::Chart(Box::new(curves(&detailed))),
    ];
    let map = mapped(&detailed).and_then(heat_map);
    blocks.extend(map.map(|map| Block::HeatMap(Box::new(map))));
    Some(Section {
        id: "tails",
        title: "Latency in detail",
        depth: Depth::Evidence,
        blocks,
    })
}

fn detailed(load: &StageAnalysis) -> Vec<Detailed<'_>> {
    let points = points(load).into_iter();
    let detailed = points.filter_map(|(arm, point)| {
        Some(Detailed {
            name: place(load, arm, point.point.clients),
            id: format!("{}-{}", position(load, arm), point.point.clients),
            point,
            detail: point.detail.as_ref()?,
        })
    });
    detailed.collect()
}

/// The one that has a heat map.
fn mapped<'d, 'a>(detailed: &'d [Detailed<'a>]) -> Option<&'d Detailed<'a>> {
    let mut from_largest = detailed.iter().rev();
    from_largest.find(|d| d.detail.over_time.len() > 1)
}

/// The name of a point's heat map in a page, where it has one; a comparison has none.
pub fn map_of(analysis: &Analysis, load: &StageAnalysis, point: &PointAnalysis) -> Option<String> {
    if analysis.run.command == "compare" || !std::ptr::eq(analysis.main(), load) {
        return None;
    }
    let detailed = detailed(load);
    let of = mapped(&detailed).filter(|d| std::ptr::eq(d.point, point))?;
    Some(format!("figure-heat-{}", of.id))
}

/// A point with its histograms' content.
struct Detailed<'a> {
    name: String,
    id: String,
    point: &'a PointAnalysis,
    detail: &'a LatencyDetail,
}

fn position(load: &StageAnalysis, arm: &StageArm) -> usize {
    let same = |a: &StageArm| std::ptr::eq(a, arm);
    load.arms.iter().position(same).unwrap_or(0)
}

fn percentiles(detailed: &[Detailed]) -> Table {
    let mut rows = Vec::new();
    for d in detailed {
        rows.push(Row::new(&d.name, &d.detail.all));
        let apart = [
            ("from the actual start", &d.detail.from_actual_start),
            ("first on a connection", &d.detail.first),
            ("connecting, part of the latency", &d.detail.connect),
        ];
        for (what, found) in apart {
            if let Some(p) = found {
                rows.push(Row::new(format!("{}: {what}", d.name), p));
            }
        }
    }
    let (columns, rows) = laid_out("where", &["transactions"], &rows);
    Table {
        caption:
            "Percentiles of all transactions of all trials together, from the intended start. \
                  Those with fewer than five transactions beyond them are left out; the first \
                  transaction of each new connection is counted apart."
                .to_owned(),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

/// Percentile against latency, as HDR histograms are drawn: the far end is spread out.
fn curves(detailed: &[Detailed]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let mut add = |label: String, curve: &[(f64, f64)]| {
        let look = series.len();
        if curve.is_empty() || look == MOST_CURVES {
            return;
        }
        series.push(Series {
            evidence: None,
            estimates: curve
                .iter()
                .map(|(n, us)| Interval {
                    x: *n,
                    y: *us,
                    low: f64::NAN,
                    high: f64::NAN,
                    tip: format!(
                        "{label}: one in {} takes {} µs or longer",
                        number::short(*n),
                        number::single(*us)
                    ),
                })
                .collect(),
            label,
            look,
            lane: (0, 1),
            dots: vec![],
        });
    };
    let ends = detailed.iter().filter_map(|d| d.detail.curve.last());
    let longest = ends.map(|(n, _)| *n).fold(100.0, f64::max);
    let step = detailed.len().div_ceil(MOST_CURVES).max(1);
    // The largest is always among them.
    for d in detailed.iter().rev().step_by(step) {
        add(d.name.clone(), &d.detail.curve);
        add(
            format!("{}, from the actual start", d.name),
            &d.detail.curve_from_actual_start,
        );
    }
    let spoken: Vec<String> = detailed
        .iter()
        .filter_map(|d| {
            let (n, us) = d.detail.curve.last()?;
            Some(format!(
                "at {} one transaction in {} takes {} µs or longer",
                d.name,
                number::short(*n),
                number::single(*us)
            ))
        })
        .collect();
    Chart {
        id: "tails-curve".to_owned(),
        title: "How slow the slowest are".to_owned(),
        alternative: format!(
            "Latency in microseconds of the slowest transaction in so many. {}.",
            spoken.join("; ")
        ),
        caption: "x = 100 is p99, x = 10,000 is p99.99. Both axes logarithmic. Where starts were intended by a rate, the \
                  second curve counts from the actual start: what lies between the two is waiting \
                  that a client which only measures its own requests does not see."
            .to_owned(),
        x: Axis {
            label: "the slowest one in so many transactions".to_owned(),
            scale: Scale::Log,
            ticks: (1..=12)
                .map(|power| 10_f64.powi(power))
                .take_while(|tick| *tick <= longest)
                .collect(),
        },
        y: Axis {
            label: "latency".to_owned(),
            scale: Scale::Duration,
            ticks: vec![],
        },
        series,
        guides: vec![],
    }
}

fn heat_map(d: &Detailed) -> Option<HeatMap> {
    let rows = d.detail.over_time.iter().flat_map(|m| &m.rows);
    let low = rows.clone().map(|r| r.0).min()?;
    let high = rows.map(|r| r.0).max()? + 1;
    let edge = |row: i32| 10_f64.powf(f64::from(row) / ROWS_PER_DECADE);
    let mut begin = 0.0;
    let mut last = None;
    let mut seconds = 0.0;
    let columns = d
        .detail
        .over_time
        .iter()
        .map(|moment| {
            let new_trial = last
                .replace(moment.trial)
                .is_some_and(|t| t != moment.trial);
            begin += seconds;
            seconds = moment.length;
            HeatColumn {
                begin,
                length: moment.length,
                new_trial,
                p50: moment.p50,
                p99: moment.p99,
                max: moment.max,
                cells: moment
                    .rows
                    .iter()
                    .map(|(row, count)| (row.abs_diff(low) as usize, *count))
                    .collect(),
                tip: match (moment.p50, moment.max) {
                    (Some(p50), Some(max)) => format!(
                        "trial {}, {} s: half within {} µs, the longest {} µs",
                        moment.trial + 1,
                        number::short(moment.start),
                        number::single(p50),
                        number::single(max)
                    ),
                    _ => format!(
                        "trial {}, {} s: no transaction ended",
                        moment.trial + 1,
                        number::short(moment.start)
                    ),
                },
            }
        })
        .collect();
    let trials = d.point.trials.len();
    Some(HeatMap {
        id: format!("heat-{}", d.id),
        title: format!("Latency over time, {}", d.name),
        alternative: format!(
            "Every transaction of {trials} trials by when it ended and how long it took. Half took \
             at most {} µs, the longest {} µs.",
            d.detail.all.p50.map_or_else(|| "?".to_owned(), number::single),
            d.detail.all.max.map_or_else(|| "?".to_owned(), number::single),
        ),
        caption: "Each column is a stretch of time, darker where more of its transactions took that \
                  long; the lines are its median, 99th percentile and longest. Trials lie end to end \
                  in the order in which they ran, between faint upright lines."
            .to_owned(),
        low: edge(low),
        high: edge(high),
        rows: high.abs_diff(low) as usize,
        columns,
    })
}
