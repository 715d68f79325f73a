//! The result: throughput over clients as a picture, and every point in a table.

use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::measured::{PointAnalysis, StageArm};
use pgassay_analysis::metrics::order_entry;
use pgassay_analysis::{Analysis, metrics};

use super::metric_table::{PointTable, column, series};
use super::{
    client_ticks, evidence, has_course, has_first_screen, place, points, thinned_at_points,
};
use crate::document::{
    Axis, Block, Cell, Chart, Column, Depth, Guide, Notes, Scale, Section, Series, Table,
};
use crate::number;

/// Throughput and latency at each client count; where there is a first screen, it has the chart.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let chart = match has_first_screen(analysis) {
        true => None,
        false => chart(load),
    };
    let mut made = of_load(load, chart, notes)?;
    if analysis.further_loads().next().is_some() {
        name_load(&mut made, load);
    }
    Some(made)
}

/// Says in the captions of a section's tables which load they are of.
fn name_load(section: &mut Section, load: &StageAnalysis) {
    for block in &mut section.blocks {
        if let Block::Table(table) = block {
            table.caption = format!("{}. {}", load.plan.workload.name, table.caption);
        }
    }
}

fn of_load(load: &StageAnalysis, chart: Option<Chart>, notes: &mut Notes) -> Option<Section> {
    if points(load).is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    blocks.extend(chart.map(|chart| Block::Chart(Box::new(chart))));
    blocks.push(Block::Table(TABLE.of(load, notes)));
    let all = points(load);
    let mut points = all.iter().map(|(_, point)| point);
    if points.any(|point| point.estimate(order_entry::NEW_ORDERS).is_some()) {
        blocks.push(Block::Table(ORDER_ENTRY.of(load, notes)));
    }
    let mut points = all.iter().map(|(_, point)| point);
    if points.any(|point| point.estimate(metrics::START_LAG).is_some()) {
        blocks.push(Block::Table(SCHEDULE.of(load, notes)));
    }
    blocks.extend(failures(load).map(Block::Table));
    Some(Section {
        id: "results",
        title: "Results",
        depth: Depth::Summary,
        blocks,
    })
}

/// The same for a second load, as a section of its own.
pub fn further(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let load = analysis.further_loads().next()?;
    // Ids are of the whole page.
    let chart = chart(load).map(|chart| Chart {
        id: format!("second-{}", chart.id),
        ..chart
    });
    let mut made = of_load(load, chart, notes)?;
    made.id = "second";
    made.title = "The same server under transactions that write";
    name_load(&mut made, load);
    Some(made)
}

/// Throughput, latency and CPU time of every point.
const TABLE: PointTable = PointTable {
    caption: "Transactions a second, latency from the intended start, and CPU time for each \
              transaction.",
    columns: &[
        column(metrics::THROUGHPUT, "throughput", "tps", 0),
        column(metrics::P50, "p50", "µs", 1),
        column(metrics::P90, "p90", "µs", 5),
        column(metrics::P99, "p99", "µs", 2),
        column(metrics::P99_9, "p99.9", "µs", 6),
        column(metrics::CLIENT_CPU, "client CPU", "µs/tx", 4),
        column(metrics::SERVER_CPU, "server CPU", "µs/tx", 3),
    ],
    marked: true,
};

/// How far a load with a schedule was kept to it.
const SCHEDULE: PointTable = PointTable {
    caption: "How long after their intended start transactions began, and how many had not begun when the window ended.",
    columns: &[
        column(metrics::START_LAG, "late by", "µs", 0),
        column(metrics::START_LAG_MAX, "at most", "µs", 1),
        column(metrics::NOT_BEGUN, "not begun", "", 2),
    ],
    marked: false,
};

