//! The time budget: where the sessions' time went at each client count, as a table and bars.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::observed::budget::Budget;
use pgassay_analysis::observed::{ArmObserved, PointObserved};

use super::evidence;
use super::observed::{point_cells, point_columns};
use crate::document::{Bar, Bars, Block, Cell, Column, Table};

/// Wait events that have a part of their own.
const EVENTS: usize = 3;

/// The parts of a budget, in the order of the bars.
struct Parts {
    names: Vec<String>,
    rows: Vec<Row>,
}

/// One bar.
struct Row {
    label: String,
    values: Vec<f64>,
    evidence: Option<String>,
}

/// The table and, by the name of `picture`, the bars; nothing where no point has a budget.
pub(super) fn blocks(observed: &ArmObserved, picture: Option<&str>) -> Vec<Block> {
    let seen = seen(observed);
    if seen.is_empty() {
        return Vec::new();
    }
    let labelled = seen.iter();
    let labelled = labelled.map(|(point, budget)| (label(point), *budget, None));
    let parts = parts(labelled.collect());
    let mut blocks = vec![Block::Table(table(observed, &seen, &parts))];
    blocks.extend(picture.map(|id| Block::Bars(Box::new(bars(&parts, id)))));
    blocks
}

/// The points that have a budget, by load; those of the first server.
fn of_loads(analysis: &Analysis) -> Vec<(&StageAnalysis, Vec<(&PointObserved, &Budget)>)> {
    let loads = analysis.stages.iter().filter_map(|stage| {
        let observed = stage.arms.first()?.observed.as_ref()?;
        let seen = seen(observed);
        (!seen.is_empty()).then_some((stage, seen))
    });
    loads.collect()
}

/// The picture of all loads of one server: every client count of one load, the fewest and the most
/// clients of several.
pub(super) fn overview(analysis: &Analysis) -> Option<Bars> {
    let loads = of_loads(analysis);
    let several = loads.len() > 1;
    let mut rows = Vec::new();
    for (stage, seen) in loads {
        let load = &stage.plan.workload.name;
        let last = seen.len() - 1;
        for (i, (point, budget)) in seen.into_iter().enumerate() {
            let label = label(point);
            let evidence = stage.arms.first();
            let evidence = evidence.map(|arm| evidence::of(stage, arm, point.clients));
            match several {
                false => rows.push((label, budget, evidence)),
                true if i == 0 || i == last => {
                    rows.push((format!("{load}, {label}"), budget, evidence));
                }
                true => {}
            }
        }
    }
    (!rows.is_empty()).then(|| bars(&parts(rows), "overview"))
}

fn seen(observed: &ArmObserved) -> Vec<(&PointObserved, &Budget)> {
    let points = observed.points.iter();
    points
        .filter_map(|p| Some((p, p.budget.as_ref()?)))
        .collect()
}

/// `8 clients`, with the load before it where a server was observed under several.
fn label(point: &PointObserved) -> String {
    let clients = point.how_many();
    match &point.load {
        Some(load) => format!("{load}, {clients}"),
        None => clients,
    }
}

fn parts(seen: Vec<(String, &Budget, Option<String>)>) -> Parts {
    // The events of the largest client count first, where contention shows.
    let mut events: Vec<String> = Vec::new();
    for (_, budget, _) in seen.iter().rev() {
        for wait in budget.off.iter().flat_map(|off| &off.waits) {
            let shown = budget.share(wait.sessions) >= 0.01;
            if shown && events.len() < EVENTS && !events.contains(&wait.name()) {
                events.push(wait.name());
            }
        }
    }
    let row = |budget: &Budget| -> Vec<f64> {
        let mut row = vec![budget.on_cpu, budget.ready];
        let Some(off) = &budget.off else {
            row.extend(events.iter().map(|_| 0.0));
            row.extend([budget.off_cpu, 0.0, 0.0]);
            return row;
        };
        let named: Vec<f64> = events
            .iter()
            .map(|name| {
                let waits = off.waits.iter().filter(|w| w.name() == *name);
                waits.map(|w| w.sessions).sum()
            })
            .collect();
        let all: f64 = off.waits.iter().map(|w| w.sessions).sum();
        let others = (all - named.iter().sum::<f64>()).max(0.0) + off.unnamed + off.hidden;
        row.extend(&named);
        row.extend([others, off.client, off.idle]);
        row
    };
    let rows = seen
        .iter()
        .map(|(label, budget, evidence)| Row {
            label: label.clone(),
            values: row(budget),
            evidence: evidence.clone(),
        })
        .collect();
    let mut names = vec!["on a CPU".to_owned(), "waiting for a CPU".to_owned()];
    names.extend(events);
    names.extend(["other waits", "waiting for the client", "idle"].map(str::to_owned));
    Parts { names, rows }
}

fn table(observed: &ArmObserved, seen: &[(&PointObserved, &Budget)], parts: &Parts) -> Table {
    let mut columns = point_columns(observed);
    columns.push(Column::figures("sessions", "", 0));
    columns.extend(
        (0u8..)
            .zip(&parts.names)
            .map(|(i, name)| Column::figures(name, "", i)),
    );
    let rows = seen
        .iter()
        .zip(&parts.rows)
        .map(|((point, budget), Row { values, .. })| {
            let mut row = point_cells(observed, point);
            let all = std::iter::once(&budget.sessions).chain(values);
            row.extend(all.map(|value| Cell::plain(format!("{value:.2}"))));
            row
        })
        .collect();
    Table {
        caption: "The time budget: where the sessions' time went, in sessions on average. On a CPU and \
                  waiting for one is the kernel's exact account; the rest is divided by samples of wait \
                  events. Waiting for the client is within a transaction, idle between transactions."
            .to_owned(),
        columns,
        rows,
        folded: false,
        marks: Vec::new(),
    }
}

fn bars(parts: &Parts, id: &str) -> Bars {
    let in_words = parts.rows.iter().map(|Row { label, values, .. }| {
        let each = parts.names.iter().zip(values);
        let each = each.filter(|(_, value)| **value >= 0.005);
        let each: Vec<String> = each
            .map(|(name, value)| format!("{value:.2} {name}"))
            .collect();
        format!("{label}: {}", each.join(", "))
    });
    let alternative = in_words.collect::<Vec<_>>().join("; ");
    Bars {
        id: format!("budget-{id}"),
        title: "Where the sessions' time goes".to_owned(),
        alternative,
        caption:
            "Each bar is the time of all sessions at one number of clients. What grows with the \
                  number of clients is what they queue for."
                .to_owned(),
        axis: "share of the sessions' time, %".to_owned(),
        unit: "sessions".to_owned(),
        absolute: false,
        parts: parts.names.clone(),
        rows: parts
            .rows
            .iter()
            .map(|row| Bar {
                label: row.label.clone(),
                parts: row.values.clone(),
                evidence: row.evidence.clone(),
            })
            .collect(),
    }
}
