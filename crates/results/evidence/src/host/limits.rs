//! A container's limits: the strictest of all levels of its control groups.

use super::Texts;

/// At or beyond this a memory limit means none: version 1 writes the largest
/// count of pages that fits, rounded to the page size (mm/page_counter.h).
const NO_LIMIT: u64 = 1 << 60;

/// The memory limit in bytes.
pub(super) fn memory(texts: Texts<'_>) -> Option<u64> {
    ["/memory.max", "/memory.high", "/memory.limit_in_bytes"]
        .iter()
        .flat_map(|file| texts.sources("/sys/fs/cgroup", file))
        .filter_map(|(_, text)| text.parse::<u64>().ok())
        .filter(|&limit| limit < NO_LIMIT)
        .min()
}

/// The quota of CPU time, in CPUs.
pub(super) fn cpu_quota(texts: Texts<'_>) -> Option<f64> {
    // Version 2: `QUOTA PERIOD`, the quota `max` where there is none.
    let unified = texts
        .sources("/sys/fs/cgroup", "/cpu.max")
        .filter_map(|(_, text)| {
            let (quota, period) = text.split_once(' ')?;
            ratio(quota, period)
        });
    // Version 1: two files, the quota -1 where there is none.
    let apart = texts
        .sources("/sys/fs/cgroup", "/cpu.cfs_quota_us")
        .filter_map(|(source, quota)| {
            let group = source.strip_suffix("cpu.cfs_quota_us")?;
            ratio(quota, texts.get(&format!("{group}cpu.cfs_period_us"))?)
        });
    unified.chain(apart).min_by(f64::total_cmp)
}

fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0 && (quota / period).is_finite()).then(|| quota / period)
}
