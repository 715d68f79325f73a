//! What each point rests on: its trials, the waits of its sessions, its CPU time by class.
//!
//! Charts, tables and tiles lead here.

use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::measured::{PointAnalysis, StageArm};
use pgassay_analysis::observed::PointObserved;
use pgassay_analysis::{Analysis, metrics};

use super::{MOST_DOTS, legible, place, points, tails, thinned, thinning};
use crate::document::{
    Axis, Block, Cell, Chart, Column, Depth, Dot, Evidence, Guide, Notes, Scale, Section, Series,
    Table,
};
use crate::{number, profiles};

/// Wait events that are shown of a point.
const EVENTS: usize = 8;
/// What sessions did less of, and classes with a smaller share, have no row.
const WORTH_A_ROW: f64 = 0.005;

/// The names of the evidence of a server's points under a load, but for the clients at the end.
pub fn prefix(load: &StageAnalysis, arm: &StageArm) -> String {
    let same = |a: &StageArm| std::ptr::eq(a, arm);
    let arm = load.arms.iter().position(same).unwrap_or(0);
    let stage = format!("{:?}", load.id).to_lowercase();
    format!("point-{stage}-{arm}-")
}

/// The name of a point's evidence.
pub fn of(load: &StageAnalysis, arm: &StageArm, clients: u32) -> String {
    format!("{}{clients}", prefix(load, arm))
}

/// Every point of every load.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let mut blocks = Vec::new();
    let loads = std::iter::once(analysis.main()).chain(analysis.further_loads());
    for load in loads {
        for (arm, point) in points(load) {
            blocks.push(Block::Evidence(Box::new(of_point(
                analysis, load, arm, point,
            ))));
        }
    }
    (!blocks.is_empty()).then_some(Section {
        id: "points",
        title: "Point by point",
        depth: Depth::Evidence,
        blocks,
    })
}

fn of_point(
    analysis: &Analysis,
    load: &StageAnalysis,
    arm: &StageArm,
    point: &PointAnalysis,
) -> Evidence {
    let clients = point.point.clients;
    let name = place(load, arm, clients);
    let seen = arm.observed.iter().flat_map(|observed| &observed.points);
    let mut seen = seen.filter(|seen| seen.clients == clients && seen.load.is_none());
    let observed = seen.next();
    let id = of(load, arm, clients);
    let mut blocks: Vec<Block> = in_order(point, &id).into_iter().collect();
    blocks.extend(observed.and_then(waits).map(Block::Table));
    blocks.extend(observed.and_then(classes).map(Block::Table));
    let profile = observed.filter(|seen| seen.stacks.is_some());
    Evidence {
        id,
        title: match analysis.stages.len() {
            0 | 1 => name,
            _ => format!("{}, {name}", load.plan.workload.name),
        },
        summary: summary(point),
        see: tails::map_of(analysis, load, point)
            .map(|id| ("Latency over time".to_owned(), id))
            .into_iter()
            .collect(),
        profile: profile.map(|seen| {
            let group = profiles::group(analysis, load, arm);
            format!("{group}, {}", seen.how_many())
        }),
        blocks,
    }
}

