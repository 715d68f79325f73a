//! Shapes of plans that do for all rows what only a few of them, or none, need: groups that are made before a LIMIT, and an
//! order below what has none.

use pgassay_model::observed::plans::Node;
use pgassay_text::quote::quote_ident;

use super::conditions::{aliases, called};
use super::counts::gave;
use super::hits::Left;
use super::late::{read, source};
use super::plans::{FEW_ROWS, SELECTIVE, by_index};
use super::shapes::{At, Shown, advice, column, is_served};
use crate::finding::{Confidence, StepKind};

/// Rows that a part of a plan goes through, as they came where it was executed.
fn goes_through(node: &Node) -> f64 {
    let all = node.all().into_iter().filter_map(|(_, n)| gave(n));
    match node.actual_rows {
        Some(_) => all.fold(0.0, f64::max),
        None => read(node),
    }
}

/// Groups that are all made, and of which the first few are wanted in an order that one of the tables has.
pub(super) fn groups(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Limit" {
        return None;
    }
    let mut sort = node.nodes.first()?;
    while matches!(
        sort.kind.as_str(),
        "Gather Merge" | "Gather" | "Result" | "Subquery Scan"
    ) {
        sort = sort.nodes.first()?;
    }
    if !matches!(sort.kind.as_str(), "Sort" | "Incremental Sort") {
        return None;
    }
    let grouped = source(sort.nodes.first()?);
    if grouped.kind != "Aggregate"
        || grouped.group_key.is_empty()
        || grouped.conditions.contains_key("Filter")
    {
        return None;
    }
    let entering = goes_through(grouped);
    let made = grouped.actual_rows.unwrap_or(grouped.rows);
    let wanted = node.actual_rows.unwrap_or(node.rows).max(1.0);
    if entering < FEW_ROWS || wanted > 10.0 * SELECTIVE * made {
        return None;
    }
    // The order is that of columns of one table, whose rows the groups are.
    let keys = sort.sort_key.join(", ");
    let [alias] = *aliases(&keys) else {
        return None;
    };
    let alias = alias.trim_matches('"').to_owned();
    let below = grouped.all().into_iter().map(|(_, n)| n);
    let scans: Vec<&Node> = below.filter(|n| n.relation.is_some()).collect();
    let of_order = scans.iter().find(|n| n.alias.as_deref() == Some(&alias))?;
    let others: Vec<&&Node> = scans
        .iter()
        .filter(|n| n.alias.as_deref() != Some(&alias))
        .collect();
    // Where another table decides which rows stay, they can't be chosen before it is joined.
    let bounded = |n: &Node| {
        let mut conditions = ["Index Cond", "Recheck Cond"].iter();
        let names = |text: &String| !aliases(text).iter().any(|a| a.trim_matches('"') == alias);
        let by_value = conditions.any(|key| n.conditions.get(*key).is_some_and(names));
        by_value || n.conditions.contains_key("Filter")
    };
    if others.is_empty() || others.iter().any(|n| bounded(n)) {
        return None;
    }
    // And each group is one of its rows.
    let keys = grouped.group_key.join(", ");
    let of_one = aliases(&keys).iter().all(|a| a.trim_matches('"') == alias);
    let (table, facts) = (of_order.relation.as_ref()?, at.facts(of_order)?);
    let unique = facts.indexes.iter().filter(|i| i.valid && i.constraint);
    let by_key = unique.filter(|i| !i.columns.is_empty()).any(|i| {
        let grouped = |name: &String| {
            grouped
                .group_key
                .iter()
                .any(|k| column(k, facts) == Some(name))
        };
        i.columns.iter().all(grouped)
    });
    if !of_one || !by_key {
        return None;
    }
    let outer = grouped
        .all()
        .into_iter()
        .any(|(_, n)| matches!(n.join.as_deref(), Some("Left" | "Right")));
    let names: Option<Vec<&str>> = sort.sort_key.iter().map(|key| column(key, facts)).collect();
    let names = names?;
    let order = sort
        .sort_key
        .iter()
        .zip(&names)
        .map(|(key, name)| {
            let ends = [" DESC", " NULLS FIRST", " NULLS LAST"].iter();
            let ends: String = ends.filter(|end| key.contains(**end)).copied().collect();
            format!("{}{ends}", quote_ident(name))
        })
        .collect::<Vec<_>>()
        .join(", ");
    let joined = others.first()?.relation.as_ref()?;
    let mut steps = vec![advice(format!(
        "take the {wanted:.0} rows first and group for these alone: FROM (SELECT … FROM {table} WHERE … ORDER BY {order} LIMIT {wanted:.0}) {alias} LEFT JOIN LATERAL (SELECT count(*), … FROM \
         {joined} WHERE … = {alias}.…) ON true, or a scalar subquery for each in the select list; with an index on the columns by which {joined} is joined"
    ))];
    if !is_served(facts, &names) {
        steps.push((
            StepKind::Sql,
            format!("CREATE INDEX CONCURRENTLY ON {table} ({order});   -- which leads to the first of them"),
        ));
    }
    steps.push(advice(format!(
        "or keep what is grouped in columns of {table} (a counter, the last time), written with each row of {joined}"
    )));
    Some(Shown {
        cost: at.cost(node),
        left: by_index(entering, wanted * (entering / made).max(1.0)),
        saw: format!(
            "{made:.0} groups are made of {entering:.0} rows, and LIMIT keeps the first {wanted:.0} by {}, which is known before anything is grouped.",
            sort.sort_key.join(", ")
        ),
        steps,
        seen: Vec::new(),
        // An inner join may leave out some of the first.
        confidence: match outer {
            true => Confidence::High,
            false => Confidence::Medium,
        },
    })
}

