//! The verdict by statement: what each takes on either side, and how it is run.

use pgassay_analysis::compare::model::{PointResult, StatementResult};
use pgassay_analysis::compare::{Compare, in_short, word};
use pgassay_analysis::metrics::P99;
use pgassay_analysis::stats::{Estimate, Verdict};

use super::place;
use super::verdict::{change, ends, p_value};
use crate::document::{Block, Cell, Column, Depth, Notes, Section, Table};
use crate::number;

/// Rows of the first table, those that changed first.
const ROWS: usize = 12;
/// The same where many changed.
const MOST_CHANGED: usize = 30;

type Row<'c> = (&'c PointResult, &'c StatementResult);

/// Every statement of all points, those that changed first.
fn rows(compare: &Compare) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for result in &compare.results {
        rows.extend(
            result
                .statements
                .iter()
                .map(|statement| (result, statement)),
        );
    }
    rows.sort_by_key(|(_, statement)| !statement.changed());
    rows
}

/// How many of them the first table shows.
fn shown(rows: &[Row<'_>]) -> usize {
    let changed = rows.iter().filter(|(_, s)| s.changed()).count();
    rows.len().min(ROWS.max(changed.min(MOST_CHANGED)))
}

/// Those that changed, and those that took most of the time.
pub fn section(compare: &Compare, notes: &mut Notes) -> Option<Section> {
    let rows = rows(compare);
    let first = &rows[..shown(&rows)];
    if first.is_empty() {
        return None;
    }
    let family = match rows.len() {
        1 => String::new(),
        n => format!(" The {n} are one family of their own (Holm's correction)."),
    };
    let cpu = match has_cpu(&rows) {
        true => {
            " CPU time is that of the server, of a session that ran the statements one at a time after each slice, with \
             no load beside it, and the same values on both sides; parallel workers to 10 ms."
        }
        false => "",
    };
    let caption = format!(
        "Mean latency of each statement in the same pairs, against A, by the rule of the verdict.{family}{cpu} \
         Plans are those of EXPLAIN before the load, with up to three rows of the workload's values."
    );
    let mut blocks = vec![Block::Table(table(compare, caption, first, Some(notes)))];
    let replanned: Vec<&Row<'_>> = first.iter().filter(|(_, s)| s.plan_changed()).collect();
    if !replanned.is_empty() {
        let rows = replanned.into_iter().filter_map(|(_, statement)| {
            let plan = statement.plan.as_ref()?;
            Some(vec![
                Cell::plain(in_short(&statement.text)),
                Cell::plain(&plan.a),
                Cell::plain(&plan.b),
            ])
        });
        let columns = vec![
            Column::prose("statement"),
            Column::prose("plan of A"),
            Column::prose("plan of the other"),
        ];
        let mut rows: Vec<Vec<Cell>> = rows.collect();
        rows.dedup_by_key(|row| format!("{row:?}"));
        let caption = "Statements that the servers would run otherwise.".to_owned();
        blocks.push(Block::Table(Table::new(caption, columns, rows)));
    }
    blocks.extend(cpu_held(compare).map(Block::Text));
    if rows.len() > first.len() {
        blocks.push(Block::Text(format!(
            "All {} are in the full report.",
            number::counted(rows.len() as u64, "row")
        )));
    }
    Some(Section {
        id: "by-statement",
        title: "By statement",
        depth: Depth::Titled,
        blocks,
    })
}

/// Whether CPU time of any was measured.
fn has_cpu(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|(_, statement)| statement.cpu.is_some())
}

