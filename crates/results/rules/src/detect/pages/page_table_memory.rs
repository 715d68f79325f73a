//! Memory spent on page tables.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples, own_shares};
use crate::detect::prelude::*;

/// Functions that copy, change or give back the entries of page tables.
const PAGE_TABLES: &[&str] = &[
    "change_protection",
    "change_pte_range",
    "copy_page_range",
    "copy_present_pte",
    "copy_present_ptes",
    "copy_pte_range",
    "free_pgd_range",
    "free_pgtables",
    "pgd_alloc",
    "pte_alloc_one",
    "smaps_pte_entry",
    "smaps_pte_range",
    "unmap_page_range",
    "zap_present_ptes",
    "zap_pte_range",
];

/// Work on page tables, where no callers say for whom: those of a process that ends have an entry of their own.
pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    if profile.call_chains {
        return None;
    }
    let (shares, words): (Vec<f64>, Vec<String>) = own_shares(profile, PAGE_TABLES).unzip();
    let share: f64 = shares.iter().sum();
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!(
            "The kernel copies, changes or gives back page tables: {}.",
            of_samples(share)
        );
        Observation::of_samples(share, saw)
            .of_functions(PAGE_TABLES.iter().copied())
            .all_seen(words)
            .seen("the samples carry no callers that would name the reason: processes that start or end, or memory that is freed")
            .confidence(Confidence::Low)
    })
}

pub fn audit(seen: &FactView) -> Judged {
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
