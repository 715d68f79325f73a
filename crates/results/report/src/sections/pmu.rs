//! What processor and kernel counted of the server's processes: a transaction, and by class.

use pgassay_analysis::metrics::MetricId;
use pgassay_analysis::metrics::pmu::{
    BACKEND_BOUND, BAD_SPECULATION, BRANCH_MISS_SHARE, BRANCH_MISSES, CACHE_MISSES,
    CONTEXT_SWITCHES, CPU_MIGRATIONS, CYCLES, FRONTEND_BOUND, INSTRUCTIONS, IPC, ITLB_MISSES,
    KERNEL_INSTRUCTIONS, L1I_MISSES, LLC_MISSES, PAGE_FAULTS, RETIRING, STALLED_BACKEND,
    STALLED_FRONTEND, TASK_CLOCK,
};
use pgassay_analysis::observed::pmu::EventClasses;
use pgassay_analysis::observed::{ArmObserved, PointObserved};
use pgassay_analysis::profile::class::CLASSES;
use pgassay_analysis::stats::Estimate;

use super::levels;
use super::metric_table::{MetricColumn, column};
use super::observed::{point_cells, point_columns};
use crate::document::{Cell, Column, Table, Value};
use crate::number;

/// A table of what was counted.
struct Counted {
    caption: &'static str,
    columns: &'static [MetricColumn],
}

const TABLES: [Counted; 3] = [
    Counted {
        caption: "What the processor counted of the server's processes.",
        columns: &[
            column(IPC, "instructions", "per cycle", 0),
            column(INSTRUCTIONS, "instructions", "per tx", 1),
            column(CYCLES, "cycles", "per tx", 2),
            column(KERNEL_INSTRUCTIONS, "in the kernel", "% of instructions", 4),
            column(BRANCH_MISSES, "branch misses", "per tx", 2),
            column(BRANCH_MISS_SHARE, "branches missed", "%", 6),
            column(L1I_MISSES, "L1I misses", "per tx", 2),
            column(ITLB_MISSES, "iTLB misses", "per tx", 3),
            column(LLC_MISSES, "LLC misses", "per tx", 2),
            column(CACHE_MISSES, "cache misses", "per tx", 7),
        ],
    },
    Counted {
        caption: "Where the processor's time went: cycles in which it stalled, and its slots by the top-down \
                  method where it counts them.",
        columns: &[
            column(STALLED_FRONTEND, "stalled: front end", "% of cycles", 1),
            column(STALLED_BACKEND, "stalled: back end", "% of cycles", 1),
            column(RETIRING, "retiring", "% of slots", 2),
            column(BAD_SPECULATION, "bad speculation", "% of slots", 3),
            column(FRONTEND_BOUND, "front-end bound", "% of slots", 2),
            column(BACKEND_BOUND, "back-end bound", "% of slots", 2),
        ],
    },
    Counted {
        caption: "What the kernel counted of the server's processes.",
        columns: &[
            column(TASK_CLOCK, "on a CPU", "µs/tx", 0),
            column(CONTEXT_SWITCHES, "context switches", "per tx", 0),
            column(CPU_MIGRATIONS, "went to another CPU", "per tx", 1),
            column(PAGE_FAULTS, "page faults", "per tx", 1),
        ],
    },
];

/// Below this share of time with a counter it is said.
const ALL_THE_TIME: f64 = 0.995;

/// The tables of what was counted; a metric that no point has is left out.
pub(super) fn tables(observed: &ArmObserved) -> Vec<Table> {
    let mut made: Vec<Table> = TABLES.iter().filter_map(|t| t.of(observed)).collect();
    if let Some(first) = made.first_mut() {
        let shares = observed.points.iter().filter_map(|p| p.least_counted);
        if let Some(least) = shares.min_by(f64::total_cmp)
            && least < ALL_THE_TIME
        {
            first.caption.push_str(&format!(
                " More events were wanted than there are counters: each was counted {} of the time or more, and \
                 made up to the whole.",
                number::share(least)
            ));
        }
    }
    let last = observed.points.iter().rev().find(|p| !p.events.is_empty());
    made.extend(last.and_then(by_class));
    made
}

