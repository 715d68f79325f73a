//! Symptoms whose cause the plan of a statement tells, beyond what the page of a cause can name: who starts the workers, whose
//! dead rows a node goes through. A further one is a row of [`STEMS`].

use crate::detect::common::hits::{is_about, weighty};
use crate::detect::common::wait_shares::waits_for_workers;
use crate::evidence::Evidence;
use crate::finding::{Basis, Finding};
use crate::subjects::Suspect;

/// What a symptom stems from.
pub struct Stem {
    symptom: fn(&Finding) -> bool,
    cause: fn(&Finding) -> bool,
    /// Whether the one is of the other here.
    holds: fn(&Evidence, cause: &Finding, symptom: &Finding) -> bool,
    /// What is done then, in the place of what a symptom without a cause is told.
    pub instead: Option<&'static str>,
}

const STEMS: &[Stem] = &[
    Stem {
        symptom: |symptom| of_processes(symptom),
        cause: |cause| cause.basis == Basis::Statements,
        holds: |evidence, cause, _| starts_workers(evidence, cause),
        instead: Some(
            "mend that: the statement's plan has parallel workers, which start and end with each execution, and one that reads little \
             does without them",
        ),
    },
    Stem {
        // Memory that is shared is none of the compiler's.
        symptom: |symptom| symptom.id == "page-faults" && symptom.subjects.suspect.is_some(),
        cause: |cause| cause.id == "jit-small-queries",
        holds: |_, _, _| true,
        instead: Some(
            "mend that: the compiler of expressions takes memory anew for each execution, and gives it back after it",
        ),
    },
    Stem {
        symptom: |symptom| {
            symptom.id.starts_with("plan-node/") || symptom.id == "rows-misestimated"
        },
        cause: |cause| of_dead_rows(&cause.id),
        holds: of_one_table,
        instead: Some(
            "mend that first, then see what is left: rows and pages that nobody needs are gone through here, and another index or \
             another order leads to them as well",
        ),
    },
    Stem {
        // Questions that would cost nothing to speak of if the catalogues had their live rows alone.
        symptom: |symptom| symptom.id == "plan-node/catalogues-asked",
        cause: |cause| of_dead_rows(&cause.id),
        holds: of_one_statement,
        instead: None,
    },
    Stem {
        // What the plan does that another setting would not have chosen.
        symptom: |symptom| {
            symptom.id.starts_with("plan-node/")
                || matches!(
                    symptom.id.as_str(),
                    "rows-discarded" | "sequential-scan" | "sort-below-limit"
                )
        },
        cause: |cause| cause.id == "plan-by-settings",
        holds: of_one_statement,
        instead: None,
    },
    Stem {
        symptom: |symptom| symptom.id == "rows-misestimated",
        cause: |cause| cause.id == "loop-misestimated",
        holds: of_one_statement,
        instead: None,
    },
];

/// What one finding stems from another by; none where it does not.
pub fn stem(evidence: &Evidence, cause: &Finding, symptom: &Finding) -> Option<&'static Stem> {
    STEMS.iter().find(|stem| {
        (stem.symptom)(symptom) && (stem.cause)(cause) && (stem.holds)(evidence, cause, symptom)
    })
}

/// Whether an entry is about rows and pages that nobody needs.
fn of_dead_rows(entry: &str) -> bool {
    matches!(
        entry,
        "autovacuum-behind" | "horizon-held" | "swollen-table"
    )
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
    use crate::detect::tests::made::statement;
    use crate::detect::tests::made::{QUIET, looked_at};
    use crate::find;
    use crate::finding::{Circumstances, Observation};
    use pgassay_model::observed::plans::{Node, Plan};

    /// A finding about a statement, in words that name nothing.
    fn finding(id: &str, statement: &str) -> Finding {
        let seen = Observation::measured(Basis::Statements, Some(0.5), "Something was found.");
        let mut finding = Finding::new(find(id).unwrap(), seen, Circumstances::default());
        finding.subjects.statements = [statement.to_owned()].into();
        finding
    }

    /// Whether one stems from the other, beside a statement with this plan.
    fn stems(root: &str, cause: &Finding, symptom: &Finding) -> bool {
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
            |evidence| stem(evidence, cause, symptom).is_some(),
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
        assert!(stems("Gather", &scan(OURS), &started));
        assert!(!stems("Seq Scan", &scan(OURS), &started));
        assert!(!stems("Gather", &scan(OTHERS), &started));
        // Nobody starts or ends.
        assert!(!stems("Gather", &scan(OURS), &faults(None)));
        let mut waits = finding("wait-event", "");
        waits.id = "wait-event/IPC:BgWorkerShutdown".into();
        assert!(stems("Gather", &scan(OURS), &waits));
        waits.id = "wait-event/IPC:SyncRep".into();
        assert!(!stems("Gather", &scan(OURS), &waits));

        let compiled = finding("jit-small-queries", "");
        let private = faults(Some(Suspect::PrivateMemory));
        assert!(stems("Sort", &compiled, &private));
        assert!(!stems("Sort", &compiled, &faults(None)));
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
        assert!(stems("Index Scan", &held("public.t"), &node));
        assert!(!stems("Index Scan", &held("public.tt"), &node));
        let estimate = about("rows-misestimated", "public.t");
        assert!(stems("Seq Scan", &held("public.t"), &estimate));
        let scan = about("sequential-scan", "public.t");
        assert!(!stems("Seq Scan", &held("public.t"), &scan));
    }

    #[test]
    fn a_setting_is_behind_what_its_plan_throws_away() {
        let set = |statement| finding("plan-by-settings", statement);
        let discarded = finding("rows-discarded", OURS);
        assert!(stems("Index Scan", &set(OURS), &discarded));
        assert!(!stems("Index Scan", &set(OTHERS), &discarded));
    }
}
