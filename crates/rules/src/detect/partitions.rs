//! Partitions, and tables that inherit, of which a statement visits more than it needs.

use pgassay_model::observed::plans::{Node, Plan, RelationFacts};

use super::conditions::{Compared, compared, conjuncts, words};
use super::counts::{gave, path};
use super::hits::{Hit, Left, Part, joined, with_plans};
use super::plans::SELECTIVE;
use super::{Detector, run};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};

pub(super) const DETECTORS: &[Detector] = &[
    run("partitions-not-pruned", unpruned),
    run("partitions-not-pruned", unbounded),
    run("partitions-not-pruned", joined_by_key),
];

/// Fewer partitions are no burden.
const FEW_PARTITIONS: u32 = 8;

/// Tables that inherit from one, of which none is left out, since nothing says what they hold.
fn unbounded(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let all = plan.root.all().into_iter();
        let mut appends =
            all.filter(|(_, node)| matches!(node.kind.as_str(), "Append" | "Merge Append"));
        let (_, append) = appends.next()?;
        let below: Vec<&Node> = append
            .nodes
            .iter()
            .flat_map(|child| child.all())
            .map(|(_, node)| node)
            .collect();
        let facts = |node: &Node| plan.relations.get(node.relation.as_ref()?);
        let children: Vec<(&Node, &RelationFacts)> = below
            .iter()
            .filter_map(|node| Some((*node, facts(node)?)))
            .filter(|(_, facts)| facts.declared.inherits.is_some())
            .collect();
        let (first, facts) = children.first()?;
        let (parent, number) = facts.declared.inherits.as_ref()?;
        let unchecked = children
            .iter()
            .filter(|(_, facts)| !facts.declared.checked)
            .count();
        let filter = first
            .conditions
            .get("Filter")
            .or_else(|| first.conditions.get("Index Cond"))?;
        let given = append.actual_rows.unwrap_or(append.rows);
        let rows: f64 = children.iter().filter_map(|(_, facts)| facts.rows).sum();
        let excluded = run.setting("constraint_exclusion") != Some("off");
        if *number < FEW_PARTITIONS || children.len() < *number as usize || given > 0.5 * rows {
            return None;
        }
        let column = compared(filter, facts);
        let column = match column {
            Some(Compared::Column(column)) => column,
            _ => "key".to_owned(),
        };
        let (why, step) = match (unchecked > 0, excluded) {
            (_, false) => (
                "constraint_exclusion is off".to_owned(),
                "ALTER SYSTEM SET constraint_exclusion = partition; SELECT pg_reload_conf();"
                    .to_owned(),
            ),
            (true, true) => (
                format!(
                    "{unchecked} of them have no CHECK constraint, so that the planner does not know what they hold"
                ),
                format!(
                    "ALTER TABLE {} ADD CHECK ({column} = …);   -- for each of them, the value or the range ({column} >= … AND {column} < …) that it holds: those that a constant in the \
                     condition rules out are then left out; or a table PARTITION BY RANGE or LIST ({column}), to which they are attached (ALTER TABLE … NO INHERIT, ATTACH PARTITION)",
                    first.relation.as_deref().unwrap_or("child")
                ),
            ),
            _ => return None,
        };
        Some(Hit {
            statement,
            part: Part::of_work(evidence, statement, plan.part(append)),
            left: Left::new(
                1.0 / f64::from(*number),
                format!("one of {number} tables would do"),
            ),
            saw: format!(
                "All {number} tables that inherit from {parent} are visited for {filter}: {why}."
            ),
            confidence: Confidence::Medium,
            evidence: Vec::new(),
            steps: vec![(StepKind::Sql, step)],
        })
    });
    joined(&run, hits)
}

/// Partitions of which a plan leaves none out.
struct Visited<'p> {
    append: &'p Node,
    parent: &'p str,
    /// What the catalogues say of each; at least one.
    parts: Vec<&'p RelationFacts>,
}

fn visited(plan: &Plan) -> Option<Visited<'_>> {
    let all = plan.root.all();
    let (_, append) = all.into_iter().find(|(_, node)| {
        matches!(node.kind.as_str(), "Append" | "Merge Append")
            && node.subplans_removed.unwrap_or(0.0) < 1.0
    })?;
    let below = append.nodes.iter().flat_map(|child| child.all());
    let parts: Vec<&RelationFacts> = below
        .filter_map(|(_, node)| plan.relations.get(node.relation.as_ref()?))
        .filter(|facts| facts.partition_of.is_some())
        .collect();
    let (parent, number) = parts.first()?.partition_of.as_ref()?;
    let all = parts.len() >= *number as usize && *number >= FEW_PARTITIONS;
    all.then_some(Visited {
        append,
        parent,
        parts,
    })
}

