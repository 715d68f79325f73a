//! Transactions that keep locks and do nothing: idle ones, and prepared ones.

use pgassay_model::observed::blockers::Holder;

use super::super::tenths;
use super::queue::{MOSTLY, Queue, from};
use super::tables::behind_change;
use crate::evidence::Evidence;
use crate::finding::Observation;

/// A transaction that is idle for less has a client that thinks between its statements.
const FORGOTTEN_S: f64 = 1.0;

/// Idle for long within its transaction, as far as its age is known.
fn is_forgotten(holder: &Holder) -> bool {
    holder.is_idle() && holder.oldest_s.is_some_and(|age| age >= FORGOTTEN_S)
}

/// Idle for a moment, while its client thinks.
fn is_thinking(holder: &Holder) -> bool {
    holder.is_idle() && !is_forgotten(holder)
}

/// From which part of what was seen on it is said that the holder waits for its client.
const THINKS: f64 = 0.3;

/// The part of what was seen of such holders in which they waited for their client's next statement, and what to do
/// about it; as it is where that is little.
pub(super) fn with_thinking(
    seen: Observation,
    queue: &Queue,
    of: impl Fn(&Holder) -> bool,
    advice: &str,
) -> Observation {
    let part = queue.part(|holder| of(holder) && is_thinking(holder));
    match part >= THINKS {
        false => seen,
        true => seen
            .seen(format!(
                "in {} of what was seen the holder waited for its client's next statement",
                tenths(part)
            ))
            .advice(advice),
    }
}

fn is_prepared(holder: &Holder) -> bool {
    holder.state == "prepared transaction"
}

/// Whether one of these is behind most of the queue.
pub(super) fn hold(queue: &Queue) -> bool {
    queue.part(is_forgotten) >= MOSTLY || queue.part(is_prepared) >= MOSTLY
}

/// The sessions that are idle in a transaction and that others wait for at this moment.
const BLOCKING: &str = "FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND state_change < now() - interval '10 s' \
     AND pid IN (SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock')";

pub(super) fn idle(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let part = queue.part(is_forgotten);
    if part < MOSTLY || behind_change(&queue).is_some() {
        return None;
    }
    let holder = queue.first(is_forgotten)?;
    let age = holder.oldest_s.unwrap_or(0.0);
    let saw = format!(
        "Sessions queue for locks of a transaction that is idle{}: {}.",
        from(holder),
        queue.takes(&run)
    );
    Some(
        queue
            .seen(evidence, &run, saw)
            .seen(format!("in {} of what was seen the holder was idle in its transaction", tenths(part)))
            .seen(format!("its last statement, in a transaction {age:.0} s old: {}", holder.statement))
            .sql(format!("SELECT pid, usename, application_name, xact_start, query {BLOCKING};"))
            .sql(format!(
                "SELECT pid, pg_terminate_backend(pid) {BLOCKING};   -- if these may end, after a look"
            ))
            .sql(
                "ALTER SYSTEM SET idle_in_transaction_session_timeout = '10s'; SELECT pg_reload_conf();   -- from then on the \
                 server ends each session that is idle in a transaction for so long; ALTER ROLE … SET for one role's alone",
            )
            .advice("commit in the application before anything else is waited for"),
    )
}

pub(super) fn prepared(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let part = queue.part(is_prepared);
    if part < MOSTLY {
        return None;
    }
    let saw = format!(
        "Sessions queue for locks of a prepared transaction: {}.",
        queue.takes(&run)
    );
    Some(
        queue
            .seen(evidence, &run, saw)
            .seen(format!("it held them in {} of what was seen", tenths(part)))
            .sql("SELECT gid, prepared, owner, database FROM pg_prepared_xacts ORDER BY prepared;")
            .advice("COMMIT PREPARED or ROLLBACK PREPARED it, in its database, as its owner"),
    )
}
