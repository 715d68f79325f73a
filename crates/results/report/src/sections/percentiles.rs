//! Rows of percentiles, each column of times in one unit.

use pgassay_analysis::latency::Percentiles;

use super::metric_table::{largest, time_unit};
use crate::document::{Cell, Column};
use crate::number;

/// The percentiles, and how late their columns give way where a terminal is narrow.
const TIMES: [(&str, u8); 6] = [
    ("p50", 0),
    ("p90", 3),
    ("p99", 0),
    ("p99.9", 2),
    ("p99.99", 1),
    ("max", 0),
];

/// A row before its columns have units: its name, its figures, and times in microseconds.
pub(super) struct Row {
    name: String,
    figures: Vec<Cell>,
    times: [Option<f64>; TIMES.len()],
}

impl Row {
    /// A row that says how many the percentiles are read from.
    pub(super) fn new(name: impl Into<String>, p: &Percentiles) -> Self {
        Self::with(name, vec![Cell::plain(number::count(p.count))], p)
    }

    /// A row with figures of its own.
    pub(super) fn with(name: impl Into<String>, figures: Vec<Cell>, p: &Percentiles) -> Self {
        Self {
            name: name.into(),
            figures,
            times: [p.p50, p.p90, p.p99, p.p99_9, p.p99_99, p.max],
        }
    }
}

/// Columns and cells; `figures` are the heads of the columns before the times.
pub(super) fn laid_out(
    names: &str,
    figures: &[&str],
    rows: &[Row],
) -> (Vec<Column>, Vec<Vec<Cell>>) {
    let units: Vec<(f64, &str)> = (0..TIMES.len())
        .map(|i| time_unit("µs", largest(rows.iter().filter_map(|row| row.times[i]))))
        .collect();
    let mut columns = vec![Column::words(names, 0)];
    columns.extend(figures.iter().map(|head| Column::figures(head, "", 4)));
    columns.extend(
        (TIMES.iter().zip(&units))
            .map(|((name, rank), (_, unit))| Column::figures(name, unit, *rank)),
    );
    let cells = rows.iter().map(|row| {
        let mut cells = vec![Cell::plain(&row.name)];
        cells.extend(row.figures.iter().cloned());
        let times = row.times.iter().zip(&units);
        cells.extend(times.map(|(time, (factor, _))| {
            Cell::plain_or_missing(time.map(|time| number::single(time * factor)))
        }));
        cells
    });
    let cells = cells.collect();
    (columns, cells)
}
