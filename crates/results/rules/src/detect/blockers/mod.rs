//! Who holds the locks that sessions queue for: a transaction that does nothing, one that is
//! prepared, a change of the schema, workers that all want the first row of a queue, or the same statements
//! as those that wait.

mod queue;
mod rows;
mod skip_locked;
mod tables;
#[cfg(test)]
mod tests;
mod transactions;

use super::{Detector, run};
use crate::evidence::RunEvidence;
use queue::Queue;
pub(super) use rows::of_rows;
pub(super) use skip_locked::is_it as wants_the_first;

pub(super) const DETECTORS: &[Detector] = &[
    run("idle-in-transaction", transactions::idle),
    run("prepared-transaction-locks", transactions::prepared),
    run("schema-change-queue", tables::schema_changes),
    run("relation-lock-queue", tables::whole_tables),
    run("relation-lock-queue", tables::one_at_a_time),
    run("skip-locked", skip_locked::queued),
    run("hot-row", rows::same_rows),
    run("advisory-lock-queue", rows::advisory),
];

/// What makes the queue, where that is known: then the queue itself is only its sign.
pub(super) fn is_told(run: &RunEvidence) -> bool {
    Queue::of(run).is_some_and(|queue| {
        transactions::hold(&queue)
            || tables::behind_change(&queue).is_some()
            || tables::is_upkeep_queue(run, &queue)
    })
}
