//! Common table expressions that are computed whole and picked from.

use pgassay_model::observed::plans::{Node, RelationFacts};
use pgassay_text::quote::quote_ident;

use super::conditions::{Compared, aliases, compared, conjuncts};
use super::hits::Left;
use super::late::source;
use super::plans::{FEW_ROWS, SELECTIVE, by_index, read_by_scans};
use super::shapes::{At, Shown, advice, is_served};
use crate::finding::{Confidence, StepKind};

/// Below which no condition may be put: they would change what comes out.
const CLOSED: &[&str] = &[
    "Limit",
    "LockRows",
    "ModifyTable",
    "Recursive Union",
    "Unique",
    "WindowAgg",
];
/// From this version on one that is referred to once is part of the statement.
const INLINED: u32 = 120_000;

/// The columns of a scan that are compared for equality with something that is no column of it.
fn picked(scan: &Node) -> Vec<String> {
    let alias = scan.alias.as_deref().unwrap_or_default().trim_matches('"');
    let parts = scan
        .conditions
        .get("Filter")
        .map(|filter| conjuncts(filter));
    let column = |part: &str| -> Option<String> {
        let (left, right) = part.split_once(" = ")?;
        let own = |text: &str| aliases(text).iter().any(|a| a.trim_matches('"') == alias);
        let bare = left.trim_matches(['(', ')']);
        let name = bare.rsplit('.').next()?.trim_matches('"');
        let is_column = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        (own(left) && !own(right) && is_column).then(|| name.to_owned())
    };
    parts.into_iter().flatten().filter_map(column).collect()
}

/// The table that a column comes from, by its name.
fn origin<'a>(at: &At<'a>, within: &Node, column: &str) -> Option<(&'a str, &'a RelationFacts)> {
    let scans = within
        .all()
        .into_iter()
        .filter_map(|(_, n)| n.relation.as_ref());
    let tables = scans.filter_map(|name| at.plan.relations.get_key_value(name));
    let mut tables: Vec<_> = tables
        .filter(|(_, facts)| facts.columns.iter().any(|own| own == column))
        .collect();
    // One that has an index on it before one that does not.
    tables.sort_by_key(|(_, facts)| !is_served(facts, &[column]));
    tables.first().map(|(name, facts)| (name.as_str(), *facts))
}

/// One that is computed for many rows, of which each place that reads it picks a few by a column of a table.
pub(super) fn materialized(at: &At) -> Option<Shown> {
    let node = at.node;
    let name = node.computes.as_deref()?;
    if node.kind == "Recursive Union" {
        return recursion(at, name);
    }
    let inside = node.all();
    let closed = inside
        .iter()
        .any(|(_, n)| CLOSED.contains(&n.kind.as_str()));
    if node.rows < 0.1 * FEW_ROWS || closed {
        return None;
    }
    let all = at.plan.root.all().into_iter().map(|(_, n)| n);
    let scans: Vec<&Node> = all.filter(|n| n.cte.as_deref() == Some(name)).collect();
    let first = picked(scans.first()?);
    let column = first
        .iter()
        .find(|column| scans.iter().all(|scan| picked(scan).contains(column)))?;
    // Of groups only what they are grouped by may be asked before.
    let top = source(node);
    let grouped = matches!(top.kind.as_str(), "Aggregate" | "Group");
    let (table, facts) = origin(at, node, column)?;
    let by_key = top.group_key.iter().any(|key| {
        matches!(compared(&format!("{key} = $1"), facts), Some(Compared::Column(of)) if of.trim_matches('"') == column)
    });
    if grouped && !by_key {
        return None;
    }
    let times = scans.len() as f64;
    let rows = at.statement.counters.as_ref().and_then(|c| c.rows);
    let few = rows.unwrap_or(times).max(1.0) * times;
    if few > SELECTIVE * node.rows.max(FEW_ROWS) {
        return None;
    }
    let served = is_served(facts, &[column]);
    let mut seen = Vec::new();
    let read = read_by_scans(at.run, table);
    let whole = read.is_some_and(|(_, each)| facts.rows.is_some_and(|rows| each >= 0.3 * rows));
    seen.extend(read.map(|(scans, each)| {
        format!("{scans:.0} sequential scans of {table} in the measured time, {each:.0} rows each")
    }));
    seen.extend(rows.map(|rows| format!("a call gives {rows:.1} rows")));
    let version = at.run.arm.server.as_ref().and_then(|s| s.version_num);
    let older = version.is_some_and(|version| version < INLINED);
    let step = match older {
        true => format!(
            "write {name} as a subquery in FROM, or a view, or put the condition on {column} into it: up to 11 every WITH query is \
             computed by itself"
        ),
        false => format!(
            "WITH {name} AS NOT MATERIALIZED (…): the condition on {column} then reaches {table}; or put it into the WITH query itself"
        ),
    };
    let mut steps = vec![advice(step)];
    if !served {
        steps.push((
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} ({});   -- which it needs",
                quote_ident(column)
            ),
        ));
    }
    Some(Shown {
        cost: at.cost(node) + scans.iter().map(|scan| at.cost(scan)).sum::<f64>(),
        left: by_index(node.rows, few).map(|left| Left {
            rests_on: format!("{:.0} rows are computed for about {few:.0}", node.rows),
            ..left
        }),
        saw: format!(
            "WITH {name} is computed whole, about {:.0} rows, and what reads it picks those of one {column} ({}): it is kept by \
             itself (materialized), so that no condition reaches {table}.",
            node.rows,
            match scans.len() {
                1 => "in one place".to_owned(),
                many => format!("in {many} places"),
            }
        ),
        steps,
        seen,
        confidence: match whole && served {
            true => Confidence::High,
            false => Confidence::Medium,
        },
    })
}

