//! CPU samples in the kernel's memory management.

use crate::detect::prelude::*;
use pgassay_evidence::profile::{Class, Summary, Work};

/// The part of compaction within faults with huge pages from which on it is theirs.
const MOST: f64 = 0.5;

/// The hottest functions of a class: `21.4 % in pageblock_pfn_to_page`.
pub fn hottest(profile: &Summary, class: Class) -> Vec<(&str, String)> {
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
pub fn is_for_huge_pages(profile: &Summary) -> bool {
    let huge = profile.within(Work::HugeFaults).unwrap_or(0.0);
    huge > 0.0 && huge >= MOST * profile.class(Class::Compaction)
}
