//! Counters since boot that tell how the machine has been doing, and what it
//! costs to read its clock.

use std::time::Instant;

use pgassay_model::reading::Reading;

use super::HostFacts;
use super::reader::Reader;

/// Lines of /proc/vmstat that rules look at: swapping, compaction, reclaim, NUMA.
const VMSTAT: &[&str] = &[
    "pswpin",
    "pswpout",
    "compact_stall",
    "allocstall_normal",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "numa_hint_faults",
    "numa_pages_migrated",
    "numa_foreign",
];

/// Records the counters; of long files the lines that are looked at.
pub(super) fn record(reader: &Reader, facts: &mut HostFacts) {
    let stat = lines_of(reader, "/proc/stat", |name| name == "cpu");
    facts.insert("/proc/stat".into(), stat);
    let vmstat = lines_of(reader, "/proc/vmstat", |name| VMSTAT.contains(&name));
    facts.insert("/proc/vmstat".into(), vmstat);
    facts.insert("/proc/uptime".into(), reader.read("/proc/uptime"));
}

fn lines_of(reader: &Reader, path: &str, wanted: impl Fn(&str) -> bool) -> Reading {
    match reader.read(path) {
        Reading::Text(text) => {
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| wanted(line.split(' ').next().unwrap_or_default()))
                .collect();
            Reading::Text(lines.join("\n"))
        }
        unavailable => unavailable,
    }
}

/// Nanoseconds that reading the clock takes: the best of a few short batches, so
/// that other work on the machine does not count.
pub(super) fn clock_cost_ns() -> f64 {
    const READS: u32 = 1000;
    (0..8)
        .map(|_| {
            let start = Instant::now();
            let mut last = start;
            for _ in 0..READS {
                last = std::hint::black_box(Instant::now());
            }
            last.duration_since(start).as_nanos() as f64 / f64::from(READS)
        })
        .fold(f64::INFINITY, f64::min)
}
