//! Which findings are symptoms of others that were found beside them.
//!
//! A link is known in one of three ways: the page of the cause names the entry (`symptoms`), or the cause is work that
//! is too much (a statement's, or CPU time's), which shows itself by full CPUs and by blocks looked up and read, or the
//! plan of a statement tells ([`stem`]). A cause must be large enough to be behind it: at least half as large.

use super::detect::{SATURATED, filled_by_own_work, stem};
use super::evidence::Evidence;
use super::find;
use super::finding::{Basis, Confidence, Finding, Severity, Step, symptom_of};

/// What a statement's work shows itself by, whatever is wrong with it.
const OF_STATEMENTS: &[&str] = &[SATURATED, "buffer-mapping-locks", "shared-buffers-small"];
/// The part of a symptom's gain that a cause must have.
const LARGE_ENOUGH: f64 = 0.5;

/// Whether the page of the cause names the entry.
fn names(cause: &Finding, symptom: &Finding) -> bool {
    let entry = |finding: &Finding| find(&finding.id);
    entry(cause)
        .zip(entry(symptom))
        .is_some_and(|(cause, symptom)| cause.symptoms.contains(&symptom.id))
}

/// Whether one is what the other may show itself by.
fn shows(cause: &Finding, symptom: &Finding) -> bool {
    let by_page = names(cause, symptom);
    let symptom = symptom.id.as_str();
    by_page
        || match cause.basis {
            Basis::Statements => OF_STATEMENTS.contains(&symptom),
            Basis::CpuSamples => symptom == SATURATED,
            _ => false,
        }
}

/// Whether it says where its time goes, and not only that it goes.
fn is_cause(finding: &Finding) -> bool {
    finding.symptom_of.is_none()
        && finding.id != SATURATED
        && finding.confidence >= Confidence::Medium
        && finding.severity > Severity::Info
}

/// Whether it has no figure of its own, or one that is small since the CPUs are full: of the same full CPUs it may be the
/// cause all the same.
pub(super) fn says_no_figure(cause: &Finding) -> bool {
    cause.gain().is_none() || cause.limited_by_cpus
}

/// The cause of a symptom.
struct Link {
    id: String,
    /// What is done about the symptom then.
    instead: Option<&'static str>,
}

/// Says of each symptom which of the other findings is its cause.
pub(super) fn link(evidence: &Evidence, findings: &mut [Finding]) {
    let gain = |finding: &Finding| finding.gain().unwrap_or(0.0);
    let own_work = filled_by_own_work(evidence);
    let found: Vec<Option<Link>> = findings
        .iter()
        .map(|symptom| {
            let causes = findings.iter().filter(|cause| {
                cause.id != symptom.id
                    && is_cause(cause)
                    && (shows(cause, symptom) || stem(evidence, cause, symptom).is_some())
                    && (gain(cause) >= LARGE_ENOUGH * gain(symptom)
                        || symptom.id == SATURATED
                            && names(cause, symptom)
                            && says_no_figure(cause)
                            && cause.severity >= Severity::High)
                    && (symptom.id != SATURATED
                        || (own_work || names(cause, symptom))
                            && cause.severity >= Severity::Medium)
            });
            let most = causes.max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
            let of = stem(evidence, most, symptom);
            Some(Link {
                id: most.id.clone(),
                instead: of.and_then(|of| of.instead),
            })
        })
        .collect();
    // One that is a symptom itself is nobody's cause: what it is of is.
    let place = |id: &str| findings.iter().position(|f| f.id == id);
    let of = |symptom: usize| place(&found[symptom].as_ref()?.id);
    let roots: Vec<Option<usize>> = (0..found.len())
        .map(|symptom| {
            std::iter::successors(of(symptom), |cause| of(*cause))
                .take(found.len())
                .find(|cause| found[*cause].is_none())
        })
        .collect();
    let named: Vec<(String, String)> = findings
        .iter()
        .map(|cause| (cause.id.clone(), format!("{} ({})", cause.title, cause.id)))
        .collect();
    for ((symptom, root), link) in findings.iter_mut().zip(roots).zip(found) {
        if let Some((root, link)) = root.zip(link) {
            let (id, named) = named[root].clone();
            symptom.becomes_symptom_of(id, named);
            if let Some(step) = link.instead {
                symptom.remedy = vec![Step::advice(step)];
            }
        }
    }
}

