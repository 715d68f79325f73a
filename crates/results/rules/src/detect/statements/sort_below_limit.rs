//! Sorts of many rows for the first few, in an order that no index has.

use crate::detect::common::conditions::{Compared, compared, conjuncts};
use crate::detect::common::scans::{FEW_ROWS, SELECTIVE, by_index};
use crate::detect::common::shapes::{At, Shown, column, is_served, shape};
use crate::detect::{Detector, run};
use crate::finding::{Confidence, StepKind};
use pgassay_text::quote::quote_ident;

pub const DETECTORS: &[Detector] = &[run("sort-below-limit", |e| shape(e, sort))];

/// A sort of many rows of one table for the first few.
fn sort(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Limit" {
        return None;
    }
    let mut below = node.nodes.first()?;
    while matches!(below.kind.as_str(), "Gather Merge" | "Gather" | "Result") {
        below = below.nodes.first()?;
    }
    let scan = below.nodes.first()?;
    let is_scan = matches!(
        scan.kind.as_str(),
        "Seq Scan" | "Index Scan" | "Bitmap Heap Scan"
    );
    let rows = scan.actual_rows.unwrap_or(scan.rows);
    // An incremental one stops after its first groups.
    let sorts =
        below.kind == "Sort" || below.kind == "Incremental Sort" && scan.actual_rows.is_some();
    if !sorts || !is_scan || rows < FEW_ROWS || node.rows > SELECTIVE * rows {
        return None;
    }
    let (table, facts) = (scan.relation.as_ref()?, at.facts(scan)?);
    let many = facts.rows.is_some_and(|all| rows >= MOST_LEFT * all);
    // What is no equality with a column has rows in the wanted order thrown away: few, where it leaves many.
    let conditions = ["Filter", "Index Cond", "Recheck Cond"].iter();
    let conditions = conditions.filter_map(|name| scan.conditions.get(*name));
    let mut columns: Vec<String> = Vec::new();
    for part in conditions.flat_map(|condition| conjuncts(condition)) {
        match compared(part, facts) {
            Some(Compared::Column(column)) if !columns.contains(&column) => columns.push(column),
            Some(Compared::Column(_)) => {}
            _ if many => {}
            _ => return None,
        }
    }
    let mut names: Vec<String> = columns
        .iter()
        .map(|c| c.trim_matches('"').to_owned())
        .collect();
    let mut collated = false;
    for key in &below.sort_key {
        let expression = key
            .trim_end_matches(" NULLS FIRST")
            .trim_end_matches(" NULLS LAST")
            .trim_end_matches(" DESC");
        // In another order than the index's, that of a language or of bytes.
        let (expression, collation) = match expression.split_once(" COLLATE ") {
            Some((bare, of)) => (
                bare.trim_matches(['(', ')']),
                Some(of.trim_matches(['(', ')'])),
            ),
            None => (expression, None),
        };
        // An expression needs an index of its own kind.
        if expression.contains(['(', ' ', ':']) {
            return None;
        }
        let name = column(expression, facts)?;
        names.push(name.to_owned());
        let of = collation.map_or_else(String::new, |of| format!(" COLLATE {of}"));
        let behind = [" DESC", " NULLS FIRST", " NULLS LAST"]
            .iter()
            .filter(|end| key.contains(**end));
        let behind: String = behind.copied().collect();
        collated |= collation.is_some();
        columns.push(format!("{}{of}{behind}", quote_ident(name)));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let descending = below
        .sort_key
        .iter()
        .filter(|key| key.contains(" DESC"))
        .count();
    let mixed = descending > 0 && descending < below.sort_key.len();
    let begins = is_served(facts, &names);
    // An index that begins with them may have another order.
    if begins && !collated && !mixed && !below.sort_key.iter().any(|key| key.contains(" NULLS ")) {
        return None;
    }
    let seen = begins.then(|| {
        format!(
            "an index on these columns is there, and has them in another order than {}",
            below.sort_key.join(", ")
        )
    });
    Some(Shown {
        cost: at.cost(node),
        left: by_index(rows, node.rows),
        saw: format!(
            "{rows:.0} rows of {table} are sorted by {} for the first {:.0}.",
            below.sort_key.join(", "),
            node.rows
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

/// The part of a table from which on a condition leaves so many rows that an index in the wanted order meets one soon.
const MOST_LEFT: f64 = 0.05;
