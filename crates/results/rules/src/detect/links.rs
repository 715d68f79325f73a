//! Which findings are symptoms of others, and which waits and CPU time a finding accounts for.
//!
//! The page of a cause names the entries by which it shows itself whatever else holds (`symptoms`). Links with a
//! condition are rows of `LINKS`. A cause must be large enough to be behind a symptom: at least half as large.

use crate::detect::common::hits::{is_about, weighty};
use crate::detect::common::wait_shares::waits_for_workers;
use crate::detect::processor::cpus::{SATURATED, filled_by_own_work};
use crate::evidence::Evidence;
use crate::find;
use crate::finding::{Basis, Confidence, Finding, Severity, Step, symptom_of};
use crate::subjects::Suspect;
use crate::wait_events::{WAL_FLUSH, is, is_of};
use Causes::{Entries, Work};
use pgassay_evidence::profile::class::Class;

/// A cause that shows itself by other entries where a condition holds.
struct Link {
    causes: Causes,
    symptoms: &'static [&'static str],
    holds: fn(&Evidence, cause: &Finding, symptom: &Finding) -> bool,
    /// The remedy then, instead of the symptom's own.
    instead: Option<&'static str>,
}

enum Causes {
    Entries(&'static [&'static str]),
    /// Whatever was found by this to be too much.
    Work(Basis),
}

/// What a statement's work shows itself by, whatever is wrong with it.
const OF_STATEMENTS: &[&str] = &[SATURATED, "buffer-mapping-locks", "shared-buffers-small"];
/// Entries about rows and pages that nobody needs.
const DEAD_ROWS: Causes = Entries(&["autovacuum-behind", "horizon-held", "swollen-table"]);

const LINKS: &[Link] = &[
    Link {
        causes: Work(Basis::Statements),
        symptoms: &["page-faults", "wait-event"],
        holds: |evidence, cause, symptom| of_processes(symptom) && starts_workers(evidence, cause),
        instead: Some(
            "fix that first: the plan launches parallel workers at every execution, and a statement that reads little does not \
             need them",
        ),
    },
    Link {
        causes: Entries(&["jit-small-queries"]),
        symptoms: &["page-faults"],
        // Faults in shared memory do not come from the compiler.
        holds: |_, _, symptom| symptom.subjects.suspect.is_some(),
        instead: Some(
            "fix that first: JIT compilation allocates memory at each execution and frees it afterwards",
        ),
    },
    Link {
        causes: DEAD_ROWS,
        symptoms: &["plan-node", "rows-misestimated"],
        holds: of_one_table,
        instead: Some(
            "fix that first, then look again: the scan passes over dead rows and empty pages, and another index or join order \
             would read them as well",
        ),
    },
    Link {
        causes: DEAD_ROWS,
        symptoms: &["plan-node"],
        // Questions that would cost nothing to speak of if the catalogues had their live rows alone.
        holds: |evidence, cause, symptom| {
            symptom.id == "plan-node/catalogues-asked" && of_one_statement(evidence, cause, symptom)
        },
        instead: None,
    },
    Link {
        causes: Entries(&["plan-by-settings"]),
        // What the plan does that another setting would not have chosen.
        symptoms: &[
            "plan-node",
            "rows-discarded",
            "sequential-scan",
            "sort-below-limit",
        ],
        holds: of_one_statement,
        instead: None,
    },
    Link {
        causes: Entries(&["loop-misestimated"]),
        symptoms: &["rows-misestimated"],
        holds: of_one_statement,
        instead: None,
    },
    Link {
        causes: Work(Basis::Statements),
        symptoms: OF_STATEMENTS,
        holds: |_, _, _| true,
        instead: None,
    },
    Link {
        causes: Work(Basis::CpuSamples),
        symptoms: &[SATURATED],
        holds: |_, _, _| true,
        instead: None,
    },
];

/// Entries that name who holds the locks that others wait for.
const HOLDERS: &[&str] = &[
    "idle-in-transaction",
    "prepared-transaction-locks",
    "schema-change-queue",
    "deadlocks",
];
/// Entries whose sessions queue for a lock: they queue for its partition of the lock table, too.
const QUEUES: &[&str] = &[
    "hot-row",
    "relation-lock-queue",
    "idle-in-transaction",
    "prepared-transaction-locks",
    "schema-change-queue",
    "advisory-lock-queue",
    "skip-locked",
];

