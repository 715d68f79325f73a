//! Base pages, huge pages, and the page tables that small pages need.

use super::shown;
use crate::check::rule::{
    Aside, Family, Finding, Judged, Need, Rule, Severity, Sure, not_applicable, passed,
};
use crate::check::seen::Seen;

const MANUAL_HUGE: &str = "PostgreSQL manual, \"Managing Kernel Resources\": Linux Huge Pages";

/// 64 KiB base pages under 8 KiB blocks.
pub static BASE_PAGE: Rule = Rule {
    id: "base-page-size",
    title: "The kernel's base page is no larger than a database block",
    family: Family::Pages,
    needs: &[Need::Host, Need::Sql],
    why: "The page cache reads and keeps whole base pages. Where they are larger than a block, each cold random read of a block reads a page of the device, and the cache holds as many blocks fewer.",
    effect: "On 64 KiB pages a cold random 8 KiB read is eight times the bytes. Published: the same query in 1.0 s on 4 KiB pages, from the cache, and in 86.7 s on 64 KiB, at the volume's throughput limit.",
    remedy: "Boot a kernel with 4 KiB pages. Until then keep the hot data in shared_buffers, and count the device's throughput, not its IOPS.",
    sources: &[
        "F. Pachot, \"The default page size matters\", 2022",
        "distributions' page sizes: RHEL 8 and Oracle UEK R6 on arm64 64 KiB, their later kernels 4 KiB",
    ],
    judge: base_page,
};

fn base_page(seen: &Seen) -> Judged {
    let page = seen.of_host("the base page size", |h| h.page_size_bytes)?;
    // Without a server: the block size that nearly all have.
    let block = seen.bytes("block_size").unwrap_or(8192).max(1);
    if page <= block {
        return passed(format!("{} pages, {} blocks", shown(page), shown(block)));
    }
    if seen
        .value("debug_io_direct")
        .is_ok_and(|v| v.contains("data"))
    {
        return not_applicable("data is read by direct I/O, past the page cache");
    }
    let times = page / block;
    let severity = if times >= 8 {
        Severity::High
    } else {
        Severity::Medium
    };
    Finding::new(
        severity,
        Sure::Certain,
        format!(
            "The kernel's pages are {}, {times} times a block of {}: a cold random read of one block reads {times} blocks' worth.",
            shown(page),
            shown(block)
        ),
    )
    .advice("boot a kernel with 4 KiB pages (on RHEL 9 and later the default; Oracle Linux: UEK R7; elsewhere the kernel flavour without -64k or -16k)")
    .shell("pgassay run scattered-read   # what it costs you")
    .found()
}

/// Huge pages wanted, reserved, got.
pub static HUGE_PAGES: Rule = Rule {
    id: "huge-pages",
    title: "The server's shared memory is in huge pages",
    family: Family::Pages,
    needs: &[Need::Sql, Need::Host, Need::Process],
    why: "Each backend maps all of shared memory. In base pages that takes an entry for each page that it touched, in each backend, and the processor's translation caches cover little of it.",
    effect: "8 bytes of page table for each 4 KiB touched, in every backend: 100 GiB of shared_buffers take up to 200 MiB a backend. Gains in throughput are reported from none, where the data is small, to tens of percent, where shared_buffers and backends are many; measure yours with pgassay compare --set-a huge_pages=on --set-b huge_pages=off.",
    remedy: "Reserve the number of huge pages that the server asks for (vm.nr_hugepages), and set huge_pages = on, so that a start without them fails instead of going unnoticed.",
    sources: &[
        MANUAL_HUGE,
        "PostgreSQL commits 43c1c4f65e (shared_memory_size_in_huge_pages, 15) and a14354cac0 (huge_pages_status, 17)",
    ],
    judge: huge_pages,
};

/// Below this the mapping fits translation caches well enough.
const WORTH_HUGE: u64 = 512 << 20;

