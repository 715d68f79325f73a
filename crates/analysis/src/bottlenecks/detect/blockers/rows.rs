//! Rows, and advisory locks, that the load's own transactions queue for.

use pgassay_model::observed::blockers::Holder;

use super::super::commits::verb;
use super::super::locked::locks_all;
use super::super::tenths;
use super::queue::{NOTABLE, Queue, from};
use super::transactions::with_thinking;
use super::{is_told, wants_the_first};
use crate::bottlenecks::evidence::Evidence;
use crate::bottlenecks::finding::Observation;
use crate::observed::statements::{StatementTime, StatementWait};

/// Waits for rows.
pub(super) fn of_rows(kind: &str, event: &str) -> bool {
    kind == "Lock" && matches!(event, "tuple" | "transactionid")
}

pub(super) fn same_rows(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let rows = run.wait_share(of_rows)?;
    if rows < NOTABLE || is_told(&run) || wants_the_first(&run) {
        return None;
    }
    let of_row = |h: &Holder| matches!(h.awaited.as_str(), "tuple" | "transactionid");
    let holder = queue.first(|h| of_row(h) && !h.is_link())?;
    let saw = format!(
        "Sessions queue for the same rows: {} of {}.",
        tenths(rows),
        run.whole()
    );
    let seen = queue.seen_at(evidence, &run, (rows, saw), of_rows);
    let seen = seen.seen(match holder.is_idle() {
        true => format!("who holds them has last sent: {}", holder.statement),
        false if holder.waits_at.is_empty() => {
            format!("who holds them executes: {}", holder.statement)
        }
        false => format!(
            "who holds them is at {}, in: {}",
            holder.waits_at, holder.statement
        ),
    });
    let seen = with_thinking(
        seen,
        &queue,
        of_row,
        "send the statements of the transaction together, or in a function: the row is held for each round trip between its \
         change and the commit",
    );
    let observed = run
        .observed
        .and_then(|observed| observed.statements.as_ref());
    let statements = observed.into_iter().flat_map(|seen| &seen.statements);
    let queued: Vec<&StatementTime> = statements
        .filter(|s| {
            let at =
                |w: &StatementWait| matches!(w.name.as_str(), "Lock:tuple" | "Lock:transactionid");
            s.waits.iter().any(at)
        })
        .collect();
    // The one that waits the most: beside UPDATEs of one row an INSERT with a foreign key says nothing.
    let waited = |s: &&&StatementTime| s.waits.iter().map(|w| w.sessions).sum::<f64>();
    let most = queued.iter().max_by(|a, b| waited(a).total_cmp(&waited(b)));
    if let Some(key) = most.and_then(|s| checked_key(s)) {
        return Some(
            seen.means(
                "An INSERT changes no row that others have. It waits for the row that its foreign key refers to: to see that this stays, it locks \
                 it FOR KEY SHARE, which only FOR UPDATE, DELETE and an UPDATE of the key itself stand in the way of.",
            )
            .seen(format!("the foreign key that is checked: {key}"))
            .advice(
                "SELECT … FOR NO KEY UPDATE in the place of FOR UPDATE in the transaction that holds the rows, unless it deletes them or changes their \
                 key: foreign keys are checked beside it then",
            )
            .advice(
                "keep that transaction short: lock a part of the rows at a time, compute before they are locked, and commit at once",
            ),
        );
    }
    let mut queued = queued.into_iter();
    let seen = match queued.find_map(|s| locks_all(&s.text)) {
        Some((clause, name)) => seen.advice(format!(
            "{clause} OF {name} (or whichever rows are meant): without OF, a SELECT over a join locks the rows of all its tables, including those \
             that many sessions share"
        )),
        None => seen,
    };
    Some(seen.advice(
        "spread the change over several rows and add them up when reading, or let one session apply queued \
         changes; change the row last in the transaction",
    ))
}

/// The foreign key that an INSERT checks, as its execution showed. One without a check may wait for another one's key
/// that is to be unique.
fn checked_key(statement: &StatementTime) -> Option<String> {
    let upserts = statement.text.to_ascii_lowercase().contains("on conflict");
    let inserts = verb(&statement.text) == "INSERT" && !upserts;
    let executed = statement
        .plan
        .as_ref()
        .filter(|_| inserts)?
        .executed
        .as_ref()?;
    let checks = executed.triggers.iter();
    let mut checks = checks.filter_map(|check| {
        Some(format!(
            "{} on {}",
            check.constraint.as_ref()?,
            check.relation
        ))
    });
    checks.next()
}

pub(super) fn advisory(evidence: &Evidence) -> Option<Observation> {
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
            .sql(
                "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
                 WHERE l.locktype = 'advisory' AND l.granted AND a.state = 'idle';   -- ends the sessions that keep such locks and do nothing",
            )
            .advice(
                "take it with pg_advisory_xact_lock, which ends with the transaction, in the place of pg_advisory_lock, which lasts until \
                 pg_advisory_unlock or the session's end: behind a pool another client gets that session",
            ),
        _ => seen,
    })
}
