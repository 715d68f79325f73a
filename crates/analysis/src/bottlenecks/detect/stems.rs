//! Symptoms whose cause the plan of a statement tells, beyond what the page of a cause can name: who starts the workers, whose
//! dead rows a node goes through. A further one is a row of [`STEMS`].

use super::amounts::waits_for_workers;
use super::hits::{is_about, weighty};
use crate::bottlenecks::evidence::Evidence;
use crate::bottlenecks::finding::{Basis, Finding};

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
        symptom: |symptom| symptom.id == "page-faults" && symptom.symptom_of.is_some(),
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
                    "index-walked"
                        | "late-filter"
                        | "rows-discarded"
                        | "sequential-scan"
                        | "sort-below-limit"
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
    let faults = symptom.id == "page-faults"
        && symptom
            .symptom_of
            .as_deref()
            .is_some_and(|of| of.starts_with("processes that start"));
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

/// Whether the node that a finding names scans the table of the other.
fn of_one_table(evidence: &Evidence, cause: &Finding, symptom: &Finding) -> bool {
    let Some(run) = &evidence.run else {
        return false;
    };
    let names = |text: &str, table: &str| {
        let mut words = text.split_whitespace();
        words.any(|word| word.trim_matches([',', '.', ';', ':', '(', ')']) == table)
    };
    let plans = weighty(run).filter_map(|statement| statement.plan.as_ref());
    let mut tables = plans.flat_map(|plan| plan.relations.keys());
    tables.any(|table| {
        let mut said = std::iter::once(&cause.saw).chain(&cause.evidence);
        names(&symptom.saw, table) && said.any(|text| names(text, table))
    })
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::statement;
    use super::super::tests::made::{QUIET, looked_at};
    use super::*;
    use crate::bottlenecks::find;
    use crate::bottlenecks::finding::{Circumstances, Observation};
    use pgassay_model::observed::plans::{Node, Plan, RelationFacts};

    fn finding(id: &str, saw: &str, evidence: &str) -> Finding {
        let seen = Observation::measured(Basis::Statements, Some(0.5), saw).seen(evidence);
        let mut finding = Finding::new(find(id).unwrap(), seen, Circumstances::default());
        finding.id = id.to_owned();
        finding
    }

    /// Whether one stems from the other, beside a statement with this plan.
    fn stems(root: &str, cause: &Finding, symptom: &Finding) -> bool {
        let plan = Plan {
            root: Node {
                kind: root.into(),
                ..Node::default()
            },
            relations: [("public.t".to_owned(), RelationFacts::default())].into(),
            ..Plan::default()
        };
        looked_at(
            &QUIET,
            |observed| observed.statements = Some(statement("SELECT 1", Some(plan))),
            |evidence| stem(evidence, cause, symptom).is_some(),
        )
    }

    const OURS: &str = "90.0 % of the sessions' time in transactions goes to: SELECT 1";
    const OTHERS: &str = "90.0 % of the sessions' time in transactions goes to: SELECT 2";

    #[test]
    fn workers_are_of_the_statement_whose_plan_has_them() {
        let faults = |of: &str| {
            let mut faults = finding("page-faults", "Page faults take 20 %.", "");
            faults.symptom_of = (!of.is_empty()).then(|| of.to_owned());
            faults
        };
        let started =
            faults("processes that start and end: parallel workers, or sessions opened anew");
        let scan = |evidence: &str| finding("sequential-scan", "public.t is read whole.", evidence);
        assert!(stems("Gather", &scan(OURS), &started));
        assert!(!stems("Seq Scan", &scan(OURS), &started));
        assert!(!stems("Gather", &scan(OTHERS), &started));
        // Nobody starts or ends.
        assert!(!stems("Gather", &scan(OURS), &faults("")));
        let mut waits = finding("wait-event", "Sessions wait.", "");
        waits.id = "wait-event/IPC:BgWorkerShutdown".into();
        assert!(stems("Gather", &scan(OURS), &waits));
        waits.id = "wait-event/IPC:SyncRep".into();
        assert!(!stems("Gather", &scan(OURS), &waits));

        let compiled = finding("jit-small-queries", "Compiling expressions takes 40 %.", "");
        let private = faults("statements that take much memory anew: large sorts");
        assert!(stems("Sort", &compiled, &private));
        assert!(!stems("Sort", &compiled, &faults("")));
    }

    #[test]
    fn dead_rows_are_behind_the_nodes_that_go_through_them() {
        let held = |table: &str| {
            finding(
                "horizon-held",
                &format!(
                    "The session 7 keeps the dead rows of {table}: 3000 transactions began since."
                ),
                OTHERS,
            )
        };
        let mut node = finding(
            "plan-node",
            "68.1 % of the time of a statement goes to one node of its plan: Index Scan on public.t using t_pkey, 51 rows.",
            OURS,
        );
        node.id = "plan-node/Index-Scan-on-public.t".into();
        assert!(stems("Index Scan", &held("public.t"), &node));
        assert!(!stems("Index Scan", &held("public.tt"), &node));
        let estimate = finding(
            "rows-misestimated",
            "The planner expected 61769 rows where 2000 came (Seq Scan on public.t, as it ran).",
            OURS,
        );
        assert!(stems("Seq Scan", &held("public.t"), &estimate));
        let scan = finding("sequential-scan", "public.t is read whole.", OURS);
        assert!(!stems("Seq Scan", &held("public.t"), &scan));
    }

    #[test]
    fn a_setting_is_behind_what_its_plan_throws_away() {
        let set = |evidence: &str| {
            finding(
                "plan-by-settings",
                "random_page_cost = 4 makes it dear.",
                evidence,
            )
        };
        let discarded = finding("rows-discarded", "t_pkey is gone through.", OURS);
        assert!(stems("Index Scan", &set(OURS), &discarded));
        assert!(!stems("Index Scan", &set(OTHERS), &discarded));
    }
}
