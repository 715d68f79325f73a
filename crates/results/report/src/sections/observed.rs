//! What observers saw beside the load: waits, scheduling, CPU samples, and what that cost.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::observed::{ArmObserved, CostAnalysis, PointObserved};

use super::{backends, budget, diagnosis, has_first_screen, pmu, statements};
use crate::document::{Block, Cell, Column, Depth, FlameGraph, Notes, Section, Table};
use crate::{number, profiles};

/// Wait events that have a column of their own.
const EVENTS: usize = 8;

/// One part for each server that was observed.
pub fn section(analysis: &Analysis, _notes: &mut Notes) -> Option<Section> {
    let several = analysis.arms.len() > 1;
    let was_observed = |stage: &&StageAnalysis| stage.arms.iter().any(|arm| arm.observed.is_some());
    let several_loads = analysis.stages.iter().filter(was_observed).count() > 1;
    let elsewhere = has_first_screen(analysis);
    let mut blocks = Vec::new();
    let loads = analysis.stages.iter();
    let each = loads.flat_map(|stage| stage.arms.iter().map(move |arm| (stage, arm)));
    for (place, (load, arm)) in each.enumerate() {
        let Some(observed) = &arm.observed else {
            continue;
        };
        let mut of_which = Vec::new();
        let under = several_loads.then_some(load.plan.workload.name.as_str());
        of_which.extend(under.map(|load| format!("Under {load}")));
        if several {
            of_which.push(arm.label.clone());
        }
        if !of_which.is_empty() {
            blocks.push(Block::Heading(of_which.join(", ")));
        }
        let id = place.to_string();
        let group = profiles::group(analysis, load, arm);
        blocks.extend(of_server(
            observed,
            &group,
            under,
            (!elsewhere).then_some(id.as_str()),
        ));
    }
    (!blocks.is_empty()).then_some(Section {
        id: "observed",
        title: "What sessions and CPUs did",
        depth: Depth::Evidence,
        blocks,
    })
}

/// What observers saw of one server, whose profiles are of this group. `under` names its load where
/// there are several. `picture` names that of its time budget; none where it stands elsewhere.
pub(super) fn of_server(
    observed: &ArmObserved,
    group: &str,
    under: Option<&str>,
    picture: Option<&str>,
) -> Vec<Block> {
    let mut blocks = budget::blocks(observed, picture);
    blocks.extend(statements::objects(observed));
    blocks.extend(waits(observed).map(Block::Table));
    blocks.extend(scheduling(observed).map(Block::Table));
    blocks.extend(pmu::tables(observed).into_iter().map(Block::Table));
    blocks.extend(backends::tables(observed).into_iter().map(Block::Table));
    if let Some(profile) = &observed.profile {
        blocks.push(Block::Heading("Where the CPU time goes".to_owned()));
        blocks.extend(diagnosis::profile_blocks(profile, under));
        if let Some(flame) = &observed.flame {
            blocks.push(Block::Flame(Box::new(FlameGraph {
                flame: flame.clone(),
                title: "Functions by their callers".to_owned(),
                group: group.to_owned(),
                against: None,
            })));
        }
    }
    for missing in &observed.unavailable {
        blocks.push(Block::Text(format!(
            "Not seen: {}: {}.",
            missing.observer,
            missing.why.trim_end_matches('.')
        )));
    }
    blocks.extend(
        observed
            .cost
            .as_ref()
            .map(|cost| Block::Text(cost_in_words(cost))),
    );
    blocks
}

/// The columns that say which load and how many clients; the load only where there are several.
pub(super) fn point_columns(observed: &ArmObserved) -> Vec<Column> {
    let load = several_loads(observed).then(|| Column::words("load", 0));
    let clients = (!own_load(observed)).then(|| Column::figures("clients", "", 0));
    load.into_iter().chain(clients).collect()
}

pub(super) fn point_cells(observed: &ArmObserved, point: &PointObserved) -> Vec<Cell> {
    let name = point
        .load
        .clone()
        .unwrap_or_else(|| number::NONE.to_owned());
    let load = several_loads(observed).then(|| Cell::plain(name));
    let clients = Cell::plain(number::count(u64::from(point.clients)));
    let clients = (!own_load(observed)).then_some(clients);
    load.into_iter().chain(clients).collect()
}

/// How many sessions a server's own load has is among the figures.
fn own_load(observed: &ArmObserved) -> bool {
    observed.points.iter().any(|p| p.own_load)
}

fn several_loads(observed: &ArmObserved) -> bool {
    observed.points.iter().any(|p| p.load.is_some())
}

fn sessions(value: f64) -> Cell {
    // The sum of nothing is -0.
    Cell::plain(format!("{:.2}", value + 0.0))
}