impl Finding {
    /// The same as a symptom of another finding, which is surer than what such symptoms usually are of.
    pub fn becomes_symptom_of(&mut self, id: String, named: String) {
        let supposed = self.symptom_of.as_deref().map(symptom_of);
        let saw = supposed.and_then(|supposed| self.saw.strip_suffix(&supposed));
        let saw = saw.unwrap_or(self.saw.trim_end_matches('.'));
        self.saw = format!("{saw}, a symptom of: {named}.");
        self.confidence = self.confidence.min(Confidence::Medium);
        self.symptom_of = Some(named);
        self.cause = Some(id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::{Circumstances, Observation};
    use super::*;

    fn finding(id: &str, basis: Basis, share: f64) -> Finding {
        let seen = Observation::measured(basis, Some(share), format!("{id}."));
        Finding::new(find(id).unwrap(), seen, Circumstances::default())
    }

    fn causes(mut findings: Vec<Finding>) -> Vec<Option<String>> {
        link(&Evidence::default(), &mut findings);
        findings.into_iter().map(|f| f.cause).collect()
    }

    #[test]
    fn a_statements_work_is_the_cause_of_full_cpus_and_reads() {
        let scan = || finding("sequential-scan", Basis::Statements, 0.6);
        for symptom in OF_STATEMENTS {
            let beside = finding(symptom, Basis::WaitTime, 0.5);
            let found = causes(vec![beside, scan()]);
            assert_eq!(
                found,
                [Some("sequential-scan".to_owned()), None],
                "{symptom}"
            );
        }
        // Commits wait for the log whatever statements read.
        let found = causes(vec![finding("wal-flush", Basis::WaitTime, 0.5), scan()]);
        assert_eq!(found, [None, None]);
    }

    #[test]
    fn the_page_of_a_cause_names_its_symptoms() {
        let flush = || finding("wal-flush", Basis::WaitTime, 0.5);
        let forced = |share| finding("forced-checkpoints", Basis::WaitTime, share);
        let found = causes(vec![flush(), forced(0.4)]);
        assert_eq!(found, [Some("forced-checkpoints".to_owned()), None]);
        // A small one is not what is behind it.
        assert_eq!(causes(vec![flush(), forced(0.2)]), [None, None]);
        // Nor is one of which nobody is sure, or one that is nobody's fault.
        let mut unsure = forced(0.4);
        unsure.confidence = Confidence::Low;
        assert_eq!(causes(vec![flush(), unsure]), [None, None]);
        let mut information = forced(0.4);
        information.severity = Severity::Info;
        assert_eq!(causes(vec![flush(), information]), [None, None]);
    }

    /// Dead rows that something holds were named below the full CPUs that came of them.
    #[test]
    fn full_cpus_are_a_symptom_of_what_has_no_figure_where_nothing_measured_is_behind_them() {
        let full = || finding(SATURATED, Basis::MachineTime, 0.5);
        let held = || {
            let seen = Observation::new(Severity::High, Confidence::Medium, "Held.");
            let entry = find("horizon-held").unwrap();
            Finding::new(entry, seen, Circumstances::default())
        };
        let found = causes(vec![full(), held()]);
        assert_eq!(found, [Some("horizon-held".to_owned()), None]);
        let scan = finding("sequential-scan", Basis::Statements, 0.6);
        let found = causes(vec![full(), held(), scan]);
        assert_eq!(found[0], Some("sequential-scan".to_owned()));
        let mut unsure = held();
        unsure.confidence = Confidence::Low;
        assert_eq!(causes(vec![full(), unsure]), [None, None]);
        // A page that does not name it explains nothing.
        let seen = Observation::new(Severity::High, Confidence::High, "Off.");
        let other = Finding::new(find("fsync-off").unwrap(), seen, Circumstances::default());
        assert_eq!(causes(vec![full(), other]), [None, None]);
    }

    #[test]
    fn what_a_symptom_shows_itself_by_is_of_its_cause() {
        let dead = finding("autovacuum-behind", Basis::Statements, 0.9);
        let held = finding("horizon-held", Basis::Statements, 0.85);
        let full = finding(SATURATED, Basis::MachineTime, 0.5);
        let of = || Some("horizon-held".to_owned());
        assert_eq!(causes(vec![full, dead, held]), [of(), of(), None]);
    }

    #[test]
    fn what_was_supposed_gives_way_to_what_was_found() {
        let mut findings = vec![
            finding("wal-flush", Basis::WaitTime, 0.5),
            finding("forced-checkpoints", Basis::WaitTime, 0.5),
        ];
        findings[0].saw = "Commits wait: 50.0 %, a symptom of many small commits.".into();
        findings[0].symptom_of = Some("many small commits".into());
        link(&Evidence::default(), &mut findings);
        let saw = &findings[0].saw;
        assert!(
            saw.starts_with("Commits wait: 50.0 %, a symptom of: ")
                && saw.ends_with("(forced-checkpoints)."),
            "{saw}"
        );
        assert!(!saw.contains("many small commits"), "{saw}");
        assert_eq!(findings[0].confidence, Confidence::Medium);
    }

    /// The sentence of a symptom can say anything, its usual ending included.
    #[test]
    fn a_link_goes_by_what_findings_are_and_not_by_their_words() {
        let of = |saw: &str| {
            let mut findings = vec![
                finding("wal-flush", Basis::WaitTime, 0.5),
                finding("forced-checkpoints", Basis::WaitTime, 0.5),
            ];
            findings[0].saw = saw.to_owned();
            link(&Evidence::default(), &mut findings);
            (findings[0].cause.clone(), findings.remove(0).saw)
        };
        for saw in ["Waits", "It waits, a symptom of nothing, they say"] {
            let (cause, said) = of(saw);
            assert_eq!(cause.as_deref(), Some("forced-checkpoints"));
            assert!(
                said.starts_with(&format!("{saw}, a symptom of: ")),
                "{said}"
            );
        }
    }
}
