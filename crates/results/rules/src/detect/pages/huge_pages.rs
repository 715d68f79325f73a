//! Shared memory in base pages.

use crate::detect::pages::needed::pages_needed;
use crate::detect::prelude::*;

/// Below this the mapping fits translation caches well enough.
const WORTH_HUGE: u64 = 512 << 20;

pub fn audit(seen: &FactView) -> Judged {
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
