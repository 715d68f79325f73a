//! Where the bytes came from: logical reads, shared-buffer misses, device reads,
//! always side by side.

use pgassay_analysis::measured::{ReadsAnalysis, StageArm};
use pgassay_analysis::{Analysis, metrics};

use super::metric_table::{PointTable, column};
use crate::document::{Block, Depth, Fact, Notes, Section};

/// The three figures of every point.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let arms: Vec<(&StageArm, &ReadsAnalysis)> = load
        .arms
        .iter()
        .filter_map(|arm| Some((arm, arm.reads.as_ref()?)))
        .filter(|(arm, _)| !arm.points.is_empty())
        .collect();
    if arms.is_empty() {
        return None;
    }
    let several = arms.len() > 1;
    let mut blocks = vec![Block::Table(TABLE.of(load, notes))];
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

/// The read metrics of every point.
const TABLE: PointTable = PointTable {
    caption: "A logical read is a block that the server looked at, a miss one that it asked the \
              kernel for, a device read what the kernel then fetched. Device reads hold \
              everybody's; those of the server's processes are its own, read-ahead included.",
    columns: &[
        column(metrics::LOGICAL_READS, "logical reads", "per tx", 0),
        column(metrics::BUFFER_MISSES, "shared-buffer misses", "per tx", 0),
        column(metrics::DEVICE_READS, "device reads", "bytes/s", 1),
        column(metrics::DEVICE_REQUESTS, "device requests", "/s", 1),
        column(metrics::DEVICE_REQUEST_SIZE, "average request", "bytes", 2),
        column(metrics::SERVER_READS, "server's processes", "bytes/s", 3),
        column(metrics::CGROUP_READS, "cgroup", "bytes/s", 4),
        column(metrics::PAGE_TABLES, "page tables", "bytes", 4),
    ],
    marked: false,
};
