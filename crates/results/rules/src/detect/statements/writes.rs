//! What lies behind a statement that writes: foreign keys that refer to its table, triggers for each row.

use crate::detect::common::hits::{Hit, Part, joined, with_plans};
use crate::detect::common::scans::by_index;
use crate::detect::statements::writing::{within, written};
use crate::detect::{Detector, run, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Work;
use pgassay_model::observed::plans::{Operation, TriggerFacts};

pub const DETECTORS: &[Detector] = &[
    run("foreign-key-unindexed", foreign_keys),
    run("trigger-per-row", triggers),
];

/// A table of fewer rows is read whole in no time.
const FEW_ROWS: f64 = 10_000.0;

fn foreign_keys(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let (_, referenced, facts) = written(plan, &[Operation::Delete, Operation::Update])?;
        let mut unindexed = facts.referenced_by.iter().filter(|r| !r.indexed);
        let (reference, scans, each) = unindexed.find_map(|reference| {
            let seen = run.table(&reference.table)?;
            let scans = seen.by("seq_scan");
            let each = seen.by("seq_tup_read") / scans.max(1.0);
            // Who looks for rows that refer stops at the first one, so they may be fewer than there are.
            (scans >= 1.0 && each >= FEW_ROWS).then_some((reference, scans, each))
        })?;
        // What of the statement's time the checks take, by CPU samples; it is mostly all.
        let checks = within(evidence, Work::ForeignKeys);
        let part = checks.map_or(Part::of_all(0.9), |share| {
            Part::of_samples(statement, share)
        });
        Some(Hit {
            statement,
            part,
            left: by_index(each, 1.0),
            saw: format!(
                "Each row deleted from {referenced} has {} ({}) read whole: no index serves the foreign key.",
                reference.table, reference.columns
            ),
            confidence: Confidence::High,
            evidence: vec![format!(
                "{scans:.0} sequential scans of {} in the measured time, {each:.0} rows each",
                reference.table
            )],
            steps: vec![(
                StepKind::Sql,
                format!(
                    "CREATE INDEX CONCURRENTLY ON {} ({});",
                    reference.table, reference.columns
                ),
            )],
        })
    });
    joined(&run, hits)
}

/// Whether a trigger calls a function in an interpreted language for each row.
fn is_procedural(trigger: &TriggerFacts) -> bool {
    !matches!(trigger.language.as_str(), "c" | "internal") && trigger.for_each_row
}

/// The part of a statement's CPU time in triggers from which on they are worth a finding.
const IN_TRIGGERS: f64 = 0.15;

fn triggers(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let spent = within(evidence, Work::Triggers);
    let hits = with_plans(&run, |statement, plan| {
        let (node, name, facts) = written(
            plan,
            &[Operation::Insert, Operation::Update, Operation::Delete],
        )?;
        let operation = node.operation.as_ref()?;
        let called: Vec<&TriggerFacts> = facts
            .triggers
            .iter()
            .filter(|t| is_procedural(t) && t.events.iter().any(|e| e == operation))
            .collect();
        let first = called.first()?;
        // Where no caller is known, what the language itself takes is the least.
        // The library of plpython3u is plpython3.so.
        let library = first.language.trim_end_matches('u');
        let language = evidence.profile.and_then(|profile| {
            let mut objects = profile.objects.iter();
            Some(objects.find(|o| o.object.starts_with(library))?.share)
        });
        let spent = spent.into_iter().chain(language).reduce(f64::max);
        // Without samples nobody knows what they cost.
        let spent = spent?;
        let part = Part::of_samples(statement, spent);
        if part.cpu < IN_TRIGGERS {
            return None;
        }
        let names: Vec<&str> = called.iter().map(|t| t.name.as_str()).collect();
        let steps = vec![
            (
                StepKind::Advice,
                format!(
                    "make it a trigger FOR EACH STATEMENT with transition tables (REFERENCING NEW TABLE), or \
                     do what {} does in the statement itself",
                    first.function
                ),
            ),
            (
                StepKind::Sql,
                format!(
                    "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = '{}';",
                    first.function.replace('\'', "''")
                ),
            ),
            (
                StepKind::Advice,
                "where it must stay, let a WHEN condition keep it from rows that it does nothing for"
                    .to_owned(),
            ),
        ];
        Some(Hit {
            statement,
            part,
            left: None,
            saw: format!(
                "{} on {name}, written in {}, {} called for each row.",
                names.join(", "),
                first.language,
                if names.len() == 1 { "is" } else { "are" }
            ),
            confidence: Confidence::High,
            evidence: vec![format!(
                "{} of the CPU samples are in triggers",
                tenths(spent)
            )],
            steps,
        })
    });
    joined(&run, hits)
}

