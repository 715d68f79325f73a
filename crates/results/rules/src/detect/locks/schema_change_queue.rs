//! Sessions queue behind a command that locks a whole table.

use crate::detect::locks::gentler::{command, gentler};
use crate::detect::locks::holders::{behind_change, is_change, is_upkeep_queue};
use crate::detect::locks::queue::{NOTABLE, Queue, from};
use crate::detect::locks::table_waits::{locks_tables, of_tables};
use crate::detect::prelude::*;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let (change, part) = behind_change(&queue)?;
    let tables = run.wait_share(of_tables)?;
    if tables < NOTABLE || locks_tables(&queue) || is_upkeep_queue(&run, &queue) {
        return None;
    }
    let command = command(&change.statement);
    let saw = format!(
        "Sessions queue behind {}{}: {} of {}.",
        match command {
            "" => "a change of the schema",
            command => command,
        },
        from(change),
        tenths(tables),
        run.whole()
    );
    let seen = queue.seen_at(evidence, &run, (tables, saw), of_tables);
    let mut seen = seen.seen(format!(
        "in {} of what was seen: {}",
        tenths(part),
        change.statement
    ));
    let root = queue
        .record
        .holders
        .iter()
        .find(|h| !h.is_link() && !is_change(h) && h.awaited == "relation");
    if let Some(root) = root.filter(|_| change.is_link()) {
        seen = seen.seen(format!(
            "it waits itself, for a transaction that is {}{}: {}",
            root.state,
            from(root),
            root.statement
        ));
        seen = seen.advice(
            "end the transaction that it waits for: SELECT pid, pg_blocking_pids(pid), query FROM \
             pg_stat_activity WHERE wait_event_type = 'Lock'",
        );
    }
    if !change.object.is_empty() {
        seen = seen.seen(format!("what they wait for: {}", change.object));
    }
    // What it executes is no change: an earlier statement of its transaction was, and a table's lock lasts until the end.
    if command.is_empty() && !change.is_link() && change.mode == "AccessExclusiveLock" {
        seen = seen
            .seen(format!(
                "the lock is older than that statement: the transaction has taken it by TRUNCATE, ALTER TABLE, DROP or LOCK TABLE, and keeps it (AccessExclusiveLock) until COMMIT{}",
                change.oldest_s.map_or_else(String::new, |age| format!(", {age:.1} s so far"))
            ))
            .advice(
                "fill a new table (CREATE TABLE new (LIKE old INCLUDING ALL EXCLUDING INDEXES); INSERT or COPY; then its indexes, grants, triggers and foreign keys, which LIKE leaves out) and swap it in by \
                 ALTER TABLE … RENAME in a transaction of its own, which takes milliseconds; or have MERGE, INSERT … ON CONFLICT and DELETE change what differs, which keeps no reader away",
            )
            .advice(
                "another command that locks the table (ALTER TABLE, DROP) last in its transaction, right before COMMIT; a TRUNCATE can't be moved behind what fills the table",
            );
        return Some(seen);
    }
    let own = gentler(&change.statement);
    // A change that waits itself holds the others up for as long as it waits.
    let seen = match (own, change.is_link()) {
        (Some(own), false) => seen.advice(own).sql(TIMEOUT),
        (Some(own), true) => seen.sql(TIMEOUT).advice(own),
        (None, _) => seen.sql(TIMEOUT).advice(
            "take the form that locks less: CREATE INDEX CONCURRENTLY, ADD CONSTRAINT … NOT VALID and then \
             VALIDATE, ADD COLUMN without a volatile default, VACUUM without FULL",
        ),
    };
    Some(seen)
}

const TIMEOUT: &str =
    "SET lock_timeout = '2s';   -- in the session that takes the lock; try again until it succeeds";
