//! Throughput and latency as a rate changes over the windows.

use pgassay_analysis::Analysis;
use pgassay_analysis::latency::RampStep;

use super::percentiles::{Row, laid_out};
use super::{place, points};
use crate::document::{Block, Cell, Depth, Notes, Section, Table};
use crate::number;

/// The steps of each point; none where the rate stayed the same.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let points = points(load).into_iter();
    let rows: Vec<Row> = points
        .flat_map(|(arm, point)| {
            let at = place(load, arm, point.point.clients);
            let steps = point.detail.iter().flat_map(|detail| &detail.ramp);
            steps.map(move |step| row(&at, step)).collect::<Vec<Row>>()
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let heads = ["asked for", "done"];
    let (mut columns, rows) = laid_out("where", &heads, &rows);
    for column in columns
        .iter_mut()
        .filter(|c| heads.contains(&c.head.as_str()))
    {
        column.unit = "tps".to_owned();
        column.rank = 0;
    }
    Some(Section {
        id: "ramp",
        title: "Throughput and latency by rate",
        depth: Depth::Titled,
        blocks: vec![Block::Table(Table {
            caption: "The rate changes evenly over each window. Each row is a part of the windows of all trials, with the \
                      rate in its middle; latency counts from the intended start. A server that falls behind does fewer \
                      than were asked for, and its latency grows from then on."
                .to_owned(),
            columns,
            rows,
            folded: false,
            marks: vec![],
        })],
    })
}

fn row(at: &str, step: &RampStep) -> Row {
    let figure = |tps: f64| Cell::plain(number::single(tps));
    let figures = vec![figure(step.rate_tps), figure(step.throughput_tps)];
    Row::with(at, figures, &step.latency)
}
