//! What the observers saw of the arms, side by side: waits, scheduling, CPU by class.
//!
//! An arm's own section tells of one server; here a row is one thing that was seen, a
//! column an arm, and beside each arm after A stands its difference from A.

use pgassay_analysis::compare::Compare;
use pgassay_analysis::measured::StageArm;
use pgassay_analysis::metrics::SERVER_CPU;
use pgassay_analysis::observed::{ArmObserved, PointObserved};
use pgassay_analysis::profile::flame;

use crate::document::{Block, Cell, Column, Depth, FlameGraph, Section, Table};
use crate::sections::observed::{FIGURES, cost_in_words};
use crate::{number, profiles};

/// Wait events, and classes of CPU time, that have a row at a client count.
const ROWS: usize = 8;
/// What no arm has more of has no row: sessions, or a share of the samples.
const WORTH_A_ROW: f64 = 0.005;

/// One row: what was seen, and of each arm how much.
struct Row {
    what: String,
    values: Vec<Option<f64>>,
}

/// Shown in a terminal, too: who compares is not observed unless asked for.
///
/// The arms' tables, and what the flame graphs of each make of A's; nothing where no
/// arm was observed.
pub fn section(compare: &Compare) -> Option<Section> {
    let arms = &compare.analysis.main().arms;
    let observed: Vec<&ArmObserved> = arms.iter().filter_map(|a| a.observed.as_ref()).collect();
    let first = observed.first()?;
    let mut blocks = Vec::new();
    for point in &first.points {
        let at = At {
            arms,
            clients: point.clients,
        };
        let tables = [at.waits(), at.scheduling(), at.profile()];
        blocks.extend(tables.into_iter().flatten().map(Block::Table));
    }
    let group = |arm| profiles::group(&compare.analysis, compare.analysis.main(), arm);
    if let Some((a, before)) = arms.first().and_then(|a| Some((a, flame_of(a)?))) {
        for arm in arms.iter().skip(1) {
            blocks.extend(flame_of(arm).map(|after| {
                Block::Flame(Box::new(FlameGraph {
                    flame: flame::against(after, before),
                    title: format!("{}: functions by their callers, against A", arm.label),
                    group: group(arm),
                    against: Some(group(a)),
                }))
            }));
        }
    }
    for (arm, observed) in arms.iter().filter_map(|a| Some((a, a.observed.as_ref()?))) {
        for missing in &observed.unavailable {
            blocks.push(Block::Text(format!(
                "Not seen of {}: {}: {}.",
                arm.label,
                missing.observer,
                missing.why.trim_end_matches('.')
            )));
        }
        blocks.extend(observed.cost.as_ref().map(|cost| {
            let words = cost_in_words(cost);
            Block::Text(format!("{}. {words}", arm.label))
        }));
    }
    (!blocks.is_empty()).then_some(Section {
        id: "observed",
        title: "What sessions and CPUs did",
        depth: Depth::Summary,
        blocks,
    })
}

fn flame_of(arm: &StageArm) -> Option<&flame::Flame> {
    arm.observed.as_ref()?.flame.as_ref()
}

/// One client count of all arms.
struct At<'c> {
    arms: &'c [StageArm],
    clients: u32,
}

