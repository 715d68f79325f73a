//! Transparent huge pages for memory that did not ask for them.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples};
use crate::detect::memory::kernel_samples::{hottest, is_for_huge_pages};
use crate::detect::prelude::*;
use pgassay_evidence::profile::{Class, Work};

/// Compaction that makes room for transparent huge pages. Clearing them is no loss: the same memory would be cleared
/// in smaller pages.
pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let share = profile.class(Class::Compaction);
    if !profile.shows(share, NOTABLE) || !is_for_huge_pages(profile) {
        return None;
    }
    let saw = format!(
        "The kernel compacts memory while processes wait, to give them transparent huge pages: {}.",
        of_samples(share)
    );
    let within = profile.within(Work::HugeFaults).unwrap_or(0.0);
    let (functions, words): (Vec<_>, Vec<_>) =
        hottest(profile, Class::Compaction).into_iter().unzip();
    Some(
        Observation::of_samples(share, saw)
            .of_functions(functions)
            .all_seen(words)
            .seen(format!(
                "{} of the samples within do_huge_pmd_anonymous_page and its like",
                tenths(within)
            ))
            .severity(Severity::High),
    )
}

pub fn audit(seen: &FactView) -> Judged {
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
