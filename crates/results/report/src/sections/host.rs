//! The machine in full, as far as it could be seen.

use pgassay_analysis::Analysis;

use crate::document::{Block, Depth, Fact, Notes, Section};
use crate::number;

/// Every fact of the host; what was not seen is said once at the end.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let host = &analysis.host;
    let number = |n: Option<u32>| n.map(|n| number::count(u64::from(n)));
    let bytes = |n: Option<u64>| n.map(number::bytes);
    let huge_pages = match (host.huge_pages_total, host.huge_pages_free) {
        (Some(total), Some(free)) => Some(format!(
            "{} reserved, {} free",
            number::count(total),
            number::count(free)
        )),
        (total, _) => total.map(|n| format!("{} reserved", number::count(n))),
    };
    let features = (!host.cpu_features.is_empty()).then(|| host.cpu_features.join(" "));
    let seen: [(&str, Option<String>, &str); 19] = [
        ("architecture", host.architecture.clone(), ""),
        ("CPU", host.cpu_model.clone(), ""),
        ("CPUs usable", number(host.cpus), "logical"),
        ("cores", number(host.cores), "physical"),
        ("sockets", number(host.sockets), ""),
        ("NUMA nodes", number(host.numa_nodes), ""),
        ("CPU features", features, "for atomics, CRC and vector code"),
        (
            "last-level cache",
            bytes(host.last_level_cache_bytes),
            "each",
        ),
        (
            "last-level caches",
            bytes(host.last_level_cache_total_bytes),
            "together",
        ),
        ("memory", bytes(host.memory_bytes), ""),
        ("page size", bytes(host.page_size_bytes), "of the kernel"),
        (
            "huge page size",
            bytes(host.huge_page_size_bytes),
            "default",
        ),
        ("huge pages", huge_pages, ""),
        (
            "transparent huge pages",
            host.transparent_huge_pages.clone(),
            "",
        ),
        ("kernel", host.kernel.clone(), ""),
        ("distribution", host.distribution.clone(), ""),
        ("virtualisation", host.virtualisation.clone(), ""),
        ("clock source", host.clock_source.clone(), ""),
        ("frequency governor", host.cpu_governor.clone(), ""),
    ];
    let mut facts: Vec<Fact> = Vec::new();
    let mut unseen: Vec<&str> = Vec::new();
    for (name, value, remark) in seen {
        match value {
            Some(value) => facts.push(Fact::new(name, value).remark(remark)),
            None => unseen.push(name),
        }
    }
    // limits exist only in a container: their absence is no gap
    let limits = [
        ("container", host.container.clone()),
        ("memory limit", bytes(host.memory_limit_bytes)),
        (
            "CPU quota",
            host.cpu_quota.map(|n| format!("{} CPUs", number::short(n))),
        ),
    ];
    for (name, value) in limits {
        facts.extend(value.map(|value| Fact::new(name, value)));
    }
    let mut blocks = Vec::new();
    if !facts.is_empty() {
        blocks.push(Block::Facts(facts));
    }
    if !unseen.is_empty() {
        blocks.push(Block::Text(format!(
            "Not seen on this machine: {}.",
            unseen.join(", ")
        )));
    }
    Some(Section {
        id: "machine",
        title: "The machine",
        depth: Depth::Evidence,
        blocks,
    })
}
