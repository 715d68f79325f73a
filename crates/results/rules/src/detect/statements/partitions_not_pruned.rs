//! Partitions of which a statement visits more than it needs.

use crate::detect::common::hits::{Hit, Left, Part, joined, with_plans};
use crate::detect::common::scans::SELECTIVE;
use crate::detect::{Detector, run};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_model::observed::plans::{Expr, Node, NodeType, Plan, RelationFacts};

pub const DETECTORS: &[Detector] = &[run("partitions-not-pruned", unpruned)];

/// Fewer partitions are no burden.
const FEW_PARTITIONS: u32 = 8;

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
        matches!(node.kind, NodeType::Append | NodeType::MergeAppend)
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
        let conditions = conditions.flat_map(|(_, node)| node.tests());
        let of_key = |part: &Expr| {
            facts
                .partition_key
                .iter()
                .any(|key| part.columns().contains(key))
        };
        let within = conditions.flat_map(Expr::conjuncts).find(|part| {
            let operands = part.parts().into_iter();
            operands.filter(|of| of.column().is_none()).any(of_key)
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
    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::found_with;
    use crate::detect::tests::made::statement;
    use pgassay_model::observed::plans::Clause;

    fn found(edit: impl Fn(&mut RelationFacts), filter: &str) -> Option<Finding> {
        let tables: Vec<String> = (0..10).map(|n| format!("public.t{n}")).collect();
        let scan = |table: &String| Node {
            kind: "Seq Scan".into(),
            relation: Some(table.clone()),
            conditions: [(Clause::Filter, filter.into())].into(),
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
}
