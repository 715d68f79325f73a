//! The kernel moves shared memory between NUMA nodes.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let nodes = seen.of_host("the number of NUMA nodes", |h| h.numa_nodes)?;
    if nodes < 2 {
        return not_applicable("the machine has one NUMA node");
    }
    let on = seen.text("/proc/sys/kernel/numa_balancing")?;
    let faults = seen
        .counter("/proc/vmstat", "numa_hint_faults")
        .unwrap_or(0);
    let saw = format!("numa_balancing = {on} on {nodes} nodes, {faults} hinting faults since boot");
    if on == "0" {
        return passed(saw);
    }
    Observation::new(
        medium_if(faults > 1_000_000),
        Confidence::Low,
        format!("{saw}."),
    )
    .shell("sysctl -w kernel.numa_balancing=0   # keep it in /etc/sysctl.d/")
    .found()
}
