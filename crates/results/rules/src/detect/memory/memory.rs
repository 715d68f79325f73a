//! Amounts of memory, NUMA, swap, and when dirty pages are written.

use crate::detect::{Detector, facts, high_if, medium_if, percent, shown};
use crate::fact_view::{FactView, number};
use crate::finding::{
    Confidence, Judged, Observation, Severity, could_not_see, not_applicable, passed,
};

pub const DETECTORS: &[Detector] = &[
    facts("shared-buffers-small", buffers_small),
    facts("shared-buffers-large", buffers_large),
    facts("memory-promised", work_mem),
    facts("effective-cache-size", cache_size),
    facts("swap", swap),
    facts("numa-balancing", numa_balancing),
    facts("numa-placement", numa_placement),
    facts("dirty-writeback", dirty),
];

/// shared_buffers so far below the default of 128 MB (initdb's since 9.3, where the kernel
/// allows it) that somebody set them for another age.
const TINY: u64 = 32 << 20;

fn buffers_small(seen: &FactView) -> Judged {
    let buffers = seen.bytes("shared_buffers")?;
    let row = seen.row("databases")?;
    let (Some(hits), Some(reads)) = (number(&row, "blks_hit"), number(&row, "blks_read")) else {
        return could_not_see("the server's counters of block reads are empty");
    };
    let misses = reads / (hits + reads).max(1.0);
    let memory = seen.memory();
    let size = seen.row("size").ok().and_then(|row| number(&row, "bytes"));
    let saw = format!(
        "shared_buffers is {}{}; {} of {:.0} block accesses were misses",
        shown(buffers),
        memory
            .as_ref()
            .map_or(String::new(), |m| format!(" of {} of memory", shown(*m))),
        percent(misses),
        hits + reads
    );
    // The data that it must hold decides: a small database fits small buffers.
    if let Some(size) = size
        && size <= buffers as f64
    {
        return passed(format!(
            "{saw}; all databases together have {}",
            shown(size as u64)
        ));
    }
    let share = memory.as_ref().map(|m| buffers as f64 / (*m).max(1) as f64);
    let room = share
        .as_ref()
        .map_or(buffers <= 256 << 20, |share| *share < 0.15);
    if !room {
        return passed(saw);
    }
    if hits + reads < 100_000.0 {
        if buffers > TINY {
            return could_not_see(format!("{saw}: too few to judge by"));
        }
        let found = Observation::new(
            Severity::Medium,
            Confidence::Low,
            format!("{saw}: too few to judge by, but the default is 128 MB."),
        );
        return quarter_of_memory(seen, found).found();
    }
    if misses < 0.01 {
        return passed(saw);
    }
    let found = Observation::new(
        medium_if(misses > 0.05),
        Confidence::Medium,
        format!(
            "{saw}{}.",
            size.map_or(String::new(), |s| format!(
                "; all databases together have {}",
                shown(s as u64)
            ))
        ),
    );
    quarter_of_memory(seen, found)
        .shell(
            "pgassay compare TARGET TARGET --set-a shared_buffers=OLD --set-b shared_buffers=NEW",
        )
        .found()
}

/// The recommended shared_buffers: a quarter of the memory that the server may use; no size where that is not known.
fn quarter_of_memory(seen: &FactView, found: Observation) -> Observation {
    let Ok(memory) = seen.memory() else {
        return found.advice(
            "set shared_buffers to a quarter of the server's memory, which is not seen from here; then restart",
        );
    };
    let found = match seen.value("huge_pages") {
        Ok("on") => found.advice(
            "huge_pages = on: first reserve huge pages for the larger shared memory (postgres -C \
             shared_memory_size_in_huge_pages, from 15 on), without which the server does not start",
        ),
        _ => found,
    };
    found.sql(format!(
        "ALTER SYSTEM SET shared_buffers = '{}MB';   -- then restart",
        (memory / 4) >> 20
    ))
}

fn buffers_large(seen: &FactView) -> Judged {
    let buffers = seen.bytes("shared_buffers")?;
    let memory = seen.memory()?;
    let share = buffers as f64 / memory.max(1) as f64;
    let limit = seen
        .of_host("a limit", |h| h.memory_limit_bytes)
        .is_ok_and(|limit| limit == memory);
    let saw = format!(
        "shared_buffers is {}, {} of the {} that {}",
        shown(buffers),
        percent(share),
        shown(memory),
        if limit {
            "its control group may use"
        } else {
            "the machine has"
        }
    );
    if share <= 0.5 {
        return passed(saw);
    }
    let found = Observation::new(
        high_if(share > 0.75),
        if share > 0.75 {
            Confidence::Medium
        } else {
            Confidence::Low
        },
        format!("{saw}."),
    );
    quarter_of_memory(seen, found).found()
}

