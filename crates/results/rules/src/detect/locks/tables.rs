//! Tables that are locked as a whole: by changes of the schema, and by LOCK TABLE.

use crate::detect::locks::gentler::{command, gentler};
use crate::detect::locks::holders::{
    CHANGES, LOCK, behind_change, has_verb, is_change, is_upkeep, is_upkeep_queue,
};
use crate::detect::locks::queue::{NOTABLE, Queue, from};
use crate::detect::{Detector, run, tenths};
use crate::evidence::Evidence;
use crate::finding::Observation;
use pgassay_model::observed::blockers::Holder;

pub const DETECTORS: &[Detector] = &[
    run("schema-change-queue", schema_changes),
    run("relation-lock-queue", whole_tables),
    run("relation-lock-queue", one_at_a_time),
];

/// ANALYZE, VACUUM and the like of one table, which wait for each other.
fn one_at_a_time(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let tables = run.wait_share(of_tables)?;
    if tables < NOTABLE || !is_upkeep_queue(&run, &queue) {
        return None;
    }
    let mut holders = queue.record.holders.iter();
    let holder = holders.find(|h| h.awaited == "relation" && is_upkeep(&h.statement))?;
    let name = holder.statement.split(|c: char| !c.is_ascii_alphabetic());
    let command = name.take(1).collect::<String>().to_ascii_uppercase();
    let analyzes = command.starts_with("ANALY");
    let shown = match command.as_str() {
        "CREATE" => "CREATE INDEX CONCURRENTLY",
        "DROP" => "DROP INDEX CONCURRENTLY",
        "REINDEX" => "REINDEX CONCURRENTLY",
        other => other,
    };
    let of = match holder.object.as_str() {
        "" => String::new(),
        object => format!(" of {object}"),
    };
    let saw = format!(
        "Sessions queue for {shown}{of}, which only one session at a time can run on a table: {} of {}.",
        tenths(tables),
        run.whole()
    );
    let seen = queue.seen_at(evidence, &run, (tables, saw), of_tables);
    let seen = seen
        .seen(format!("it waits for: {}{}", holder.statement, from(holder)))
        .seen("its lock, SHARE UPDATE EXCLUSIVE, conflicts with itself and lets readers and writers go on");
    let table = match holder.object.as_str() {
        "" => "…",
        object => object,
    };
    Some(match command.as_str() {
        _ if analyzes || command == "VACUUM" => seen
            .advice(format!(
                "take {command} out of the load's transactions: once after a bulk load, by one session, not after each \
                 batch; autovacuum does it once enough rows have changed"
            ))
            .sql(format!(
                "ALTER TABLE {table} SET ({});   -- if autovacuum comes too rarely",
                match analyzes {
                    true => "autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000",
                    false => "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000",
                }
            )),
        _ => seen.advice(
            "build or drop the indexes of a table one after the other, by one session; sessions do not win by doing it \
             at the same time",
        ),
    })
}

/// Waits for tables.
fn of_tables(kind: &str, event: &str) -> bool {
    kind == "Lock" && event == "relation"
}

/// Whether it is LOCK TABLE more than changes of the schema, by the statements that were seen. One that
/// goes on after it has taken the lock shows only that it holds it.
fn locks_tables(queue: &Queue) -> bool {
    let pairs = |pick: &dyn Fn(&Holder) -> bool| -> u64 {
        let holders = queue.record.holders.iter();
        let those = holders.filter(|h| h.awaited == "relation" && pick(h));
        those.map(|h| h.pairs).sum()
    };
    let explicit = pairs(&|h| has_verb(h, LOCK));
    let others = pairs(&|h| CHANGES.iter().any(|c| *c != LOCK && has_verb(h, c)));
    explicit > others
}

fn schema_changes(evidence: &Evidence) -> Option<Observation> {
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

/// LOCK TABLE in the load's own transactions.
fn whole_tables(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let tables = run.wait_share(of_tables)?;
    let (holder, part) = behind_change(&queue)?;
    if tables < NOTABLE || !locks_tables(&queue) {
        return None;
    }
    let saw = format!(
        "Sessions queue for a table that transactions lock as a whole (LOCK TABLE): {} of {}.",
        tenths(tables),
        run.whole()
    );
    let seen = queue.seen_at(evidence, &run, (tables, saw), of_tables);
    let seen = seen.seen(format!(
        "in {} of what was seen{}: {}",
        tenths(part),
        from(holder),
        holder.statement
    ));
    Some(
        seen.advice(
            "lock the rows that the transaction changes (SELECT … FOR UPDATE) or an advisory lock on their key, \
             not the table; where the table it must be, the weakest mode of LOCK TABLE that keeps away what must not \
             happen, as late in the transaction as can be",
        ),
    )
}
