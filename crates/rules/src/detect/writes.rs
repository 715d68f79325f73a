//! What lies behind a statement that writes: foreign keys that refer to its table, triggers for each
//! row; and tables that are read whole by a statement in whose plan they do not stand.

use std::collections::BTreeSet;

use super::conditions::words;
use super::hits::{Hit, Part, joined, weighty, with_plans};
use super::plans::by_index;
use super::trigger_bodies::body;
use super::{Detector, run, tenths};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Observation, Severity, StepKind};
use pgassay_evidence::profile::Work;
use pgassay_model::observed::plans::{Node, Plan, RelationFacts, TriggerFacts};
use pgassay_text::quote::quote_ident;

pub(super) const DETECTORS: &[Detector] = &[
    run("foreign-key-unindexed", foreign_keys),
    run("trigger-per-row", triggers),
    run("scans-within-functions", inner_scans),
];

/// A table of fewer rows is read whole in no time.
const FEW_ROWS: f64 = 10_000.0;

/// A table that a statement writes, with what the catalogues say of it.
pub(super) fn written<'p>(
    plan: &'p Plan,
    operations: &[&str],
) -> Option<(&'p Node, &'p str, &'p RelationFacts)> {
    plan.root.all().into_iter().find_map(|(_, node)| {
        let operation = node
            .operation
            .as_deref()
            .filter(|o| operations.contains(o))?;
        debug_assert!(!operation.is_empty());
        let name = node.relation.as_deref()?;
        Some((node, name, plan.relations.get(name)?))
    })
}

/// The share of the CPU samples within some work; none where no sample is.
pub(super) fn within(evidence: &Evidence, work: Work) -> Option<f64> {
    evidence.profile?.within(work)
}