/// Sessions by what they waited for, one row a client count.
fn waits(observed: &ArmObserved) -> Option<Table> {
    let seen: Vec<_> = observed
        .points
        .iter()
        .filter_map(|p| Some((p, p.waits.as_ref()?)))
        .collect();
    let (_, largest) = seen.last()?;
    let mut names: Vec<String> = Vec::new();
    let all = largest
        .events
        .iter()
        .chain(seen.iter().flat_map(|(_, w)| &w.events));
    for event in all.filter(|e| e.sessions >= 0.005) {
        if names.len() < EVENTS && !names.contains(&event.name()) {
            names.push(event.name());
        }
    }
    let mut columns = point_columns(observed);
    columns.extend([
        Column::figures("in a statement", "sessions", 0),
        Column::figures("at no event", "sessions", 1),
    ]);
    columns.extend(
        (0u8..)
            .zip(&names)
            .map(|(i, name)| Column::figures(name, "sessions", 2 + i)),
    );
    columns.push(Column::figures("other waits", "sessions", 9));
    columns.push(Column::figures("idle", "sessions", 3));
    let rows = seen
        .iter()
        .map(|(point, waits)| {
            let mut row = point_cells(observed, point);
            row.extend([
                sessions(waits.active_sessions),
                sessions(waits.running_sessions),
            ]);
            let mut shown = 0.0;
            for name in &names {
                let at = waits.at(|e| e.name() == *name);
                shown += at;
                row.push(sessions(at));
            }
            let waiting = waits.at(|_| true);
            row.push(sessions((waiting - shown).max(0.0)));
            row.push(sessions(waits.idle_sessions));
            row
        })
        .collect();
    let looks: u64 = seen.iter().map(|(_, w)| w.samples).sum();
    let fewer = seen.iter().map(|(_, w)| w.asked_hz).fold(25.0, f64::min);
    let fewer = match fewer {
        asked if asked > 0.0 && asked < 20.0 => format!(
            " At this many sessions a look is expensive to the server: they were brought down \
             to {} a second.",
            number::short(asked)
        ),
        _ => String::new(),
    };
    Some(Table {
        caption: format!(
            "Sessions on average, by what they were seen waiting for: {} samples of pg_stat_activity, \
             {:.0} a second. At no event they ran or waited for a CPU; samples miss those that were woken \
             and wait for one, which only the time budget counts.{fewer}",
            number::count(looks),
            largest.rate_hz
        ),
        columns,
        rows,
        folded: false,
        marks: Vec::new(),
    })
}

/// A figure of scheduling: its heading, unit, rank, and value.
pub(crate) type Figure = (
    &'static str,
    &'static str,
    u8,
    fn(&PointObserved) -> Option<f64>,
);

pub(crate) const FIGURES: [Figure; 6] = [
    ("run queue", "processes", 1, |p| p.scheduling.run_queue),
    ("gave the CPU up", "per tx", 2, |p| {
        p.scheduling.voluntary_switches_per_transaction
    }),
    ("lost the CPU", "per tx", 2, |p| {
        p.scheduling.involuntary_switches_per_transaction
    }),
    ("page faults", "per tx", 3, |p| {
        p.scheduling.page_faults_per_transaction
    }),
    ("pressure: CPU", "% of time", 4, |p| {
        percent(p.scheduling.cpu_pressure)
    }),
    ("pressure: I/O", "% of time", 5, |p| {
        percent(p.scheduling.io_pressure)
    }),
];

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|s| 100.0 * s)
}

fn scheduling(observed: &ArmObserved) -> Option<Table> {
    let figures: Vec<&Figure> = FIGURES
        .iter()
        .filter(|(_, _, _, value)| observed.points.iter().any(|p| value(p).is_some()))
        .collect();
    if figures.is_empty() {
        return None;
    }
    let mut columns = point_columns(observed);
    columns.extend(
        figures
            .iter()
            .map(|(head, unit, rank, _)| Column::figures(head, unit, *rank)),
    );
    let rows = observed
        .points
        .iter()
        .map(|p| {
            let mut row = point_cells(observed, p);
            row.extend(figures.iter().map(|(_, _, _, value)| match value(p) {
                Some(value) => Cell::plain(number::short(value)),
                None => Cell::plain(number::NONE),
            }));
            row
        })
        .collect();
    Some(Table {
        caption: "How the kernel scheduled the server: processes ready and waiting for a CPU on \
                  average, context switches, the machine's page faults and stalls."
            .to_owned(),
        columns,
        rows,
        folded: false,
        marks: Vec::new(),
    })
}

/// What observing cost, from its own record.
pub(crate) fn cost_in_words(cost: &CostAnalysis) -> String {
    let each: Vec<String> = cost
        .observers
        .iter()
        .map(|o| {
            let server = if o.server_cpus > 0.0 {
                format!(" and {:.2} % in the server", 100.0 * o.server_cpus)
            } else {
                String::new()
            };
            format!("{} {:.2} %{server}", o.observer, 100.0 * o.own_cpus)
        })
        .collect();
    let all = cost.machine_share.map_or(String::new(), |share| {
        format!("{:.2} % of the machine's CPU time", 100.0 * share)
    });
    format!(
        "What observing cost over {:.0} seconds: {all}; of one CPU: {}. The server's part is taken \
         off its CPU time above.",
        cost.seconds,
        each.join(", ")
    )
}
