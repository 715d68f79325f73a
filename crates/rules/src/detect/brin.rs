//! BRIN indexes over rows that lie in their order, and that lead to far more pages than match: pages written since the
//! index was made, which nothing has summarized.

use super::plans::by_index;
use super::shapes::{At, Shown, advice};
use crate::finding::{Confidence, StepKind};

/// Rows that are looked at for each that matches, from which on ranges are missing.
const TOO_MANY: f64 = 10.0;
/// Below which they are no burden.
const FEW: f64 = 1000.0;
/// How far the column must follow the order of the rows for the index to be worth something.
const FOLLOWS: f64 = 0.7;

pub(super) fn unsummarized(at: &At) -> Option<Shown> {
    let node = at.node;
    let (table, facts) = (node.relation.as_deref()?, at.facts(node)?);
    if node.kind != "Bitmap Heap Scan" {
        return None;
    }
    let below = node
        .all()
        .into_iter()
        .find_map(|(_, n)| n.index.as_deref())?;
    let mut indexes = facts.indexes.iter();
    let index = indexes.find(|i| {
        i.method == "brin" && i.name.rsplit('.').next().map(|n| n.trim_matches('"')) == Some(below)
    })?;
    let follows = facts.declared.correlations.get(index.first.as_ref()?)?;
    let (given, removed) = (node.actual_rows?, node.work?.removed);
    if follows.abs() < FOLLOWS || removed < FEW || removed < TOO_MANY * given.max(1.0) {
        return None;
    }
    let name = &index.name;
    Some(Shown {
        cost: at.plan.part(node) * at.plan.root.cost,
        left: by_index(removed + given, 10.0 * given),
        saw: format!(
            "The BRIN index {name} leads to pages of {table} with {removed:.0} rows that don't match, for {given:.0} that do, though the rows lie in its order: ranges that nothing has \
             summarized yet are read whole."
        ),
        steps: vec![
            (
                StepKind::Sql,
                format!(
                    "SELECT brin_summarize_new_values('{name}'); ALTER INDEX {name} SET (autosummarize = on);   -- what is there now, and ranges to come"
                ),
            ),
            (
                StepKind::Sql,
                format!(
                    "VACUUM (ANALYZE) {table};   -- summarizes too: see that autovacuum comes to the table (autovacuum_enabled, …_insert_threshold)"
                ),
            ),
            advice(
                "if it stays so, ranges are too wide or have been mixed by updates: a smaller pages_per_range and REINDEX, or a B-tree",
            ),
        ],
        seen: vec![format!(
            "the column follows the order of the rows by {follows:.2} (pg_stats.correlation)"
        )],
        confidence: Confidence::High,
    })
}
