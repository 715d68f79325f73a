//! Partitions that take what no other one takes, and have come to hold what others should.

use super::conditions::words;
use super::hits::Left;
use super::plans::FEW_ROWS;
use super::shapes::{At, Shown, advice};
use crate::finding::Confidence;

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
    let by_key = facts
        .partition_key
        .iter()
        .any(|column| words(filter).any(|word| word == column));
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
            "{table}, the DEFAULT partition of {of}, holds {rows:.0} rows, all read to find {given:.0}: they have no partition of their own, so \
             none can be pruned."
        ),
        steps: vec![
            advice(format!(
                "make the partitions that are missing, ahead of their time, and keep the default one empty. The rows that are there: ALTER TABLE {of} DETACH \
             PARTITION {table}, CREATE TABLE … PARTITION OF {of} for each stretch, INSERT INTO {of} (columns) SELECT … FROM {table}, TRUNCATE {table}, \
             and ATTACH PARTITION {table} DEFAULT; in one transaction nobody can use {of} meanwhile. Try it on a copy"
            )),
            advice(format!(
                "if {table} is meant to hold them: an index on it that the condition uses, or partitions of its own"
            )),
        ],
        seen: vec![format!(
            "{of} has {parts} partitions, by {}",
            facts.partition_key.join(", ")
        )],
        confidence: Confidence::Medium,
    })
}