/// What the statements' CPU time comes to, against the server's.
fn cpu_held(compare: &Compare) -> Option<String> {
    let several = compare.results.len() > 1;
    let lines = compare.results.iter().filter_map(|result| {
        let held = result.statements_cpu.as_ref()?;
        let at = match several {
            true => format!("{}: ", place(compare, result)),
            false => String::new(),
        };
        if !result.statements.iter().any(|s| s.cpu.is_some()) {
            let why = held.unavailable.as_deref()?;
            return Some(format!(
                "{at}CPU time by statement was not measured: {why}."
            ));
        }
        let said = match held.warnings.first() {
            Some(warning) => warning.text.clone(),
            None => held.in_words(),
        };
        Some(format!("{at}{said}."))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// The whole list, where it is longer.
pub fn all(compare: &Compare) -> Option<Section> {
    let rows = rows(compare);
    if rows.len() == shown(&rows) {
        return None;
    }
    let caption = "Every statement, those that changed first.".to_owned();
    let table = table(compare, caption, &rows, None);
    Some(Section {
        id: "every-statement",
        title: "Every statement",
        depth: Depth::Evidence,
        blocks: vec![Block::Table(table.folded())],
    })
}

fn table(
    compare: &Compare,
    caption: String,
    rows: &[Row<'_>],
    mut notes: Option<&mut Notes>,
) -> Table {
    let several = compare.results.len() > 1;
    let mut columns = vec![Column::prose("statement")];
    if several {
        columns.push(Column::words("at", 0));
    }
    columns.extend([
        Column::figures("verdict", "", 0),
        Column::figures("latency", "of A", 0),
        Column::figures("interval", "", 1),
        Column::figures("plan", "", 0),
        Column::figures("A", "µs", 3),
        Column::figures("the other", "µs", 3),
        Column::figures("p", "", 5),
    ]);
    let cpu = has_cpu(rows);
    if cpu {
        columns.extend([
            Column::figures("CPU time", "of A", 1),
            Column::figures("its interval", "", 2),
            Column::figures("CPU at A", "µs", 3),
            Column::figures("CPU, other", "µs", 3),
        ]);
    }
    columns.extend([
        Column::figures("time at A", "% of all", 2),
        Column::figures("p99 at A", "µs", 6),
        Column::figures("p99, other", "µs", 6),
        Column::figures("calls at A", "", 7),
        Column::figures("script", "", 8),
    ]);
    let rows = rows.iter().map(|(result, statement)| {
        let compared = statement.compared.as_ref();
        let (p99_a, p99_b) = statement.p99_us;
        let mut verdict = Cell::plain_or_missing(
            statement
                .verdict()
                .map(|verdict: Verdict| word(P99, verdict)),
        );
        if let (Some(compared), Some(notes)) = (compared, notes.as_deref_mut()) {
            let about = format!("the comparison of {}", in_short(&statement.text));
            verdict = verdict.marked(notes.marks(&compared.ratio.warnings, &about));
        }
        let mut row = vec![Cell::plain(in_short(&statement.text))];
        if several {
            row.push(Cell::plain(place(compare, result)));
        }
        row.extend([
            verdict,
            Cell::plain_or_missing(compared.map(change)),
            Cell::plain_or_missing(compared.map(ends)),
            Cell::plain_or_missing(
                statement
                    .plan
                    .as_ref()
                    .map(|plan| if plan.changed() { "changed" } else { "same" }.to_owned()),
            ),
            Cell::plain_or_missing(statement.a.as_ref().map(|a| micros(a.estimate))),
            Cell::plain_or_missing(statement.b.as_ref().map(|b| micros(b.estimate))),
            Cell::plain_or_missing(compared.map(p_value)),
        ]);
        if cpu {
            let measured = statement.cpu.as_ref();
            let each = |side: Option<&Estimate>| side.map(|each| micros(each.estimate));
            let mut against = Cell::plain_or_missing(statement.cpu_compared().map(change));
            if let (Some(compared), Some(notes)) = (statement.cpu_compared(), notes.as_deref_mut())
            {
                let about = format!("the CPU time of {}", in_short(&statement.text));
                against = against.marked(notes.marks(&compared.ratio.warnings, &about));
            }
            row.extend([
                against,
                Cell::plain_or_missing(statement.cpu_compared().map(ends)),
                Cell::plain_or_missing(each(measured.and_then(|cpu| cpu.a.as_ref()))),
                Cell::plain_or_missing(each(measured.and_then(|cpu| cpu.b.as_ref()))),
            ]);
        }
        row.extend([
            Cell::plain(format!("{:.1}", 100.0 * statement.time_share.0)),
            Cell::plain_or_missing(p99_a.map(micros)),
            Cell::plain_or_missing(p99_b.map(micros)),
            Cell::plain(number::count(statement.calls.0)),
            Cell::plain(&statement.script),
        ]);
        row
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    Table::new(caption, columns, rows)
}

/// Three digits that count.
fn micros(value: f64) -> String {
    match value {
        v if v < 100.0 => format!("{v:.1}"),
        v => number::count(v.round() as u64),
    }
}
