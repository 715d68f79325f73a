//! Where CPU time went: the client's share, the server's, and the machine's limit.

use pgassay_analysis::Analysis;
use pgassay_analysis::measured::{PointAnalysis, StageArm};
use pgassay_analysis::metrics::{self, MetricId};

use super::metric_table::{PointTable, column, series};
use super::{client_ticks, has_course, points, thinned_at_points};
use crate::document::{Axis, Block, Chart, Depth, Guide, Notes, Scale, Section, Series};
use crate::number;

/// CPUs busy over clients, and what else the server did for each transaction.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    if points(load).is_empty() {
        return None;
    }
    let arms = load.arms.iter().enumerate();
    let mut blocks: Vec<Block> = arms
        .filter(|(_, arm)| has_course(arm))
        .map(|(i, arm)| Block::Chart(Box::new(chart(analysis, i, arm))))
        .collect();
    blocks.push(Block::Table(TABLE.of(load, notes)));
    Some(Section {
        id: "cpu",
        title: "CPU: client and server",
        depth: Depth::Evidence,
        blocks,
    })
}

/// Who keeps CPUs busy.
const SHARES: [(&str, MetricId); 3] = [
    ("server", metrics::SERVER_CPUS),
    ("client (pgassay's load threads)", metrics::CLIENT_CPUS),
    (
        "whole machine, others' work included",
        metrics::MACHINE_CPUS,
    ),
];

fn chart(analysis: &Analysis, index: usize, arm: &StageArm) -> Chart {
    let lines: Vec<Series> = SHARES
        .iter()
        .enumerate()
        .map(|(look, (label, metric))| {
            let what = |p: &PointAnalysis| format!("{label}, {} clients", p.point.clients);
            Series {
                look,
                ..series(arm, (label, "CPUs"), *metric, what)
            }
        })
        .filter(|s| !s.estimates.is_empty())
        .collect();
    let spoken: Vec<String> = lines
        .iter()
        .flat_map(|s| s.estimates.iter().map(|e| e.tip.clone()))
        .collect();
    let title = match analysis.arms.len() {
        1 => "CPUs kept busy over clients".to_owned(),
        _ => format!("CPUs kept busy over clients: {}", arm.label),
    };
    let mut caption = String::from(
        "Where the machine's line meets its CPUs, more clients can only wait. CPU time of the \
         client is CPU time that the server could not have on this machine.",
    );
    if !lines.iter().any(|s| s.look == 0) {
        caption.push_str(" The server's processes could not be seen, so its line is missing.");
    }
    caption.push_str(&thinned_at_points(analysis.main()));
    Chart {
        id: format!("cpu-{index}"),
        title,
        alternative: format!(
            "CPUs busy on average against the number of clients. {}.",
            spoken.join("; ")
        ),
        caption,
        x: Axis {
            label: "clients".to_owned(),
            scale: Scale::Log,
            ticks: client_ticks(analysis.main()),
        },
        y: Axis {
            label: "CPUs busy".to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series: lines,
        guides: limit(analysis).into_iter().collect(),
    }
}

/// The machine's CPUs, or the container's quota where that is less.
fn limit(analysis: &Analysis) -> Option<Guide> {
    let cpus = f64::from(analysis.host.cpus?);
    let (limit, label) = match analysis.host.cpu_quota {
        Some(quota) if quota < cpus => (
            quota,
            format!("the container's quota: {} CPUs", number::short(quota)),
        ),
        _ => (cpus, format!("the machine's CPUs: {cpus}")),
    };
    let ticks = client_ticks(analysis.main());
    let (first, last) = (*ticks.first()?, *ticks.last()?);
    Some(Guide {
        label,
        points: vec![(first, limit), (last, limit)],
        in_range: true,
    })
}

/// CPUs kept busy, and what else the server did for each transaction.
const TABLE: PointTable = PointTable {
    caption: "CPUs busy on average, time that the hypervisor gave to others, and what \
              pg_stat_database counted.",
    columns: &[
        column(metrics::CLIENT_CPUS, "client", "CPUs", 1),
        column(metrics::SERVER_CPUS, "server", "CPUs", 1),
        column(metrics::MACHINE_CPUS, "machine", "CPUs", 2),
        column(metrics::STEAL, "stolen", "% of time", 3),
        column(metrics::CLIENT_USER_CPU, "client, user mode", "µs/tx", 4),
        column(metrics::BUFFER_HITS, "buffer hits", "per tx", 5),
        column(metrics::BUFFER_MISSES, "blocks read", "per tx", 5),
    ],
    marked: false,
};
