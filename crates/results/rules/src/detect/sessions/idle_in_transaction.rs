//! Sessions idle in a transaction.

use crate::detect::locks::holders::{behind_change, is_forgotten};
use crate::detect::locks::queue::{MOSTLY, Queue, from};
use crate::detect::prelude::*;
use crate::detect::sessions::clients::clients;

pub fn audit(seen: &FactView) -> Judged {
    let clients = clients(seen)?;
    if clients.hidden > clients.all / 2.0 {
        return could_not_see(
            "the states of other sessions are hidden from this role (GRANT pg_monitor)",
        );
    }
    let age = clients.oldest_idle_in_transaction_s;
    let saw = format!(
        "{} sessions idle in a transaction, the longest for {age:.0} s",
        clients.in_transaction
    );
    if age < 60.0 {
        return passed(saw);
    }
    Observation::new(
        high_if(age > 3600.0),
        Confidence::High,
        format!("{saw}."),
    )
    .sql("SELECT pid, xact_start, query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' ORDER BY xact_start;")
    .sql("ALTER SYSTEM SET idle_in_transaction_session_timeout = '1min'; SELECT pg_reload_conf();")
    .found()
}

/// The sessions that are idle in a transaction and that others wait for at this moment.
const BLOCKING: &str = "FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND state_change < now() - interval '10 s' \
     AND pid IN (SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock')";

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
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
