//! The first few rows in the order of something that is computed for all of them.

use pgassay_model::observed::plans::{IndexFacts, Node};
use pgassay_text::quote::quote_ident;

use super::plans::{FEW_ROWS, by_index};
use super::shapes::{At, Shown, advice, column};
use super::whole::DRAWN;
use crate::finding::{Confidence, StepKind};

/// What a distance is computed by.
const OF_DISTANCE: &[&str] = &[
    "<->", "acos(", "asin(", "atan2(", "cos(", "distance", "power(", "sin(", "sqrt(", " ^ ",
];
/// The part of the rows below which those that are wanted are few.
const FEW: f64 = 0.1;

/// Whether an expression depends on a value that the statement was given, and not on the row alone. Constants
/// look the same, as literals are not kept.
fn has_values(expression: &str) -> bool {
    expression.contains('$')
}

/// Types of columns whose distance by an operator a GiST index has in order, with its operator class.
const IN_ORDER: &[(&str, &str)] = &[
    ("text", " gist_trgm_ops"),
    ("character varying", " gist_trgm_ops"),
    ("point", ""),
    ("box", ""),
    ("circle", ""),
    ("polygon", ""),
    ("geometry", ""),
    ("geography", ""),
    ("cube", ""),
];

/// The index that gives a column's rows in the order of its distance by `<->`.
fn by_index_order(at: &At, scan: &Node, key: &str) -> Option<(StepKind, String)> {
    let (left, right) = key.split_once(" <-> ").filter(|_| !key.contains(" DESC"))?;
    let facts = at.facts(scan)?;
    let name = [left, right].iter().find_map(|side| column(side, facts))?;
    let kind = facts.types.get(name)?;
    let kind = kind.strip_prefix("public.").unwrap_or(kind);
    let (_, class) = IN_ORDER.iter().find(|(of, _)| *of == kind)?;
    let table = scan.relation.as_deref()?;
    let mut own = facts
        .indexes
        .iter()
        .filter(|i| i.valid && i.first.as_deref() == Some(name));
    let ordered = |i: &IndexFacts| matches!(i.method.as_str(), "gist" | "spgist");
    if own.clone().any(ordered) {
        return None;
    }
    let why = own.next().map_or_else(String::new, |index| {
        format!(
            "; {}, of the method {}, finds rows and gives no order",
            index.name, index.method
        )
    });
    Some((
        StepKind::Sql,
        format!(
            "CREATE INDEX CONCURRENTLY ON {table} USING gist ({}{class});   -- it gives the nearest first, and ORDER BY … <-> … LIMIT stops there{why}",
            quote_ident(name)
        ),
    ))
}

/// A sort by an expression, of many rows of one table, for the first few.
pub(super) fn computed(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Limit" {
        return None;
    }
    let mut sort = node.nodes.first()?;
    while matches!(sort.kind.as_str(), "Gather Merge" | "Gather" | "Result") {
        sort = sort.nodes.first()?;
    }
    let scan = sort.nodes.first()?;
    let key = sort.sort_key.first()?;
    let table = scan.relation.as_ref()?;
    let rows = scan.actual_rows.unwrap_or(scan.rows);
    let given = node.actual_rows.unwrap_or(node.rows);
    let is_scan = matches!(
        scan.kind.as_str(),
        "Seq Scan" | "Index Scan" | "Bitmap Heap Scan"
    );
    // Drawn ones have a shape of their own, and what a subquery gives is in no index.
    let other = DRAWN.iter().chain(&["SubPlan", "InitPlan", "now(", "age("]);
    let is_expression = key.contains('(') && !other.into_iter().any(|other| key.contains(other));
    if sort.kind != "Sort" || !is_scan || !is_expression || rows < FEW_ROWS || given > FEW * rows {
        return None;
    }
    let lower = key.to_ascii_lowercase();
    let near = OF_DISTANCE.iter().any(|sign| lower.contains(sign));
    let shown: String = match key.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.clone(),
    };
    let order = key
        .trim_end_matches(" NULLS FIRST")
        .trim_end_matches(" NULLS LAST")
        .trim_end_matches(" DESC");
    // In the index's definition the table has no other name.
    let prefix = format!("{}.", scan.alias.as_deref().unwrap_or_default());
    let own = match prefix.as_str() {
        "." => order.to_owned(),
        prefix => order
            .replace(&format!("({prefix}"), "(")
            .replace(&format!(" {prefix}"), " "),
    };
    let own = match own.starts_with('(') {
        true => format!("({own})"),
        false => format!("(({own}))"),
    };
    // With a condition, the rows in that order may be others.
    let conditions = ["Filter", "Index Cond", "Recheck Cond"];
    let all = !conditions
        .iter()
        .any(|name| scan.conditions.contains_key(*name));
    let own = match all {
        true => (
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} {own};   -- its functions must be IMMUTABLE"
            ),
        ),
        false => advice(format!(
            "an index on {table}, first on the columns that are compared for equality, then on the expression {own}, whose functions must be \
             IMMUTABLE"
        )),
    };
    let steps = match (near, has_values(key)) {
        (true, true) if by_index_order(at, scan, key).is_some() => {
            by_index_order(at, scan, key).into_iter().collect()
        }
        (true, true) => vec![
            advice(format!(
                "for a distance an index that finds the nearest: CREATE INDEX CONCURRENTLY ON {table} USING gist (point(x, y)), or of a geography \
                 (PostGIS), an earth (earthdistance) or a vector, and ORDER BY that <-> the value asked for LIMIT n"
            )),
            advice(
                "or bound the rows first by a condition that an index serves (a box around the place: x BETWEEN … AND y BETWEEN …)",
            ),
        ],
        (_, true) if key.contains("CASE ") => vec![advice(
            "write a statement for each order that can be asked for, with ORDER BY the column itself, which an index gives (in PL/pgSQL by EXECUTE format('… ORDER BY %I LIMIT …'), in the \
             application by its text): ORDER BY CASE … is an expression that no index has",
        )],
        (_, true) => vec![advice(
            "what depends on the values asked for is in no index's order: bound the rows first by a condition that an index serves; constants instead of \
             the values make an index on the expression possible",
        )],
        (_, false) => vec![own],
    };
    Some(Shown {
        cost: at.cost(node),
        left: by_index(rows, given).filter(|_| all),
        saw: format!(
            "{shown} is computed for each of {rows:.0} rows of {table}, and they are sorted by it, for the first {given:.0}."
        ),
        steps,
        seen: Vec::new(),
        confidence: match all {
            true => Confidence::High,
            false => Confidence::Medium,
        },
    })
}
