//! Shared memory concentrated on one NUMA node.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let nodes = seen.of_host("the number of NUMA nodes", |h| h.numa_nodes)?;
    if nodes < 2 {
        return not_applicable("the machine has one NUMA node");
    }
    let maps = seen.process("numa_maps of shared memory")?;
    let mut by_node: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for line in maps.lines() {
        let size = line
            .split_once("kernelpagesize_kB=")
            .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(4);
        for word in line.split_whitespace() {
            if let Some((node, pages)) = word.strip_prefix('N').and_then(|w| w.split_once('='))
                && let Ok(pages) = pages.parse::<u64>()
            {
                *by_node.entry(node).or_default() += pages.saturating_mul(size << 10);
            }
        }
    }
    let total: u64 = by_node.values().sum();
    if total < 1 << 30 {
        return not_applicable(format!(
            "{} of shared memory are touched: too little to judge",
            shown(total)
        ));
    }
    let Some((node, most)) = by_node.iter().max_by_key(|(_, bytes)| **bytes) else {
        return could_not_see("numa_maps names no node");
    };
    let share = *most as f64 / total as f64;
    let saw = format!(
        "{} of {} of shared memory lie on node {node} of {nodes}",
        percent(share),
        shown(total)
    );
    if share < 0.5 + 0.5 / f64::from(nodes) {
        return passed(saw);
    }
    Observation::new(Severity::Medium, Confidence::Medium, format!("{saw}."))
        .shell("numactl --interleave=all postgres -D …   # in a unit: ExecStart=/usr/bin/numactl --interleave=all …")
        .found()
}
