//! The kernel compacts memory while the server waits.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples};
use crate::detect::memory::kernel_samples::{hottest, is_for_huge_pages};
use crate::detect::prelude::*;
use pgassay_evidence::profile::Class;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
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
