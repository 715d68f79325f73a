//! Every trial as a row: the evidence itself.

use pgassay_analysis::Analysis;
use pgassay_analysis::measured::TrialAnalysis;
use pgassay_analysis::metrics::{self, THROUGHPUT};

use super::metric_table::{MetricColumn, column, largest};
use super::points;
use crate::document::{Block, Cell, Column, Depth, Notes, Section, Table};
use crate::number;

/// A page with more rows than this serves nobody.
const MOST_ROWS: usize = 2000;

/// What is shown of each; the CSV has every metric.
const COLUMNS: [MetricColumn; 5] = [
    column(THROUGHPUT, "throughput", "tps", 0),
    column(metrics::P50, "p50", "µs", 1),
    column(metrics::P99, "p99", "µs", 1),
    column(metrics::CLIENT_CPU, "client CPU", "µs/tx", 2),
    column(metrics::SERVER_CPU, "server CPU", "µs/tx", 2),
];

fn numbered(trial: &TrialAnalysis) -> Cell {
    Cell::plain(number::count(u64::from(trial.index) + 1))
}

/// The columns, each in one unit for all of these trials, and what leads to it.
fn headings<'a, I>(trials: impl Fn() -> I) -> (Vec<Column>, Vec<f64>)
where
    I: Iterator<Item = &'a TrialAnalysis>,
{
    let columns = COLUMNS.iter();
    columns
        .map(|column| column.heading(largest(trials().filter_map(|t| t.value(column.metric)))))
        .unzip()
}

fn figures(trial: &TrialAnalysis, factors: &[f64]) -> impl Iterator<Item = Cell> {
    COLUMNS.iter().zip(factors).map(|(column, factor)| {
        let value = trial.value(column.metric);
        Cell::plain_or_missing(value.map(|value| match column.metric == THROUGHPUT {
            true => number::count(value.max(0.0).round() as u64),
            false => number::single(value * factor),
        }))
    })
}

/// All counted trials in the order in which they ran.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let mut trials: Vec<_> = points(load)
        .into_iter()
        .flat_map(|(arm, p)| p.trials.iter().map(move |t| (arm, p.point.clients, t)))
        .collect();
    if trials.is_empty() {
        return None;
    }
    trials.sort_by_key(|(_, _, t)| t.index);
    let mut caption = String::from(
        "All counted trials: single observations, without an interval of their own. Trials that \
         were cut short are not among them.",
    );
    if trials.len() > MOST_ROWS {
        caption = format!(
            "The first {} of {} counted trials: single observations, without an interval of their \
             own. `pgassay report --format csv` has them all.",
            number::count(MOST_ROWS as u64),
            number::count(trials.len() as u64)
        );
        trials.truncate(MOST_ROWS);
    }
    let arms = load.arms.len() > 1;
    let mut columns = vec![Column::figures("trial", "", 0)];
    if arms {
        columns.push(Column::words("server", 0));
    }
    columns.push(Column::figures("clients", "", 0));
    let (headings, factors) = headings(|| trials.iter().map(|(_, _, t)| *t));
    columns.extend(headings);
    let rows = trials
        .into_iter()
        .map(|(arm, clients, t)| {
            let mut row = vec![numbered(t)];
            if arms {
                row.push(Cell::plain(&arm.label));
            }
            row.push(Cell::plain(number::count(u64::from(clients))));
            row.extend(figures(t, &factors));
            row
        })
        .collect();
    Some(Section {
        id: "trials",
        title: "Every trial",
        depth: Depth::Evidence,
        blocks: vec![Block::Table(Table {
            caption,
            columns,
            rows,
            folded: true,
            marks: vec![],
        })],
    })
}