fn huge_pages(seen: &Seen) -> Judged {
    let wanted = seen.value("huge_pages")?;
    let buffers = seen.bytes("shared_buffers")?;
    if buffers < WORTH_HUGE {
        return not_applicable(format!(
            "shared_buffers is {}: too small for the pages' size to matter",
            shown(buffers)
        ));
    }
    if got_huge_pages(seen)? {
        return passed(format!(
            "{} of shared_buffers, in huge pages (huge_pages = {wanted})",
            shown(buffers)
        ));
    }
    // The state is certain in both; what it costs is, where there is much to map.
    let (severity, sure) = if buffers >= 8 << 30 {
        (Severity::High, Sure::Certain)
    } else {
        (Severity::Medium, Sure::Likely)
    };
    let reserved = seen.of_host("huge pages", |h| h.huge_pages_total);
    let page = seen
        .of_host("the huge page size", |h| h.huge_page_size_bytes)
        .unwrap_or(2 << 20)
        .max(1);
    let need = pages_needed(seen, buffers, page);
    let saw = match (wanted, &reserved) {
        ("off", _) => format!(
            "huge_pages = off: {} of shared_buffers lie in base pages.",
            shown(buffers)
        ),
        (_, Ok(0)) => format!(
            "huge_pages = {wanted}, but no huge page is reserved: {} of shared_buffers lie in base pages.",
            shown(buffers)
        ),
        (_, Ok(n)) => format!(
            "huge_pages = {wanted} and {n} huge pages of {} are reserved; {need} are needed, so {} of shared_buffers lie in base pages.",
            shown(page),
            shown(buffers)
        ),
        (_, Err(_)) => format!(
            "huge_pages = {wanted}, and the server did not get them: {} of shared_buffers lie in base pages.",
            shown(buffers)
        ),
    };
    let mut finding = Finding::new(severity, sure, saw)
        .shell(format!(
            "sysctl -w vm.nr_hugepages={need}   # of {}; keep it in /etc/sysctl.d/",
            shown(page)
        ))
        .sql("ALTER SYSTEM SET huge_pages = 'on';   -- then restart");
    if let Ok(container) = seen.of_host("a container", |h| h.container.clone()) {
        finding = finding.advice(format!(
            "in a container ({container}) the host reserves them, and the container needs a hugetlb limit that allows them"
        ));
    }
    finding.found()
}

/// Whether shared memory is in huge pages: the server's own word from 17 on, else
/// the kernel's on the server's process.
fn got_huge_pages(seen: &Seen) -> Result<bool, Aside> {
    match seen.value("huge_pages_status") {
        Ok("on") => return Ok(true),
        Ok("off") => return Ok(false),
        Ok(_) | Err(_) => {}
    }
    if seen.value("huge_pages")? == "off" {
        return Ok(false);
    }
    let smaps = seen.process("smaps of shared memory")?;
    Ok(smaps.lines().any(|line| {
        line.strip_prefix("KernelPageSize:")
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .is_some_and(|kilobytes| kilobytes >= 1024)
    }))
}

/// How many huge pages the server's shared memory takes.
fn pages_needed(seen: &Seen, buffers: u64, page: u64) -> u64 {
    if let Ok(pages) = seen.number("shared_memory_size_in_huge_pages")
        && pages > 0
    {
        return pages.unsigned_abs();
    }
    // Before 15: the mapping's size as the kernel has it, else shared_buffers and
    // some 5 % for what stands beside it.
    let mapped = seen
        .process("smaps of shared memory")
        .ok()
        .and_then(|smaps| {
            let kilobytes = smaps
                .lines()
                .filter_map(|line| line.strip_prefix("Size:")?.split_whitespace().next())
                .filter_map(|n| n.parse::<u64>().ok())
                .max()?;
            Some(kilobytes << 10)
        });
    mapped
        .unwrap_or(buffers.saturating_add(buffers / 20))
        .div_ceil(page)
}

/// Huge pages that nobody uses.
pub static HUGE_PAGES_IDLE: Rule = Rule {
    id: "huge-pages-idle",
    title: "No more huge pages are reserved than are used",
    family: Family::Pages,
    needs: &[Need::Host],
    why: "Memory reserved as huge pages serves nothing else: not the page cache, not sorts, not other processes.",
    effect: "All of what is reserved and not used.",
    remedy: "Reserve what the server asks for (SHOW shared_memory_size_in_huge_pages), and no more.",
    sources: &["Linux, Documentation/admin-guide/mm/hugetlbpage.rst"],
    judge: huge_pages_idle,
};

fn huge_pages_idle(seen: &Seen) -> Judged {
    let page = seen.of_host("the huge page size", |h| h.huge_page_size_bytes)?;
    let total = seen.of_host("the number of huge pages", |h| h.huge_pages_total)?;
    let free = seen.of_host("the number of free huge pages", |h| h.huge_pages_free)?;
    let memory = seen.of_host("the memory's size", |h| h.memory_bytes)?;
    if total == 0 {
        return not_applicable("no huge pages are reserved");
    }
    // Pages that a mapping has been promised and not touched yet are spoken for.
    let promised = seen.counter("/proc/meminfo", "HugePages_Rsvd").unwrap_or(0);
    let idle = free.saturating_sub(promised).saturating_mul(page);
    let saw = format!(
        "{total} huge pages of {} are reserved, {free} of them free, of which {promised} are promised.",
        shown(page)
    );
    if idle < memory / 20 {
        return passed(saw);
    }
    Finding::new(
        if idle > memory / 5 {
            Severity::Medium
        } else {
            Severity::Low
        },
        Sure::Certain,
        format!("{saw} {} of {} serve nobody.", shown(idle), shown(memory)),
    )
    .shell(format!(
        "sysctl -w vm.nr_hugepages={}   # or start the server that they are for",
        total - free.saturating_sub(promised).min(total)
    ))
    .found()
}

