//! Rows that are counted where it is asked whether there is one.

use super::hits::Left;
use super::shapes::{At, Shown, advice};
use crate::finding::Confidence;

/// Rows for each count from which on it is worth stopping at the first.
const SEVERAL: f64 = 10.0;
/// Rows of all counts together below which they are no burden.
const FEW: f64 = 500.0;

/// A comparison of a subquery's only value, which begins behind its name.
fn is_compared(condition: &str) -> bool {
    let behind = condition
        .split_once("(SubPlan ")
        .and_then(|(_, rest)| rest.split_once(')'));
    let behind = behind.map(|(_, rest)| rest.trim_start_matches(')').trim_start());
    behind.is_some_and(|rest| {
        let mut signs = ["> ", ">= ", "= ", "<> "].iter();
        let with = signs.find_map(|sign| rest.strip_prefix(sign));
        with.is_some_and(|with| with.starts_with(|c: char| c == '$' || c.is_ascii_digit()))
    })
}

/// A count in a subquery of a condition: `(SELECT count(*) FROM t WHERE t.a = o.a) > 0`.
pub(super) fn counted(at: &At) -> Option<Shown> {
    let (node, parent) = (at.node, at.parent?);
    let counts = node
        .conditions
        .get("Output")
        .is_some_and(|output| output.starts_with("count(") && !output.contains("DISTINCT"));
    // Of several it is not known which one is compared.
    let subplans = parent
        .nodes
        .iter()
        .filter(|n| n.relationship.as_deref() == Some("SubPlan"));
    let alone = subplans.count() == 1 && node.relationship.as_deref() == Some("SubPlan");
    if node.kind != "Aggregate" || !node.group_key.is_empty() || !counts || !alone {
        return None;
    }
    let filters = ["Filter", "Join Filter"].iter();
    let mut filters = filters.filter_map(|name| parent.conditions.get(*name));
    let condition = filters.find(|condition| is_compared(condition))?;
    let below = node.nodes.first()?;
    let each = below.actual_rows.unwrap_or(below.rows);
    let times = node
        .work
        .map_or_else(|| at.plan.root.times(node), |work| Some(work.loops))?;
    if each < SEVERAL || each * times < FEW {
        return None;
    }
    let table = below
        .all()
        .into_iter()
        .find_map(|(_, n)| n.relation.as_deref())?;
    Some(Shown {
        cost: at.plan.part(node) * at.plan.root.cost,
        left: Left::new(1.0 / each, format!("one of {each:.0} rows is read")),
        saw: format!(
            "{each:.0} rows of {table} are counted for each of {times:.0} rows, and the number is only compared: {condition}."
        ),
        steps: vec![advice(format!(
            "where it is asked whether there is one (count(*) > 0, = 0): EXISTS (SELECT FROM {table} …), or NOT EXISTS, which stop at the first \
             row; where the number itself matters: compare it with a column that is kept, or stop the count by a LIMIT below it"
        ))],
        seen: Vec::new(),
        // With which number is not known: literals are not kept.
        confidence: Confidence::Medium,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_compared_is_told_from_one_that_is_shown() {
        for compared in [
            "((SubPlan $1) > $2)",
            "(((SubPlan 1) >= 1) AND (t.a = 3))",
            "((SubPlan 1) = 0)",
        ] {
            assert!(is_compared(compared), "{compared}");
        }
        for other in [
            "((SubPlan 1) = o.n)",
            "(t.a = (SubPlan 1))",
            "(SubPlan 1)",
            "((SubPlan 1) + 1 > 2)",
            "(t.a > 2)",
        ] {
            assert!(!is_compared(other), "{other}");
        }
    }
}
