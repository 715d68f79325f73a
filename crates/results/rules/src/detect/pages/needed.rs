//! Huge pages that shared memory takes.

use crate::detect::prelude::*;

/// How many huge pages the server's shared memory takes.
pub fn pages_needed(seen: &FactView, buffers: u64, page: u64) -> u64 {
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
