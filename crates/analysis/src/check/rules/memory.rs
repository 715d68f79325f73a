//! Amounts of memory, NUMA, swap, and when dirty pages are written.

use super::{percent, shown};
use crate::check::rule::{
    Family, Finding, Judged, Need, Rule, Severity, Sure, could_not_see, not_applicable, passed,
};
use crate::check::seen::{Seen, number};

const MANUAL_MEMORY: &str = "PostgreSQL manual, \"Resource Consumption\": shared_buffers (25 % of memory to start with; more than 40 % is unlikely to work better)";
const VM: &str = "Linux, Documentation/admin-guide/sysctl/vm.rst";

/// shared_buffers so far below the default of 128 MB (initdb's since 9.3, where the kernel
/// allows it) that somebody set them for another age.
const TINY: u64 = 32 << 20;

/// shared_buffers too small for the working set.
pub static BUFFERS_SMALL: Rule = Rule {
    id: "shared-buffers-small",
    title: "shared_buffers holds the working set, as far as memory allows",
    family: Family::Memory,
    needs: &[Need::Sql, Need::Host],
    why: "A block that is not in shared_buffers is copied from the page cache or read from the device, and another is evicted for it: buffer mapping locks, a system call and a copy of 8 KiB instead of a pin.",
    effect: "A hit costs some 0.1 to 0.3 µs of CPU, a copy out of the page cache 2 to 20 µs, a read of the device 100 µs and more.",
    remedy: "A quarter of memory to start with, then by measurement: pgassay compare --set-a shared_buffers=… --set-b shared_buffers=….",
    sources: &[MANUAL_MEMORY],
    judge: buffers_small,
};

fn buffers_small(seen: &Seen) -> Judged {
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
    let wanted = memory.as_ref().map_or(1 << 30, |m| m / 4) >> 20;
    if hits + reads < 100_000.0 {
        if buffers > TINY {
            return could_not_see(format!("{saw}: too few to judge by"));
        }
        return Finding::new(
            Severity::Medium,
            Sure::Possible,
            format!("{saw}: too few to judge by, but a server comes with 128 MB."),
        )
        .sql(format!(
            "ALTER SYSTEM SET shared_buffers = '{wanted}MB';   -- then restart"
        ))
        .found();
    }
    if misses < 0.01 {
        return passed(saw);
    }
    Finding::new(
        if misses > 0.05 {
            Severity::Medium
        } else {
            Severity::Low
        },
        Sure::Likely,
        format!(
            "{saw}{}.",
            size.map_or(String::new(), |s| format!(
                "; all databases together have {}",
                shown(s as u64)
            ))
        ),
    )
    .sql(format!(
        "ALTER SYSTEM SET shared_buffers = '{wanted}MB';   -- then restart"
    ))
    .shell("pgassay compare TARGET TARGET --set-a shared_buffers=OLD --set-b shared_buffers=NEW")
    .found()
}

/// shared_buffers that leave nothing to the rest.
pub static BUFFERS_LARGE: Rule = Rule {
    id: "shared-buffers-large",
    title: "shared_buffers leaves memory to the page cache and the backends",
    family: Family::Memory,
    needs: &[Need::Sql, Need::Host],
    why: "PostgreSQL reads through the page cache: what is in both is there twice, and sorts, hashes and page tables need memory, too. In a control group the limit counts, not the machine's memory.",
    effect: "At the end stands the OOM killer, or swapping.",
    remedy: "At most 40 % of what the server may use, unless a measurement says otherwise.",
    sources: &[MANUAL_MEMORY],
    judge: buffers_large,
};

fn buffers_large(seen: &Seen) -> Judged {
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
    Finding::new(
        if share > 0.75 {
            Severity::High
        } else {
            Severity::Medium
        },
        if share > 0.75 {
            Sure::Likely
        } else {
            Sure::Possible
        },
        format!("{saw}."),
    )
    .sql(format!(
        "ALTER SYSTEM SET shared_buffers = '{}MB';   -- then restart",
        (memory / 4) >> 20
    ))
    .found()
}

/// What work_mem may come to.
pub static WORK_MEM: Rule = Rule {
    id: "memory-promised",
    title: "work_mem times the connections fits memory",
    family: Family::Memory,
    needs: &[Need::Sql, Need::Host],
    why: "Each sort and hash of each statement may take work_mem (hashes hash_mem_multiplier times that), in each backend and parallel worker.",
    effect: "None until they all do; then swapping or the OOM killer.",
    remedy: "Lower max_connections or work_mem; set work_mem higher only for the role or transaction that needs it.",
    sources: &["PostgreSQL manual, \"Resource Consumption\": work_mem"],
    judge: work_mem,
};

