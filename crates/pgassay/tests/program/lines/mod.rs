//! `pgassay lines`: counts held against code whose accesses are known, and servers that must not
//! notice more than a slow session.

use std::fs;

mod bounds;
mod comparison;
mod counts;
mod running_server;
mod stepping;

/// Whether a process has a tracer.
fn traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| {
        line.strip_prefix("TracerPid:")
            .is_some_and(|tracer| tracer.trim() != "0")
    })
}
