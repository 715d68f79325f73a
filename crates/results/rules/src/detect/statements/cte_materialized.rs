//! Common table expressions that are computed whole and picked from.

use crate::detect::common::conditions::{Compared, operand};
use crate::detect::common::hits::Left;
use crate::detect::common::scans::{FEW_ROWS, SELECTIVE, by_index, read_by_scans};
use crate::detect::common::shapes::{At, Shown, advice, is_served, shape, source};
use crate::detect::{Detector, run};
use crate::finding::{Confidence, StepKind};
use pgassay_model::observed::plans::{Expr, Node, NodeType, RelationFacts};
use pgassay_plan::expr::unquoted;
use pgassay_text::quote::quote_ident;

pub const DETECTORS: &[Detector] = &[run("cte-materialized", |e| shape(e, materialized))];

/// Below which no condition may be put: they would change what comes out.
const CLOSED: &[NodeType] = &[
    NodeType::Limit,
    NodeType::LockRows,
    NodeType::ModifyTable,
    NodeType::RecursiveUnion,
    NodeType::Unique,
    NodeType::WindowAgg,
];
/// From this version on one that is referred to once is part of the statement.
const INLINED: u32 = 120_000;

/// The columns of a scan that are compared for equality with something that is no column of it.
fn picked(scan: &Node) -> Vec<String> {
    let own = |of: &Expr| {
        scan.alias
            .as_ref()
            .is_some_and(|alias| of.aliases().contains(alias))
    };
    let column = |part: &Expr| {
        let (left, right) = part.operands("=")?;
        left.column()
            .filter(|_| own(left) && !own(right))
            .map(unquoted)
    };
    let parts = scan.filter().into_iter().flat_map(Expr::conjuncts);
    parts.filter_map(column).collect()
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
fn materialized(at: &At) -> Option<Shown> {
    let node = at.node;
    let name = node.computes.as_deref()?;
    let inside = node.all();
    let closed = inside.iter().any(|(_, n)| CLOSED.contains(&n.kind));
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
    let grouped = matches!(top.kind, NodeType::Aggregate | NodeType::Group);
    let (table, facts) = origin(at, node, column)?;
    let by_key = top.group_key.iter().any(
        |key| matches!(operand(key, facts), Some(Compared::Column(of)) if unquoted(&of) == *column),
    );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::found_with;
    use crate::detect::tests::made::statement;
    use pgassay_evidence::observed::statements::Counters;
    use pgassay_model::observed::plans::{Clause, IndexFacts, Plan};

    #[test]
    fn a_query_of_which_a_few_rows_are_picked_is_told_not_to_be_materialized() {
        let found = |condition: &str, computed: f64| {
            let scan = Node {
                kind: "Seq Scan".into(),
                relation: Some("public.contract".into()),
                rows: computed,
                cost: 400.0,
                ..Node::default()
            };
            let computes = Node {
                computes: Some("valid".into()),
                relationship: Some("InitPlan".into()),
                ..scan
            };
            let root = Node {
                kind: "CTE Scan".into(),
                cte: Some("valid".into()),
                alias: Some("v".into()),
                conditions: [(Clause::Filter, condition.into())].into(),
                rows: 5.0,
                cost: 900.0,
                nodes: vec![computes],
                ..Node::default()
            };
            let index = IndexFacts {
                columns: vec!["customer".into()],
                valid: true,
                ..IndexFacts::default()
            };
            let facts = RelationFacts {
                columns: vec!["id".into(), "customer".into()],
                indexes: vec![index],
                ..RelationFacts::default()
            };
            let plan = Plan {
                root,
                relations: [("public.contract".to_owned(), facts)].into(),
                ..Plan::default()
            };
            let found = found_with(vec![], |observed| {
                let mut seen = statement("WITH valid AS", Some(plan));
                seen.statements[0].counters = Some(Counters {
                    calls: 100.0,
                    rows: Some(5.0),
                    ..Counters::default()
                });
                observed.statements = Some(seen);
            });
            found.into_iter().find(|f| f.id == "cte-materialized")
        };
        let seen = found("(v.customer = $1)", 20_000.0).unwrap();
        let step = &seen.remedy[0].text;
        assert!(step.starts_with("WITH valid AS NOT MATERIALIZED"), "{step}");
        // A condition on nothing that a table has, and few rows.
        assert!(found("(v.total = $1)", 20_000.0).is_none());
        assert!(found("(v.customer = $1)", 300.0).is_none());
    }
}
