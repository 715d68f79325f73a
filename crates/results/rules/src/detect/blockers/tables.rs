//! Tables that are locked as a whole: by changes of the schema, and by LOCK TABLE.

use pgassay_model::observed::blockers::Holder;

use super::super::gentler::{command, gentler};
use super::super::tenths;
use super::queue::{FEW_PAIRS, NOTABLE, Queue, from};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::Observation;

const LOCK: &str = "LOCK";
/// Statements that take a lock in the way of ordinary ones.
const CHANGES: &[&str] = &[
    "ALTER", "CREATE", "DROP", "TRUNCATE", LOCK, "VACUUM", "CLUSTER", "REINDEX", "REFRESH",
    "COMMENT",
];

/// Whether a statement is a command whose lock keeps away others of its kind alone (SHARE UPDATE EXCLUSIVE).
fn is_upkeep(statement: &str) -> bool {
    let words: Vec<String> = statement
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_uppercase)
        .collect();
    let has = |wanted: &str| words.iter().take(5).any(|word| word == wanted);
    match words.first().map(String::as_str) {
        Some("ANALYZE" | "ANALYSE") => true,
        Some("VACUUM") => !has("FULL"),
        Some("CREATE" | "DROP" | "REINDEX") => has("CONCURRENTLY"),
        _ => false,
    }
}

/// Whether those that wait for tables are such commands, behind others of them.
pub(super) fn is_upkeep_queue(run: &RunEvidence, queue: &Queue) -> bool {
    let holders = || {
        let all = queue.record.holders.iter();
        all.filter(|h| h.awaited == "relation")
    };
    let all: u64 = holders().map(|h| h.pairs).sum();
    let upkeep = holders().filter(|h| is_upkeep(&h.statement) && h.mode.is_empty());
    let upkeep: u64 = upkeep.map(|h| h.pairs).sum();
    if all < FEW_PAIRS || (upkeep as f64) < MOSTLY * all as f64 {
        return false;
    }
    let (mut waiting, mut those) = (0.0, 0.0);
    let statements = run
        .observed
        .and_then(|observed| observed.statements.as_ref());
    for statement in statements.into_iter().flat_map(|s| &s.statements) {
        let at = statement.waits.iter().filter(|w| w.name == "Lock:relation");
        let sessions: f64 = at.map(|w| w.sessions).sum();
        waiting += sessions;
        if is_upkeep(&statement.text) {
            those += sessions;
        }
    }
    waiting > 0.0 && those >= MOSTLY * waiting
}

/// The part of a queue that has to be of one kind.
const MOSTLY: f64 = 0.8;

/// ANALYZE, VACUUM and the like of one table, which wait for each other.
pub(super) fn one_at_a_time(evidence: &Evidence) -> Option<Observation> {
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

/// A change of the schema or LOCK TABLE, by its statement or by the lock that it holds.
fn is_change(holder: &Holder) -> bool {
    if holder.awaited == "relation" && !holder.mode.is_empty() {
        return true;
    }
    CHANGES.iter().any(|change| has_verb(holder, change))
}

/// Whether the holder's statement begins with a word.
fn has_verb(holder: &Holder, verb: &str) -> bool {
    let mut words = holder.statement.split(|c: char| !c.is_ascii_alphabetic());
    words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case(verb))
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

/// The change of the schema that sessions queue behind, and the part of what was seen that it is
/// behind: it holds the lock, or waits for it itself, and all others wait behind it.
pub(super) fn behind_change<'a>(queue: &Queue<'a>) -> Option<(&'a Holder, f64)> {
    let holders = || {
        let all = queue.record.holders.iter();
        all.filter(|h| h.awaited == "relation")
    };
    let all: u64 = holders().map(|h| h.pairs).sum();
    // Of a link that waits itself its own wait is a pair, too.
    let behind: u64 = holders().filter(|h| is_change(h)).map(|h| h.pairs).sum();
    let part = behind as f64 / all.max(1) as f64;
    let first = holders().find(|h| is_change(h))?;
    (all >= FEW_PAIRS && part >= 0.3).then_some((first, part))
}

pub(super) fn schema_changes(evidence: &Evidence) -> Option<Observation> {
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
pub(super) fn whole_tables(evidence: &Evidence) -> Option<Observation> {
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
