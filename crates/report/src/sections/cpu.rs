//! Where CPU time went: the client's share, the server's, and the machine's limit.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::{PointAnalysis, StageAnalysis, StageArm, TrialAnalysis};
use pgassay_analysis::stats::Estimate;

use super::{client_ticks, dots, has_course, interval, levels, place, points, thinned_at_points};
use crate::document::{
    Axis, Block, Cell, Chart, Column, Depth, Guide, Notes, Scale, Section, Series, Table,
};
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
    blocks.push(Block::Table(table(load, notes)));
    Some(Section {
        id: "cpu",
        title: "CPU: client and server",
        depth: Depth::Evidence,
        blocks,
    })
}

/// Who keeps CPUs busy: name, the estimate at a point, and the same of one trial.
type Share = (
    &'static str,
    fn(&PointAnalysis) -> Option<&Estimate>,
    fn(&TrialAnalysis) -> Option<f64>,
);

const SHARES: [Share; 3] = [
    (
        "server",
        |p| p.server_cpus.as_ref(),
        |t| {
            t.server_cpu_us_per_transaction
                .map(|us| us * t.throughput_tps / 1e6)
        },
    ),
    (
        "client (pgassay's load threads)",
        |p| Some(&p.client_cpus),
        |t| Some(t.client_cpu_us_per_transaction * t.throughput_tps / 1e6),
    ),
    (
        "whole machine, others' work included",
        |p| p.machine_cpus.as_ref(),
        |_| None,
    ),
];

fn chart(analysis: &Analysis, index: usize, arm: &StageArm) -> Chart {
    let series: Vec<Series> = SHARES
        .iter()
        .enumerate()
        .map(|(look, (label, estimate, trial))| Series {
            label: (*label).to_owned(),
            look,
            lane: (0, 1),
            estimates: arm
                .points
                .iter()
                .filter_map(|p| {
                    let x = f64::from(p.point.clients);
                    let what = format!("{label}, {} clients", p.point.clients);
                    Some(interval(x, estimate(p)?, &what, "CPUs"))
                })
                .collect(),
            dots: arm
                .points
                .iter()
                .flat_map(|p| dots(p, trial, "CPUs"))
                .collect(),
        })
        .filter(|s| !s.estimates.is_empty())
        .collect();
    let spoken: Vec<String> = series
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
    if !series.iter().any(|s| s.look == 0) {
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
        series,
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

fn table(load: &StageAnalysis, notes: &mut Notes) -> Table {
    let arms = load.arms.len() > 1;
    let mut columns = vec![Column::figures("clients", "", 0)];
    if arms {
        columns.push(Column::words("server", 0));
    }
    columns.extend([
        Column::figures("client", "CPUs", 1),
        Column::figures("server", "CPUs", 1),
        Column::figures("machine", "CPUs", 2),
        Column::figures("stolen", "% of time", 3),
        Column::figures("client, user mode", "µs/tx", 4),
        Column::figures("buffer hits", "per tx", 5),
        Column::figures("blocks read", "per tx", 5),
    ]);
    let all = points(load);
    let rows = all
        .iter()
        .map(|(arm, p)| {
            let at = place(load, arm, p.point.clients);
            let mut row = vec![Cell::plain(number::count(u64::from(p.point.clients)))];
            if arms {
                row.push(Cell::plain(&arm.label));
            }
            row.extend([
                notes.estimate(&p.client_cpus, &format!("client CPUs at {at}")),
                notes.maybe(p.server_cpus.as_ref(), &format!("server CPUs at {at}")),
                notes.maybe(p.machine_cpus.as_ref(), &format!("machine CPUs at {at}")),
                notes.maybe(
                    p.steal_share.as_ref().map(in_percent).as_ref(),
                    &format!("stolen time at {at}"),
                ),
                notes.estimate(
                    &p.client_user_us_per_transaction,
                    &format!("client user CPU at {at}"),
                ),
                notes.maybe(
                    p.buffer_hits_per_transaction.as_ref(),
                    &format!("buffer hits at {at}"),
                ),
                notes.maybe(
                    p.buffer_reads_per_transaction.as_ref(),
                    &format!("blocks read at {at}"),
                ),
            ]);
            row
        })
        .collect();
    Table {
        caption: format!(
            "CPUs busy on average, time that the hypervisor gave to others, and what \
             pg_stat_database counted. {}",
            levels(all.iter().map(|(_, p)| &p.client_cpus))
        ),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

/// A share of 0 to 1 in per cent.
fn in_percent(share: &Estimate) -> Estimate {
    Estimate {
        estimate: share.estimate * 100.0,
        low: share.low * 100.0,
        high: share.high * 100.0,
        ..share.clone()
    }
}
