//! How the kernel schedules the server: switches by process, pressure, memory's traffic.
//!
//! Read at the borders of a window, where `sched` is observed. Only the lines that
//! are interpreted are kept: /proc/vmstat has 150 more, and a run reads it often.

use std::fmt::Write as _;
use std::fs;

use pgassay_analysis::record::Reading;
use pgassay_analysis::samples;

use super::{Sampler, Scene, children_of, file};

/// The samplers of this observer.
pub const SAMPLERS: &[Sampler] = &[
    Sampler {
        id: samples::SERVER_SWITCHES,
        unit: "switches",
        explanation: "context switches of each of the server's processes, by will and by force",
        read: switches,
    },
    Sampler {
        id: samples::HOST_PRESSURE_IO,
        unit: "microseconds",
        explanation: "how long tasks waited for I/O",
        read: |_| file("/proc/pressure/io"),
    },
    Sampler {
        id: samples::HOST_PRESSURE_MEMORY,
        unit: "microseconds",
        explanation: "how long tasks waited for memory",
        read: |_| file("/proc/pressure/memory"),
    },
    Sampler {
        id: samples::HOST_VMSTAT,
        unit: "pages and events",
        explanation: "page faults, reclaim, swap and write-back of the machine",
        read: vmstat,
    },
];

/// `PID voluntary nonvoluntary` for the postmaster and all its children.
fn switches(scene: &mut Scene) -> Reading {
    let postmaster = match &scene.postmaster {
        Ok(pid) => *pid,
        Err(why) => return Reading::Unavailable(why.clone()),
    };
    let children = match children_of(postmaster) {
        Ok(children) => children,
        Err(why) => return Reading::Unavailable(why),
    };
    let mut text = String::new();
    for pid in std::iter::once(postmaster).chain(children) {
        // A process that has just ended is no failure of the reading.
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        if let (Some(by_will), Some(by_force)) = (
            field("voluntary_ctxt_switches:"),
            field("nonvoluntary_ctxt_switches:"),
        ) {
            let _ = writeln!(text, "{pid} {by_will} {by_force}");
        }
    }
    if text.is_empty() {
        return Reading::Unavailable("no process of the server shows its switches".to_owned());
    }
    Reading::Text(text)
}

fn vmstat(_: &mut Scene) -> Reading {
    let wanted = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        samples::VMSTAT_NAMES.contains(&name)
    };
    match file("/proc/vmstat") {
        Reading::Text(text) => {
            let lines: Vec<&str> = text.lines().filter(wanted).collect();
            Reading::Text(lines.join("\n"))
        }
        unavailable => unavailable,
    }
}
