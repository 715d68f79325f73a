//! Where the bytes came from: logical reads, shared-buffer misses, device reads,
//! always side by side.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::{PointReads, ReadsAnalysis, StageAnalysis, StageArm};

use super::{levels, place};
use crate::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use crate::number;

/// The three figures of every point.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let arms: Vec<(&StageArm, &ReadsAnalysis)> = load
        .arms
        .iter()
        .filter_map(|arm| Some((arm, arm.reads.as_ref()?)))
        .filter(|(_, reads)| !reads.points.is_empty())
        .collect();
    if arms.is_empty() {
        return None;
    }
    let several = arms.len() > 1;
    let mut blocks = vec![Block::Table(table(load, &arms, notes))];
    let mut facts = Vec::new();
    for (arm, reads) in &arms {
        let of = |what: &str| match several {
            true => format!("{what}, {}", arm.label),
            false => what.to_owned(),
        };
        facts.push(Fact::new(
            of("under the data directory"),
            reads.storage.shown(),
        ));
        if !reads.storage.counted.is_empty() {
            facts.push(
                Fact::new(of("devices counted"), reads.storage.counted.join(", "))
                    .remark("by /proc/diskstats; what others read from them is in it"),
            );
        }
        for why in &reads.unseen {
            facts.push(Fact::new(of("not visible from here"), why.clone()));
        }
    }
    blocks.push(Block::Facts(facts));
    Some(Section {
        id: "reads",
        title: "Where the bytes came from",
        depth: Depth::Evidence,
        blocks,
    })
}

fn table(load: &StageAnalysis, arms: &[(&StageArm, &ReadsAnalysis)], notes: &mut Notes) -> Table {
    let several = arms.len() > 1;
    let mut columns = vec![Column::figures("clients", "", 0)];
    if several {
        columns.push(Column::words("server", 0));
    }
    columns.extend([
        Column::figures("logical reads", "per tx", 0),
        Column::figures("shared-buffer misses", "per tx", 0),
        Column::figures("device reads", "bytes/s", 1),
        Column::figures("device requests", "/s", 1),
        Column::figures("average request", "bytes", 2),
        Column::figures("server's processes", "bytes/s", 3),
        Column::figures("cgroup", "bytes/s", 4),
        Column::figures("page tables", "bytes", 4),
    ]);
    let mut rows = Vec::new();
    for (arm, reads) in arms {
        for point in &reads.points {
            rows.push(row(load, arm, point, several, notes));
        }
    }
    let all = arms.iter().flat_map(|(_, reads)| &reads.points);
    Table {
        caption: format!(
            "A logical read is a block that the server looked at, a miss one that it asked the \
             kernel for, a device read what the kernel then fetched. Device reads hold everybody's; \
             those of the server's processes are its own, read-ahead included. {}",
            levels(all.filter_map(|p| p.logical_reads_per_transaction.as_ref()))
        ),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

fn row(
    load: &StageAnalysis,
    arm: &StageArm,
    point: &PointReads,
    several: bool,
    notes: &mut Notes,
) -> Vec<Cell> {
    let at = place(load, arm, point.clients);
    let mut row = vec![Cell::plain(number::count(u64::from(point.clients)))];
    if several {
        row.push(Cell::plain(&arm.label));
    }
    let figures = [
        (&point.logical_reads_per_transaction, "logical reads"),
        (&point.misses_per_transaction, "misses"),
        (&point.device_bytes_per_second, "device reads"),
        (&point.device_requests_per_second, "device requests"),
    ];
    for (estimate, what) in figures {
        row.push(notes.maybe(estimate.as_ref(), &format!("{what} at {at}")));
    }
    row.push(match point.device_request_bytes {
        Some(bytes) => Cell::plain(number::bytes(bytes.round() as u64)),
        None => Cell::plain("none"),
    });
    let figures = [
        (&point.processes_bytes_per_second, "the processes' reads"),
        (&point.cgroup_bytes_per_second, "the cgroup's reads"),
        (&point.page_table_bytes, "page tables"),
    ];
    for (estimate, what) in figures {
        row.push(notes.maybe(estimate.as_ref(), &format!("{what} at {at}")));
    }
    row
}
