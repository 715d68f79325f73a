//! What each of the server's processes got of the CPUs, at the largest client count.

use pgassay_analysis::observed::ArmObserved;
use pgassay_analysis::observed::backends::{Backends, Role};

use crate::document::{Cell, Column, Table};
use crate::number;

/// Roles that are shown; those behind them kept no CPU busy worth a line.
const ROLES: usize = 8;
/// A role that kept less of a CPU busy is left out, unless it is the load.
const WORTH_A_LINE: f64 = 0.0005;

/// By role, and the busiest one by one; nothing where processes could not be told apart.
pub fn tables(observed: &ArmObserved) -> Vec<Table> {
    let largest = observed
        .points
        .iter()
        .filter_map(|p| Some((p, p.backends.as_ref()?)))
        .max_by_key(|(p, _)| p.clients);
    let Some((point, backends)) = largest else {
        return Vec::new();
    };
    let at = match (&point.load, point.clients) {
        (Some(load), clients) => format!("{load}, at {clients}"),
        (None, _) => format!("with {}", point.how_many()),
    };
    vec![by_role(backends, &at), one_by_one(backends, &at)]
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

fn by_role(backends: &Backends, at: &str) -> Table {
    let share = |value: f64| number::short(100.0 * value);
    let each = |(least, median, most): (f64, f64, f64), of: &Role| match of.processes {
        1 => share(median),
        _ => format!("{} ({} to {})", share(median), share(least), share(most)),
    };
    let a_second = |value: Option<f64>| value.map_or(number::NONE.to_owned(), number::short);
    let rows = backends
        .roles
        .iter()
        .filter(|r| r.cpus >= WORTH_A_LINE)
        .take(ROLES)
        .map(|role| {
            vec![
                Cell::plain(role.role.clone()),
                Cell::plain(number::count(role.processes)),
                Cell::plain(share(role.cpus)),
                Cell::plain(each(role.cpus_each, role)),
                Cell::plain(
                    role.waiting_each
                        .map_or(number::NONE.to_owned(), |w| each(w, role)),
                ),
                Cell::plain(a_second(role.voluntary_switches_per_second)),
                Cell::plain(a_second(role.involuntary_switches_per_second)),
            ]
        })
        .collect();
    Table {
        caption: format!(
            "The server's processes by role, {at}: CPU time and waiting for a CPU, of one CPU's \
             time; each: the median of them (least to most)."
        ),
        columns: vec![
            Column::words("role", 0),
            Column::figures("processes", "", 1),
            Column::figures("CPU, all", "%", 0),
            Column::figures("CPU, each", "%", 1),
            Column::figures("waited for a CPU, each", "%", 2),
            Column::figures("gave the CPU up", "per s", 3),
            Column::figures("lost the CPU", "per s", 4),
        ],
        rows,
        folded: false,
        marks: Vec::new(),
    }
}

fn one_by_one(backends: &Backends, at: &str) -> Table {
    let optional = |value: Option<f64>| value.map_or(number::NONE.to_owned(), number::short);
    let rows = backends
        .busiest
        .iter()
        .map(|process| {
            vec![
                Cell::plain(format!("{} {}", process.role, process.number)),
                Cell::plain(number::short(100.0 * process.cpus)),
                Cell::plain(optional(process.waiting.map(|w| 100.0 * w))),
                Cell::plain(optional(process.voluntary_switches_per_second)),
                Cell::plain(optional(process.involuntary_switches_per_second)),
            ]
        })
        .collect();
    Table {
        caption: format!("The busiest processes, {at}, numbered within their role."),
        columns: vec![
            Column::words("process", 0),
            Column::figures("CPU", "%", 0),
            Column::figures("waited for a CPU", "%", 1),
            Column::figures("gave the CPU up", "per s", 2),
            Column::figures("lost the CPU", "per s", 3),
        ],
        rows,
        folded: true,
        marks: Vec::new(),
    }
}