impl At<'_> {
    fn points(&self) -> Vec<Option<&PointObserved>> {
        let of = |arm: &StageArm| -> Option<usize> {
            let points = &arm.observed.as_ref()?.points;
            points.iter().position(|p| p.clients == self.clients)
        };
        self.arms
            .iter()
            .map(|arm| arm.observed.as_ref()?.points.get(of(arm)?))
            .collect()
    }

    fn row(&self, what: &str, value: impl Fn(&PointObserved) -> Option<f64>) -> Row {
        Row {
            what: what.to_owned(),
            values: self.points().into_iter().map(|p| value(p?)).collect(),
        }
    }

    fn clients(&self) -> String {
        number::counted(self.clients, "client")
    }

    /// Sessions by what they waited for.
    fn waits(&self) -> Option<Table> {
        let of = |p: &PointObserved, name: &str| {
            let waits = p.waits.as_ref()?;
            Some(waits.at(|event| event.name() == name))
        };
        let points = self.points();
        let events = points
            .iter()
            .flatten()
            .filter_map(|p| p.waits.as_ref())
            .flat_map(|w| &w.events);
        let events = named(events.map(|event| event.name()), |name| {
            self.row(name, |p| of(p, name))
        });
        let active = |p: &PointObserved| Some(p.waits.as_ref()?.active_sessions);
        // By the kernel's account; samples see few of them where CPUs are scarce.
        let running = |p: &PointObserved| match &p.budget {
            Some(budget) => Some(budget.on_cpu + budget.ready),
            None => Some(p.waits.as_ref()?.running_sessions),
        };
        let mut rows = vec![
            self.row("in a statement", active),
            self.row("running, or ready to run", running),
        ];
        rows.extend(events);
        rows.push(self.row("idle", |p| Some(p.waits.as_ref()?.idle_sessions)));
        let looks: u64 = points
            .iter()
            .flatten()
            .filter_map(|p| Some(p.waits.as_ref()?.samples))
            .sum();
        self.table(
            format!(
                "At {}: sessions on average, by what they were seen waiting for ({} samples of pg_stat_activity).",
                self.clients(),
                number::count(looks)
            ),
            "",
            rows,
            |value| format!("{value:.2}"),
        )
    }

    /// How the kernel scheduled the servers, and how long their sessions waited for a CPU.
    fn scheduling(&self) -> Option<Table> {
        let mut rows: Vec<Row> = FIGURES
            .iter()
            .map(|(head, unit, _, value)| self.row(&format!("{head}, {unit}"), value))
            .collect();
        rows.insert(
            1,
            self.row("a session's wait for a CPU, % of its time", session_wait),
        );
        rows.retain(|row| row.values.iter().flatten().any(|v| *v > 0.0));
        self.table(
            format!(
                "At {}: how the kernel scheduled the server.",
                self.clients()
            ),
            "",
            rows,
            number::single,
        )
    }

    /// CPU time of a transaction by class, where the server's CPU time is known; else shares.
    fn profile(&self) -> Option<Table> {
        let points = self.points();
        let cpu: Vec<Option<f64>> = self.arms.iter().map(|arm| self.server_cpu(arm)).collect();
        let known = points
            .iter()
            .zip(&cpu)
            .all(|(p, cpu)| p.is_none_or(|p| p.profile.is_none()) || cpu.is_some());
        let (unit, scale): (_, Vec<f64>) = if known {
            ("µs/tx", cpu.iter().map(|c| c.unwrap_or(0.0)).collect())
        } else {
            ("% of samples", vec![100.0; points.len()])
        };
        let shares = |title: &str| {
            let of = |p: &PointObserved| {
                let classes = &p.profile.as_ref()?.classes;
                let found = classes.iter().find(|c| c.class.title() == title);
                Some(found.map_or(0.0, |c| c.share))
            };
            self.row(title, of)
        };
        let classes = points
            .iter()
            .flatten()
            .filter_map(|p| p.profile.as_ref())
            .flat_map(|p| &p.classes);
        let mut rows = named(classes.map(|c| c.class.title().to_owned()), shares);
        if rows.is_empty() {
            return None;
        }
        let rest = (0..points.len()).map(|arm| {
            let shown: Vec<f64> = rows.iter().filter_map(|row| row.values[arm]).collect();
            (!shown.is_empty()).then(|| (1.0 - shown.iter().sum::<f64>()).max(0.0))
        });
        rows.push(Row {
            what: "everything else".to_owned(),
            values: rest.collect(),
        });
        for row in &mut rows {
            for (value, scale) in row.values.iter_mut().zip(&scale) {
                *value = value.map(|v| v * scale);
            }
        }
        let samples: Vec<String> = points
            .iter()
            .flatten()
            .filter_map(|p| p.profile.as_ref()?.samples)
            .map(number::count)
            .collect();
        let of = if known {
            "the server's CPU time of a transaction, divided as the CPU samples fell"
        } else {
            "CPU samples by what they fell on"
        };
        self.table(
            format!(
                "At {}: {of} ({} samples).",
                self.clients(),
                samples.join(", ")
            ),
            unit,
            rows,
            number::single,
        )
    }

    /// CPU time of a transaction in the server, microseconds.
    fn server_cpu(&self, arm: &StageArm) -> Option<f64> {
        let point = arm
            .points
            .iter()
            .find(|p| p.point.clients == self.clients)?;
        Some(point.estimate(SERVER_CPU)?.estimate)
    }

    /// A column an arm; none where no arm has a figure.
    fn table(
        &self,
        caption: String,
        unit: &str,
        rows: Vec<Row>,
        shown: impl Fn(f64) -> String,
    ) -> Option<Table> {
        if !rows.iter().any(|r| r.values.iter().any(Option::is_some)) {
            return None;
        }
        let mut columns = vec![Column::words("", 0)];
        for (index, arm) in self.arms.iter().enumerate() {
            columns.push(Column::figures(&arm.label, unit, 0));
            if index > 0 {
                columns.push(Column::figures(&format!("{} − A", arm.label), "", 0));
            }
        }
        // An empty sum is -0.0.
        let figure =
            |value: Option<f64>| value.map_or(number::NONE.to_owned(), |value| shown(value + 0.0));
        let rows = rows
            .iter()
            .map(|row| {
                let a = row.values.first().copied().flatten();
                let mut cells = vec![Cell::plain(&row.what)];
                for (index, value) in row.values.iter().enumerate() {
                    cells.push(Cell::plain(figure(*value)));
                    if index > 0 {
                        let difference = a.zip(*value).map(|(a, b)| b - a);
                        cells.push(Cell::plain(difference.map_or(
                            number::NONE.to_owned(),
                            |d| {
                                let sign = if d < 0.0 { "−" } else { "+" };
                                format!("{sign}{}", shown(d.abs()))
                            },
                        )));
                    }
                }
                cells
            })
            .collect();
        Some(Table {
            caption,
            columns,
            rows,
            folded: false,
            marks: Vec::new(),
        })
    }
}

/// A row for each different name, the largest in any arm first.
fn named(names: impl Iterator<Item = String>, row: impl Fn(&str) -> Row) -> Vec<Row> {
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names.dedup();
    let largest = |row: &Row| row.values.iter().flatten().fold(0.0, |m: f64, v| m.max(*v));
    let mut rows: Vec<Row> = names.iter().map(|name| row(name)).collect();
    rows.retain(|row| largest(row) >= WORTH_A_ROW);
    rows.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
    rows.truncate(ROWS);
    rows
}

/// Share of its time that the median process of the load was ready and waited for a CPU,
/// per cent.
fn session_wait(point: &PointObserved) -> Option<f64> {
    let roles = &point.backends.as_ref()?.roles;
    let load = roles.iter().find(|r| r.role == "pgassay load")?;
    let (_, median, _) = load.waiting_each?;
    Some(100.0 * median)
}
