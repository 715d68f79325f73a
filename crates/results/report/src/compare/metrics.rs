//! What the same pairs say of every other metric.

use pgassay_analysis::compare::Compare;
use pgassay_analysis::metrics::METRICS;

use super::place;
use super::verdict::{change, ends};
use crate::document::{Block, Cell, Column, Depth, Section, Table};

/// The metrics that the verdict is not about, at every point.
pub fn section(compare: &Compare) -> Option<Section> {
    let mut rows = Vec::new();
    for metric in METRICS {
        for result in &compare.results {
            let Some(comparison) = result.others.get(metric) else {
                continue;
            };
            rows.push(vec![
                Cell::plain(metric.heading),
                Cell::plain(place(compare, result)),
                Cell::plain(change(comparison)),
                Cell::plain(ends(comparison)),
            ]);
        }
    }
    let caption = format!(
        "From the same pairs, each against A. Of so many intervals at 95 % one in twenty misses by \
         chance: the verdict is about {} alone. pgassay compare --metric NAME makes it about \
         another.",
        compare.metric.heading
    );
    let columns = vec![
        Column::words("metric", 0),
        Column::words("at", 0),
        Column::figures("change", "from A", 0),
        Column::figures("interval", "", 0),
    ];
    (!rows.is_empty()).then(|| Section {
        id: "metrics",
        title: "Every other metric",
        depth: Depth::Evidence,
        blocks: vec![Block::Table(Table::new(caption, columns, rows).folded())],
    })
}
