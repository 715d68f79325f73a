//! CHECK constraints, domains and defaults whose functions take most of what a writing statement does.

use super::functions::calls_in;
use super::hits::{Hit, Part, joined, with_plans};
use super::writes::{within, written};
use super::{Detector, run, tenths, unread_indexes};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Work;
use pgassay_model::observed::plans::{Plan, RelationFacts};
use pgassay_text::quote::quote_ident;

pub(super) const DETECTORS: &[Detector] = &[run("check-calls-function", called)];

/// The part of an execution from which on a node that writes does something else.
const MOST: f64 = 0.5;
/// The share of the CPU samples in interpreted languages without which it is not their functions.
const INTERPRETED: f64 = 0.1;

fn called(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let inside = |work| within(evidence, work);
    let interpreted = inside(Work::Procedural)
        .into_iter()
        .chain(inside(Work::Nested))
        .reduce(f64::max);
    // Without CPU samples the node's time may be the log's, or its indexes'.
    if interpreted.is_none_or(|share| share < INTERPRETED) {
        return None;
    }
    let hits = with_plans(&run, |statement, plan| {
        let (node, table, facts) = written(plan, &["Insert", "Update"])?;
        let checked = Called::by_index(facts, plan).or_else(|| Called::of(table, facts))?;
        let (work, executed) = (node.work?, plan.executed.as_ref()?);
        // Triggers that are called for each row before it is written are in the node's time.
        let of_triggers: f64 = executed.triggers.iter().map(|trigger| trigger.ms).sum();
        // A default is computed below the node that writes.
        let below = || {
            node.nodes
                .iter()
                .flat_map(|n| n.all())
                .filter_map(|(_, n)| Some(n.work?.ms))
                .sum::<f64>()
        };
        let ms = work.ms + if checked.is_default { below() } else { 0.0 };
        let own = (ms - of_triggers).max(0.0);
        let part = (own / executed.ms.max(f64::MIN_POSITIVE)).min(1.0);
        (part >= MOST).then(|| Hit {
            statement,
            part: Part::of_cpu(statement, part),
            left: None,
            saw: format!(
                "{} of what the statement does is writing rows of {table}, {}.",
                tenths(part),
                checked.what
            ),
            confidence: Confidence::Medium,
            evidence: interpreted
                .map(|share| {
                    format!(
                        "{} of the CPU samples in interpreted languages",
                        tenths(share)
                    )
                })
                .into_iter()
                .collect(),
            steps: checked.steps,
        })
    });
    joined(&run, hits)
}

/// A function that is called for each row that is written.
struct Called {
    what: String,
    is_default: bool,
    steps: Vec<(StepKind, String)>,
}

impl Called {
    /// An index on what a function makes of the row.
    fn by_index(facts: &RelationFacts, plan: &Plan) -> Option<Self> {
        let (index, function) = facts.indexes.iter().find_map(|index| {
            let mut expressions = index.expressions.iter().chain(&index.predicate);
            let function = expressions.find_map(|expression| {
                let mut functions = plan.functions.keys();
                functions.find(|name| calls_in(expression, name) > 0)
            })?;
            Some((index, function))
        })?;
        let read = match index.scans {
            Some(0.0) => "no statement has read it since its counters began".to_owned(),
            Some(scans) => format!("it was read {scans:.0} times since its counters began"),
            None => "see pg_stat_user_indexes.idx_scan for whether statements read it".to_owned(),
        };
        Some(Self {
            is_default: false,
            what: format!(
                "on which {} is an index on an expression that calls {function}(): it is computed for each row that is inserted, and for each update that is not HOT",
                index.name
            ),
            steps: match index.scans {
                Some(0.0) if !index.constraint => unread_indexes::steps([index.name.as_str()]),
                _ => vec![(
                    StepKind::Advice,
                    format!("see whether {} is needed: {read}", index.name),
                )],
            }
            .into_iter()
            .chain([
                (
                    StepKind::Advice,
                    format!(
                        "where it is needed, make {function}() cheap: built-in functions and regular expressions (regexp_replace(), translate(), lower()) in a function of LANGUAGE sql IMMUTABLE, or \
                         in the index itself, in the place of a loop in PL/pgSQL; then REINDEX INDEX {}, CONCURRENTLY from 12 on",
                        index.name
                    ),
                ),
            ])
            .collect(),
        })
    }