/// Whether a wait event, by its type and name, is of these.
type Events = fn(&str, &str) -> bool;

/// Waits that findings account for, beyond those that recognise them.
const WAITS: &[(&[&str], Events)] = &[
    (HOLDERS, |kind, event| kind == "Lock" && event != "extend"),
    (QUEUES, |kind, event| {
        is(kind, event, "LWLock", &["LockManager"])
    }),
    (&["skip-locked"], |kind, event| {
        is(kind, event, "Lock", &["tuple", "transactionid"])
    }),
    (&["advisory-lock-queue"], |kind, event| {
        is(kind, event, "Lock", &["advisory"])
    }),
    (&["notify-queue"], |kind, event| {
        is(kind, event, "Lock", &["object"])
    }),
    (&["commit-delay"], |kind, event| {
        is_of(kind, event, WAL_FLUSH)
    }),
    (&["parallel-for-little"], |kind, _| kind == "IPC"),
    (&["spilling"], |_, event| {
        event.to_ascii_lowercase().starts_with("buffile")
    }),
];

/// Classes of CPU time that findings account for, whichever functions it is in.
const CLASSES: &[(Class, &[&str])] = &[
    (Class::ParseAndPlan, &["parse-and-plan"]),
    (Class::KernelNetwork, &["round-trips"]),
    (Class::Protocol, &["round-trips"]),
    (Class::PageFaults, &["page-faults", "connections-opened"]),
    (
        Class::Compaction,
        &["memory-compaction", "transparent-huge-pages"],
    ),
    (Class::Jit, &["jit-small-queries"]),
    (Class::BufferMapping, &["shared-buffers-small"]),
];

/// Whether one of the entries that were found accounts for waits at an event.
pub fn account_for_wait(found: &[&str], kind: &str, event: &str) -> bool {
    let mut rows = WAITS.iter();
    rows.any(|(entries, are)| are(kind, event) && entries.iter().any(|id| found.contains(id)))
}

/// The entries that account for a class of CPU time; none where its functions show whether one does.
pub fn of_class(class: Class) -> Option<&'static [&'static str]> {
    let row = CLASSES.iter().find(|(known, _)| *known == class);
    row.map(|(_, entries)| *entries)
}

impl Link {
    fn joins(&self, evidence: &Evidence, cause: &Finding, symptom: &Finding) -> bool {
        let by_cause = match &self.causes {
            Entries(entries) => entries.contains(&cause.entry()),
            Work(basis) => cause.basis == *basis,
        };
        by_cause
            && self.symptoms.contains(&symptom.entry())
            && (self.holds)(evidence, cause, symptom)
    }
}

/// The link with a condition by which one finding is a symptom of another.
fn linked(evidence: &Evidence, cause: &Finding, symptom: &Finding) -> Option<&'static Link> {
    let mut links = LINKS.iter();
    links.find(|link| link.joins(evidence, cause, symptom))
}

/// Whether the page of the cause names the entry.
fn names(cause: &Finding, symptom: &Finding) -> bool {
    find(&cause.id).is_some_and(|cause| cause.symptoms.contains(&symptom.entry()))
}

/// Whether it says where its time goes, and not only that it goes.
fn is_cause(finding: &Finding) -> bool {
    finding.symptom_of.is_none()
        && finding.id != SATURATED
        && finding.confidence >= Confidence::Medium
        && finding.severity > Severity::Info
}

/// The cause of a symptom.
struct Found {
    id: String,
    /// What is done about the symptom then.
    instead: Option<&'static str>,
}

/// The part of a symptom's gain that a cause must have.
const LARGE_ENOUGH: f64 = 0.5;

