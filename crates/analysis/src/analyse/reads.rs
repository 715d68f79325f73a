//! Where the bytes came from, over the trials of each point.

use crate::analysis::{PointReads, ReadsAnalysis};
use crate::plan::Plan;
use crate::record::{ServerFacts, Trial};
use crate::samples;
use crate::server;
use crate::stats::{Estimate, summarize};
use crate::storage::{ReadFigures, Seen, Storage, figures};

/// One trial's figures with what they are divided by.
struct Window {
    figures: ReadFigures,
    /// Commits by `pg_stat_database`, whose counters all arrive together.
    commits: Option<u64>,
    seconds: f64,
    page_tables: Option<u64>,
}

/// The three figures of a server's trials under one load; none where nothing is known of its storage.
pub fn analyse(
    plan: &Plan,
    trials: &[&Trial],
    storage: Option<&Storage>,
    facts: Option<&ServerFacts>,
) -> Option<ReadsAnalysis> {
    let storage = storage?;
    let block_size = facts.and_then(server::block_size).unwrap_or(8192);
    let mut unseen: Vec<String> = Vec::new();
    let mut points: Vec<PointReads> = (0u32..)
        .zip(&plan.points)
        .filter_map(|(index, point)| {
            let windows: Vec<Window> = trials
                .iter()
                .filter(|t| t.slice.point == index)
                .map(|t| Window {
                    figures: figures(&t.samples, Some(storage), block_size),
                    commits: t
                        .samples
                        .get(samples::PG_STAT_DATABASE)
                        .and_then(|s| samples::database_counter(s, "xact_commit")),
                    seconds: t.window_ns as f64 / 1e9,
                    page_tables: t
                        .samples
                        .get(samples::SERVER_PAGE_TABLES)
                        .and_then(samples::page_table_bytes),
                })
                .collect();
            for window in &windows {
                let device = &window.figures.device;
                for why in [
                    reason(device).map(|why| format!("device reads: {why}")),
                    reason(&window.figures.processes_bytes)
                        .map(|why| format!("reads of the server's processes: {why}")),
                ]
                .into_iter()
                .flatten()
                {
                    if !unseen.contains(&why) {
                        unseen.push(why);
                    }
                }
            }
            point_reads(point.clients, &windows)
        })
        .collect();
    points.sort_by_key(|point| point.clients);
    if let Some(why) = storage
        .hidden
        .as_ref()
        .filter(|why| !unseen.iter().any(|u| u.contains(*why)))
    {
        unseen.push(format!("device reads: {why}"));
    }
    Some(ReadsAnalysis {
        storage: storage.clone(),
        block_size_bytes: block_size,
        points,
        unseen,
    })
}

fn reason<T>(seen: &Seen<T>) -> Option<&String> {
    match seen {
        Seen::Seen(_) => None,
        Seen::Unavailable(why) => Some(why),
    }
}

fn point_reads(clients: u32, windows: &[Window]) -> Option<PointReads> {
    if windows.is_empty() {
        return None;
    }
    let over = |value: &dyn Fn(&Window) -> Option<f64>| -> Option<Estimate> {
        let values: Vec<f64> = windows.iter().filter_map(value).collect();
        if values.len() * 2 <= windows.len() {
            return None;
        }
        let mut estimate = summarize(&values)?;
        // Nothing read is what one hopes for, not a lack of resolution.
        if values.iter().all(|value| *value == 0.0) {
            estimate.warnings.clear();
        }
        Some(estimate)
    };
    let per_commit = |count: Option<u64>, window: &Window| {
        let commits = window.commits.filter(|commits| *commits > 100)?;
        Some(count? as f64 / commits as f64)
    };
    let (mut bytes, mut requests) = (0, 0);
    for device in windows.iter().filter_map(|w| w.figures.device.seen()) {
        bytes += device.bytes;
        requests += device.requests;
    }
    Some(PointReads {
        clients,
        page_table_bytes: over(&|w| Some(w.page_tables? as f64)),
        logical_reads_per_transaction: over(&|w| per_commit(w.figures.logical_reads, w)),
        misses_per_transaction: over(&|w| per_commit(w.figures.shared_buffer_misses, w)),
        device_bytes_per_second: over(&|w| Some(w.figures.device.seen()?.bytes as f64 / w.seconds)),
        device_requests_per_second: over(&|w| {
            Some(w.figures.device.seen()?.requests as f64 / w.seconds)
        }),
        device_request_bytes: (requests > 0).then(|| bytes as f64 / requests as f64),
        processes_bytes_per_second: over(&|w| {
            Some(*w.figures.processes_bytes.seen()? as f64 / w.seconds)
        }),
        cgroup_bytes_per_second: over(&|w| Some(w.figures.cgroup.seen()?.bytes as f64 / w.seconds)),
    })
}