    fn of(table: &str, facts: &RelationFacts) -> Option<Self> {
        let cheaper = (
            StepKind::Advice,
            "a cheaper check: by built-in functions and regular expressions (VALUE ~ '^…$'), or in SQL without a loop; or columns that change often in a table of \
             their own"
                .to_owned(),
        );
        if let Some((name, expression)) = facts.checks.first_key_value() {
            return Some(Self {
                is_default: false,
                what: format!("whose constraint {name} calls a function: CHECK {expression}"),
                steps: vec![
                    (
                        StepKind::Advice,
                        format!(
                            "check only what changes: instead of the constraint a trigger BEFORE INSERT OR UPDATE OF the columns that {name} refers to, \
                             since a CHECK is computed for each row that is written, whichever columns change; a trigger says nothing of rows that are \
                             there, and does not see what a later trigger changes"
                        ),
                    ),
                    cheaper,
                ],
            });
        }
        if let Some((column, domain)) = facts.declared.domains.first_key_value() {
            return Some(Self {
                is_default: false,
                what: format!(
                    "whose column {column} is of the domain {domain}, a constraint of which calls a function for each value"
                ),
                steps: vec![
                    (
                        StepKind::Sql,
                        format!(
                            "ALTER DOMAIN {domain} DROP CONSTRAINT …; ALTER DOMAIN {domain} ADD CHECK (VALUE ~ '^…$');   -- an expression of built-in functions in the place of the \
                             function; \\dD+ {domain} shows it"
                        ),
                    ),
                    cheaper,
                ],
            });
        }
        let (column, expression) = facts.declared.defaults.first_key_value()?;
        Some(Self {
            is_default: true,
            what: format!("whose column {column} has its default from a function: {expression}"),
            steps: vec![(
                StepKind::Sql,
                format!(
                    "CREATE SEQUENCE …; ALTER TABLE {table} ALTER COLUMN {} SET DEFAULT nextval('…');   -- a sequence, or an identity, in the place of a number that is looked for (max() + 1); \
                     where the function must stay, an index that its query begins with",
                    quote_ident(column)
                ),
            )],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::made::found_in_samples_of;
    use crate::Finding;
    use pgassay_evidence::observed::statements::StatementTime;
    use pgassay_model::observed::plans::{Execution, Node, Plan, RelationFacts, Work};

    const INTERPRETED: &str = "    70.00%  postgres  plpgsql.so  [.] exec_stmt\n            |\n            ---plpgsql_exec_function\n               \
                               exec_stmt\n    30.00%  postgres  postgres  [.] ExecScan\n";

    fn found(own_ms: f64, checks: &[&str], listing: &'static str) -> Option<Finding> {
        let root = Node {
            kind: "ModifyTable".into(),
            operation: Some("Update".into()),
            relation: Some("public.t".into()),
            work: Some(Work {
                loops: 1.0,
                ms: own_ms,
                ..Work::default()
            }),
            ..Node::default()
        };
        let checks = checks
            .iter()
            .map(|name| ((*name).to_owned(), "is_valid(doc)".to_owned()));
        let facts = RelationFacts {
            rows: Some(2000.0),
            checks: checks.collect(),
            ..RelationFacts::default()
        };
        let statement = StatementTime {
            text: "UPDATE t SET views = views + $1 WHERE id = $2".into(),
            sightings: 80,
            share: 0.9,
            cpu_share: 0.9,
            running: 1.0,
            plan: Some(Plan {
                root,
                executed: Some(Execution {
                    ms: 10.0,
                    ..Execution::default()
                }),
                relations: BTreeMap::from([("public.t".to_owned(), facts)]),
                ..Plan::default()
            }),
            ..StatementTime::default()
        };
        let found = found_in_samples_of(listing, vec![statement]);
        found.into_iter().find(|f| f.id == "check-calls-function")
    }

    #[test]
    fn an_index_whose_expression_calls_a_function_is_told_of() {
        use pgassay_model::observed::plans::IndexFacts;
        let index = IndexFacts {
            name: "public.note_normal".into(),
            expressions: vec!["normal(body)".into()],
            scans: Some(0.0),
            ..IndexFacts::default()
        };
        let facts = RelationFacts {
            indexes: vec![index],
            ..RelationFacts::default()
        };
        let of = |function: &str| {
            let plan = Plan {
                functions: BTreeMap::from([(function.to_owned(), "plpgsql".to_owned())]),
                ..Plan::default()
            };
            super::Called::by_index(&facts, &plan).map(|called| called.steps[0].1.clone())
        };
        let told = of("normal").unwrap();
        assert!(
            told.contains("'public.note_normal'") && told.contains("idx_scan"),
            "{told}"
        );
        assert!(of("other").is_none());
    }

    #[test]
    fn a_check_that_takes_most_of_a_write_is_named() {
        let seen = found(9.5, &["t_doc"], INTERPRETED).unwrap();
        assert!(
            seen.saw
                .contains("constraint t_doc calls a function: CHECK is_valid(doc)"),
            "{seen:#?}"
        );
        assert!(seen.remedy[0].text.contains("UPDATE OF"), "{seen:#?}");
        assert!(found(2.0, &["t_doc"], INTERPRETED).is_none());
        assert!(found(9.5, &[], INTERPRETED).is_none());
        assert!(found(9.5, &["t_doc"], "100.00% postgres [.] ExecScan\n").is_none());
    }
}
