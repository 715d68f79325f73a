//! Partitions that take what no other one takes, and have come to hold what others should.

use super::hits::Left;
use super::plans::FEW_ROWS;
use super::shapes::{At, Shown, advice};
use crate::bottlenecks::finding::Confidence;

/// The part of its rows below which a scan of it is for a few of them.
const FEW: f64 = 0.2;

/// A default partition with many rows, of which a scan is for a few.
pub(super) fn scanned(at: &At) -> Option<Shown> {
    let (node, facts) = (at.node, at.facts(at.node)?);
    let filter = node.conditions.get("Filter")?;
    let rows = facts.rows.filter(|rows| *rows >= FEW_ROWS)?;
    let given = node.actual_rows.unwrap_or(node.rows);
    let table = node.relation.as_ref()?;
    let (of, parts) = facts.partition_of.as_ref()?;
    let by_key = facts.partition_key.iter().any(|column| {
        let mut words = filter.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| word == column)
    });
    if !facts.default_partition || node.kind != "Seq Scan" || !by_key || given > FEW * rows {
        return None;
    }
    Some(Shown {
        cost: at.cost(node),
        left: Left::new(
            given / rows,
            format!("{given:.0} of {rows:.0} rows are wanted"),
        ),
        saw: format!(
            "{table}, the DEFAULT partition of {of}, holds {rows:.0} rows, which are read for {given:.0}: no partition of their own was made for \
             them, so that nothing can be left out."
        ),
        steps: vec![advice(format!(
            "make the partitions that are missing, and move the rows: in a transaction, ALTER TABLE {of} DETACH PARTITION {table}; CREATE TABLE … \
             PARTITION OF {of} FOR VALUES …; INSERT INTO {of} SELECT * FROM {table}; see that partitions are made ahead of their time, and \
             watch the default one, which should be empty"
        ))],
        seen: vec![format!(
            "{of} has {parts} partitions, by {}",
            facts.partition_key.join(", ")
        )],
        confidence: Confidence::High,
    })
}
