//! Detectors: each looks for the signs of one entry of the catalogue.
//!
//! A folder for each subject. `build.rs` makes each file a module and registers it: by its name if it has `audit`,
//! `in_samples` or `in_run`, else by its `DETECTORS`. Code that rules of several folders need is in `common`.

mod common;
pub(super) mod differs_from_reference;
pub mod links;
#[cfg(test)]
pub mod tests;

// A module for each folder of rules with those for its files, and `RULES`, the detectors of all of them.
include!(concat!(env!("OUT_DIR"), "/rules.rs"));

pub use processor::cpus::SATURATED;
pub use scalar::others::look as others;

use locks::lock_samples;
use scalar::{others, settings, waits};

use super::evidence::Evidence;
use super::fact_view::FactView;
use super::finding::{Judged, NotJudged, Observation, Severity, Verdict};

/// What most rules use.
mod prelude {
    pub(in crate::detect) use super::{
        Detector, facts, high_if, medium_if, percent, run, samples, shown, tenths,
    };
    pub use crate::evidence::{Evidence, RunEvidence};
    pub(in crate::detect) use crate::fact_view::{FactView, Row, number, word};
    pub(in crate::detect) use crate::finding::{
        Basis, Confidence, Judged, NotJudged, Observation, Severity, StepKind, Verdict,
        could_not_see, not_applicable, passed,
    };
}

/// Something that recognises an entry by one kind of evidence.
pub struct Detector {
    /// The entry.
    pub entry: &'static str,
    /// What it looks at, and how.
    pub look: Look,
}

/// What a detector looks at.
pub enum Look {
    /// The facts of an audit.
    Facts(fn(&FactView) -> Judged),
    /// CPU samples.
    Samples(fn(&Evidence) -> Option<Observation>),
    /// Counters, settings and the host over the windows of a run.
    Run(fn(&Evidence) -> Option<Observation>),
}

/// A detector over an audit's facts.
const fn facts(entry: &'static str, look: fn(&FactView) -> Judged) -> Detector {
    Detector {
        entry,
        look: Look::Facts(look),
    }
}

/// A detector over CPU samples.
const fn samples(entry: &'static str, look: fn(&Evidence) -> Option<Observation>) -> Detector {
    Detector {
        entry,
        look: Look::Samples(look),
    }
}

/// A detector over a run's windows.
const fn run(entry: &'static str, look: fn(&Evidence) -> Option<Observation>) -> Detector {
    Detector {
        entry,
        look: Look::Run(look),
    }
}

/// What looks at one kind of evidence for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An audit.
    Audit,
    /// CPU samples.
    Samples,
    /// Wait events.
    Waits,
    /// A run's counters, settings and host.
    Run,
    /// A comparison with a reference.
    Reference,
}

impl Kind {
    /// In a list of what sees an entry.
    pub fn title(self) -> &'static str {
        match self {
            Self::Audit => "pgassay check",
            Self::Samples => "CPU samples",
            Self::Waits => "wait events",
            Self::Run => "counters of a run",
            Self::Reference => "pgassay diagnose --reference",
        }
    }
}

/// Every detector's entry and kind.
pub fn all() -> impl Iterator<Item = (&'static str, Kind)> {
    let functions = RULES.iter().copied().flatten().map(|detector| {
        let kind = match detector.look {
            Look::Facts(_) => Kind::Audit,
            Look::Samples(_) => Kind::Samples,
            Look::Run(_) => Kind::Run,
        };
        (detector.entry, kind)
    });
    functions
        .chain(settings::entries().map(|entry| (entry, Kind::Audit)))
        .chain(
            lock_samples::LOCKS
                .iter()
                .map(|row| (row.entry, Kind::Samples)),
        )
        .chain(waits::ROWS.iter().map(|row| (row.entry, Kind::Waits)))
        .chain(others::ENTRIES.iter().copied())
        .chain([(differs_from_reference::ENTRY, Kind::Reference)])
}

/// What an audit makes of an entry; none if no detector looks for it in facts. A finding
/// counts before a pass, and a pass before what could not be judged.
pub fn audit(entry: &str, facts: &FactView) -> Option<Judged> {
    let functions = RULES.iter().copied().flatten();
    let judged = functions
        .filter(|detector| detector.entry == entry)
        .filter_map(|detector| match detector.look {
            Look::Facts(look) => Some(look(facts)),
            Look::Samples(_) | Look::Run(_) => None,
        });
    let order = |judged: &Judged| match judged {
        Ok(Verdict::Found(_)) => 0,
        Ok(Verdict::Passed(_)) => 1,
        Err(NotJudged::CouldNotSee(_)) => 2,
        Err(NotJudged::NotApplicable(_)) => 3,
    };
    judged
        .chain(settings::judge(entry, facts))
        .min_by_key(order)
}

/// What all detectors saw in a load or a profile, by entry.
pub fn load(evidence: &Evidence) -> Vec<(&'static str, Observation)> {
    let functions = RULES.iter().copied().flatten();
    let mut seen: Vec<(&'static str, Observation)> = functions
        .filter_map(|detector| match detector.look {
            Look::Facts(_) => None,
            Look::Samples(look) | Look::Run(look) => Some((detector.entry, look(evidence)?)),
        })
        .collect();
    let locks = lock_samples::LOCKS.iter();
    seen.extend(locks.filter_map(|row| Some((row.entry, row.look(evidence)?))));
    let events = waits::ROWS.iter();
    seen.extend(events.filter_map(|row| Some((row.entry, row.look(evidence)?))));
    seen
}

/// Grave under a condition, else moderate.
fn high_if(grave: bool) -> Severity {
    if grave {
        Severity::High
    } else {
        Severity::Medium
    }
}

/// Moderate under a condition, else light.
fn medium_if(moderate: bool) -> Severity {
    if moderate {
        Severity::Medium
    } else {
        Severity::Low
    }
}

/// Bytes as people read them: `5.9 GiB`.
fn shown(bytes: u64) -> String {
    const UNITS: &[&str] = &["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 10.0 && value.fract() > 0.05 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// A share as people read it: `3.2 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 10.0 || percent.fract().abs() < 0.05 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// Whether an option of a relation or of a server says no.
fn is_off(value: &str) -> bool {
    ["off", "false", "no", "0", "f"].contains(&value.to_ascii_lowercase().as_str())
}

/// A measured share, with a decimal always: `32.1 %`.
fn tenths(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