impl Counted {
    fn of(&self, observed: &ArmObserved) -> Option<Table> {
        let of = |metric: MetricId| {
            observed
                .points
                .iter()
                .filter_map(move |p| p.counted.get(&metric))
        };
        let columns: Vec<&MetricColumn> = self
            .columns
            .iter()
            .filter(|column| of(column.metric).next().is_some())
            .collect();
        if columns.is_empty() {
            return None;
        }
        let mut heads = point_columns(observed);
        heads.extend(
            columns
                .iter()
                .map(|c| Column::figures(c.head, c.unit, c.rank)),
        );
        let rows = observed.points.iter().map(|point| {
            let mut row = point_cells(observed, point);
            row.extend(
                columns
                    .iter()
                    .map(|column| match point.counted.get(&column.metric) {
                        Some(estimate) => Cell {
                            value: Value::Estimate(shown(estimate, column)),
                            marks: Vec::new(),
                        },
                        None => Cell::plain(number::NONE),
                    }),
            );
            row
        });
        let estimates = columns.iter().flat_map(|column| of(column.metric));
        Some(Table {
            caption: format!("{} {}", self.caption, levels(estimates)),
            columns: heads,
            rows: rows.collect(),
            folded: false,
            marks: Vec::new(),
        })
    }
}

/// Shares in per cent.
fn shown(estimate: &Estimate, column: &MetricColumn) -> Estimate {
    let factor = if column.metric.unit == "share" {
        100.0
    } else {
        1.0
    };
    Estimate {
        estimate: estimate.estimate * factor,
        low: estimate.low * factor,
        high: estimate.high * factor,
        ..estimate.clone()
    }
}

/// The event of cycles, and that of instructions.
const CYCLES_EVENT: &str = "core/cycles";
const INSTRUCTIONS_EVENT: &str = "core/instructions";

/// Where events happened at one point, a row a class.
fn by_class(point: &PointObserved) -> Option<Table> {
    let events = &point.events;
    let find = |name: &str| events.iter().find(|e| e.event == name);
    let both = find(CYCLES_EVENT).zip(find(INSTRUCTIONS_EVENT));
    let mut columns = vec![Column::words("class", 0)];
    columns.extend(both.map(|_| Column::figures("instructions", "per cycle", 0)));
    columns.extend((1u8..).zip(events).map(|(rank, event)| {
        let name = event.event.rsplit('/').next().unwrap_or(&event.event);
        Column::figures(name, "per tx", rank.min(9))
    }));
    let rows: Vec<Vec<Cell>> = CLASSES
        .iter()
        .filter(|class| events.iter().any(|event| event.in_class(**class).is_some()))
        .map(|class| {
            let figure = |value: Option<f64>| match value {
                Some(value) => Cell::plain(number::short(value)),
                None => Cell::plain(number::NONE),
            };
            let of = |event: &EventClasses| event.in_class(*class);
            let mut row = vec![Cell::plain(class.title())];
            row.extend(both.map(|(cycles, instructions)| {
                let both = of(instructions).zip(of(cycles));
                figure(both.map(|(instructions, cycles)| instructions / cycles))
            }));
            row.extend(events.iter().map(|event| figure(of(event))));
            row
        })
        .collect();
    let samples: u64 = events.iter().map(|event| event.samples).sum();
    (!rows.is_empty()).then(|| Table {
        caption: format!(
            "Where events happened at {}, by {} samples of them and their callers; fewer than ten samples of an \
             event in a class tell nothing.",
            point.how_many(),
            number::count(samples)
        ),
        columns,
        rows,
        folded: false,
        marks: Vec::new(),
    })
}