/// A recursion of which what reads it keeps a few rows: it has gone through all of the tree, or the graph, by then.
fn recursion(at: &At, name: &str) -> Option<Shown> {
    let node = at.node;
    let all = at.plan.root.all().into_iter().map(|(_, n)| n);
    // Its own second part reads it, too, by another node.
    let scans: Vec<&Node> = all
        .filter(|n| n.kind == "CTE Scan" && n.cte.as_deref() == Some(name))
        .collect();
    let [scan] = scans.as_slice() else {
        return None;
    };
    let filter = scan.conditions.get("Filter")?;
    let made = node.actual_rows?;
    let kept = scan.actual_rows?.max(1.0);
    if made < 0.1 * FEW_ROWS || kept > SELECTIVE * made {
        return None;
    }
    // What the recursion computes itself, a depth or a path, is known when it has gone there.
    let column = picked(scan).into_iter().next()?;
    let relations = node
        .all()
        .into_iter()
        .filter_map(|(_, n)| n.relation.as_ref());
    let mut facts = relations.filter_map(|table| at.plan.relations.get(table));
    if !facts.any(|facts| facts.columns.contains(&column)) {
        return None;
    }
    let from = format!("the row asked for, WHERE {} = value", quote_ident(&column));
    Some(Shown {
        cost: at.cost(node) + at.cost(scan),
        left: by_index(made, kept),
        saw: format!(
            "The recursion {name} goes through {made:.0} rows, and {filter}, a condition on its result, keeps {kept:.0}: none outside of a recursion reaches into it."
        ),
        steps: vec![
            advice(format!(
                "begin the recursion at {from}, in its first part (before UNION ALL), and go from there: up to the parents (JOIN … ON the table's key = {name}.parent) for a path, down to the \
                 children for a part of the tree; with an index on the column by which it goes on"
            )),
            advice(
                "or keep the path of each row in a column (ltree, or an array), or all pairs of ancestor and descendant in a table, filled on writing, and ask that",
            ),
        ],
        seen: Vec::new(),
        confidence: Confidence::High,
    })
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::plans::{Execution, Plan, RelationFacts, Work};

    use super::super::database::tests::statement;
    use super::super::tests::made::found_with;
    use super::*;

    #[test]
    fn a_recursion_that_is_filtered_from_outside_is_told_where_to_begin() {
        let ran = |kind: &str, rows: f64, ms: f64| Node {
            kind: kind.into(),
            rows: 10.0,
            cost: 900.0,
            actual_rows: Some(rows),
            work: Some(Work {
                loops: 1.0,
                ms,
                ..Work::default()
            }),
            ..Node::default()
        };
        let found = |condition: &str, kept: f64| {
            let own = Node {
                cte: Some("t".into()),
                alias: Some("t_1".into()),
                ..ran("WorkTable Scan", 2000.0, 3.0)
            };
            let union = Node {
                computes: Some("t".into()),
                relationship: Some("InitPlan".into()),
                nodes: vec![
                    Node {
                        relation: Some("public.category".into()),
                        ..ran("Seq Scan", 12.0, 1.0)
                    },
                    own,
                ],
                ..ran("Recursive Union", 8000.0, 30.0)
            };
            let root = Node {
                cte: Some("t".into()),
                alias: Some("t".into()),
                conditions: [("Filter".to_owned(), condition.to_owned())].into(),
                nodes: vec![union],
                ..ran("CTE Scan", kept, 5.0)
            };
            let facts = RelationFacts {
                columns: vec!["id".into(), "parent_id".into()],
                ..RelationFacts::default()
            };
            let plan = Plan {
                root,
                relations: [("public.category".to_owned(), facts)].into(),
                executed: Some(Execution {
                    ms: 35.0,
                    ..Execution::default()
                }),
                ..Plan::default()
            };
            let found = found_with(vec![], |observed| {
                observed.statements = Some(statement("WITH RECURSIVE t AS", Some(plan)));
            });
            found.into_iter().find(|f| f.id == "cte-materialized")
        };
        let told = found("(t.id = $1)", 1.0).unwrap();
        assert!(
            told.remedy[0].text.contains("WHERE id = value"),
            "{:?}",
            told.remedy
        );
        assert!(found("(t.id = $1)", 8000.0).is_none());
        // Known when it is there.
        assert!(found("(t.depth = $1)", 1.0).is_none());
    }
}
