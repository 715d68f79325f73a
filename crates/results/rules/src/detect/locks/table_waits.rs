//! Waits for locks on tables.

use crate::detect::locks::holders::{CHANGES, LOCK, has_verb};
use crate::detect::locks::queue::Queue;
use pgassay_model::observed::blockers::Holder;

/// Waits for tables.
pub fn of_tables(kind: &str, event: &str) -> bool {
    kind == "Lock" && event == "relation"
}

/// Whether it is LOCK TABLE more than changes of the schema, by the statements that were seen. One that
/// goes on after it has taken the lock shows only that it holds it.
pub fn locks_tables(queue: &Queue) -> bool {
    let pairs = |pick: &dyn Fn(&Holder) -> bool| -> u64 {
        let holders = queue.record.holders.iter();
        let those = holders.filter(|h| h.awaited == "relation" && pick(h));
        those.map(|h| h.pairs).sum()
    };
    let explicit = pairs(&|h| has_verb(h, LOCK));
    let others = pairs(&|h| CHANGES.iter().any(|c| *c != LOCK && has_verb(h, c)));
    explicit > others
}
