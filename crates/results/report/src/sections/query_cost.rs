//! Where the CPU time of one query goes: the ways side by side, stage by stage, and whether
//! query-loop's executor agrees with select-only's.

use pgassay_analysis::Analysis;
use pgassay_analysis::profile::stage::{STAGES, Stage};
use pgassay_analysis::query_cost::{AGREEMENT, Agreement, QueryCost, WayCost};
use pgassay_model::query_cost::Way;

use super::levels;
use crate::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use crate::number;

/// A query's way, where it was looked at.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let cost = analysis.query_cost.as_ref()?;
    let mut blocks = Vec::new();
    if !cost.ways.is_empty() {
        blocks.push(Block::Table(table(cost, notes)));
    }
    let facts = facts(cost);
    if !facts.is_empty() {
        blocks.push(Block::Facts(facts));
    }
    Some(Section {
        id: "query-cost",
        title: "Where a query's CPU time goes",
        depth: Depth::Summary,
        blocks,
    })
}

fn table(cost: &QueryCost, notes: &mut Notes) -> Table {
    let mut columns = vec![Column::words("CPU for a query", 0)];
    columns.extend(cost.ways.iter().map(|way| column(way.way)));
    let mut rows: Vec<Vec<Cell>> = STAGES
        .iter()
        .filter(|stage| cost.ways.iter().any(|way| of_stage(way, **stage).is_some()))
        .map(|stage| {
            let mut row = vec![Cell::plain(stage.title())];
            row.extend(
                cost.ways
                    .iter()
                    .map(|way| match (stage, of_stage(way, *stage)) {
                        (Stage::Executor, _) => notes.maybe(
                            way.executor_us_per_query.as_ref(),
                            &format!("executor of {}", way.way.title()),
                        ),
                        (_, Some(us)) => Cell::plain(microseconds(us)),
                        (_, None) => Cell::plain(number::NONE),
                    }),
            );
            row
        })
        .collect();
    let mut row = |title: &str, cell: &mut dyn FnMut(&WayCost) -> Cell| {
        let mut row = vec![Cell::plain(title)];
        row.extend(cost.ways.iter().map(cell));
        rows.push(row);
    };
    row("all", &mut |way| {
        let of = format!("CPU time of {}", way.way.title());
        notes.estimate(&way.cpu_us_per_query, &of)
    });
    row("samples", &mut |way| {
        Cell::plain(number::count(way.samples))
    });
    row("queries", &mut |way| {
        Cell::plain(number::count(way.queries))
    });
    let counted = |value: Option<f64>| match value {
        Some(count) => Cell::plain(number::count(count.round() as u64)),
        None => Cell::plain(number::NONE),
    };
    if cost
        .ways
        .iter()
        .any(|way| way.instructions_per_query.is_some())
    {
        row("instructions", &mut |way| {
            counted(way.instructions_per_query)
        });
        row("in the executor", &mut |way| {
            counted(way.executor_instructions_per_query)
        });
    }
    Table {
        caption: format!(
            "One session executes the same statement in turn as select-only, in the simple \
             protocol, prepared, and prepared with 50 in flight, and in the loops; the \
             server's CPU time for a query, divided by samples of its processes with their callers. \
             The innermost function that belongs to a stage decides: what the executor calls counts with it. {}",
            levels(cost.ways.iter().map(|way| &way.cpu_us_per_query))
        ),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

/// A way's column: what a narrow terminal leaves out first is what the loops differ from most.
fn column(way: Way) -> Column {
    let (title, leave_out) = match way {
        Way::Simple => ("simple", 2),
        Way::Prepared => ("prepared", 0),
        Way::Pipelined => ("50 in flight", 0),
        Way::QueryLoop => ("query-loop", 0),
        Way::PlpgsqlLoop => ("plpgsql-loop", 1),
    };
    Column::figures(title, "µs", leave_out)
}

fn of_stage(way: &WayCost, stage: Stage) -> Option<f64> {
    let found = way.stages.iter().find(|cost| cost.stage == stage)?;
    Some(found.us_per_query)
}

fn microseconds(us: f64) -> String {
    format!("{us:.2}")
}

fn facts(cost: &QueryCost) -> Vec<Fact> {
    let mut facts: Vec<Fact> = cost.agreements.iter().map(agreement).collect();
    if let Some(why) = &cost.unavailable {
        facts.push(Fact::new("not sampled", why.clone()));
    }
    if let Some(why) = &cost.not_counted {
        facts.push(Fact::new("instructions not counted", why.clone()));
    }
    facts
}

/// query-loop's executor against that of a way over the wire, in words.
fn agreement(agreement: &Agreement) -> Fact {
    let mut said = Vec::new();
    if let Some(cpu) = &agreement.cpu {
        said.push(format!(
            "{:.2} times its CPU time ({:.2} to {:.2})",
            cpu.estimate, cpu.low, cpu.high
        ));
    }
    if let Some(instructions) = agreement.instructions {
        said.push(format!("{instructions:.3} times its instructions"));
    }
    let percent = 100.0 * AGREEMENT;
    let same_work = agreement
        .instructions
        .is_some_and(|ratio| (ratio - 1.0).abs() <= AGREEMENT);
    let meaning = match (agreement.agrees, same_work) {
        (true, _) => format!("they agree within {percent:.0} %"),
        (false, true) => "the same work by count: what differs is how warm the caches are and \
                          how often the session slept in between"
            .to_owned(),
        (false, false) => format!("not shown to agree within {percent:.0} %"),
    };
    Fact::new(
        format!("executor of query-loop against {}", agreement.with.title()),
        said.join(", "),
    )
    .remark(meaning)
}
