//! The audit of a host and a server: facts in, findings out.
//!
//! [`Facts`] is what was seen, raw, and what `pgassay collect` writes into a file. Each entry of
//! the catalogue that detectors recognise by facts is judged, with one of four outcomes: a
//! finding, passed, not applicable, or could not see, the last two with the reason.

mod report;

pub use crate::bottlenecks::{
    Entry, FactView, Family, Finding, Need, Severity, Step, StepKind, audited, docs, find,
};
pub use report::{CHECK_SCHEMA, CheckReport, CheckedServer, Counts, EntryResult, Outcome};

use pgassay_model::facts::Facts;

use crate::bottlenecks::audit;

/// Judges all entries of the catalogue by what was seen.
pub fn check(facts: &Facts) -> CheckReport {
    let seen = FactView::new(facts);
    let results = audited()
        .into_iter()
        .map(|entry| EntryResult::of(entry, audit(entry, &seen)))
        .collect();
    CheckReport::new(facts, &seen, results)
}
