//! The catalogue of bottlenecks: what is known of each, and what recognises it.
//!
//! An [`Entry`] is a page among the rules: why it matters, how much, what to do, which release
//! changed what. Detectors look for its signs, each in one kind of evidence: the facts of an
//! audit, CPU samples, wait events, counters of a run. What they observe becomes a [`Finding`].
//! `pgassay check` and `pgassay diagnose` are two views of the same catalogue.
//!
//! A detector never concludes from what was not seen, and every number in a finding comes from
//! the evidence. `docs/adding.md` shows how to add an entry.

mod counterpart;
pub mod detect;
pub mod docs;
mod entry;
mod evidence;
mod fact_view;
pub mod finding;
mod observation;
mod origin;
mod rank;
mod severity;
mod step;
mod subjects;
mod version;
mod wait_events;

pub use counterpart::{Counterpart, Differs, Values};
pub use entry::{Change, Compared, Entry, Family, Need, Part};
pub use evidence::{Evidence, RunEvidence};
pub use fact_view::FactView;
pub use finding::{
    Basis, Confidence, Finding, Judged, NotJudged, Severity, Step, StepKind, Verdict,
};
pub use rank::{Cause, SeenBy};
pub use rank::{cause, invalidates, known_gain, measures, weights};
pub use subjects::{Subjects, Suspect};
pub use version::written;
pub use version::{major, version_number};

pub use rank::order;

use finding::{Circumstances, Observation, not_applicable, passed};

use pgassay_evidence::measured::ServerSummary;
use pgassay_evidence::reference::{Differing, Tried};

/// Every entry, by name.
pub static ENTRIES: &[Entry] = include!(concat!(env!("OUT_DIR"), "/entries.rs"));

/// The entry of this id. A finding that has a name of its own is found by its entry's, too:
/// `wait-event/Lock:advisory`.
pub fn find(id: &str) -> Option<&'static Entry> {
    let (id, _) = id.split_once('/').unwrap_or((id, ""));
    ENTRIES.iter().find(|entry| entry.id == id)
}

/// The entries that an audit judges, each family together.
pub fn audited() -> Vec<&'static Entry> {
    let by_facts = |entry: &&Entry| seen_by(entry).contains(&detect::Kind::Audit);
    let mut entries: Vec<&Entry> = ENTRIES.iter().filter(by_facts).collect();
    entries.sort_by_key(|entry| entry.family);
    entries
}