fn foreign_keys(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let (_, referenced, facts) = written(plan, &["Delete", "Update"])?;
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

/// Whether a trigger's function is interpreted.
fn is_procedural(trigger: &TriggerFacts, table: &str) -> bool {
    let dear = || body(trigger, table).is_some_and(|body| body.for_statements);
    !matches!(trigger.language.as_str(), "c" | "internal") && (trigger.for_each_row || dear())
}

/// The part of a statement's CPU time in triggers from which on they are worth a finding.
const IN_TRIGGERS: f64 = 0.15;

fn triggers(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let spent = within(evidence, Work::Triggers);
    let hits = with_plans(&run, |statement, plan| {
        let (node, name, facts) = written(plan, &["Insert", "Update", "Delete"])?;
        let operation = node.operation.as_deref()?;
        let called: Vec<&TriggerFacts> = facts
            .triggers
            .iter()
            .filter(|t| is_procedural(t, name) && t.events.iter().any(|e| e == operation))
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
        let dear = called.iter().find_map(|trigger| body(trigger, name));
        let (does, mut steps) = dear.map_or((String::new(), Vec::new()), |body| {
            (format!("; {}", body.does), body.steps)
        });
        let each = called.iter().all(|trigger| trigger.for_each_row);
        // A replication, a log or a queue that was given up leaves its triggers behind.
        let filled = called.iter().find_map(|trigger| {
            let mut writes = trigger.body.writes.iter();
            let table = writes.find_map(|write| write.strip_prefix("insert "))?;
            unread(&run, table).then_some((trigger.name.as_str(), table))
        });
        if let Some((trigger, filled)) = filled {
            steps.insert(
                0,
                (
                    StepKind::Advice,
                    format!(
                        "find out who needs what it writes to {filled}, which nothing has read in the measured time (what is kept for auditors is read seldom): if nobody does any more (a replication or a queue that was given up), \
                         DROP TRIGGER {} ON {name}; {filled} and the function once no other trigger needs them",
                        quote_ident(trigger)
                    ),
                ),
            );
        }
        if steps.is_empty() || filled.is_some() && steps.len() == 1 {
            steps.push((
                StepKind::Advice,
                format!(
                    "make it a trigger FOR EACH STATEMENT with transition tables (REFERENCING NEW TABLE), or \
                     do what {} does in the statement itself",
                    first.function
                ),
            ));
        }
        steps.push((
            StepKind::Sql,
            format!(
                "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = '{}';",
                first.function.replace('\'', "''")
            ),
        ));
        if each {
            steps.push((
                StepKind::Advice,
                "where it must stay, let a WHEN condition keep it from rows that it does nothing for".to_owned(),
            ));
        }
        Some(Hit {
            statement,
            part,
            left: None,
            saw: format!(
                "{} on {name}, written in {}, {} called for each {}{does}.",
                names.join(", "),
                first.language,
                if names.len() == 1 { "is" } else { "are" },
                if each { "row" } else { "statement" }
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

/// Whether a table that was written in the measured time was read by nobody.
fn unread(run: &RunEvidence, table: &str) -> bool {
    let tables = run.observed.and_then(|seen| seen.growth.as_ref());
    let mut tables = tables.into_iter().flat_map(|growth| &growth.tables);
    let bare = |name: &str| {
        name.rsplit('.')
            .next()
            .unwrap_or(name)
            .trim_matches('"')
            .to_owned()
    };
    tables.any(|seen| {
        bare(&seen.name) == bare(table) && seen.by("n_tup_ins") > 0.0 && seen.scans() == 0.0
    })
}

/// Scans for each call of a statement below which they are not its own.
const OF_CALLS: f64 = 0.1;
/// Statements that read tables whole without a plan that anybody sees.
const MAINTENANCE: &[&str] = &[
    "ALTER", "ANALYZE", "CLUSTER", "COPY", "CREATE", "REFRESH", "REINDEX", "VACUUM",
];

/// Whether another session was seen that may have read a table: one that holds others up, or the horizon,
/// with a statement that names it or that reads tables for its own ends.
fn read_by_others(run: &RunEvidence, table: &str) -> bool {
    let Some(observed) = run.observed else {
        return false;
    };
    let bare = table.rsplit('.').next().unwrap_or(table).trim_matches('"');
    let holders = observed.blockers.iter().flat_map(|b| &b.holders);
    let horizon = observed.growth.iter().flat_map(|g| &g.horizon);
    let all = observed.statements.iter().flat_map(|s| &s.statements);
    let mut seen = holders
        .map(|h| h.statement.as_str())
        .chain(horizon.map(|h| h.statement.as_str()))
        .chain(all.filter(|s| s.plan.is_none()).map(|s| s.text.as_str()));
    seen.any(|statement| {
        let verb = words(statement).next().unwrap_or_default();
        let maintains = MAINTENANCE.iter().any(|m| m.eq_ignore_ascii_case(verb));
        maintains || words(statement).any(|word| word.eq_ignore_ascii_case(bare))
    })
}

/// Tables that are read whole again and again, and stand in no plan of a statement that was seen: a
/// function, a trigger, a constraint or a policy reads them.
fn inner_scans(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let growth = run.observed?.growth.as_ref()?;
    let weighty: Vec<_> = weighty(&run).collect();
    // A plan that is not known may hold any table.
    if weighty.is_empty() || weighty.iter().any(|s| s.plan.is_none()) {
        return None;
    }
    // What a foreign server reads may be tables of this one.
    let plans = || weighty.iter().filter_map(|s| s.plan.as_ref());
    let told = plans().any(|plan| !plan.set_clauses.is_empty());
    let mut nodes = plans().flat_map(|plan| plan.root.all());
    if told || nodes.any(|(_, node)| node.kind == "Foreign Scan") {
        return None;
    }
    let planned: BTreeSet<&str> = weighty
        .iter()
        .filter_map(|s| s.plan.as_ref())
        .flat_map(|plan| plan.root.all())
        .filter_map(|(_, node)| node.relation.as_deref())
        .collect();
    let referring: BTreeSet<&str> = weighty
        .iter()
        .filter_map(|s| s.plan.as_ref())
        .flat_map(|plan| plan.relations.values())
        .flat_map(|facts| &facts.referenced_by)
        .map(|reference| reference.table.as_str())
        .collect();
    let scanned = growth.tables.iter().filter(|t| {
        let scans = t.by("seq_scan");
        scans >= 10.0
            && t.by("seq_tup_read") >= FEW_ROWS * scans
            && !planned.contains(t.name.as_str())
            && !referring.contains(t.name.as_str())
            && !t.name.starts_with("pgassay.")
    });
    let worst = scanned.max_by(|a, b| a.by("seq_tup_read").total_cmp(&b.by("seq_tup_read")))?;
    let scans = worst.by("seq_scan");
    let each = worst.by("seq_tup_read") / scans;
    let statement = weighty.first()?;
    // Statements of sessions that are not the load's may read it.
    if run.elsewhere().is_some() {
        return None;
    }
    // Far fewer scans than calls are another session's, or of a way that is seldom taken.
    let calls = weighty
        .iter()
        .filter_map(|s| Some(s.counters.as_ref()?.calls));
    if calls.fold(0.0, f64::max) * OF_CALLS > scans || read_by_others(&run, &worst.name) {
        return None;
    }
    // What such functions execute, by CPU samples; what the statement itself does stays.
    let inside = within(evidence, Work::Nested).or_else(|| within(evidence, Work::Procedural));
    let part = inside.map_or(Part::of_all(1.0), |share| {
        Part::of_samples(statement, share)
    });
    let left = by_index(each, 1.0);
    let saw = format!(
        "{} is read whole by functions, triggers or constraints: it stands in no plan of the statements that \
         were seen.",
        worst.name
    );
    Some(
        Observation::measured(Basis::Statements, Some(statement.share * part.time), saw)
            .of_cpu(statement.cpu_share * part.cpu)
            .left(left)
            .confidence(Confidence::Medium)
            .severity(if statement.share >= 0.3 { Severity::High } else { Severity::Medium })
            .seen(format!(
                "{scans:.0} sequential scans of {} in the measured time, {each:.0} rows each",
                worst.name
            ))
            .of_statements([*statement])
            .seen(format!(
                "{} of {} goes to: {}",
                tenths(statement.share),
                run.whole(),
                statement.named()
            ))
            .sql(
                "SET auto_explain.log_nested_statements = on; SET auto_explain.log_min_duration = 0; SET \
                 client_min_messages = log;   -- after LOAD 'auto_explain', then send the statement: the plans \
                 within it",
            )
            .advice(format!("create the index on {} that the query inside needs", worst.name)),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::made::{found_in_samples_of, found_with, one};
    use crate::Finding;
    use crate::finding::Confidence;
    use pgassay_evidence::observed::PointObserved;
    use pgassay_evidence::observed::statements::{
        Counters, Elsewhere, StatementAnalysis, StatementTime,
    };
    use pgassay_model::observed::blockers::{BlockerRecord, Holder};
    use pgassay_model::observed::growth::{Grown, GrowthRecord};
    use pgassay_model::observed::plans::{Node, Plan, ReferenceFacts, RelationFacts, TriggerFacts};

    pub(in super::super) fn grown(name: &str, counters: &[(&str, f64)]) -> Grown {
        Grown {
            name: name.into(),
            grown: counters
                .iter()
                .map(|(k, v)| ((*k).to_owned(), *v))
                .collect(),
            ..Grown::default()
        }
    }

    /// Returns what is found about such a statement, where tables grew like this.
    pub(in super::super) fn found(
        operation: &str,
        facts: RelationFacts,
        tables: Vec<Grown>,
    ) -> Vec<Finding> {
        found_beside(operation, facts, tables, |_| {})
    }

    /// Returns a statement that takes most of the time, writing `public.t`, of which this is known.
    fn writing(operation: &str, facts: RelationFacts) -> StatementTime {
        let plan = Plan {
            root: Node {
                kind: "ModifyTable".into(),
                operation: Some(operation.into()),
                relation: Some("public.t".into()),
                cost: 8.0,
                ..Node::default()
            },
            relations: BTreeMap::from([("public.t".to_owned(), facts)]),
            ..Plan::default()
        };
        StatementTime {
            text: format!("{operation} t"),
            sightings: 90,
            share: 0.9,
            cpu_share: 0.9,
            running: 1.0,
            plan: Some(plan),
            ..StatementTime::default()
        }
    }

    pub(in super::super) fn found_beside(
        operation: &str,
        facts: RelationFacts,
        tables: Vec<Grown>,
        edit: impl FnOnce(&mut PointObserved),
    ) -> Vec<Finding> {
        let statement = writing(operation, facts);
        found_with(vec![], move |observed: &mut PointObserved| {
            observed.statements = Some(StatementAnalysis {
                looks: 100,
                sightings: 100,
                statements: vec![statement],
                other_sessions: 0.0,
                elsewhere: None,
            });
            observed.growth = Some(GrowthRecord {
                tables,
                ..GrowthRecord::default()
            });
            edit(observed);
        })
    }

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
        let findings = found("Delete", referenced(false), scans());
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
            found("Delete", referenced(true), scans()),
            found("Delete", referenced(false), vec![]),
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
                before: true,
                events: vec!["Insert".into(), "Update".into()],
                ..TriggerFacts::default()
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

    #[test]
    fn a_table_that_stands_in_no_plan_and_is_read_whole_is_named() {
        let scans = vec![grown(
            "public.log",
            &[("seq_scan", 40.0), ("seq_tup_read", 8e6)],
        )];
        let findings = found("Insert", RelationFacts::default(), scans);
        assert!(
            one(&findings, "scans-within-functions")
                .saw
                .contains("public.log")
        );
        let known = vec![grown(
            "public.t",
            &[("seq_scan", 40.0), ("seq_tup_read", 8e6)],
        )];
        let findings = found("Insert", RelationFacts::default(), known);
        assert!(findings.iter().all(|f| f.id != "scans-within-functions"));
    }

    #[test]
    fn scans_of_another_session_are_not_laid_to_the_statement() {
        let plan = |calls: f64, statement: &str| {
            let holder = Holder {
                awaited: "relation".into(),
                statement: statement.into(),
                pairs: 20,
                ..Holder::default()
            };
            let scans = vec![grown(
                "public.log",
                &[("seq_scan", 41.0), ("seq_tup_read", 6e6)],
            )];
            found_beside("Insert", RelationFacts::default(), scans, move |observed| {
                observed.statements.as_mut().unwrap().statements[0].counters = Some(Counters {
                    calls,
                    ..Counters::default()
                });
                observed.blockers = Some(BlockerRecord {
                    looks: 5,
                    holders: vec![holder],
                    unread: None,
                });
            })
        };
        let has = |findings: &[Finding]| findings.iter().any(|f| f.id == "scans-within-functions");
        assert!(has(&plan(40.0, "UPDATE u SET v = $1")));
        assert!(
            !has(&plan(54_000.0, "UPDATE u SET v = $1")),
            "41 scans in 54000 calls"
        );
        let beside = |share: f64| {
            let scans = vec![grown(
                "public.log",
                &[("seq_scan", 40.0), ("seq_tup_read", 8e6)],
            )];
            found_beside("Insert", RelationFacts::default(), scans, move |observed| {
                let statements = observed.statements.as_mut().unwrap();
                statements.elsewhere = Some(Elsewhere {
                    share,
                    ..Elsewhere::default()
                });
            })
        };
        assert!(has(&beside(0.01)));
        assert!(!has(&beside(0.95)), "a report beside the load");
        assert!(!has(&plan(40.0, "REFRESH MATERIALIZED VIEW sums")));
        assert!(!has(&plan(40.0, "SELECT count(*) FROM log")));
    }
}
