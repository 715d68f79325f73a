//! Sessions queue for a lock on a table.

use crate::detect::locks::holders::{behind_change, is_upkeep, is_upkeep_queue};
use crate::detect::locks::queue::{NOTABLE, Queue, from};
use crate::detect::locks::table_waits::{locks_tables, of_tables};
use crate::detect::prelude::*;

pub const DETECTORS: &[Detector] = &[
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
