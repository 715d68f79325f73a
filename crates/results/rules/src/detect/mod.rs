//! Detectors: each looks for the signs of one entry of the catalogue.
//!
//! An entry may have several, of several kinds. To add one, write a function in the file of
//! its kind, or a row of a table, and name the entry beside it in that file's `DETECTORS`.

mod alternatives;
mod amounts;
mod beside;
mod blockers;
mod build;
mod catalogs;
mod checkpoints;
mod commits;
mod computations;
mod conditions;
mod connections;
mod counts;
mod cpus;
mod ctes;
mod cursors;
mod database;
mod declared;
mod estimates;
mod failures;
mod felt;
mod forms;
mod functions;
mod gentler;
mod hits;
mod horizon;
mod identity;
mod locked;
mod logging;
mod max_wal_size;
mod memory;
mod memory_samples;
mod nodes;
mod notify;
mod objects;
mod one_by_one;
mod others;
mod pages;
mod partitions;
mod placement;
mod planning;
mod plans;
mod pools;
mod process;
mod processor;
mod products;
pub(super) mod reference;
mod releases;
mod run;
mod samples;
mod scaling;
mod schema;
mod sessions;
mod settings;
mod shapes;
mod snapshot_samples;
mod spilling;
mod standbys;
mod statements;
mod stems;
mod storage;
mod subplans;
#[cfg(test)]
pub mod tests;
mod unread_indexes;
mod updates;
mod visibility;
mod volume;
mod wait_shares;
mod waiting;
mod waits;
mod wal;
mod whole;
mod writes;
mod written;

pub use cpus::{SATURATED, filled_by_own_work};
pub use others::look as others;
pub use stems::stem;

use super::evidence::Evidence;
use super::fact_view::FactView;
use super::finding::{Judged, NotJudged, Observation, Severity, Verdict};

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

/// The detectors that are functions, by file.
const FUNCTIONS: &[&[Detector]] = &[
    pages::DETECTORS,
    memory::DETECTORS,
    processor::DETECTORS,
    build::DETECTORS,
    releases::DETECTORS,
    sessions::DETECTORS,
    storage::DETECTORS,
    written::DETECTORS,
    wal::DETECTORS,
    standbys::DETECTORS,
    statements::DETECTORS,
    schema::DETECTORS,
    samples::DETECTORS,
    memory_samples::DETECTORS,
    snapshot_samples::DETECTORS,
    planning::DETECTORS,
    run::DETECTORS,
    volume::DETECTORS,
    checkpoints::DETECTORS,
    commits::DETECTORS,
    cpus::DETECTORS,
    scaling::DETECTORS,
    placement::DETECTORS,
    plans::DETECTORS,
    partitions::DETECTORS,
    estimates::DETECTORS,
    alternatives::DETECTORS,
    whole::DETECTORS,
    ctes::DETECTORS,
    products::DETECTORS,
    subplans::DETECTORS,
    visibility::DETECTORS,
    spilling::DETECTORS,
    objects::DETECTORS,
    catalogs::DETECTORS,
    beside::DETECTORS,
    blockers::DETECTORS,
    writes::DETECTORS,
    database::DETECTORS,
    failures::DETECTORS,
    amounts::DETECTORS,
    notify::DETECTORS,
    one_by_one::DETECTORS,
    functions::DETECTORS,
    cursors::DETECTORS,
    updates::DETECTORS,
    connections::DETECTORS,
    identity::DETECTORS,
    logging::DETECTORS,
    process::DETECTORS,
    pools::DETECTORS,
    declared::DETECTORS,
];

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
    let functions = FUNCTIONS.iter().copied().flatten().map(|detector| {
        let kind = match detector.look {
            Look::Facts(_) => Kind::Audit,
            Look::Samples(_) => Kind::Samples,
            Look::Run(_) => Kind::Run,
        };
        (detector.entry, kind)
    });
    functions
        .chain(settings::entries().map(|entry| (entry, Kind::Audit)))
        .chain(samples::LOCKS.iter().map(|row| (row.entry, Kind::Samples)))
        .chain(waits::ROWS.iter().map(|row| (row.entry, Kind::Waits)))
        .chain(others::ENTRIES.iter().copied())
        .chain([(reference::ENTRY, Kind::Reference)])
}

/// What an audit makes of an entry; none if no detector looks for it in facts. A finding
/// counts before a pass, and a pass before what could not be judged.
pub fn audit(entry: &str, facts: &FactView) -> Option<Judged> {
    let functions = FUNCTIONS.iter().copied().flatten();
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
    let functions = FUNCTIONS.iter().copied().flatten();
    let mut seen: Vec<(&'static str, Observation)> = functions
        .filter_map(|detector| match detector.look {
            Look::Facts(_) => None,
            Look::Samples(look) | Look::Run(look) => Some((detector.entry, look(evidence)?)),
        })
        .collect();
    let locks = samples::LOCKS.iter();
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