/// The part of the partitions' rows that a join must leave at most.
const LEFT_BY_JOIN: f64 = 0.2;

/// All partitions, of which a join by their key leaves the rows of a few: those are known only when it runs.
fn joined_by_key(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let Visited {
            append,
            parent,
            parts,
        } = visited(plan)?;
        let [key] = parts[0].partition_key.as_slice() else {
            return None;
        };
        let above = path(&plan.root, append)?;
        let (join, condition) = above.iter().rev().find_map(|node| {
            let mut conditions = ["Hash Cond", "Merge Cond", "Join Filter"].iter();
            let condition = conditions.find_map(|name| node.conditions.get(*name))?;
            // With another column in it nobody knows whose doing it is.
            let alone = conjuncts(condition).len() == 1;
            let by_key = words(condition).any(|word| word == key);
            (alone && by_key).then_some((*node, condition))
        })?;
        let rows = |node: &Node| gave(node).unwrap_or(node.rows);
        let (entering, left) = (rows(append), rows(join));
        if left > LEFT_BY_JOIN * entering {
            return None;
        }
        let scans = join.all().into_iter().map(|(_, n)| n);
        let mut others = scans.filter(|n| {
            let of = n
                .relation
                .as_ref()
                .and_then(|table| plan.relations.get(table));
            n.relation.is_some() && of.is_none_or(|facts| facts.partition_of.is_none())
        });
        let other = others.next()?.relation.as_deref()?;
        let part = plan.part(join).max(plan.part(append));
        Some(Hit {
            statement,
            part: Part::of_work(evidence, statement, part),
            left: Left::new(
                left / entering.max(1.0),
                format!("of {entering:.0} rows {left:.0} are left by the join"),
            ),
            saw: format!(
                "All {} partitions of {parent} are read, {entering:.0} rows, for {left:.0} that the join with {other} leaves ({condition}): it rules out no partition.",
                parts.len()
            ),
            confidence: Confidence::Medium,
            evidence: vec![format!("{parent} is partitioned by {key}")],
            steps: vec![(
                StepKind::Advice,
                format!(
                    "bound the partition key by values beside the join: {key} >= (SELECT min(…) FROM {other} WHERE …) AND {key} <= (SELECT max(…) FROM {other} WHERE …), which \
                     leaves partitions of ranges and lists out when the execution begins (from 11 on); or as values from a statement before, which spares planning and locking them, too"
                ),
            )],
        })
    });
    joined(&run, hits)
}