#[cfg(test)]
mod tests {

    use crate::Finding;
    use crate::detect::tests::made::{found_in_samples_of, found_writing, grown, one, writing};
    use crate::finding::Confidence;

    use pgassay_model::observed::plans::{ReferenceFacts, RelationFacts, TriggerFacts};

    fn referenced(indexed: bool) -> RelationFacts {
        RelationFacts {
            referenced_by: vec![ReferenceFacts {
                table: "public.child".into(),
                columns: "parent".into(),
                indexed,
                rows: Some(200_000.0),
            }],
            ..RelationFacts::default()
        }
    }

    #[test]
    fn a_delete_that_reads_the_referring_table_names_the_missing_index() {
        let scans = || {
            vec![grown(
                "public.child",
                &[("seq_scan", 40.0), ("seq_tup_read", 8e6)],
            )]
        };
        let findings = found_writing("Delete", referenced(false), scans());
        let key = one(&findings, "foreign-key-unindexed");
        assert_eq!(
            key.remedy[0].text,
            "CREATE INDEX CONCURRENTLY ON public.child (parent);"
        );
        assert!(
            key.evidence
                .iter()
                .any(|e| e.contains("40 sequential scans")),
            "{key:#?}"
        );
        // An index serves it, or nobody read the table: no finding.
        for findings in [
            found_writing("Delete", referenced(true), scans()),
            found_writing("Delete", referenced(false), vec![]),
        ] {
            assert!(
                findings.iter().all(|f| f.id != "foreign-key-unindexed"),
                "{findings:#?}"
            );
        }
    }

    #[test]
    fn a_costly_procedural_trigger_for_each_row_is_found() {
        const CHAINS: &str = "    30.00%  postgres  plpgsql.so  [.] exec_stmts\n            |\n            ---plpgsql_exec_trigger\n               plpgsql_call_handler\n";
        let of = |listing: &'static str, edit: fn(&mut TriggerFacts)| -> Option<Finding> {
            let mut trigger = TriggerFacts {
                name: "touch".into(),
                function: "touch".into(),
                language: "plpgsql".into(),
                for_each_row: true,
                events: vec!["Insert".into(), "Update".into()],
            };
            edit(&mut trigger);
            let facts = RelationFacts {
                triggers: vec![trigger],
                ..RelationFacts::default()
            };
            let found = found_in_samples_of(listing, vec![writing("Insert", facts)]);
            found.into_iter().find(|f| f.id == "trigger-per-row")
        };
        let finding = of(CHAINS, |_| {}).unwrap();
        assert_eq!(
            finding.saw,
            "touch on public.t, written in plpgsql, is called for each row."
        );
        assert_eq!(finding.confidence, Confidence::High);
        assert!((finding.budget_share.unwrap() - 0.3).abs() < 1e-9);
        // In samples without callers, the library of the language shows it.
        let untrusted = of("30.00% postgres plpython3.so [.] PLy_exec_trigger\n", |t| {
            t.language = "plpython3u".into();
        });
        assert!(untrusted.is_some());
        for edit in [
            (|t| t.for_each_row = false) as fn(&mut TriggerFacts),
            |t| t.language = "c".into(),
            |t| t.events = vec!["Update".into()],
        ] {
            assert_eq!(of(CHAINS, edit), None);
        }
        let little = of("10.00% postgres plpgsql.so [.] exec_stmts\n", |_| {});
        assert_eq!(little, None);
    }
}
