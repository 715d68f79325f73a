//! Shapes of plans in which the same rows are reached again: recursions over links of many to many, branches
//! and joins of one table with itself.

use std::collections::BTreeMap;

use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::{Node, RelationFacts};

use super::conditions::{compared, conjuncts, index_named};
use super::counts;
use super::hits::Left;
use super::plans::FEW_ROWS;
use super::shapes::{At, Shown, advice};
use crate::finding::{Confidence, StepKind};

/// A recursion that keeps duplicates over a table that links many to many.
pub(super) fn recursion(at: &At) -> Option<Shown> {
    let node = at.node;
    let text = at.statement.text.to_ascii_lowercase();
    // Plans tell UNION and UNION ALL not apart.
    let keeps = text.contains("recursive") && text.contains("union all");
    if node.kind != "Recursive Union" || !keeps {
        return None;
    }
    let inside = node.nodes.get(1)?.all();
    if !inside.iter().any(|(_, n)| n.kind == "WorkTable Scan") {
        return None;
    }
    let scan = inside
        .iter()
        .map(|(_, n)| *n)
        .find(|n| n.relation.is_some())?;
    let (table, facts) = (scan.relation.as_ref()?, at.facts(scan)?);
    // Where one column tells rows apart, it is a tree or a chain: each is reached once.
    let valid = facts.indexes.iter().filter(|i| i.valid && i.constraint);
    let mut single = valid.filter(|index| index.columns.len() == 1);
    if facts.indexes.is_empty() || single.next().is_some() {
        return None;
    }
    // Without counters nothing tells a walk that repeats itself.
    at.run.observed?.growth.as_ref()?;
    let scans = at.run.table(table).map_or(0.0, Grown::scans);
    let a_call = counts::calls(at.statement).map(|calls| scans / calls);
    // A walk over different rows alone needs no more look-ups than the table has rows.
    let rows = facts.rows.unwrap_or(f64::INFINITY);
    let confidence = match a_call {
        Some(scans) if scans > rows => Confidence::High,
        Some(scans) if scans < 20.0 => return None,
        _ => Confidence::Medium,
    };
    Some(Shown {
        cost: at.cost(node),
        left: None,
        saw: format!(
            "A recursion over {table} keeps what it has reached before (UNION ALL), and no column of {table} alone is unique: a row that is \
             reached over several paths is walked again for each."
        ),
        steps: vec![advice(
            "UNION in the place of UNION ALL in the recursive query, with the key alone in its select list, so that a row reached before is \
             not followed again; or keep the closure in a table",
        )],
        seen: a_call
            .map(|scans| format!("{scans:.0} look-ups in {table} a call, which has {rows:.0} rows"))
            .into_iter()
            .collect(),
        confidence,
    })
}

/// Branches of an append that read a table whole.
const MANY_BRANCHES: usize = 3;

/// A table that several branches of a UNION ALL read whole.
pub(super) fn branches(at: &At) -> Option<Shown> {
    let node = at.node;
    if !matches!(node.kind.as_str(), "Append" | "Merge Append") {
        return None;
    }
    let mut by: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for branch in &node.nodes {
        // Each makes something of its own of the rows.
        let all = branch.all();
        if !all.iter().any(|(_, n)| n.kind == "Aggregate") {
            continue;
        }
        let scans = all.iter().map(|(_, n)| *n);
        let scan = scans
            .filter(|n| n.relation.is_some())
            .max_by(|a, b| a.cost.total_cmp(&b.cost));
        let Some(scan) = scan.filter(|scan| scan.rows >= FEW_ROWS || scan.kind == "Seq Scan")
        else {
            continue;
        };
        let many = at
            .facts(scan)
            .and_then(|f| f.rows)
            .is_some_and(|rows| rows >= FEW_ROWS);
        if let Some(table) = scan.relation.as_deref().filter(|_| many) {
            by.entry(table).or_default().push(branch);
        }
    }
    let (table, of) = by.into_iter().max_by_key(|(_, of)| of.len())?;
    if of.len() < MANY_BRANCHES {
        return None;
    }
    let cost: f64 = of.iter().map(|branch| at.cost(branch)).sum();
    let one = of.iter().map(|branch| at.cost(branch)).fold(0.0, f64::max);
    Some(Shown {
        cost,
        left: Left::new(
            one / cost.max(1.0),
            format!("one pass over {table} in the place of {}", of.len()),
        ),
        saw: format!(
            "{table} is read {} times, once for each aggregate of a UNION ALL.",
            of.len()
        ),
        steps: vec![advice(
            "one pass over the table: aggregate(…) FILTER (WHERE …) for each branch in one select list, GROUPING SETS for several groupings of \
             the same rows, or a MATERIALIZED query (WITH) that the branches read",
        )],
        seen: Vec::new(),
        confidence: Confidence::Medium,
    })
}