fn unpruned(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let Visited {
            append,
            parent,
            parts,
        } = visited(plan)?;
        let facts = parts[0];
        let rows: f64 = parts.iter().filter_map(|facts| facts.rows).sum();
        // Few rows of many: who wants them all must visit all.
        if append.rows > SELECTIVE * rows {
            return None;
        }
        let visited = parts.len();
        let key = facts.partition_key.join(", ");
        // A condition on an expression of the key rules out no partition.
        let conditions = append.nodes.iter().flat_map(|child| child.all());
        let conditions = conditions.flat_map(|(_, node)| node.conditions.values());
        let mut parts = conditions.flat_map(|condition| conjuncts(condition));
        let within = parts.find(|part| {
            part.contains('(')
                && facts
                    .partition_key
                    .iter()
                    .any(|key| words(part).any(|word| word == key))
        });
        let step = match within {
            Some(part) => format!(
                "compare the partition key itself, which rules out partitions when the statement is planned or begun: {key} >= … AND {key} < …, or {key} = …, in the place of {part}"
            ),
            None => format!("add a condition on the partition key ({key}) to the statement"),
        };
        Some(Hit {
            statement,
            // What is prepared has all of them locked where the server keeps one plan for all values (up to 17), or is
            // planned for each: with a condition on the key 67 of 533 us a statement were left.
            part: Part::of_work(evidence, statement, plan.part(append)),
            left: Left::new(
                1.0 / visited as f64,
                format!(
                    "with a condition on the partition key one of {visited} partitions would do"
                ),
            ),
            saw: format!(
                "All {visited} partitions of {parent} are visited for about {:.0} rows of {rows:.0}.",
                append.actual_rows.unwrap_or(append.rows)
            ),
            confidence: Confidence::Medium,
            evidence: vec![format!("{parent} is partitioned by {key}")],
            steps: vec![
                (StepKind::Advice, step),
                (
                    StepKind::Advice,
                    format!(
                        "where the statement cannot know it: fewer partitions ({visited} are planned, locked and looked into each time), larger ones of a \
                         coarser range of {key}, or partitions by the column that it asks for"
                    ),
                ),
            ],
        })
    });
    joined(&run, hits)
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::statement;
    use super::super::tests::made::found_with;
    use super::*;
    use crate::Finding;
    use pgassay_model::observed::declared::DeclaredFacts;

    fn found(edit: impl Fn(&mut RelationFacts), filter: &str) -> Option<Finding> {
        let tables: Vec<String> = (0..10).map(|n| format!("public.t{n}")).collect();
        let scan = |table: &String| Node {
            kind: "Seq Scan".into(),
            relation: Some(table.clone()),
            conditions: [("Filter".to_owned(), filter.to_owned())].into(),
            rows: 3.0,
            ..Node::default()
        };
        let plan = Plan {
            root: Node {
                kind: "Append".into(),
                rows: 30.0,
                cost: 1000.0,
                nodes: tables.iter().map(scan).collect(),
                ..Node::default()
            },
            relations: tables
                .iter()
                .map(|table| {
                    let mut facts = RelationFacts {
                        rows: Some(5000.0),
                        columns: vec!["at".into(), "month".into()],
                        ..RelationFacts::default()
                    };
                    edit(&mut facts);
                    (table.clone(), facts)
                })
                .collect(),
            ..Plan::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement("SELECT 1 FROM t", Some(plan)));
        });
        found.into_iter().find(|f| f.id == "partitions-not-pruned")
    }

    #[test]
    fn a_condition_within_which_the_key_stands_is_told_of_bounds() {
        let partition = |facts: &mut RelationFacts| {
            facts.partition_of = Some(("public.t".into(), 10));
            facts.partition_key = vec!["at".into()];
        };
        let seen = found(partition, "(date_trunc($1::text, t.at) = $2)").unwrap();
        assert!(
            seen.remedy[0].text.contains("at >= … AND at < …"),
            "{seen:#?}"
        );
        let seen = found(partition, "(t.month = $1)").unwrap();
        assert!(
            seen.remedy[0]
                .text
                .starts_with("add a condition on the partition key"),
            "{seen:#?}"
        );
    }

    #[test]
    fn partitions_of_which_a_join_leaves_few_are_told_bounds_of_their_own() {
        let found = |condition: &str, left: f64| {
            let tables: Vec<String> = (0..10).map(|n| format!("public.t{n}")).collect();
            let append = Node {
                kind: "Append".into(),
                rows: 50_000.0,
                cost: 800.0,
                nodes: tables
                    .iter()
                    .map(|table| Node {
                        kind: "Seq Scan".into(),
                        relation: Some(table.clone()),
                        rows: 5000.0,
                        ..Node::default()
                    })
                    .collect(),
                ..Node::default()
            };
            let calendar = Node {
                kind: "Seq Scan".into(),
                relation: Some("public.calendar".into()),
                rows: 7.0,
                ..Node::default()
            };
            let root = Node {
                kind: "Hash Join".into(),
                conditions: [("Hash Cond".to_owned(), condition.to_owned())].into(),
                rows: left,
                cost: 1000.0,
                nodes: vec![append, calendar],
                ..Node::default()
            };
            let facts = RelationFacts {
                rows: Some(5000.0),
                columns: vec!["day".into(), "shop".into()],
                partition_of: Some(("public.t".into(), 10)),
                partition_key: vec!["day".into()],
                ..RelationFacts::default()
            };
            let plan = Plan {
                root,
                relations: tables.into_iter().map(|t| (t, facts.clone())).collect(),
                ..Plan::default()
            };
            let found = found_with(vec![], |observed| {
                observed.statements = Some(statement("SELECT 1 FROM t", Some(plan)));
            });
            found.into_iter().find(|f| f.id == "partitions-not-pruned")
        };
        let seen = found("(t.day = c.day)", 3500.0).unwrap();
        assert!(
            seen.remedy[0]
                .text
                .contains("day >= (SELECT min(…) FROM public.calendar"),
            "{seen:#?}"
        );
        // Not by the key, and most of the rows.
        assert!(found("(t.shop = c.shop)", 3500.0).is_none());
        assert!(found("(t.day = c.day)", 40_000.0).is_none());
    }

    #[test]
    fn tables_that_inherit_without_a_check_are_told_of_one() {
        let inherits = |checked| {
            move |facts: &mut RelationFacts| {
                facts.declared = DeclaredFacts {
                    inherits: Some(("public.t".into(), 10)),
                    checked,
                    ..DeclaredFacts::default()
                };
            }
        };
        let seen = found(inherits(false), "(t.month = $1)").unwrap();
        assert!(
            seen.remedy[0].text.contains("ADD CHECK (month = …)"),
            "{seen:#?}"
        );
        assert!(found(inherits(true), "(t.month = $1)").is_none());
    }
}