/// Memory that goes into page tables.
pub static PAGE_TABLES: Rule = Rule {
    id: "page-table-memory",
    title: "Page tables take little memory",
    family: Family::Pages,
    needs: &[Need::Process, Need::Host],
    why: "Every backend has page tables of its own for the same shared memory. Many backends over large shared_buffers in base pages fill memory with them.",
    effect: "8 bytes for each base page touched, in each backend: with 4 KiB pages 2 MiB for each GiB, so 1,000 backends over 64 GiB come to 125 GiB.",
    remedy: "Huge pages; fewer backends, by a pooler.",
    sources: &[
        MANUAL_HUGE,
        "Linux, Documentation/filesystems/proc.rst: VmPTE",
    ],
    judge: page_tables,
};

fn page_tables(seen: &Seen) -> Judged {
    let memory = seen.memory()?;
    let lines = seen.process("VmPTE of the processes")?;
    let sizes: Vec<u64> = lines
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1)?.parse().ok())
        .collect();
    let total = sizes.iter().sum::<u64>().saturating_mul(1024);
    let saw = format!(
        "The page tables of the server's {} processes take {}",
        sizes.len(),
        shown(total)
    );
    let share = total as f64 / memory.max(1) as f64;
    if total < 256 << 20 || share < 0.02 {
        return passed(format!("{saw}, {} of memory", super::percent(share)));
    }
    Finding::new(
        if share > 0.1 {
            Severity::High
        } else {
            Severity::Medium
        },
        Sure::Certain,
        format!(
            "{saw}: {} of the {} it may use.",
            super::percent(share),
            shown(memory)
        ),
    )
    .shell("pgassay check --explain huge-pages")
    .advice("put a pooler before it, so that fewer backends stand idle")
    .found()
}

/// Transparent huge pages without being asked for.
pub static TRANSPARENT: Rule = Rule {
    id: "transparent-huge-pages",
    title: "Transparent huge pages come only where a program asks",
    family: Family::Pages,
    needs: &[Need::Host],
    why: "With `always` the kernel gives huge pages to any private memory: a backend that touches a few bytes gets 2 MiB, and the kernel compacts memory to find them, in the background or, by `defrag`, while the backend waits. Shared memory is not concerned, so the gain is small.",
    effect: "Reported as stalls of seconds on machines with fragmented memory, as more memory in each backend, and as nothing at all on others; no general figure is known.",
    remedy: "Set it to madvise (or never), and give shared memory real huge pages.",
    sources: &[
        "Linux, Documentation/admin-guide/mm/transhuge.rst",
        "EDB knowledge base, \"Impact of Transparent Huge Pages (THP) on PostgreSQL\"",
    ],
    judge: transparent,
};

fn transparent(seen: &Seen) -> Judged {
    let enabled = seen.of_host("the state of transparent huge pages", |h| {
        h.transparent_huge_pages.clone()
    })?;
    if enabled != "always" {
        return passed(format!("transparent huge pages: {enabled}"));
    }
    let defrag = seen
        .text("/sys/kernel/mm/transparent_hugepage/defrag")
        .unwrap_or_default();
    let waits = defrag.contains("[always]");
    let stalls = seen.counter("/proc/vmstat", "compact_stall").unwrap_or(0);
    let (severity, sure) = match (waits, stalls > 1000) {
        (true, true) => (Severity::Medium, Sure::Likely),
        (true, false) | (false, true) => (Severity::Medium, Sure::Possible),
        (false, false) => (Severity::Low, Sure::Possible),
    };
    let mut saw = "Transparent huge pages are on for all memory (always)".to_owned();
    if waits {
        saw += ", and a backend waits for compaction (defrag: always)";
    }
    if stalls > 0 {
        saw += &format!("; since boot processes waited {stalls} times for compaction");
    }
    Finding::new(severity, sure, saw + ".")
        .shell("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled   # keep it by transparent_hugepage=madvise on the kernel's command line")
        .found()
}