/// Says of each symptom which of the other findings is its cause.
pub fn link(evidence: &Evidence, findings: &mut [Finding]) {
    let gain = |finding: &Finding| finding.gain().unwrap_or(0.0);
    let own_work = filled_by_own_work(evidence);
    let found: Vec<Option<Found>> = findings
        .iter()
        .map(|symptom| {
            let causes = findings.iter().filter(|cause| {
                cause.id != symptom.id
                    && is_cause(cause)
                    && (names(cause, symptom) || linked(evidence, cause, symptom).is_some())
                    && (gain(cause) >= LARGE_ENOUGH * gain(symptom)
                        || symptom.id == SATURATED
                            && names(cause, symptom)
                            && cause.lacks_own_gain()
                            && cause.severity >= Severity::High)
                    && (symptom.id != SATURATED
                        || (own_work || names(cause, symptom))
                            && cause.severity >= Severity::Medium)
            });
            let most = causes.max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
            Some(Found {
                id: most.id.clone(),
                instead: linked(evidence, most, symptom).and_then(|link| link.instead),
            })
        })
        .collect();
    // Where a cause is itself a symptom, its cause is named.
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
    /// The id of its entry: its own without the name of what it is about.
    pub(crate) fn entry(&self) -> &str {
        self.id.split_once('/').map_or(&self.id, |(entry, _)| entry)
    }

    /// Whether it has no figure of its own, or one that is small since the CPUs are full: of the same full CPUs it may be
    /// the cause all the same.
    pub(crate) fn lacks_own_gain(&self) -> bool {
        self.gain().is_none() || self.limited_by_cpus
    }

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

/// Whether it is what processes cost that start and end.
fn of_processes(symptom: &Finding) -> bool {
    let faults =
        symptom.id == "page-faults" && symptom.subjects.suspect == Some(Suspect::ProcessStarts);
    let event = symptom.id.strip_prefix("wait-event/IPC:");
    faults || event.is_some_and(waits_for_workers)
}

/// Whether the plan of a statement that a finding is about has parallel workers.
fn starts_workers(evidence: &Evidence, cause: &Finding) -> bool {
    let Some(run) = &evidence.run else {
        return false;
    };
    let plans = weighty(run).filter(|statement| is_about(cause, statement));
    plans.filter_map(|s| s.plan.as_ref()).any(|plan| {
        let all = plan.root.all();
        all.iter().any(|(_, n)| n.gathers())
    })
}

fn of_one_statement(evidence: &Evidence, cause: &Finding, symptom: &Finding) -> bool {
    let Some(run) = &evidence.run else {
        return false;
    };
    weighty(run).any(|statement| is_about(cause, statement) && is_about(symptom, statement))
}

/// Whether both findings are about one table.
fn of_one_table(_: &Evidence, cause: &Finding, symptom: &Finding) -> bool {
    !cause
        .subjects
        .relations
        .is_disjoint(&symptom.subjects.relations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::{QUIET, looked_at, statement};
    use crate::finding::{Circumstances, Observation};
    use pgassay_model::observed::plans::{Node, Plan};

    /// A finding about a statement, in words that name nothing.
    fn finding(id: &str, statement: &str) -> Finding {
        let seen = Observation::measured(Basis::Statements, Some(0.5), "Something was found.");
        let mut finding = Finding::new(find(id).unwrap(), seen, Circumstances::default());
        finding.subjects.statements = [statement.to_owned()].into();
        finding
    }

    /// Whether a link joins both, beside a statement with this plan.
    fn is_linked(root: &str, cause: &Finding, symptom: &Finding) -> bool {
        let plan = Plan {
            root: Node {
                kind: root.into(),
                ..Node::default()
            },
            ..Plan::default()
        };
        looked_at(
            &QUIET,
            |observed| {
                let mut seen = statement("SELECT 1", Some(plan));
                seen.statements[0].id = OURS.to_owned();
                observed.statements = Some(seen);
            },
            |evidence| linked(evidence, cause, symptom).is_some(),
        )
    }

    const OURS: &str = "1";
    const OTHERS: &str = "2";

    #[test]
    fn workers_are_of_the_statement_whose_plan_has_them() {
        let faults = |suspect| {
            let mut faults = finding("page-faults", "");
            faults.subjects.suspect = suspect;
            faults
        };
        let started = faults(Some(Suspect::ProcessStarts));
        let scan = |statement| finding("sequential-scan", statement);
        assert!(is_linked("Gather", &scan(OURS), &started));
        assert!(!is_linked("Seq Scan", &scan(OURS), &started));
        assert!(!is_linked("Gather", &scan(OTHERS), &started));
        // Nobody starts or ends.
        assert!(!is_linked("Gather", &scan(OURS), &faults(None)));
        let mut waits = finding("wait-event", "");
        waits.id = "wait-event/IPC:BgWorkerShutdown".into();
        assert!(is_linked("Gather", &scan(OURS), &waits));
        waits.id = "wait-event/IPC:SyncRep".into();
        assert!(!is_linked("Gather", &scan(OURS), &waits));

        let compiled = finding("jit-small-queries", "");
        let private = faults(Some(Suspect::PrivateMemory));
        assert!(is_linked("Sort", &compiled, &private));
        assert!(!is_linked("Sort", &compiled, &faults(None)));
    }

    #[test]
    fn dead_rows_are_behind_the_nodes_that_go_through_them() {
        let about = |id, relation: &str| {
            let mut about = finding(id, OTHERS);
            about.subjects.relations = [relation.to_owned()].into();
            about
        };
        let held = |table| about("horizon-held", table);
        let mut node = about("plan-node", "public.t");
        node.id = "plan-node/Index-Scan-on-public.t".into();
        assert!(is_linked("Index Scan", &held("public.t"), &node));
        assert!(!is_linked("Index Scan", &held("public.tt"), &node));
        let estimate = about("rows-misestimated", "public.t");
        assert!(is_linked("Seq Scan", &held("public.t"), &estimate));
        let scan = about("sequential-scan", "public.t");
        assert!(!is_linked("Seq Scan", &held("public.t"), &scan));
    }

    #[test]
    fn a_setting_is_behind_what_its_plan_throws_away() {
        let set = |statement| finding("plan-by-settings", statement);
        let discarded = finding("rows-discarded", OURS);
        assert!(is_linked("Index Scan", &set(OURS), &discarded));
        assert!(!is_linked("Index Scan", &set(OTHERS), &discarded));
    }

    #[test]
    fn every_entry_that_is_named_here_exists() {
        let of = |link: &Link| match link.causes {
            Entries(causes) => [causes, link.symptoms].concat(),
            Work(_) => link.symptoms.to_vec(),
        };
        let links = LINKS.iter().flat_map(of);
        let waits = WAITS
            .iter()
            .flat_map(|(entries, _)| entries.iter().copied());
        let classes = CLASSES
            .iter()
            .flat_map(|(_, entries)| entries.iter().copied());
        for id in links.chain(waits).chain(classes) {
            assert!(find(id).is_some_and(|entry| entry.id == id), "{id}");
        }
    }

    fn measured(id: &str, basis: Basis, share: f64) -> Finding {
        let seen = Observation::measured(basis, Some(share), format!("{id}."));
        Finding::new(find(id).unwrap(), seen, Circumstances::default())
    }

    fn causes(mut findings: Vec<Finding>) -> Vec<Option<String>> {
        link(&Evidence::default(), &mut findings);
        findings.into_iter().map(|f| f.cause).collect()
    }

    #[test]
    fn a_statements_work_is_the_cause_of_full_cpus_and_reads() {
        let scan = || measured("sequential-scan", Basis::Statements, 0.6);
        for symptom in OF_STATEMENTS {
            let beside = measured(symptom, Basis::WaitTime, 0.5);
            let found = causes(vec![beside, scan()]);
            assert_eq!(
                found,
                [Some("sequential-scan".to_owned()), None],
                "{symptom}"
            );
        }
        // Commits wait for the log whatever statements read.
        let found = causes(vec![measured("wal-flush", Basis::WaitTime, 0.5), scan()]);
        assert_eq!(found, [None, None]);
    }

    #[test]
    fn the_page_of_a_cause_names_its_symptoms() {
        let flush = || measured("wal-flush", Basis::WaitTime, 0.5);
        let forced = |share| measured("forced-checkpoints", Basis::WaitTime, share);
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
        let full = || measured(SATURATED, Basis::MachineTime, 0.5);
        let held = || {
            let seen = Observation::new(Severity::High, Confidence::Medium, "Held.");
            let entry = find("horizon-held").unwrap();
            Finding::new(entry, seen, Circumstances::default())
        };
        let found = causes(vec![full(), held()]);
        assert_eq!(found, [Some("horizon-held".to_owned()), None]);
        let scan = measured("sequential-scan", Basis::Statements, 0.6);
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
        let dead = measured("autovacuum-behind", Basis::Statements, 0.9);
        let held = measured("horizon-held", Basis::Statements, 0.85);
        let full = measured(SATURATED, Basis::MachineTime, 0.5);
        let of = || Some("horizon-held".to_owned());
        assert_eq!(causes(vec![full, dead, held]), [of(), of(), None]);
    }

    #[test]
    fn what_was_supposed_gives_way_to_what_was_found() {
        let mut findings = vec![
            measured("wal-flush", Basis::WaitTime, 0.5),
            measured("forced-checkpoints", Basis::WaitTime, 0.5),
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
                measured("wal-flush", Basis::WaitTime, 0.5),
                measured("forced-checkpoints", Basis::WaitTime, 0.5),
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
