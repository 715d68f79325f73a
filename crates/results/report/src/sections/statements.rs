//! Which statements and which tables the sessions' time went to, at the largest client count.

use pgassay_analysis::Analysis;
use pgassay_analysis::observed::statements::{StatementAnalysis, StatementTime};
use pgassay_analysis::observed::{ArmObserved, PointObserved};
use pgassay_model::observed::growth::{Grown, GrowthRecord};

use crate::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use crate::{number, profiles};

/// Statements and tables that are shown.
const SHOWN: usize = 10;
/// Statements with a smaller share are left out.
const WORTH_A_LINE: f64 = 0.005;
/// Waits of a statement that are shown.
const WAITS: usize = 3;

/// Which statements the time went to, a table for each load and server.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let mut blocks = Vec::new();
    for load in &analysis.stages {
        for arm in &load.arms {
            let of_arm = arm.observed.as_ref().map_or_else(Vec::new, statements);
            if !of_arm.is_empty() && (analysis.stages.len() > 1 || load.arms.len() > 1) {
                blocks.push(Block::Heading(profiles::group(analysis, load, arm)));
            }
            blocks.extend(of_arm);
        }
    }
    (!blocks.is_empty()).then_some(Section {
        id: "statements",
        title: "Which statements take the time",
        depth: Depth::Titled,
        blocks,
    })
}

/// The point with the most clients of which there is something.
fn largest(
    observed: &ArmObserved,
    seen: impl Fn(&PointObserved) -> bool,
) -> Option<&PointObserved> {
    let points = observed.points.iter().filter(|point| seen(point));
    points.max_by_key(|p| p.clients)
}

/// The table of statements.
pub(super) fn statements(observed: &ArmObserved) -> Vec<Block> {
    let Some(point) = largest(observed, |p| p.statements.is_some()) else {
        return Vec::new();
    };
    let at = format!("with {}", point.how_many());
    let mut blocks = tables(point.statements.as_ref(), None, &at);
    if let (Some(load), Some(Block::Table(table))) = (&point.load, blocks.first_mut()) {
        table.caption = format!("{load}: {}", table.caption);
    }
    blocks
}

/// Those of tables and indexes.
pub(super) fn objects(observed: &ArmObserved) -> Vec<Block> {
    let Some(point) = largest(observed, |p| p.growth.is_some()) else {
        return Vec::new();
    };
    let at = format!("with {}", point.how_many());
    tables(None, point.growth.as_ref(), &at)
}

/// The tables of a window; `at` says of which.
pub(crate) fn tables(
    statements: Option<&StatementAnalysis>,
    growth: Option<&GrowthRecord>,
    at: &str,
) -> Vec<Block> {
    let mut blocks = statements.map_or_else(Vec::new, |statements| by_statement(statements, at));
    let tables = growth.and_then(|growth| by_table(&growth.tables, at));
    let indexes = growth.and_then(|growth| by_index(&growth.indexes));
    blocks.extend(tables.into_iter().chain(indexes).map(Block::Table));
    blocks
}

fn percent(share: f64) -> Cell {
    Cell::plain(format!("{:.1}", 100.0 * share))
}

fn figure(value: Option<f64>) -> Cell {
    Cell::plain_or_missing(value.map(number::short))
}

