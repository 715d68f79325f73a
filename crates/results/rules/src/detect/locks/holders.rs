//! Who holds the locks of a queue: transactions that do nothing, changes of the schema, commands of upkeep.

use crate::detect::locks::queue::{FEW_PAIRS, MOSTLY, Queue};
use crate::detect::tenths;
use crate::evidence::RunEvidence;
use crate::finding::Observation;
use pgassay_model::observed::blockers::Holder;

/// What makes the queue, where that is known: then the queue itself is only its sign.
pub fn is_told(run: &RunEvidence) -> bool {
    Queue::of(run).is_some_and(|queue| {
        hold(&queue) || behind_change(&queue).is_some() || is_upkeep_queue(run, &queue)
    })
}

pub const LOCK: &str = "LOCK";

/// Statements that take a lock in the way of ordinary ones.
pub const CHANGES: &[&str] = &[
    "ALTER", "CREATE", "DROP", "TRUNCATE", LOCK, "VACUUM", "CLUSTER", "REINDEX", "REFRESH",
    "COMMENT",
];

/// Whether a statement is a command whose lock keeps away others of its kind alone (SHARE UPDATE EXCLUSIVE).
pub fn is_upkeep(statement: &str) -> bool {
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
pub fn is_upkeep_queue(run: &RunEvidence, queue: &Queue) -> bool {
    let holders = || {
        let all = queue.record.holders.iter();
        all.filter(|h| h.awaited == "relation")
    };
    let all: u64 = holders().map(|h| h.pairs).sum();
    let upkeep = holders().filter(|h| is_upkeep(&h.statement) && h.mode.is_empty());
    let upkeep: u64 = upkeep.map(|h| h.pairs).sum();
    if all < FEW_PAIRS || (upkeep as f64) < NEARLY_ALL * all as f64 {
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
    waiting > 0.0 && those >= NEARLY_ALL * waiting
}

/// The part of a queue for tables that has to be of upkeep.
const NEARLY_ALL: f64 = 0.8;

/// A change of the schema or LOCK TABLE, by its statement or by the lock that it holds.
pub fn is_change(holder: &Holder) -> bool {
    if holder.awaited == "relation" && !holder.mode.is_empty() {
        return true;
    }
    CHANGES.iter().any(|change| has_verb(holder, change))
}

/// Whether the holder's statement begins with a word.
pub fn has_verb(holder: &Holder, verb: &str) -> bool {
    let mut words = holder.statement.split(|c: char| !c.is_ascii_alphabetic());
    words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case(verb))
}

/// The change of the schema that sessions queue behind, and the part of what was seen that it is
/// behind: it holds the lock, or waits for it itself, and all others wait behind it.
pub fn behind_change<'a>(queue: &Queue<'a>) -> Option<(&'a Holder, f64)> {
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

/// A transaction that is idle for less has a client that thinks between its statements.
const FORGOTTEN_S: f64 = 1.0;

/// Idle for long within its transaction, as far as its age is known.
pub fn is_forgotten(holder: &Holder) -> bool {
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
pub fn with_thinking(
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

pub fn is_prepared(holder: &Holder) -> bool {
    holder.state == "prepared transaction"
}

/// Whether one of these is behind most of the queue.
pub fn hold(queue: &Queue) -> bool {
    queue.part(is_forgotten) >= MOSTLY || queue.part(is_prepared) >= MOSTLY
}
