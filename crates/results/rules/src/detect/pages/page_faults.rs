//! CPU time spent on page faults.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples};
use crate::detect::prelude::*;
use crate::subjects::Suspect;
use pgassay_evidence::profile::{Class, Work};

/// The share of faults on memory in common from which on larger pages for it are worth a try.
const ENOUGH_FAULTS: f64 = 0.02;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
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