fn work_mem(seen: &Seen) -> Judged {
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
    Finding::new(
        if promised > memory.saturating_mul(4) { Severity::Medium } else { Severity::Low },
        Sure::Possible,
        format!("{saw}."),
    )
    .advice("lower max_connections, with a pooler before the server, or work_mem; raise work_mem where one role needs it: ALTER ROLE … SET work_mem")
    .found()
}

/// What the planner believes is cached.
pub static CACHE_SIZE: Rule = Rule {
    id: "effective-cache-size",
    title: "effective_cache_size is what can be cached",
    family: Family::Memory,
    needs: &[Need::Sql, Need::Host],
    why: "The planner takes it for the chance that an index's random reads are cached. Too small it avoids indexes, too large it reads at random what is not there.",
    effect: "Through the plan: none, or a factor of hundreds. On 64 KiB pages the page cache holds up to eight times fewer blocks than its size says.",
    remedy: "shared_buffers and what is left for the page cache: half to three quarters of memory.",
    sources: &[
        "PostgreSQL manual, \"Query Planning\": effective_cache_size",
        "F. Pachot, \"The default page size matters\", 2022",
    ],
    judge: cache_size,
};

fn cache_size(seen: &Seen) -> Judged {
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
        Finding::new(Severity::Low, Sure::Possible, saw)
            .sql(format!(
                "ALTER SYSTEM SET effective_cache_size = '{}MB'; SELECT pg_reload_conf();",
                (memory / 3 * 2) >> 20
            ))
            .found()
    };
    if cache > memory {
        finding(format!("{saw}: more than there is."))
    } else if cache < buffers || (cache as f64) < memory as f64 * 0.1 {
        finding(format!("{saw}: the planner believes in a small cache."))
    } else {
        passed(saw)
    }
}

/// Swapping.
pub static SWAP: Rule = Rule {
    id: "swap",
    title: "The server is not swapped out",
    family: Family::Memory,
    needs: &[Need::Process, Need::Host],
    why: "A backend that touches a swapped page waits for the device, whatever it holds at that moment: a spinlock, an LWLock, a buffer pin.",
    effect: "Milliseconds where there were nanoseconds.",
    remedy: "Less memory promised; vm.swappiness 1 to 10 on a database server; huge pages are never swapped.",
    sources: &[VM, "proc(5): VmSwap"],
    judge: swap,
};

fn swap(seen: &Seen) -> Judged {
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
    Finding::new(
        if of_server > 1 << 30 {
            Severity::High
        } else {
            Severity::Medium
        },
        Sure::Likely,
        format!("{saw}."),
    )
    .shell("sysctl -w vm.swappiness=1")
    .shell("pgassay check --explain memory-promised")
    .found()
}

/// The kernel moves pages between nodes.
pub static NUMA_BALANCING: Rule = Rule {
    id: "numa-balancing",
    title: "The kernel does not move shared memory between NUMA nodes",
    family: Family::Memory,
    needs: &[Need::Host],
    why: "Automatic balancing unmaps pages to see who touches them and moves them there. shared_buffers is touched from all nodes: the faults cost and the moves help nobody.",
    effect: "No figure of its own is known for PostgreSQL; the kernel's documents name the faults as its cost.",
    remedy: "Off for a machine that serves one database.",
    sources: &["Linux, Documentation/admin-guide/sysctl/kernel.rst: numa_balancing"],
    judge: numa_balancing,
};

fn numa_balancing(seen: &Seen) -> Judged {
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
    Finding::new(
        if faults > 1_000_000 {
            Severity::Medium
        } else {
            Severity::Low
        },
        Sure::Possible,
        format!("{saw}."),
    )
    .shell("sysctl -w kernel.numa_balancing=0   # keep it in /etc/sysctl.d/")
    .found()
}

/// All of shared memory on one node.
pub static NUMA_PLACEMENT: Rule = Rule {
    id: "numa-placement",
    title: "Shared memory lies on all NUMA nodes",
    family: Family::Memory,
    needs: &[Need::Process, Need::Host],
    why: "A page lies where it was first touched. Shared memory that one process filled (a restore, pg_prewarm) lies on its node: all others fetch from there, through one memory controller.",
    effect: "Remote memory takes 1.5 to 3 times as long, and one node's bandwidth is shared by all.",
    remedy: "Start the server under numactl --interleave=all.",
    sources: &["Linux, Documentation/admin-guide/mm/numa_memory_policy.rst; proc(5): numa_maps"],
    judge: numa_placement,
};

