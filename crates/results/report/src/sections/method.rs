//! How it was measured, enough to do it again.

use std::collections::BTreeMap;

use pgassay_analysis::Analysis;
use pgassay_analysis::measured::{RoundTrip, RunInfo};
use pgassay_model::plan::Stage;
use pgassay_model::run::RunState;
use pgassay_model::stage::StageId;
use pgassay_model::workload::{DataSet, WorkloadPlan};

use crate::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use crate::{number, plain};

/// The plan, the order of the trials, and the commands.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let mut blocks = vec![Block::Facts(facts(analysis))];
    blocks.extend(order(analysis).map(Block::Table));
    blocks.push(Block::Text(
        "To measure again, and to render this run in another form:".to_owned(),
    ));
    blocks.push(Block::Commands(commands(analysis)));
    Some(Section {
        id: "method",
        title: "How it was measured",
        depth: Depth::Evidence,
        blocks,
    })
}

/// Workload and amount of evidence in one line.
pub fn in_short(analysis: &Analysis) -> String {
    let plan = &analysis.main().plan;
    let inside = analysis.main().id == StageId::Primitives;
    let mut parts = if let Some(pgio) = &analysis.pgio {
        vec![format!(
            "{}: {} of {} trials of {} in {} tables, in random order from seed {}",
            plan.workload.name,
            number::count(u64::from(analysis.run.trials_measured)),
            number::count(u64::from(analysis.run.trials_planned)),
            number::duration(plan.window_ms as f64 / 1e3),
            pgio.plan.tables,
            plan.seed
        )]
    } else if analysis.scattered_read.is_some() {
        vec![format!(
            "{}: {} of {} cold executions, in random order from seed {}",
            plan.workload.name,
            number::count(u64::from(analysis.run.trials_measured)),
            number::count(u64::from(analysis.run.trials_planned)),
            plan.seed
        )]
    } else if analysis.main().id == StageId::Kernels {
        vec![format!(
            "{}: {} of {} trials of {}, in random order from seed {}",
            plan.workload.name,
            number::count(u64::from(analysis.run.trials_measured)),
            number::count(u64::from(analysis.run.trials_planned)),
            number::duration(plan.window_ms as f64 / 1e3),
            plan.seed
        )]
    } else if inside {
        in_short_inside(analysis)
    } else {
        in_short_load(analysis)
    };
    parts.extend(
        analysis
            .run
            .elapsed_seconds
            .map(|s| format!("{} in all", number::duration(s))),
    );
    parts.join("; ")
}

/// The same of a run inside the server, which has no clients and no window.
fn in_short_inside(analysis: &Analysis) -> Vec<String> {
    let plan = &analysis.main().plan;
    vec![
        format!("{}, in sessions inside the server", plan.workload.name),
        format!(
            "{} of {} trials, one call of {} in each session, in random order from seed {}",
            number::count(u64::from(analysis.run.trials_measured)),
            number::count(u64::from(analysis.run.trials_planned)),
            number::duration(plan.window_ms as f64 / 1e3),
            plan.seed
        ),
    ]
}

fn in_short_load(analysis: &Analysis) -> Vec<String> {
    let plan = &analysis.main().plan;
    // The run's own count holds the primitives' trials, too.
    let points = analysis.primitives.iter().flat_map(|p| &p.points);
    let inside: u64 = points.map(|point| point.trials.len() as u64).sum();
    let measured = u64::from(analysis.run.trials_measured).saturating_sub(inside);
    let planned = u64::from(analysis.run.trials_planned).saturating_sub(inside);
    let mut parts = vec![format!(
        "{}, {}, {} protocol",
        plan.workload.name,
        size(&plan.workload),
        plan.workload.protocol
    )];
    parts.push(format!(
        "{} of {} trials of {} each (after {} of warm-up), in random order from seed {}",
        number::count(measured),
        number::count(planned),
        number::duration(plan.window_ms as f64 / 1e3),
        number::duration(plan.warmup_ms as f64 / 1e3),
        plan.seed
    ));
    if !analysis.run.from.is_empty() {
        parts.push(format!("load from {}", analysis.run.from.join(", ")));
    }
    if inside > 0 {
        parts.push(format!(
            "{} trials of primitives inside the server",
            number::count(inside)
        ));
    }
    parts
}

/// The size of the tables in a few words.
fn size(workload: &WorkloadPlan) -> String {
    let count = number::count(u64::from(workload.scale));
    match (workload.data, workload.scale) {
        (Some(DataSet::OrderEntry), 1) => "1 warehouse".to_owned(),
        (Some(DataSet::OrderEntry), _) => format!("{count} warehouses"),
        (None, _) => format!("scale {count}"),
    }
}

/// The size of the tables.
pub fn scale(workload: &WorkloadPlan) -> Fact {
    let scale = number::count(u64::from(workload.scale));
    match workload.data {
        Some(DataSet::OrderEntry) => Fact::new("warehouses", scale),
        None => Fact::new("scale", scale).remark("100,000 accounts each"),
    }
}

