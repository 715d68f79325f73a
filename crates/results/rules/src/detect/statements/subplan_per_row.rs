//! Subplans that are executed for each row.

use crate::detect::common::hits::Left;
use crate::detect::common::shapes::{At, Shown, advice, shape};
use crate::detect::{Detector, run};
use crate::finding::Confidence;
use pgassay_model::observed::plans::{Expr, NodeType};

pub const DETECTORS: &[Detector] = &[run("subplan-per-row", |e| shape(e, subplan))];

/// Rows below which a subquery for each of them is no burden, if all together cost little.
const FEW_DRIVING: f64 = 1000.0;
/// A row that an anti-join finds by an index costs about so much, in the planner's units.
const BY_INDEX_COST: f64 = 8.0;

/// Whether a statement asks for what is not in a list that it selects.
fn excludes(text: &str) -> bool {
    let words: Vec<String> = text
        .split_whitespace()
        .map(str::to_ascii_uppercase)
        .collect();
    let text = words.join(" ").replace("( ", "(");
    [
        "NOT IN (SELECT",
        "NOT IN(SELECT",
        "<> ALL (SELECT",
        "<> ALL(SELECT",
    ]
    .iter()
    .any(|sign| text.contains(sign))
}

/// A subplan that is executed for each row.
fn subplan(at: &At) -> Option<Shown> {
    let node = at.node;
    let parent = at.parent?;
    if !node.is_subplan() || parent.hashes(node) {
        return None;
    }
    let inside = node.all();
    let own: Vec<&String> = inside
        .iter()
        .filter_map(|(_, n)| n.alias.as_ref())
        .collect();
    let named = inside
        .iter()
        .flat_map(|(_, n)| n.tests())
        .flat_map(Expr::aliases);
    let correlated = named.into_iter().any(|alias| !own.contains(&&alias));
    let scan = inside
        .iter()
        .map(|(_, n)| *n)
        .filter(|n| n.relation.is_some());
    let scan = scan.max_by(|a, b| a.rows.total_cmp(&b.rows))?;
    let table = scan.relation.as_ref()?;
    let facts = at.facts(scan)?;
    let (rows, pages) = (facts.rows?, facts.pages?);
    let counted = node.work.filter(|_| at.plan.executed.is_some());
    let counted = counted.map(|work| work.loops);
    let times = counted.or_else(|| at.plan.root.times(node))?;
    let mut conditions = parent.conditions.values();
    let condition = conditions.find(|of| parent.asks(of, node).is_some());
    // A list that does not depend on the row: x NOT IN (SELECT …). Each row goes through half of it.
    if !correlated {
        let has = |is: fn(&Expr) -> bool| condition.is_some_and(|of| of.walk().any(is));
        let all = has(|part| matches!(part, Expr::Quantified { all: true, .. }));
        let negated = match condition {
            Some(_) => all || has(|part| matches!(part, Expr::Not(_))),
            None => excludes(&at.statement.text),
        };
        let listed = node.kind == NodeType::Materialize
            || has(|part| matches!(part, Expr::Quantified { .. }));
        if !listed || node.rows < FEW_DRIVING {
            return None;
        }
        // The planner takes half of the rows to pass, and what passes for what drives it.
        let driving = counted.unwrap_or(times / 0.5).max(1.0);
        let instead = (driving * BY_INDEX_COST).min(pages + 0.03 * rows);
        let mut steps = vec![advice(match negated {
            true => format!(
                "NOT EXISTS (SELECT FROM {table} x WHERE x.… = …) in the place of NOT IN (SELECT …): it becomes an anti-join, which an \
                 index on the compared column serves"
            ),
            false => format!(
                "EXISTS (SELECT FROM {table} x WHERE x.… = …) in the place of IN (SELECT …), or a join: either goes by a hash table or an \
                 index, and not through the list"
            ),
        })];
        if negated {
            steps.push(advice(
                "the two differ where a NULL is: with one in its list NOT IN lets no row through, and a row whose own column is NULL passes \
                 NOT EXISTS; say IS NOT NULL where that is not meant",
            ));
        }
        // What the parent costs beyond its own input is the list's.
        return Some(Shown {
            cost: at.cost(parent),
            left: Left::new(
                instead / at.cost(parent).max(1.0),
                format!("the planner's cost, and {instead:.0} for an anti-join"),
            ),
            saw: format!(
                "For each row a list of {:.0} rows of {table} is gone through: {} is not hashed.",
                node.rows,
                if negated {
                    "NOT IN (SELECT …)"
                } else {
                    "the subquery"
                }
            ),
            steps,
            seen: condition
                .map(|text| format!("condition: {text}"))
                .into_iter()
                .collect(),
            confidence: Confidence::High,
        });
    }
    // Executed once for all keys, it would read its table whole.
    let (cost, instead) = (times * node.cost, pages + 0.03 * rows);
    if times < FEW_DRIVING || instead > 0.3 * cost {
        return None;
    }
    Some(Shown {
        cost,
        left: Left::new(
            instead / cost,
            format!("the planner's cost, and {instead:.0} for reading {table} once"),
        ),
        saw: format!("A subquery over {table} is executed for each of about {times:.0} rows."),
        steps: vec![advice(format!(
            "join with it once: LEFT JOIN (SELECT key, … FROM {table} GROUP BY key) in the place of a subquery for each row; if a LIMIT \
             follows, put it below the select list first"
        ))],
        seen: Vec::new(),
        confidence: Confidence::Medium,
    })
}
