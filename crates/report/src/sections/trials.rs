//! Every trial as a row: the evidence itself.

use pgassay_analysis::Analysis;

use super::points;
use crate::document::{Block, Cell, Column, Depth, Notes, Section, Table, Value};
use crate::number;

/// A page with more rows than this serves nobody.
const MOST_ROWS: usize = 2000;

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
    columns.extend([
        Column::figures("clients", "", 0),
        Column::figures("throughput", "tps", 0),
        Column::figures("p50", "µs", 1),
        Column::figures("p99", "µs", 1),
        Column::figures("client CPU", "µs/tx", 2),
        Column::figures("server CPU", "µs/tx", 2),
    ]);
    let rows = trials
        .into_iter()
        .map(|(arm, clients, t)| {
            let mut row = vec![Cell::plain(number::count(u64::from(t.index) + 1))];
            if arms {
                row.push(Cell::plain(&arm.label));
            }
            row.extend([
                Cell::plain(number::count(u64::from(clients))),
                Cell::plain(number::count(t.throughput_tps.max(0.0).round() as u64)),
                Cell::plain(number::single(t.p50_us)),
                Cell::plain(number::single(t.p99_us)),
                Cell::plain(number::single(t.client_cpu_us_per_transaction)),
                match t.server_cpu_us_per_transaction {
                    Some(us) => Cell::plain(number::single(us)),
                    None => Cell {
                        value: Value::Missing,
                        marks: vec![],
                    },
                },
            ]);
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