/// A table by number, and the texts to the numbers, which no table has room for.
fn by_statement(seen: &StatementAnalysis, at: &str) -> Vec<Block> {
    let all = seen.statements.iter();
    let shown: Vec<&StatementTime> = all
        .filter(|s| s.share >= WORTH_A_LINE)
        .take(SHOWN)
        .collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let counted = shown.iter().any(|s| s.counters.is_some());
    let mut columns = vec![
        Column::words("statement", 0),
        Column::figures("of the time", "%", 0),
        Column::figures("of the CPU time", "%", 0),
        Column::prose("waits, in sessions"),
    ];
    if counted {
        columns.extend([
            Column::figures("calls", "", 3),
            Column::figures("execution", "ms a call", 1),
            Column::figures("rows", "a call", 3),
            Column::figures("blocks", "a call", 2),
            Column::figures("temporary", "blocks a call", 4),
            Column::figures("WAL", "bytes a call", 5),
        ]);
    }
    let rows = shown
        .iter()
        .enumerate()
        .map(|(index, statement)| {
            let waits = statement.waits.iter().filter(|w| w.sessions >= 0.005);
            let waits: Vec<String> = waits
                .take(WAITS)
                .map(|wait| format!("{} {:.2}", wait.name, wait.sessions))
                .collect();
            let mut row = vec![
                Cell::plain((index + 1).to_string()),
                percent(statement.share),
                percent(statement.cpu_share),
                match waits.is_empty() {
                    true => Cell::plain(number::NONE),
                    false => Cell::plain(waits.join(", ")),
                },
            ];
            if counted {
                let of = statement.counters.as_ref();
                row.extend([
                    figure(of.map(|c| c.calls)),
                    figure(of.and_then(|c| c.execution_ms)),
                    figure(of.and_then(|c| c.rows)),
                    figure(of.and_then(|c| c.blocks)),
                    figure(of.and_then(|c| c.temp_blocks)),
                    figure(of.and_then(|c| c.wal_bytes)),
                ]);
            }
            row
        })
        .collect();
    let counted = match counted {
        true => " Counters are those of pg_stat_statements over the windows.",
        false => "",
    };
    let table = Table {
        caption: format!(
            "By statement, {at}: its share of the sessions' time in transactions (without a time \
             budget, of the time of sessions in a statement), its share of their CPU time, and what it \
             waited for. By {} sightings of sessions in a statement in {} \
             samples of pg_stat_activity; literals are left out.{counted}",
            number::count(seen.sightings),
            number::count(seen.looks),
        ),
        columns,
        rows,
        folded: false,
        marks: Vec::new(),
    };
    let texts = shown.iter().enumerate().map(|(index, statement)| {
        let text = match statement.text.as_str() {
            "" => statement.named(),
            text => text.to_owned(),
        };
        Fact::new((index + 1).to_string(), text)
    });
    vec![Block::Table(table), Block::Facts(texts.collect())]
}

/// A part for each of something; none where there is nothing of it.
fn each(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn by_table(tables: &[Grown], at: &str) -> Option<Table> {
    let rows: Vec<Vec<Cell>> = tables
        .iter()
        .take(SHOWN)
        .map(|table| {
            let blocks = [
                "heap_blks_hit",
                "heap_blks_read",
                "idx_blks_hit",
                "idx_blks_read",
            ];
            let blocks: f64 = blocks.iter().map(|counter| table.by(counter)).sum();
            let live = table.stands("n_live_tup");
            let dead = table.stands("n_dead_tup");
            let updates = table.by("n_tup_upd");
            vec![
                Cell::plain(table.name.clone()),
                figure(Some(blocks)),
                figure(Some(table.by("seq_scan"))),
                figure(each(table.by("seq_tup_read"), table.by("seq_scan"))),
                figure(Some(table.by("idx_scan"))),
                figure(each(
                    table.by("idx_blks_hit") + table.by("idx_blks_read"),
                    table.by("idx_scan"),
                )),
                figure(Some(
                    table.by("n_tup_ins") + updates + table.by("n_tup_del"),
                )),
                figure(each(100.0 * table.by("n_tup_hot_upd"), updates)),
                figure(live),
                figure(dead),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: format!(
            "By table, {at}: what PostgreSQL's own counters grew by over the windows. They lag behind \
             by up to a second; live and dead rows are the server's estimates at the end."
        ),
        columns: vec![
            Column::words("table", 0),
            Column::figures("blocks", "", 0),
            Column::figures("sequential scans", "", 3),
            Column::figures("rows", "a sequential scan", 1),
            Column::figures("index scans", "", 3),
            Column::figures("index blocks", "an index scan", 1),
            Column::figures("rows written", "", 2),
            Column::figures("HOT", "% of updates", 4),
            Column::figures("live", "rows", 2),
            Column::figures("dead", "rows", 1),
        ],
        rows,
        folded: false,
        marks: Vec::new(),
    })
}

fn by_index(indexes: &[Grown]) -> Option<Table> {
    let rows: Vec<Vec<Cell>> = indexes
        .iter()
        .take(SHOWN)
        .map(|index| {
            let blocks = index.by("idx_blks_hit") + index.by("idx_blks_read");
            vec![
                Cell::plain(index.name.clone()),
                Cell::plain(index.of.clone().unwrap_or_default()),
                figure(Some(blocks)),
                figure(Some(index.by("idx_scan"))),
                figure(each(blocks, index.by("idx_scan"))),
                figure(each(index.by("idx_tup_read"), index.by("idx_scan"))),
                figure(index.stands("relpages")),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption:
            "By index. Blocks of writes count, too; an index scan that meets dead entries reads \
                  more of them."
                .to_owned(),
        columns: vec![
            Column::words("index", 0),
            Column::words("of", 2),
            Column::figures("blocks", "", 0),
            Column::figures("scans", "", 1),
            Column::figures("blocks", "a scan", 0),
            Column::figures("entries", "a scan", 1),
            Column::figures("pages", "", 3),
        ],
        rows,
        folded: false,
        marks: Vec::new(),
    })
}