/// Its trials by throughput, in the order in which they ran: whether they lie at one level or at two,
/// and whether they drift.
fn in_order(point: &PointAnalysis, id: &str) -> Option<Block> {
    if point.trials.len() < 2 {
        return None;
    }
    let estimate = &point.throughput_tps;
    let step = thinning(point.trials.len(), MOST_DOTS);
    let trials = point.trials.iter().step_by(step);
    let dots: Vec<Dot> = trials
        .map(|trial| Dot {
            x: f64::from(trial.index) + 1.0,
            y: trial.throughput_tps,
            offset: 0.0,
            tip: format!(
                "trial {}: {} tps",
                trial.index + 1,
                number::single(trial.throughput_tps)
            ),
        })
        .collect();
    let ends = (dots.first()?.x, dots.last()?.x);
    let at = |label: &str, y: f64| Guide {
        label: label.to_owned(),
        points: vec![(ends.0, y), (ends.1, y)],
        in_range: true,
    };
    let shown = number::shown(estimate).value;
    Some(Block::Charts(vec![Chart {
        id: format!("trials-{id}"),
        title: "Trials in the order they ran".to_owned(),
        alternative: format!(
            "Throughput of {} trials around {shown} tps.",
            point.trials.len()
        ),
        caption: format!(
            "Each mark is one trial; Every trial lists their figures.{}",
            thinned(point.trials.len(), MOST_DOTS)
        ),
        x: Axis {
            label: "trial, in the order of the schedule".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        y: Axis {
            label: "transactions a second".to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series: vec![Series {
            evidence: None,
            label: "one trial".to_owned(),
            look: 0,
            lane: (0, 1),
            estimates: vec![],
            dots,
        }],
        guides: vec![at("the estimate", estimate.estimate)],
    }]))
}

/// `64,000 tps (60,000–68,000), p99 355 µs (328–375), 20 trials`.
fn summary(point: &PointAnalysis) -> String {
    let figures = [
        ("", metrics::THROUGHPUT, "tps"),
        ("p99 ", metrics::P99, "µs"),
    ];
    let figures = figures.into_iter().filter_map(|(name, metric, unit)| {
        let mut estimate = point.estimate(metric)?.clone();
        let mut unit = unit;
        if unit == "µs" {
            (estimate, unit) = legible(&estimate);
        }
        let shown = number::shown(&estimate);
        let interval = shown
            .interval
            .map_or_else(String::new, |i| format!(" ({})", i.ends));
        Some(format!("{name}{} {unit}{interval}", shown.value))
    });
    let trials = number::counted(point.trials.len() as u64, "trial");
    let parts: Vec<String> = figures.chain([trials]).collect();
    parts.join(", ")
}

fn table(caption: &str, heads: (&str, &str, &str), rows: Vec<(String, String)>) -> Option<Table> {
    let (name, figure, unit) = heads;
    let columns = vec![Column::words(name, 0), Column::figures(figure, unit, 0)];
    let rows = rows
        .into_iter()
        .map(|(name, value)| vec![Cell::plain(name), Cell::plain(value)]);
    let table = Table::new(caption, columns, rows);
    (!table.rows.is_empty()).then_some(table)
}

/// What its sessions did: by the time budget, else by what they were seen waiting for.
fn waits(seen: &PointObserved) -> Option<Table> {
    let mut rows: Vec<(String, f64)> = Vec::new();
    let of_what = match (&seen.budget, &seen.waits) {
        (Some(budget), _) => {
            rows.push(("on a CPU".to_owned(), budget.on_cpu));
            rows.push(("waiting for a CPU".to_owned(), budget.ready));
            if let Some(off) = &budget.off {
                let waits = off.waits.iter().take(EVENTS);
                rows.extend(waits.map(|wait| (wait.name(), wait.sessions)));
                rows.push(("waiting for the client".to_owned(), off.client));
                rows.push(("idle".to_owned(), off.idle));
            } else {
                rows.push(("off the CPUs".to_owned(), budget.off_cpu));
            }
            "by the time budget"
        }
        (None, Some(waits)) => {
            rows.push((
                "in a statement, at no event".to_owned(),
                waits.running_sessions,
            ));
            let events = waits.events.iter().take(EVENTS);
            rows.extend(events.map(|event| (event.name(), event.sessions)));
            rows.push(("idle".to_owned(), waits.idle_sessions));
            "by samples of wait events"
        }
        (None, None) => return None,
    };
    let rows = rows
        .into_iter()
        .filter(|(_, sessions)| *sessions >= WORTH_A_ROW);
    let rows = rows.map(|(name, sessions)| (name, format!("{sessions:.2}")));
    table(
        &format!("What its sessions did, {of_what}, in sessions on average."),
        ("sessions", "on average", ""),
        rows.collect(),
    )
}

/// Its CPU samples by class.
fn classes(seen: &PointObserved) -> Option<Table> {
    let profile = seen.profile.as_ref()?;
    let classes = profile.classes.iter().filter(|c| c.share >= WORTH_A_ROW);
    let rows = classes.map(|c| {
        (
            c.class.title().to_owned(),
            format!("{:.1}", 100.0 * c.share),
        )
    });
    table(
        "Its CPU samples by what they were spent on.",
        ("spent on", "samples", "%"),
        rows.collect(),
    )
}
