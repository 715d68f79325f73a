//! Base pages, huge pages, and the page tables that small pages need.

use crate::detect::{Detector, facts, high_if, medium_if, percent, shown};
use crate::fact_view::FactView;
use crate::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, could_not_see, not_applicable, passed,
};

pub const DETECTORS: &[Detector] = &[
    facts("base-page-size", base_page),
    facts("huge-pages", huge_pages),
    facts("huge-pages-limited", huge_pages_limited),
    facts("huge-pages-idle", huge_pages_idle),
    facts("page-table-memory", page_tables),
    facts("transparent-huge-pages", transparent),
];

fn base_page(seen: &FactView) -> Judged {
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
    let severity = high_if(times >= 8);
    Observation::new(
        severity,
        Confidence::High,
        format!(
            "The kernel's pages are {}, {times} times a block of {}: a cold random read of one block reads {times} blocks' worth.",
            shown(page),
            shown(block)
        ),
    )
    .advice("boot a kernel with 4 KiB pages (on RHEL 9 and later the default; Oracle Linux: UEK R7; elsewhere the kernel flavour without -64k or -16k)")
    .shell("pgassay run scattered-read   # measures what it costs")
    .found()
}

/// Below this the mapping fits translation caches well enough.
const WORTH_HUGE: u64 = 512 << 20;

fn huge_pages(seen: &FactView) -> Judged {
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
        (Severity::High, Confidence::High)
    } else {
        (Severity::Medium, Confidence::Medium)
    };
    let reserved = seen.of_host("huge pages", |h| h.huge_pages_total);
    let page = seen
        .of_host("the huge page size", |h| h.huge_page_size_bytes)
        .unwrap_or(2 << 20)
        .max(1);
    let need = pages_needed(seen, buffers, page);
    let saw = match (wanted, &reserved) {
        ("off", _) => format!(
            "huge_pages = off: {} of shared_buffers are in base pages.",
            shown(buffers)
        ),
        (_, Ok(0)) => format!(
            "huge_pages = {wanted}, but no huge page is reserved: {} of shared_buffers are in base pages.",
            shown(buffers)
        ),
        (_, Ok(n)) => format!(
            "huge_pages = {wanted} and {n} huge pages of {} are reserved; {need} are needed, so {} of shared_buffers are in base pages.",
            shown(page),
            shown(buffers)
        ),
        (_, Err(_)) => format!(
            "huge_pages = {wanted}, and the server did not get them: {} of shared_buffers are in base pages.",
            shown(buffers)
        ),
    };
    // Those that are in use are others': this server has none.
    let free = seen
        .of_host("the number of free huge pages", |h| h.huge_pages_free)
        .unwrap_or(0);
    let used = reserved.as_ref().map_or(0, |n| n.saturating_sub(free));
    let mut finding = Observation::new(severity, sure, saw)
        .shell(format!(
            "sysctl -w vm.nr_hugepages={}   # of {}; keep it in /etc/sysctl.d/",
            need + used,
            shown(page)
        ))
        .shell(format!(
            "grep HugePages_Free /proc/meminfo   # at least {need}; with fewer the memory is in use or in fragments"
        ))
        .sql(
            "ALTER SYSTEM SET huge_pages = 'try';   -- then restart; huge_pages_status shows from 17 on whether it has them. 'on' only \
             after that: with it the server does not start without them",
        );
    if let Ok(container) = seen.of_host("a container", |h| h.container.clone()) {
        finding = finding.advice(format!(
            "in a container ({container}) the host reserves them, and the container needs a hugetlb limit that permits them"
        ));
    }
    finding.found()
}

