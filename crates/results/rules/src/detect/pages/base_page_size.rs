//! Base pages larger than a database block.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
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