/// What order entry is about.
const ORDER_ENTRY: PointTable = PointTable {
    caption: "New orders a minute, and the 90th percentile of the latency of each transaction.",
    columns: &[
        column(order_entry::NEW_ORDERS, "new orders", "1/min", 0),
        column(order_entry::NEW_ORDER_P90, "new order", "µs", 1),
        column(order_entry::PAYMENT_P90, "payment", "µs", 2),
        column(order_entry::ORDER_STATUS_P90, "order status", "µs", 5),
        column(order_entry::DELIVERY_P90, "delivery", "µs", 3),
        column(order_entry::STOCK_LEVEL_P90, "stock level", "µs", 4),
    ],
    marked: false,
};

/// Throughput over clients, where a server was measured at more than one client count.
pub fn chart(load: &StageAnalysis) -> Option<Chart> {
    if !load.arms.iter().any(has_course) {
        return None;
    }
    let lines: Vec<Series> = load
        .arms
        .iter()
        .enumerate()
        .map(|(look, arm)| {
            let label = match load.arms.len() {
                1 => "measured, with its interval",
                _ => &arm.label,
            };
            let at = |p: &PointAnalysis| place(load, arm, p.point.clients);
            Series {
                look,
                lane: (look, load.arms.len()),
                evidence: Some(evidence::prefix(load, arm)),
                ..series(arm, (label, "tps"), metrics::THROUGHPUT, at)
            }
        })
        .collect();
    let spoken: Vec<String> = lines
        .iter()
        .flat_map(|s| s.estimates.iter().map(|e| e.tip.clone()))
        .collect();
    Some(Chart {
        id: "throughput".to_owned(),
        title: format!("{} over clients", load.plan.workload.name),
        alternative: format!(
            "Transactions a second against the number of clients. {}.",
            spoken.join("; ")
        ),
        caption: format!(
            "Bars are intervals; small marks are single trials, left to right in the order in \
             which they ran.{}",
            thinned_at_points(load)
        ),
        x: Axis {
            label: "clients, logarithmic".to_owned(),
            scale: Scale::Log,
            ticks: client_ticks(load),
        },
        y: Axis {
            label: "transactions a second".to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series: lines,
        guides: load
            .arms
            .first()
            .and_then(|arm| ideal(arm, load.arms.len() > 1))
            .into_iter()
            .collect(),
    })
}

/// Linear scaling from the first point, in steps fine enough for a log axis.
fn ideal(arm: &StageArm, several: bool) -> Option<Guide> {
    let (first, last) = (arm.points.first()?, arm.points.last()?);
    if first.levels.is_some() {
        return None;
    }
    let start = f64::from(first.point.clients);
    let octaves = (f64::from(last.point.clients) / start).log2();
    if !octaves.is_finite() || octaves <= 0.0 {
        return None;
    }
    let of_which = match several {
        true => format!(" of {}", arm.label),
        false => String::new(),
    };
    let per_client = first.throughput_tps.estimate / start;
    let steps = (octaves * 16.0).ceil();
    let at = |i: u32| start * 2f64.powf(f64::from(i) / steps * octaves);
    Some(Guide {
        label: format!("ideal scaling from the first point{of_which}"),
        points: (0..=steps as u32)
            .map(|i| (at(i), at(i) * per_client))
            .collect(),
        in_range: false,
    })
}

/// Failed transactions, where there were any.
fn failures(load: &StageAnalysis) -> Option<Table> {
    let rows: Vec<Vec<Cell>> = points(load)
        .into_iter()
        .flat_map(|(arm, point)| {
            let at = place(load, arm, point.point.clients);
            point.failures.iter().map(move |(code, count)| {
                vec![
                    Cell::plain(at.clone()),
                    Cell::plain(code),
                    Cell::plain(number::count(*count)),
                ]
            })
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: "Failed transactions; they are in no figure above.".to_owned(),
        columns: vec![
            Column::words("at", 0),
            Column::words("SQLSTATE", 0),
            Column::figures("failed", "", 0),
        ],
        rows,
        folded: false,
        marks: vec![],
    })
}