/// The kinds of evidence by which an entry is recognised.
fn seen_by(entry: &Entry) -> Vec<detect::Kind> {
    let of_entry = detect::all().filter(|(id, _)| *id == entry.id);
    let mut kinds: Vec<detect::Kind> = of_entry.map(|(_, kind)| kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// What an audit makes of an entry. One that the server's release cannot have passes, or does
/// not apply, without a look.
pub fn audit(entry: &Entry, facts: &FactView) -> Result<Verdict<Finding>, NotJudged> {
    let version = facts.version().ok();
    let judged = match version {
        Some(version) if !entry.concerns(Some(version)) => of_release(entry, version),
        _ => match detect::audit(entry.id, facts) {
            Some(judged) => judged,
            None => not_applicable("only a load shows it"),
        },
    };
    let circumstances = Circumstances {
        version,
        ..Circumstances::default()
    };
    Ok(match judged? {
        Verdict::Found(seen) => {
            let mut finding = Finding::new(entry, *seen, circumstances);
            let place = facts.place();
            origin::fit(&mut finding.remedy, &place, |name| {
                facts.value_and_source(name)
            });
            Verdict::Found(Box::new(finding))
        }
        Verdict::Passed(saw) => Verdict::Passed(saw),
    })
}

/// What a release says of an entry that does not concern it.
fn of_release(entry: &Entry, version: u32) -> Judged {
    let written = version::written(version);
    match (entry.until, entry.changes.last()) {
        (Some(until), Some(change)) if version >= until => {
            passed(format!("{written}: {}", change.what))
        }
        (Some(until), _) if version >= until => not_applicable(format!(
            "PostgreSQL {written}: not from {} on",
            major(until)
        )),
        _ => not_applicable(format!("PostgreSQL {written} does not have this yet")),
    }
}

/// The gain from which on a finding says beside what it was measured.
const TOLD: f64 = 0.1;

/// Says in each finding of weight that was measured that other programs had a part of the CPUs.
pub fn disturbed(evidence: &Evidence, findings: &mut [Finding]) {
    let Some(by) = evidence.run.and_then(|run| run.disturbed()) else {
        return;
    };
    let weighs = |f: &&mut Finding| f.basis.is_measured() && f.gain().unwrap_or(0.0) >= TOLD;
    for finding in findings.iter_mut().filter(weighs) {
        if !finding.subjects.other_programs {
            finding.saw = format!("{} {by}", finding.saw);
        }
    }
}

/// What a load or a profile shows of all entries, each once.
pub fn load(evidence: &Evidence) -> Vec<Finding> {
    let circumstances = evidence.circumstances();
    let mut findings: Vec<Finding> = Vec::new();
    for (id, seen) in detect::load(evidence) {
        let Some(entry) = find(id).filter(|entry| entry.concerns(evidence.version)) else {
            continue;
        };
        let seen = with_version(entry, seen, evidence.version);
        let finding = Finding::new(entry, seen, circumstances);
        match findings.iter_mut().find(|known| known.id == finding.id) {
            Some(known) => known.join(finding),
            None => findings.push(finding),
        }
    }
    let others = detect::others(evidence, &findings);
    findings.extend(others.into_iter().filter_map(|named| {
        let mut finding = Finding::new(find(named.entry)?, named.seen, circumstances);
        finding.title = named.title;
        if let Some(subject) = named.subject {
            finding.id = format!("{}/{subject}", named.entry);
        }
        Some(finding)
    }));
    detect::links::link(evidence, &mut findings);
    let place = evidence.place().cloned().unwrap_or_default();
    for finding in &mut findings {
        origin::fit(&mut finding.remedy, &place, |name| {
            evidence.value_and_source(name)
        });
    }
    findings
}

/// A setting of the run's server, tried at a reference and shown to cost throughput.
pub fn of_reference(
    server: &ServerSummary,
    setting: &Differing,
    tried: &Tried,
    saw: String,
) -> Option<Finding> {
    let seen = detect::differs_from_reference::setting(setting, tried, saw);
    let under = Circumstances {
        version: server.version_num,
        ..Circumstances::default()
    };
    let mut finding = Finding::new(find(detect::differs_from_reference::ENTRY)?, seen, under);
    finding.title = format!("{} costs throughput", setting.name);
    finding.id = format!("{}/{}", finding.id, setting.name);
    origin::fit(&mut finding.remedy, &server.place, |name| {
        let known = server.all_settings.iter().find(|s| s.name == name)?;
        Some((known.value.as_str(), known.source.as_str()))
    });
    Some(finding)
}

/// If releases changed something about an entry, the server's is a part of the evidence.
fn with_version(entry: &Entry, seen: Observation, version: Option<u32>) -> Observation {
    match version {
        Some(version) if entry.open || !entry.changes.is_empty() => {
            seen.seen(format!("the server is PostgreSQL {}", major(version)))
        }
        _ => seen,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_id_that_is_named_anywhere_exists() {
        for (id, _) in detect::all() {
            assert!(find(id).is_some(), "{id}: a detector without an entry");
        }
        for entry in ENTRIES {
            assert!(
                !seen_by(entry).is_empty(),
                "{}: an entry without a detector",
                entry.id
            );
            for id in entry.supersedes {
                let other = find(id).unwrap_or_else(|| panic!("{}: {id}", entry.id));
                assert!(
                    seen_by(other).contains(&detect::Kind::Audit),
                    "{}: {id} is no finding of an audit",
                    entry.id
                );
            }
            for id in entry.symptoms {
                assert!(
                    find(id).is_some_and(|other| other.id != entry.id),
                    "{}: {id}",
                    entry.id
                );
            }
            // Words like `see snapshot-scalability`, and steps that name an entry.
            for text in [entry.why, entry.impact, entry.remedy] {
                for (_, rest) in text
                    .match_indices("--explain ")
                    .map(|(i, m)| text.split_at(i + m.len()))
                {
                    let id = rest.split_whitespace().next().unwrap_or_default();
                    assert!(find(id).is_some(), "{}: --explain {id}", entry.id);
                }
            }
        }
    }

    #[test]
    fn entries_have_names_of_their_own_and_are_whole() {
        let ids: BTreeSet<&str> = ENTRIES.iter().map(|entry| entry.id).collect();
        assert_eq!(ids.len(), ENTRIES.len());
        for entry in ENTRIES {
            let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(entry.id.chars().all(fine), "{}", entry.id);
            assert!(
                !entry.sources.is_empty() || !entry.changes.is_empty(),
                "{}: no source",
                entry.id
            );
            let audited = seen_by(entry).contains(&detect::Kind::Audit);
            assert_eq!(audited, !entry.needs.is_empty(), "{}: needs", entry.id);
            if let (Some(since), Some(until)) = (entry.since, entry.until) {
                assert!(since < until, "{}", entry.id);
            }
            assert!(
                !(entry.open && entry.until.is_some()),
                "{}: open, and cured by a release",
                entry.id
            );
        }
    }

    #[test]
    fn changes_are_in_order_and_their_numbers_are_their_versions() {
        for change in ENTRIES.iter().flat_map(|entry| entry.changes) {
            assert_eq!(version_number(change.version), Some(change.since));
        }
        for entry in ENTRIES {
            assert!(
                entry.changes.is_sorted_by_key(|change| change.since),
                "{}",
                entry.id
            );
        }
        let removal = &find("lwlock-wait-list").unwrap().changes[0];
        for (version, has) in [
            (120_017, false),
            (120_018, true),
            (150_005, false),
            (150_006, true),
            (160_000, true),
            (110_022, false),
        ] {
            assert_eq!(removal.is_in(version), has, "{version}");
        }
    }

    fn steps(id: &str, version: Option<u32>) -> Vec<String> {
        let entry = find(id).unwrap();
        let seen = Observation::of_samples(0.2, "seen");
        let circumstances = Circumstances {
            version,
            ..Circumstances::default()
        };
        let finding = Finding::new(entry, seen, circumstances);
        finding.remedy.into_iter().map(|step| step.text).collect()
    }

    /// A server known to be newer was told "if the server is older than 17, upgrade".
    #[test]
    fn a_server_that_has_a_change_is_not_told_to_upgrade() {
        for entry in ENTRIES {
            let newest = entry.changes.last().map_or(190_000, |change| change.since);
            for step in steps(entry.id, Some(newest)) {
                assert!(!step.contains("upgrade to"), "{}: {step}", entry.id);
                assert!(!step.contains("is older than"), "{}: {step}", entry.id);
            }
        }
    }

    #[test]
    fn a_server_that_lacks_a_change_is_told_which() {
        let old = steps("snapshot-scalability", Some(130_000));
        assert!(
            old[0].starts_with("upgrade to PostgreSQL 14 or later"),
            "{old:?}"
        );
        let unknown = steps("snapshot-scalability", None);
        assert!(
            unknown
                .last()
                .unwrap()
                .starts_with("if the server is older than PostgreSQL 14"),
            "{unknown:?}"
        );
    }

    /// 17 made only insertingAt atomic: no release takes the spinlock of WAL positions away.
    #[test]
    fn open_bottlenecks_say_that_no_release_cures_them() {
        for id in [
            "wal-position-spinlock",
            "wal-insertion-locks",
            "buffer-pin-retries",
            "proc-array-lock",
            "lwlock-wait-list",
        ] {
            assert!(find(id).unwrap().open, "{id}");
            for version in [None, Some(150_000), Some(180_000)] {
                let steps = steps(id, version);
                assert_eq!(steps.last().unwrap(), "no release cures this", "{id}");
            }
        }
        let steps = steps("wal-position-spinlock", Some(160_000));
        assert!(
            steps.iter().all(|step| !step.contains("upgrade")),
            "{steps:?}"
        );
    }
}