fn numa_placement(seen: &Seen) -> Judged {
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
            "{} of shared memory are touched: too little to tell",
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
    Finding::new(Severity::Medium, Sure::Likely, format!("{saw}."))
        .shell("numactl --interleave=all postgres -D …   # in a unit: ExecStart=/usr/bin/numactl --interleave=all …")
        .found()
}

/// A node that reclaims its own cache first.
pub static ZONE_RECLAIM: Rule = Rule {
    id: "zone-reclaim",
    title: "A NUMA node that is full takes memory from others",
    family: Family::Memory,
    needs: &[Need::Host],
    why: "With vm.zone_reclaim_mode a node throws out its own page cache before it takes memory of another: half of memory may stand empty while the cache is thrown out.",
    effect: "Stalls of allocation and a page cache of one node's size.",
    remedy: "0, the default of all current kernels.",
    sources: &[VM],
    judge: zone_reclaim,
};

fn zone_reclaim(seen: &Seen) -> Judged {
    let nodes = seen.of_host("the number of NUMA nodes", |h| h.numa_nodes)?;
    if nodes < 2 {
        return not_applicable("the machine has one NUMA node");
    }
    let mode = seen.text("/proc/sys/vm/zone_reclaim_mode")?;
    if mode == "0" {
        return passed("vm.zone_reclaim_mode = 0");
    }
    Finding::new(
        Severity::Medium,
        Sure::Certain,
        format!("vm.zone_reclaim_mode = {mode} on {nodes} nodes."),
    )
    .shell("sysctl -w vm.zone_reclaim_mode=0")
    .found()
}

/// How much dirty memory may gather before it is written.
pub static DIRTY: Rule = Rule {
    id: "dirty-writeback",
    title: "The kernel writes dirty pages before there are gigabytes of them",
    family: Family::Memory,
    needs: &[Need::Host],
    why: "The kernel starts to write at dirty_background_ratio of memory, 10 % as delivered. On a large machine gigabytes gather, and a checkpoint's fsync waits for all of them at once.",
    effect: "Stalls of seconds at the end of checkpoints, as long as the device takes for what has gathered.",
    remedy: "vm.dirty_background_bytes near what the device writes in a second; PostgreSQL's own checkpoint_flush_after helps only what it writes itself.",
    sources: &[
        VM,
        "PostgreSQL manual, \"Write Ahead Log\": checkpoint_flush_after",
    ],
    judge: dirty,
};

fn dirty(seen: &Seen) -> Judged {
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
    Finding::new(
        if flushed { Severity::Info } else { Severity::Low },
        Sure::Possible,
        format!("With {} of memory {saw}.", shown(memory)),
    )
    .shell("sysctl -w vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824   # 256 MiB and 1 GiB")
    .found()
}

/// The kernel promises memory that it does not have.
pub static OVERCOMMIT: Rule = Rule {
    id: "overcommit",
    title: "Memory that the kernel promises is there",
    family: Family::Memory,
    needs: &[Need::Host],
    why: "With overcommit the kernel grants every allocation and, when memory runs out, kills a process. If it is a backend, all sessions end and the server recovers.",
    effect: "A restart with recovery, at the worst moment.",
    remedy: "vm.overcommit_memory = 2 on a machine that serves the database alone, with overcommit_ratio fit for swap and huge pages.",
    sources: &["PostgreSQL manual, \"Managing Kernel Resources\": Linux Memory Overcommit"],
    judge: overcommit,
};

fn overcommit(seen: &Seen) -> Judged {
    if let Ok(container) = seen.of_host("a container", |h| h.container.clone()) {
        return not_applicable(format!("in a container ({container}) the host decides"));
    }
    let mode = seen.text("/proc/sys/vm/overcommit_memory")?;
    if mode == "2" {
        return passed("vm.overcommit_memory = 2");
    }
    // Mode 0 refuses what is obviously too much; it is the default nearly everywhere.
    if mode == "0" {
        return passed("vm.overcommit_memory = 0, the kernel's default; 2 is stricter");
    }
    Finding::new(
        Severity::Low,
        Sure::Certain,
        format!("vm.overcommit_memory = {mode}: every allocation is granted."),
    )
    .shell("sysctl -w vm.overcommit_memory=2   # and vm.overcommit_ratio, by the manual's section")
    .found()
}
