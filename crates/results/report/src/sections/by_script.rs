//! What each script and each of its statements came to: how often, how many a second, percentiles.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::latency::{LatencyDetail, ScriptLatency};

use super::percentiles::{Row, laid_out};
use super::{place, points};
use crate::document::{Block, Cell, Depth, Fact, Notes, Section, Table};
use crate::number;

/// Characters of a statement in its row, and where it is listed.
const IN_ROW: usize = 18;
const LISTED: usize = 200;

/// The table, where scripts or statements are measured one by one.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let mut detailed = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for (arm, point) in points(load) {
        if let Some(detail) = &point.detail {
            let at = place(load, arm, point.point.clients);
            rows.extend(of_point(load, &at, detail));
            detailed.push(detail);
        }
    }
    if rows.is_empty() {
        return None;
    }
    let (columns, rows) = laid_out("script", &["count", "failed", "a second"], &rows);
    // Who had statements measured, or gave a script clients of its own, asked for them.
    let own_clients = load.plan.workload.own_clients() > 0;
    let per_statement = load.plan.workload.dials.per_statement;
    let note = match own_clients {
        true => {
            " Scripts with clients of their own (+) are counted here only: throughput, latency and what is derived from them \
             elsewhere are those of the other clients. CPU time and waits of the server are those of all."
        }
        false => "",
    };
    Some(Section {
        id: "by-script",
        title: match per_statement {
            true => "Latency by statement",
            false => "Latency by script",
        },
        depth: match per_statement || own_clients {
            true => Depth::Titled,
            false => Depth::Evidence,
        },
        blocks: std::iter::once(Block::Table(Table {
            caption: format!(
                "By script, and by its commands where they were measured: how often it ended well and how often it \
                      failed, and percentiles of all trials together. A percentile with fewer than five executions \
                      beyond it is left out.{note}"
            ),
            columns,
            rows,
            folded: false,
            marks: vec![],
        }))
        .chain(texts(load, &detailed))
        .collect(),
    })
}

/// The scripts of a point, each followed by its statements.
fn of_point(load: &StageAnalysis, at: &str, detail: &LatencyDetail) -> Vec<Row> {
    let figures = |count: u64, failures: u64| {
        let a_second = (detail.seconds > 0.0).then(|| count as f64 / detail.seconds);
        vec![
            Cell::plain(number::count(count)),
            Cell::plain(number::count(failures)),
            Cell::plain_or_missing(a_second.map(number::single)),
        ]
    };
    let mut rows = Vec::new();
    for (index, script) in detail.scripts.iter().enumerate() {
        let of_script = figures(script.transactions, script.failures);
        let name = match script.own_clients {
            Some(clients) => format!("{at} + {clients}: {}", script.name),
            None => format!("{at}: {}", script.name),
        };
        rows.push(Row::with(name, of_script, &script.latency));
        for statement in &script.statements {
            let number = statement.command + 1;
            let name = match statement_text(load, index, script, statement.command) {
                Some(text) => format!("… {number}: {}", cut(&text, IN_ROW)),
                None => format!("… command {number}"),
            };
            let of_statement = figures(statement.latency.count, statement.failures);
            rows.push(Row::with(name, of_statement, &statement.latency));
        }
    }
    rows
}

/// The statements that were measured, which no table has room for.
fn texts(load: &StageAnalysis, detailed: &[&LatencyDetail]) -> Option<Block> {
    let detail = detailed.last()?;
    let several = detail.scripts.len() > 1;
    let scripts = detail.scripts.iter().enumerate();
    let each = scripts.flat_map(|(index, script)| {
        script.statements.iter().filter_map(move |statement| {
            let text = statement_text(load, index, script, statement.command)?;
            let number = statement.command + 1;
            let name = match several {
                true => format!("{} {number}", script.name),
                false => number.to_string(),
            };
            Some(Fact::new(name, cut(&text, LISTED)))
        })
    });
    let facts: Vec<Fact> = each.collect();
    (!facts.is_empty()).then_some(Block::Facts(facts))
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The n-th command of a script as it was recorded; of runs of before that, by the lines of its text, as nearly all
/// scripts have one to a line. Else only its number is certain.
fn statement_text(
    load: &StageAnalysis,
    at: usize,
    script: &ScriptLatency,
    command: u32,
) -> Option<String> {
    let workload = &load.plan.workload;
    if let Some(recorded) = workload.commands.get(at) {
        return recorded.get(command as usize).cloned();
    }
    let text = workload.scripts.get(at).map_or("", |plan| &plan.text);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
        .collect();
    let last = script.statements.last().map_or(0, |s| s.command as usize);
    let line = lines.get(command as usize).filter(|_| lines.len() > last)?;
    Some((*line).to_owned())
}