fn facts(analysis: &Analysis) -> Vec<Fact> {
    let (plan, run) = (&analysis.main().plan, &analysis.run);
    let clients: Vec<String> = plan
        .points
        .iter()
        .map(|p| number::count(u64::from(p.clients)))
        .collect();
    let threads: Vec<String> = plan.points.iter().map(|p| p.threads.to_string()).collect();
    let mut facts = vec![Fact::new("workload", &plan.workload.name)];
    if analysis.main().id == StageId::Load {
        facts.extend([
            scale(&plan.workload),
            Fact::new("protocol", &plan.workload.protocol),
            Fact::new("clients", clients.join(", ")),
            Fact::new("threads", threads.join(", ")).remark("of pgassay, at each client count"),
        ]);
    }
    facts.extend(system_calls(analysis));
    // A load after which one does not hold ends with an error.
    let conditions = &plan.workload.conditions;
    if !conditions.is_empty() && run.state == RunState::Complete {
        let names: Vec<&str> = conditions.iter().map(|c| c.name.as_str()).collect();
        facts.push(
            Fact::new("consistency", format!("conditions {}", names.join(", ")))
                .remark("hold in the tables after the load"),
        );
    }
    facts.extend([
        Fact::new(
            "trials",
            format!(
                "{} of each client count on each server; {} of {} measured",
                plan.trials, run.trials_measured, run.trials_planned
            ),
        ),
        Fact::new("window", number::duration(plan.window_ms as f64 / 1e3))
            .remark("counted, of each trial"),
        Fact::new("warm-up", number::duration(plan.warmup_ms as f64 / 1e3))
            .remark("before it, not counted"),
        Fact::new("seed", plan.seed.to_string()).remark("of the order and of the clients' keys"),
    ]);
    facts.extend(load_from(run));
    for arm in &analysis.arms {
        let set = arm.settings.iter();
        let set: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
        let asked = [
            ("settings", set.join(", ")),
            ("environment", arm.confinement.launch_environment.join(" ")),
            ("starting command", arm.confinement.wrap.clone()),
        ];
        let of = match analysis.arms.len() {
            1 => String::new(),
            _ => format!(", {}", arm.label),
        };
        let asked = asked.into_iter().filter(|(_, value)| !value.is_empty());
        facts.extend(asked.map(|(what, value)| Fact::new(format!("{what} asked for{of}"), value)));
    }
    facts.extend(
        run.elapsed_seconds
            .map(|s| Fact::new("duration", number::duration(s)).remark("of the whole command")),
    );
    facts.extend(
        run.max_rss_bytes
            .map(|n| Fact::new("pgassay's memory", number::bytes(n)).remark("most resident")),
    );
    facts
}

/// The load threads' system calls, at each client count; nothing where none was counted.
fn system_calls(analysis: &Analysis) -> Option<Fact> {
    let points = analysis.main().arms.first()?.points.iter();
    let all: Option<Vec<_>> = points
        .map(|p| Some((p.client_calls_per_transaction?, p.client_gathered_share?)))
        .collect();
    let all = all.filter(|all| !all.is_empty())?;
    let list = |parts: Vec<String>| parts.join(", ");
    let calls = list(all.iter().map(|(n, _)| format!("{n:.2}")).collect());
    let gathered = list(
        all.iter()
            .map(|(_, g)| number::percent_of_one(*g))
            .collect(),
    );
    Some(Fact::new("system calls", calls).remark(format!(
        "of pgassay for each transaction; with io_uring it sent several clients' messages together: \
         {gathered} of them"
    )))
}

/// The schedule, one row a round.
fn order(analysis: &Analysis) -> Option<Table> {
    let load = analysis.main();
    if load.id != StageId::Load {
        return None;
    }
    let plan = &load.plan;
    let stage = Stage::wire(load.id, plan.clone());
    let mut rounds: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for slice in stage.schedule(analysis.arms.len()) {
        let clients = plan.points.get(slice.point as usize)?.clients;
        let arm = analysis.arms.get(slice.arm as usize)?;
        rounds
            .entry(slice.round)
            .or_default()
            .push(match analysis.arms.len() {
                1 => clients.to_string(),
                _ => format!("{} {clients}", arm.label),
            });
    }
    if rounds.is_empty() {
        return None;
    }
    Some(Table {
        caption: "The order of the trials, by number of clients. It was drawn from the seed \
                  before the first of them, so that drift of the machine falls on all alike."
            .to_owned(),
        columns: vec![Column::figures("round", "", 0), Column::words("clients", 0)],
        rows: rounds
            .into_iter()
            .map(|(round, clients)| {
                vec![
                    Cell::plain((round + 1).to_string()),
                    Cell::plain(clients.join(" · ")),
                ]
            })
            .collect(),
        folded: true,
        marks: vec![],
    })
}

/// The machines that the load came from, where they were named.
pub(crate) fn load_from(run: &RunInfo) -> Option<Fact> {
    let remark = match run.from.len() {
        0 => return None,
        1 => "one machine; CPU time of the client is its".to_owned(),
        n => format!(
            "{n} machines share the clients as equally as they divide; CPU time of the client is theirs together"
        ),
    };
    let away = |trip: &RoundTrip| format!("{} {:.0} µs", trip.name, trip.us);
    let away: Vec<String> = run.round_trips.iter().map(away).collect();
    let remark = match away.is_empty() {
        true => remark,
        false => format!(
            "{remark}; an empty query and its answer took at least: {}",
            away.join(", ")
        ),
    };
    Some(Fact::new("load from", run.from.join(", ")).remark(remark))
}

/// Whether a command line names a seed.
pub(crate) fn has_seed(line: &[String]) -> bool {
    let mut words = line.iter();
    words.any(|word| word == "--seed" || word.starts_with("--seed="))
}

fn commands(analysis: &Analysis) -> Vec<String> {
    let run = &analysis.run;
    let mut again = run.command_line.clone();
    if !has_seed(&again) {
        again.extend(["--seed".to_owned(), analysis.main().plan.seed.to_string()]);
    }
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
    vec![
        plain::shell(&again),
        plain::shell(&words(&["pgassay", "report", &run.id, "--json"])),
    ]
}
