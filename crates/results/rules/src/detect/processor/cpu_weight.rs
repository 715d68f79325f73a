//! The server's control group has a low CPU weight.

use crate::detect::prelude::*;
use crate::detect::processor::process::BUSY;

/// Files of a control group that say what it weighs beside its neighbours, and what is usual (cgroup-v2.rst, `cpu.weight`; sched-design-CFS.rst,
/// `cpu.shares`).
const WEIGHTS: &[(&str, f64)] = &[("cpu.weight", 100.0), ("cpu.shares", 1024.0)];

/// The part of what is usual below which a group gives way. Kubernetes gives 39 of 100 for a request of one CPU, to
/// its neighbours likewise: a fifth is what half a CPU has.
const LIGHT: f64 = 0.2;

pub fn audit(seen: &FactView) -> Judged {
    let mut known = Vec::new();
    for (file, usual) in WEIGHTS {
        for (path, text) in seen.texts("/sys/fs/cgroup", &format!("/{file}"))? {
            let value: f64 = match text.parse() {
                Ok(value) => value,
                Err(_) => continue,
            };
            known.push((value / usual, path, value, *file, *usual));
        }
    }
    let Some((part, path, value, file, usual)) =
        known.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
    else {
        return could_not_see("the weight of the server's control group");
    };
    let saw = format!(
        "{file} of {} is {value:.0}",
        path.trim_end_matches(file).trim_end_matches('/')
    );
    if part >= LIGHT {
        return passed(saw);
    }
    let busy = seen.moment().is_ok_and(|moment| moment.busy >= BUSY);
    Observation::new(
        if busy {
            Severity::High
        } else {
            Severity::Medium
        },
        Confidence::High,
        format!("{saw}, where {usual:.0} is usual: on busy CPUs the server gets that much less than its neighbours."),
    )
    .shell(format!(
        "systemctl set-property UNIT CPUWeight=100   # in Kubernetes requests.cpu as large as what the server needs; docker update --cpu-shares 1024 ({file})"
    ))
    .advice("keep batch jobs off this machine, or give them less weight than the server")
    .found()
}