/// A table that is joined with itself as often holds attributes as rows.
const MANY_JOINED: usize = 5;

/// A table of entity, attribute and value, joined once for each attribute.
pub(super) fn attributes(at: &At) -> Option<Shown> {
    // Once for the whole plan.
    if at.parent.is_some() {
        return None;
    }
    let mut by: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for (parent, node) in at.node.all() {
        let part = parent.is_some_and(|p| matches!(p.kind.as_str(), "Append" | "Merge Append"));
        if let Some(table) = node.relation.as_deref().filter(|_| !part) {
            by.entry(table).or_default().push(node);
        }
    }
    let (table, scans) = by.into_iter().max_by_key(|(_, scans)| scans.len())?;
    let facts = at.plan.relations.get(table)?;
    let rows = facts.rows.filter(|rows| *rows >= FEW_ROWS)?;
    // Looked up by its own key, it is one that several columns refer to.
    let attribute = scans.iter().filter(|scan| !by_key(scan, facts)).count();
    if attribute < MANY_JOINED {
        return None;
    }
    let names: Vec<&str> = common(&scans, facts);
    let cost: f64 = scans.iter().map(|scan| at.cost(scan)).sum();
    let key = facts.indexes.iter().find(|i| i.constraint && i.valid)?;
    let of = match names.as_slice() {
        [] => return None,
        some => some.join(", "),
    };
    Some(Shown {
        cost,
        left: None,
        saw: format!("{table}, of {rows:.0} rows, is joined {} times in one statement, each time by {of}: attributes as rows.", scans.len()),
        steps: vec![
            advice(format!(
                "keep what is searched and shown as columns, or in one jsonb column with an index, one row for each {}",
                key.columns.first().map_or("key", String::as_str)
            )),
            (
                StepKind::Advice,
                "or read the wanted attributes in one pass: max(value) FILTER (WHERE name = …) for each, GROUP BY the entity".to_owned(),
            ),
        ],
        seen: Vec::new(),
        confidence: Confidence::Medium,
    })
}

/// Whether a scan goes by a unique index of one column.
fn by_key(scan: &Node, facts: &RelationFacts) -> bool {
    let used = scan.index.as_deref();
    let used = used.and_then(|name| index_named(facts, name));
    used.is_some_and(|index| index.constraint && index.columns.len() == 1)
}

/// Columns that each of the scans compares.
fn common<'f>(scans: &[&Node], facts: &'f RelationFacts) -> Vec<&'f str> {
    let of = |scan: &Node| -> Vec<String> {
        let parts = scan.all();
        let conditions = parts.iter().flat_map(|(_, n)| n.conditions.iter());
        let conditions = conditions.filter(|(name, _)| *name != "Output");
        let all = conditions.flat_map(|(_, text)| conjuncts(text));
        let columns = all.filter_map(|part| match compared(part, facts)? {
            super::conditions::Compared::Column(column) => Some(column),
            _ => None,
        });
        columns
            .map(|column| column.trim_matches('"').to_owned())
            .collect()
    };
    let each: Vec<Vec<String>> = scans.iter().map(|scan| of(scan)).collect();
    let all = facts.columns.iter().map(String::as_str);
    all.filter(|column| each.iter().all(|of| of.iter().any(|c| c == column)))
        .collect()
}
