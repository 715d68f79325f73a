//! Sessions queue for an advisory lock.

use crate::detect::locks::queue::{NOTABLE, Queue, from};
use crate::detect::prelude::*;

/// The idle sessions that others wait for at this moment to take an advisory lock.
const HOLDING_ADVISORY: &str = "FROM pg_stat_activity WHERE state = 'idle' AND pid IN (SELECT unnest(pg_blocking_pids(pid)) \
     FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory')";

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let at = |kind: &str, event: &str| kind == "Lock" && event == "advisory";
    let share = run.wait_share(at)?;
    if share < NOTABLE {
        return None;
    }
    let holder = queue.first(|h| h.awaited == "advisory" && !h.is_link())?;
    let doing = match (holder.is_idle(), holder.waits_at.as_str()) {
        (true, _) => "is idle in a transaction".to_owned(),
        _ if holder.state == "idle" => "is idle".to_owned(),
        (false, "") => "runs".to_owned(),
        (false, at) => format!("is at {at}"),
    };
    let saw = format!(
        "Sessions queue for an advisory lock: {} of {}.",
        tenths(share),
        run.whole()
    );
    let seen = queue.seen_at(evidence, &run, (share, saw), at);
    let seen = seen.seen(format!(
        "who holds it{} {doing}; its statement: {}",
        from(holder),
        holder.statement
    ));
    // A lock of the session outlives its transactions: forgotten, or left behind in a pool.
    Some(match holder.state.as_str() {
        "idle" => seen
            .sql(format!(
                "SELECT pid, usename, application_name, client_addr, state_change, query {HOLDING_ADVISORY};"
            ))
            .sql(format!(
                "SELECT pid, pg_terminate_backend(pid) {HOLDING_ADVISORY};   -- if these may end, after a look"
            ))
            .advice(
                "take it with pg_advisory_xact_lock, which ends with the transaction, in the place of pg_advisory_lock, which lasts until \
                 pg_advisory_unlock or the session's end: behind a pool another client gets that session",
            ),
        _ => seen,
    })
}