/// Whether shared memory is in huge pages: the server's own word from 17 on, else
/// the kernel's on the server's process.
fn got_huge_pages(seen: &FactView) -> Result<bool, NotJudged> {
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
fn pages_needed(seen: &FactView, buffers: u64, page: u64) -> u64 {
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

fn huge_pages_limited(seen: &FactView) -> Judged {
    let wanted = seen.value("huge_pages")?;
    if wanted == "off" {
        return not_applicable("huge_pages = off");
    }
    let total = seen.of_host("the number of huge pages", |h| h.huge_pages_total)?;
    if total == 0 {
        return not_applicable("no huge pages are reserved on this machine");
    }
    let page = seen
        .of_host("the huge page size", |h| h.huge_page_size_bytes)?
        .max(1);
    let Some(limits) = hugetlb_limits(seen, page)? else {
        return could_not_see("no control group with limits of huge pages is seen");
    };
    let need = pages_needed(seen, seen.bytes("shared_buffers")?, page).saturating_mul(page);
    let strictest = limits.touched.min(limits.reserved);
    let saw = match strictest {
        u64::MAX => "the control group may use all huge pages".to_owned(),
        limit => format!(
            "the control group may use {} of huge pages, and the server's shared memory takes {}",
            shown(limit),
            shown(need)
        ),
    };
    if strictest >= need {
        return passed(saw);
    }
    let (severity, happens) = if limits.reserved <= limits.touched {
        (
            Severity::Medium,
            "the server does not get them, and with huge_pages = on does not start",
        )
    } else {
        (
            Severity::High,
            "reserving more succeeds, and touching it is a bus error",
        )
    };
    Observation::new(
        severity,
        Confidence::High,
        format!("Of {total} huge pages on this machine {saw}: {happens} (huge_pages = {wanted})."),
    )
    .advice(format!(
        "give the container {} of huge pages (Kubernetes: resources.limits hugepages-{}Mi)",
        shown(need),
        page >> 20
    ))
    .sql("ALTER SYSTEM SET huge_pages = 'off';   -- then restart, if it is not to have them")
    .found()
}

/// What a control group allows of huge pages of one size, in bytes.
struct HugeLimits {
    /// To touch: beyond it there is a bus error.
    touched: u64,
    /// To map: beyond it the mapping is refused.
    reserved: u64,
}

/// The strictest limits on the way up; none if no group has the controller.
fn hugetlb_limits(seen: &FactView, page: u64) -> Result<Option<HugeLimits>, NotJudged> {
    // The kernel names the size by its largest unit: hugetlb.2MB.max, hugetlb.1GB.max.
    let size = match page {
        page if page >= 1 << 30 => format!("{}GB", page >> 30),
        page if page >= 1 << 20 => format!("{}MB", page >> 20),
        page => format!("{}KB", page >> 10),
    };
    let strictest = |files: [&str; 2]| -> Result<Option<u64>, NotJudged> {
        let mut strictest = None;
        for file in files {
            let end = format!("/hugetlb.{size}.{file}");
            for (_, text) in seen.texts("/sys/fs/cgroup", &end)? {
                let limit = text.parse().unwrap_or(u64::MAX);
                strictest = Some(strictest.map_or(limit, |least: u64| least.min(limit)));
            }
        }
        Ok(strictest)
    };
    let touched = strictest(["max", "limit_in_bytes"])?;
    let reserved = strictest(["rsvd.max", "rsvd.limit_in_bytes"])?;
    Ok(touched.or(reserved).map(|_| HugeLimits {
        touched: touched.unwrap_or(u64::MAX),
        reserved: reserved.unwrap_or(u64::MAX),
    }))
}

fn huge_pages_idle(seen: &FactView) -> Judged {
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
    Observation::new(
        medium_if(idle > memory / 5),
        Confidence::High,
        format!("{saw} {} of {} are unused.", shown(idle), shown(memory)),
    )
    .shell(format!(
        "sysctl -w vm.nr_hugepages={}   # or start the server that they are for",
        total - free.saturating_sub(promised).min(total)
    ))
    .found()
}

fn page_tables(seen: &FactView) -> Judged {
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
        return passed(format!("{saw}, {} of memory", percent(share)));
    }
    Observation::new(
        high_if(share > 0.1),
        Confidence::High,
        format!(
            "{saw}: {} of the {} it may use.",
            percent(share),
            shown(memory)
        ),
    )
    .shell("pgassay check --explain huge-pages")
    .advice("use a connection pooler, so that fewer backends are idle")
    .found()
}

fn transparent(seen: &FactView) -> Judged {
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
        (true, true) => (Severity::Medium, Confidence::Medium),
        (true, false) | (false, true) => (Severity::Medium, Confidence::Low),
        (false, false) => (Severity::Low, Confidence::Low),
    };
    let mut saw = "Transparent huge pages are on for all memory (always)".to_owned();
    if waits {
        saw += ", and a backend waits for compaction (defrag: always)";
    }
    if stalls > 0 {
        saw += &format!("; since boot processes waited {stalls} times for compaction");
    }
    Observation::new(severity, sure, saw + ".")
        .shell("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled   # keep it by transparent_hugepage=madvise on the kernel's command line")
        .found()
}
