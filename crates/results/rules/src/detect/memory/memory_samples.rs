//! CPU samples in the kernel's memory management: faults, compaction, processes that end.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples, own_shares};
use crate::detect::{Detector, samples, tenths};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, Severity};
use crate::subjects::Suspect;
use pgassay_evidence::profile::{Class, Summary, Work};

pub const DETECTORS: &[Detector] = &[
    samples("page-faults", page_faults),
    samples("transparent-huge-pages", huge_faults),
    samples("memory-compaction", compaction),
    samples("connections-opened", exits),
    samples("page-table-memory", page_tables),
];

/// The share of faults on memory in common from which on larger pages for it are worth a try.
const ENOUGH_FAULTS: f64 = 0.02;
/// The part of compaction within faults with huge pages from which on it is theirs.
const MOST: f64 = 0.5;

fn page_faults(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    // Giving back page tables is of the same class, and no fault.
    let exits = profile.within(Work::Exits).unwrap_or(0.0);
    let share = (profile.class(Class::PageFaults) - exits).max(0.0);
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let of_class = profile.functions.iter();
    let of_class = of_class.filter(|f| f.class == Class::PageFaults).take(3);
    let seen = Observation::of_samples(share, format!("Page faults take {}.", of_samples(share)))
        .of_functions(of_class.clone().map(|f| f.symbol.as_str()))
        .all_seen(of_class.map(|f| format!("{} in {}", tenths(f.own_share), f.symbol)))
        .confidence(Confidence::Medium);
    let budget = evidence.run.as_ref().and_then(RunEvidence::budget);
    // A process that starts meets each of its pages for the first time, however large they are.
    if budget.is_some_and(|budget| budget.by_samples) {
        return Some(
            seen.symptom_of("processes that start and end: parallel workers, or new sessions")
                .suspects(Suspect::ProcessStarts)
                .advice("see what starts them: sessions opened for each transaction, or workers for short statements"),
        );
    }
    let of = |work| profile.within(work).unwrap_or(0.0);
    let (private, shared) = (of(Work::PrivateFaults), of(Work::SharedFaults));
    if !profile.call_chains || shared > private && profile.shows(shared, ENOUGH_FAULTS) {
        return Some(seen);
    }
    // Larger pages for shared buffers reach none of it.
    let seen = seen.severity(Severity::Low).seen(format!(
        "{} at memory of the processes' own, {} at memory that they share",
        tenths(private),
        tenths(shared)
    ));
    Some(match private > shared {
        true => seen
            .suspects(Suspect::PrivateMemory)
            .symptom_of(
                "statements that allocate much memory: large sorts, hashes and stored rows, long texts that are built or copied",
            )
            .means(
                "Memory that a statement takes from the kernel is cleared first, page by page as it is touched, and goes \
                 back to the kernel when the statement frees it.",
            )
            .advice(
                "see what takes the memory, by the callers of these samples: fewer or smaller rows to sort, hash or store, \
                 fewer copies of a text",
            ),
        false => seen.advice("see by the callers of these samples which memory they are at"),
    })
}

/// The hottest functions of a class: `21.4 % in pageblock_pfn_to_page`.
fn hottest(profile: &Summary, class: Class) -> Vec<(&str, String)> {
    let of_class = profile.functions.iter().filter(|f| f.class == class);
    of_class
        .take(3)
        .map(|f| {
            let words = format!("{} in {}", tenths(f.own_share), f.symbol);
            (f.symbol.as_str(), words)
        })
        .collect()
}

/// Whether the chains show that compaction makes room for transparent huge pages.
fn is_for_huge_pages(profile: &Summary) -> bool {
    let huge = profile.within(Work::HugeFaults).unwrap_or(0.0);
    huge > 0.0 && huge >= MOST * profile.class(Class::Compaction)
}

/// Compaction that makes room for transparent huge pages. Clearing them is no loss: the same memory would be cleared
/// in smaller pages.
fn huge_faults(evidence: &Evidence) -> Option<Observation> {
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

fn compaction(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let share = profile.class(Class::Compaction);
    // Where the chains name what needs it, that has an entry of its own.
    if !profile.shows(share, NOTABLE) || is_for_huge_pages(profile) {
        return None;
    }
    let (functions, words): (Vec<_>, Vec<_>) =
        hottest(profile, Class::Compaction).into_iter().unzip();
    let saw = format!(
        "The kernel compacts memory while processes wait for pages in a row, mostly transparent huge pages: {}.",
        of_samples(share)
    );
    let seen = Observation::of_samples(share, saw)
        .of_functions(functions)
        .all_seen(words);
    Some(match profile.call_chains {
        true => seen.confidence(Confidence::Medium),
        false => seen
            .confidence(Confidence::Medium)
            .seen("the samples carry no callers that would name what the pages are for"),
    })
}

/// Processes that end. Of a run, statistics say more surely how many sessions ended.
fn exits(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    if evidence.run.is_some() {
        return None;
    }
    let share = profile.within(Work::Exits)?;
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!(
            "Processes of the server end, sessions or parallel workers: giving back the page tables of their shared memory takes {}.",
            of_samples(share)
        );
        let seen = Observation::of_samples(share, saw)
            .of_functions(["exit_mmap", "do_exit"])
            .seen(format!(
                "{} of the samples within exit_mmap, do_exit and what they call",
                tenths(share)
            ));
        seen.confidence(Confidence::Medium).advice(
            "keep sessions open (a pool), start fewer parallel workers, and map shared_buffers with huge pages: a \
             process that ends gives back each page that it has touched",
        )
    })
}

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
fn page_tables(evidence: &Evidence) -> Option<Observation> {
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