fn work_mem(seen: &FactView) -> Judged {
    let buffers = seen.bytes("shared_buffers")?;
    let each = seen.bytes("work_mem")?;
    let connections = seen.number("max_connections")?.max(0).unsigned_abs();
    let memory = seen.memory()?;
    let promised = buffers.saturating_add(each.saturating_mul(connections));
    let saw = format!(
        "shared_buffers {} and {connections} times work_mem {} come to {}; the server may use {}",
        shown(buffers),
        shown(each),
        shown(promised),
        shown(memory)
    );
    if promised as f64 <= memory as f64 * 1.5 {
        return passed(saw);
    }
    Observation::new(
        medium_if(promised > memory.saturating_mul(4)),
        Confidence::Low,
        format!("{saw}."),
    )
    .advice("lower max_connections, with a connection pooler, or work_mem; raise work_mem only for roles that need it: ALTER ROLE … SET work_mem")
    .found()
}

fn cache_size(seen: &FactView) -> Judged {
    let cache = seen.bytes("effective_cache_size")?;
    let buffers = seen.bytes("shared_buffers")?;
    let memory = seen.memory()?;
    let saw = format!(
        "effective_cache_size is {}, shared_buffers {}, memory {}",
        shown(cache),
        shown(buffers),
        shown(memory)
    );
    let finding = |saw: String| {
        Observation::new(Severity::Low, Confidence::Low, saw)
            .sql(format!(
                "ALTER SYSTEM SET effective_cache_size = '{}MB'; SELECT pg_reload_conf();",
                (memory / 3 * 2) >> 20
            ))
            .found()
    };
    if cache > memory {
        finding(format!("{saw}: more memory than there is."))
    } else if cache < buffers || (cache as f64) < memory as f64 * 0.1 {
        finding(format!("{saw}: the planner assumes a small cache."))
    } else {
        passed(saw)
    }
}

fn swap(seen: &FactView) -> Judged {
    let total = seen.counter("/proc/meminfo", "SwapTotal")?;
    if total == 0 {
        return passed("there is no swap");
    }
    let used = total.saturating_sub(seen.counter("/proc/meminfo", "SwapFree")?) << 10;
    let swappiness = seen.text("/proc/sys/vm/swappiness").unwrap_or("60");
    let of_server = seen.process("VmSwap of the processes").map(|text| {
        let kilobytes = text
            .lines()
            .filter_map(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
        kilobytes.sum::<u64>() << 10
    });
    let saw = match &of_server {
        Ok(bytes) => format!(
            "{} of the server are swapped out, {} in all; swappiness {swappiness}",
            shown(*bytes),
            shown(used)
        ),
        Err(_) => format!(
            "{} are swapped out in all; swappiness {swappiness}",
            shown(used)
        ),
    };
    let of_server = of_server.unwrap_or(used / 2);
    if of_server < 64 << 20 {
        return passed(saw);
    }
    Observation::new(
        high_if(of_server > 1 << 30),
        Confidence::Medium,
        format!("{saw}."),
    )
    .shell("sysctl -w vm.swappiness=1")
    .shell("pgassay check --explain memory-promised")
    .found()
}

fn numa_balancing(seen: &FactView) -> Judged {
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

fn numa_placement(seen: &FactView) -> Judged {
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

fn dirty(seen: &FactView) -> Judged {
    let memory = seen.of_host("the memory's size", |h| h.memory_bytes)?;
    let bytes: u64 = seen
        .text("/proc/sys/vm/dirty_background_bytes")?
        .parse()
        .unwrap_or(0);
    let ratio: u64 = seen
        .text("/proc/sys/vm/dirty_background_ratio")?
        .parse()
        .unwrap_or(10);
    let threshold = if bytes > 0 {
        bytes
    } else {
        (memory / 100).saturating_mul(ratio)
    };
    let flushed = seen.bytes("checkpoint_flush_after").unwrap_or(0) > 0;
    let saw = format!(
        "writing starts at {} of dirty pages ({})",
        shown(threshold),
        if bytes > 0 {
            "dirty_background_bytes".to_owned()
        } else {
            format!("dirty_background_ratio = {ratio}")
        }
    );
    if threshold <= 4 << 30 {
        return passed(saw);
    }
    Observation::new(
        if flushed { Severity::Info } else { Severity::Low },
        Confidence::Low,
        format!("With {} of memory {saw}.", shown(memory)),
    )
    .shell("sysctl -w vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824   # 256 MiB and 1 GiB")
    .found()
}
