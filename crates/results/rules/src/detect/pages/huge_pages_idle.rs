//! Reserved huge pages that nobody uses.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
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
