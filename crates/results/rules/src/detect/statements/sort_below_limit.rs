//! Sorts of many rows for the first few, in an order that no index has.

use crate::detect::common::conditions::{Compared, compared};
use crate::detect::common::scans::{FEW_ROWS, SELECTIVE, by_index};
use crate::detect::common::shapes::{At, Shown, is_served, shape};
use crate::detect::{Detector, run};
use crate::finding::{Confidence, StepKind};
use pgassay_model::observed::plans::{Clause, Expr, NodeType};
use pgassay_plan::expr::unquoted;
use pgassay_text::quote::quote_ident;

pub const DETECTORS: &[Detector] = &[run("sort-below-limit", |e| shape(e, sort))];

/// A sort of many rows of one table for the first few.
fn sort(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != NodeType::Limit {
        return None;
    }
    let mut below = node.nodes.first()?;
    while below.gathers() || below.kind == NodeType::Result {
        below = below.nodes.first()?;
    }
    let scan = below.nodes.first()?;
    let is_scan = matches!(
        scan.kind,
        NodeType::SeqScan | NodeType::IndexScan | NodeType::BitmapHeapScan
    );
    let rows = scan.actual_rows.unwrap_or(scan.rows);
    // An incremental one stops after its first groups.
    let sorts = below.kind == NodeType::Sort
        || below.kind == NodeType::IncrementalSort && scan.actual_rows.is_some();
    if !sorts || !is_scan || rows < FEW_ROWS || node.rows > SELECTIVE * rows {
        return None;
    }
    let (table, facts) = (scan.relation.as_ref()?, at.facts(scan)?);
    let many = facts.rows.is_some_and(|all| rows >= MOST_LEFT * all);
    // What is no equality with a column has rows in the wanted order thrown away: few, where it leaves many.
    let conditions = scan.any_of(&[Clause::Filter, Clause::IndexCond, Clause::RecheckCond]);
    let mut columns: Vec<String> = Vec::new();
    for part in conditions.flat_map(Expr::conjuncts) {
        match compared(part, facts) {
            Some(Compared::Column(column)) if !columns.contains(&column) => columns.push(column),
            Some(Compared::Column(_)) => {}
            _ if many => {}
            _ => return None,
        }
    }
    let mut names: Vec<String> = columns.iter().map(|c| unquoted(c)).collect();
    let mut collated = false;
    for key in &below.sort_key {
        let (expression, order) = ordered(key);
        // In another order than the index's, that of a language or of bytes.
        let (expression, collation) = match expression.bare() {
            Expr::Collate(of, name) => (&**of, format!(" COLLATE {name}")),
            other => (other, String::new()),
        };
        // An expression needs an index of its own kind.
        let name = unquoted(expression.column()?);
        if !facts.columns.contains(&name) {
            return None;
        }
        collated |= !collation.is_empty();
        columns.push(format!("{}{collation}{order}", quote_ident(&name)));
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let orders = below.sort_key.iter().map(|key| ordered(key).1);
    let descending = orders.clone().filter(|order| order.contains("DESC"));
    let descending = descending.count();
    let mixed = descending > 0 && descending < below.sort_key.len();
    let nulls = orders.clone().any(|order| order.contains("NULLS"));
    let begins = is_served(facts, &names);
    // An index that begins with them may have another order.
    if begins && !collated && !mixed && !nulls {
        return None;
    }
    let key = Expr::List(below.sort_key.clone());
    let seen = begins.then(|| {
        format!(
            "an index on these columns is there, and has them in another order than {}",
            key
        )
    });
    Some(Shown {
        cost: at.cost(node),
        left: by_index(rows, node.rows),
        saw: format!(
            "{rows:.0} rows of {table} are sorted by {} for the first {:.0}.",
            key, node.rows
        ),
        steps: vec![(
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} ({});",
                columns.join(", ")
            ),
        )],
        seen: seen.into_iter().collect(),
        confidence: Confidence::Medium,
    })
}

/// What a key sorts by, and how.
fn ordered(key: &Expr) -> (&Expr, &str) {
    match key {
        Expr::Key(of, order) => (of, order),
        other => (other, ""),
    }
}

/// The part of a table from which on a condition leaves so many rows that an index in the wanted order meets one soon.
const MOST_LEFT: f64 = 0.05;