/// Aggregates whose value no order changes.
const UNORDERED: &[&str] = &[
    "avg", "bit_and", "bit_or", "bool_and", "bool_or", "count", "every", "max", "min", "sum",
    "PARTIAL",
];

/// A sort below an aggregate that counts or sums.
pub(super) fn order(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Aggregate" || !node.group_key.is_empty() {
        return None;
    }
    let output = node.conditions.get("Output")?;
    // From 16 on an aggregate with an order of its own has the planner sort for it.
    if ["ORDER BY", "DISTINCT", "WITHIN GROUP"]
        .iter()
        .any(|word| output.contains(word))
    {
        return None;
    }
    if !called(output).all(|name| UNORDERED.contains(&name)) {
        return None;
    }
    let mut sort = node.nodes.first()?;
    while matches!(
        sort.kind.as_str(),
        "Gather Merge" | "Result" | "Subquery Scan"
    ) {
        if sort.conditions.contains_key("Filter") {
            return None;
        }
        sort = sort.nodes.first()?;
    }
    let rows = sort.actual_rows.unwrap_or(sort.rows);
    if !matches!(sort.kind.as_str(), "Sort" | "Incremental Sort") || rows < 0.1 * FEW_ROWS {
        return None;
    }
    let below = sort.nodes.first().map_or(0.0, |below| at.cost(below));
    let whole = at.cost(node).max(f64::MIN_POSITIVE);
    let part = ((at.cost(sort) - below) / whole).clamp(0.0, 1.0);
    // The planner takes sorting for less than it is.
    let ran = || {
        let ms = |n: &Node| n.work.map(|work| work.ms);
        let all: f64 = node.all().into_iter().filter_map(|(_, n)| ms(n)).sum();
        Some(ms(sort)? / all.max(f64::MIN_POSITIVE))
    };
    let part = ran().unwrap_or(part);
    Some(Shown {
        cost: part * whole,
        left: Left::new(
            0.05,
            format!("the sort of {rows:.0} rows, which is left out"),
        ),
        saw: format!(
            "{rows:.0} rows are sorted by {}, and then only {output} is computed of them, which no order changes.",
            sort.sort_key.join(", ")
        ),
        steps: vec![advice(
            "leave ORDER BY out of the subquery that is counted or summed, as the planner does not: SELECT count(*) FROM … WHERE …, with the list's conditions and without its order and its \
             columns (pagers of object mappers: a count query of their own, unordered, order_by() without arguments, reorder(nil))",
        )],
        seen: Vec::new(),
        confidence: Confidence::High,
    })
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::plans::{Execution, IndexFacts, Plan, RelationFacts, Work};

    use super::super::database::tests::statement;
    use super::super::tests::made::found_with;
    use super::*;
    use crate::finding::Finding;

    fn ran(kind: &str, rows: f64, ms: f64, nodes: Vec<Node>) -> Node {
        Node {
            kind: kind.into(),
            rows,
            cost: 100.0 + nodes.iter().map(|n| n.cost).sum::<f64>(),
            actual_rows: Some(rows),
            work: Some(Work {
                loops: 1.0,
                ms,
                ..Work::default()
            }),
            nodes,
            ..Node::default()
        }
    }

    fn scan(table: &str, alias: &str, rows: f64) -> Node {
        Node {
            relation: Some(format!("public.{table}")),
            alias: Some(alias.into()),
            ..ran("Seq Scan", rows, 5.0, vec![])
        }
    }

    fn found(entry: &str, root: Node) -> Option<Finding> {
        let facts = RelationFacts {
            rows: Some(3000.0),
            columns: vec!["id".into(), "created".into()],
            indexes: vec![IndexFacts {
                name: "topic_pkey".into(),
                columns: vec!["id".into()],
                first: Some("id".into()),
                valid: true,
                constraint: true,
                ..IndexFacts::default()
            }],
            ..RelationFacts::default()
        };
        let plan = Plan {
            root,
            relations: [("public.topic".to_owned(), facts)].into(),
            executed: Some(Execution {
                ms: 60.0,
                ..Execution::default()
            }),
            ..Plan::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement("SELECT", Some(plan)));
        });
        found.into_iter().find(|f| f.id == entry)
    }

    #[test]
    fn groups_that_a_limit_leaves_out_are_not_to_be_made() {
        let by = |group: &str, key: &str, wanted: f64| {
            let join = ran(
                "Hash Join",
                60_000.0,
                30.0,
                vec![scan("post", "p", 60_000.0), scan("topic", "t", 3000.0)],
            );
            let groups = Node {
                group_key: vec![group.into()],
                ..ran("Aggregate", 3000.0, 20.0, vec![join])
            };
            let sort = Node {
                sort_key: vec![key.into()],
                ..ran("Sort", wanted, 1.0, vec![groups])
            };
            ran("Limit", wanted, 0.0, vec![sort])
        };
        let plan = |key: &str, wanted: f64| by("t.id", key, wanted);
        let told = found("groups-before-limit", plan("t.created DESC", 20.0)).unwrap();
        let text = &told.remedy[0].text;
        assert!(text.contains("ORDER BY created DESC LIMIT 20) t"), "{text}");
        assert!(told.remedy[1].text.contains("(created DESC)"), "{told:?}");
        // Which are the first is known when all are counted; and all are wanted.
        assert!(found("groups-before-limit", plan("(count(p.id)) DESC", 20.0)).is_none());
        assert!(found("groups-before-limit", plan("t.created DESC", 2000.0)).is_none());
        // A group is no row of the table.
        let by_day = by("t.created", "t.created DESC", 20.0);
        assert!(found("groups-before-limit", by_day).is_none());
    }

    #[test]
    fn what_is_counted_needs_no_order() {
        let plan = |output: &str| {
            let sort = Node {
                sort_key: vec!["t.created".into()],
                ..ran("Sort", 40_000.0, 50.0, vec![scan("topic", "t", 40_000.0)])
            };
            Node {
                conditions: [("Output".to_owned(), output.to_owned())].into(),
                ..ran("Aggregate", 1.0, 5.0, vec![sort])
            }
        };
        let told = found("order-unneeded", plan("count(*)")).unwrap();
        assert!(told.remedy[0].text.contains("ORDER BY"), "{told:?}");
        for kept in ["array_agg(t.id)", "sum(t.id ORDER BY t.created)"] {
            assert!(found("order-unneeded", plan(kept)).is_none(), "{kept}");
        }
    }
}
