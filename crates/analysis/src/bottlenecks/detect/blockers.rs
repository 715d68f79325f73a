//! Who holds the locks that sessions queue for: a transaction that does nothing, one that is
//! prepared, a change of the schema, or the same statements as those in the queue.

use super::gentler::{command, gentler};
use super::{Detector, run, tenths};
use crate::bottlenecks::evidence::{Evidence, RunEvidence};
use crate::bottlenecks::finding::{Basis, Confidence, Observation, Severity};
use pgassay_model::observed::blockers::{BlockerRecord, Holder};

pub(super) const DETECTORS: &[Detector] = &[
    run("idle-in-transaction", idle),
    run("prepared-transaction-locks", prepared),
    run("schema-change-queue", schema_changes),
    run("relation-lock-queue", whole_tables),
    run("hot-row", same_rows),
    run("advisory-lock-queue", advisory),
];

/// The share of the sessions' time in a queue from which on it is worth a finding.
const NOTABLE: f64 = 0.1;
/// Pairs of one who waits and one who holds below which it is chance.
const FEW_PAIRS: u64 = 5;
/// The part of what was seen that a cause must be behind.
const MOSTLY: f64 = 0.5;
/// A transaction that is idle for less has a client that thinks between its statements.
const FORGOTTEN_S: f64 = 1.0;

const LOCK: &str = "LOCK";
/// Statements that take a lock in the way of ordinary ones.
const CHANGES: &[&str] = &[
    "ALTER", "CREATE", "DROP", "TRUNCATE", LOCK, "VACUUM", "CLUSTER", "REINDEX", "REFRESH",
    "COMMENT",
];

/// The queue for locks: what was seen of who holds them, and its share of the time.
struct Queue<'a> {
    record: &'a BlockerRecord,
    share: f64,
}

impl<'a> Queue<'a> {
    fn of(run: &RunEvidence<'a>) -> Option<Self> {
        let record = run.observed?.blockers.as_ref()?;
        let share = run.wait_share(|kind, event| kind == "Lock" && event != "extend")?;
        (share >= NOTABLE && record.pairs() >= FEW_PAIRS).then_some(Self { record, share })
    }

    /// The part of the pairs, of those who hold others up without waiting for a lock themselves, whose
    /// holder is picked.
    fn part(&self, pick: impl Fn(&Holder) -> bool) -> f64 {
        let count = |pick: &dyn Fn(&Holder) -> bool| -> u64 {
            let roots = self.record.holders.iter().filter(|h| !h.is_link());
            roots.filter(|h| pick(h)).map(|h| h.pairs).sum()
        };
        let all = count(&|_| true);
        if all == 0 {
            0.0
        } else {
            count(&pick) as f64 / all as f64
        }
    }

    /// The one that holds up most.
    fn first(&self, pick: impl Fn(&Holder) -> bool) -> Option<&'a Holder> {
        self.record.holders.iter().find(|holder| pick(holder))
    }

    fn seen(&self, run: &RunEvidence, saw: String) -> Observation {
        Observation::measured(Basis::WaitTime, Some(self.share), saw)
            .severity(Severity::High)
            .confidence(Confidence::High)
            .seen(format!(
                "{} looks at who holds whom up, with {}",
                self.record.looks,
                run.clients()
            ))
    }
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

/// ` (application cron)`; nothing where it has no name.
fn from(holder: &Holder) -> String {
    match holder.application.as_str() {
        "" => String::new(),
        name => format!(" (application {name})"),
    }
}

/// Idle for long within its transaction, as far as its age is known.
fn is_forgotten(holder: &Holder) -> bool {
    holder.is_idle() && holder.oldest_s.is_some_and(|age| age >= FORGOTTEN_S)
}

fn is_thinking(holder: &Holder) -> bool {
    holder.is_idle() && !is_forgotten(holder)
}

/// What makes the queue, where that is known: then the queue itself is only its sign.
pub(super) fn is_told(run: &RunEvidence) -> bool {
    Queue::of(run).is_some_and(|queue| {
        queue.part(is_forgotten) >= MOSTLY
            || queue.part(|h| h.state == "prepared transaction") >= MOSTLY
            || behind_change(&queue).is_some()
    })
}

fn idle(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let part = queue.part(is_forgotten);
    if part < MOSTLY || behind_change(&queue).is_some() {
        return None;
    }
    let holder = queue.first(is_forgotten)?;
    let age = holder.oldest_s.unwrap_or(0.0);
    let saw = format!(
        "Sessions queue for locks of a transaction that is idle{}: {} of {}.",
        from(holder),
        tenths(queue.share),
        run.whole()
    );
    Some(
        queue
            .seen(&run, saw)
            .seen(format!("in {} of what was seen the holder was idle in its transaction", tenths(part)))
            .seen(format!("its last statement, in a transaction {age:.0} s old: {}", holder.statement))
            .sql(
                "SELECT pid, xact_start, query, pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE state LIKE 'idle in transaction%' AND state_change < now() - interval '10 s';",
            )
            .sql("ALTER SYSTEM SET idle_in_transaction_session_timeout = '10s'; SELECT pg_reload_conf();")
            .advice("commit in the application before anything else is waited for"),
    )
}

fn prepared(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let is = |holder: &Holder| holder.state == "prepared transaction";
    let part = queue.part(is);
    if part < MOSTLY {
        return None;
    }
    let saw = format!(
        "Sessions queue for locks of a prepared transaction: {} of {}.",
        tenths(queue.share),
        run.whole()
    );
    Some(
        queue
            .seen(&run, saw)
            .seen(format!("it held them in {} of what was seen", tenths(part)))
            .sql("SELECT gid, prepared, owner, database FROM pg_prepared_xacts ORDER BY prepared;")
            .advice("COMMIT PREPARED or ROLLBACK PREPARED it, in its database, as its owner"),
    )
}

/// The change of the schema that sessions queue behind, and the part of what was seen that it is
/// behind: it holds the lock, or waits for it itself, and all others wait behind it.
fn behind_change<'a>(queue: &Queue<'a>) -> Option<(&'a Holder, f64)> {
    let of_tables = || {
        queue
            .record
            .holders
            .iter()
            .filter(|h| h.awaited == "relation")
    };
    let all: u64 = of_tables().map(|h| h.pairs).sum();
    // Of a link that waits itself its own wait is a pair, too.
    let behind: u64 = of_tables().filter(|h| is_change(h)).map(|h| h.pairs).sum();
    let part = behind as f64 / all.max(1) as f64;
    let first = of_tables().find(|h| is_change(h))?;
    (all >= FEW_PAIRS && part >= 0.3).then_some((first, part))
}

fn schema_changes(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let (change, part) = behind_change(&queue)?;
    let tables = run.wait_share(|kind, event| kind == "Lock" && event == "relation")?;
    if tables < NOTABLE || locks_tables(&queue) {
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
    let mut seen = Queue {
        share: tables,
        ..queue
    }
    .seen(&run, saw)
    .seen(format!(
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
    let tables = run.wait_share(|kind, event| kind == "Lock" && event == "relation")?;
    let (holder, part) = behind_change(&queue)?;
    if tables < NOTABLE || !locks_tables(&queue) {
        return None;
    }
    let saw = format!(
        "Sessions queue for a table that transactions lock as a whole (LOCK TABLE): {} of {}.",
        tenths(tables),
        run.whole()
    );
    let seen = Queue {
        share: tables,
        ..queue
    }
    .seen(&run, saw)
    .seen(format!(
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

fn same_rows(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let rows =
        run.wait_share(|kind, event| kind == "Lock" && matches!(event, "tuple" | "transactionid"))?;
    if rows < NOTABLE || is_told(&run) {
        return None;
    }
    let of_row = |h: &Holder| matches!(h.awaited.as_str(), "tuple" | "transactionid");
    let holder = queue.first(|h| of_row(h) && !h.is_link())?;
    let thinking = queue.part(|h| of_row(h) && is_thinking(h));
    let saw = format!(
        "Sessions queue for the same rows: {} of {}.",
        tenths(rows),
        run.whole()
    );
    let mut seen = Queue {
        share: rows,
        ..queue
    }
    .seen(&run, saw);
    seen = seen.seen(match holder.is_idle() {
        true => format!("who holds them has last sent: {}", holder.statement),
        false if holder.waits_at.is_empty() => {
            format!("who holds them executes: {}", holder.statement)
        }
        false => format!(
            "who holds them is at {}, in: {}",
            holder.waits_at, holder.statement
        ),
    });
    if thinking >= 0.3 {
        seen = seen
            .seen(format!(
                "in {} of what was seen the holder waited for its client's next statement",
                tenths(thinking)
            ))
            .advice(
                "send the statements of the transaction together, or in a function: the row is held for each \
                 round trip between its change and the commit",
            );
    }
    Some(seen.advice(
        "spread the change over several rows and add them up when reading, or let one session apply queued \
         changes; change the row last in the transaction",
    ))
}

fn advisory(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let queue = Queue::of(&run)?;
    let share = run.wait_share(|kind, event| kind == "Lock" && event == "advisory")?;
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
    Some(Queue { share, ..queue }.seen(&run, saw).seen(format!(
        "who holds it{} {doing}; its statement: {}",
        from(holder),
        holder.statement
    )))
}

#[cfg(test)]
mod tests {
    use super::super::tests::budget::{found_with, one};
    use super::*;
    use crate::observed::PointObserved;

    fn holder(
        awaited: &str,
        state: &str,
        at: &str,
        statement: &str,
        pairs: u64,
        age: f64,
    ) -> Holder {
        Holder {
            awaited: awaited.into(),
            state: state.into(),
            waits_at: at.into(),
            statement: statement.into(),
            application: "app".into(),
            pairs,
            oldest_s: Some(age),
            ..Holder::default()
        }
    }

    fn ids(event: &'static str, holders: &[Holder]) -> Vec<crate::bottlenecks::Finding> {
        let record = BlockerRecord {
            looks: 20,
            holders: holders.to_vec(),
            unread: None,
        };
        found_with(
            vec![("Lock", event, 6.0)],
            |observed: &mut PointObserved| {
                observed.blockers = Some(record);
            },
        )
    }

    const UPDATE: &str = "UPDATE t SET v = $1";

    #[test]
    fn a_queue_behind_an_idle_transaction_is_not_blamed_on_the_row() {
        let found = ids(
            "transactionid",
            &[
                holder(
                    "transactionid",
                    "idle in transaction",
                    "Client:ClientRead",
                    UPDATE,
                    40,
                    30.0,
                ),
                holder("tuple", "active", "Lock:transactionid", UPDATE, 300, 20.0),
            ],
        );
        let idle = one(&found, "idle-in-transaction");
        assert_eq!(
            (idle.confidence, &idle.symptom_of),
            (Confidence::High, &None)
        );
        assert!(idle.saw.contains("application app"), "{}", idle.saw);
        assert!(idle.remedy[0].text.contains("pg_terminate_backend"));
        assert!(found.iter().all(|f| f.id != "hot-row"), "{found:#?}");
        assert!(
            found.iter().all(|f| !f.id.starts_with("wait-event")),
            "{found:#?}"
        );
    }

    #[test]
    fn the_same_statements_on_the_same_rows_are_the_cause_themselves() {
        let found = ids(
            "transactionid",
            &[
                holder("transactionid", "active", "IO:WALSync", UPDATE, 40, 0.01),
                holder(
                    "transactionid",
                    "idle in transaction",
                    "Client:ClientRead",
                    UPDATE,
                    20,
                    0.01,
                ),
            ],
        );
        let row = one(&found, "hot-row");
        assert_eq!((row.confidence, &row.symptom_of), (Confidence::High, &None));
        let evidence = row.evidence.join("; ");
        assert!(evidence.contains("IO:WALSync"), "{evidence}");
        assert!(
            row.remedy[0].text.contains("round trip"),
            "{:?}",
            row.remedy
        );
        assert!(found.iter().all(|f| f.id != "idle-in-transaction"));
    }

    #[test]
    fn a_schema_change_is_named_whether_it_holds_the_lock_or_waits_for_it() {
        let alter = "ALTER TABLE t ADD COLUMN x int";
        let waits = [
            holder("relation", "active", "Lock:relation", alter, 30, 5.0),
            holder("relation", "active", "", "SELECT count(*) FROM t", 10, 9.0),
        ];
        let found = ids("relation", &waits);
        let change = one(&found, "schema-change-queue");
        let evidence = change.evidence.join("; ");
        assert!(
            evidence.contains(alter) && evidence.contains("it waits itself"),
            "{evidence}"
        );
        assert!(
            found.iter().all(|f| f.id != "relation-lock-queue"),
            "{found:#?}"
        );
        let holds = [holder(
            "relation",
            "idle in transaction",
            "Client:ClientRead",
            alter,
            30,
            5.0,
        )];
        let found = ids("relation", &holds);
        one(&found, "schema-change-queue");
        // By the lock alone, whatever its session does by now.
        let mut later = holder("relation", "active", "", "SELECT 1", 30, 5.0);
        one(
            &ids(
                "relation",
                &[holder("relation", "active", "", "SELECT 1", 30, 5.0)],
            ),
            "relation-lock-queue",
        );
        later.mode = "AccessExclusiveLock".into();
        one(&ids("relation", &[later]), "schema-change-queue");
        assert!(
            found.iter().all(|f| f.id != "idle-in-transaction"),
            "{found:#?}"
        );
    }

    #[test]
    fn the_remedy_is_for_the_command_that_was_seen() {
        let of = |statement: &str| {
            let mut holds = holder("relation", "active", "", statement, 30, 0.05);
            holds.mode = "AccessExclusiveLock".into();
            let found = ids("relation", &[holds]);
            let queue = one(&found, "schema-change-queue");
            (queue.saw.clone(), queue.remedy[0].text.clone())
        };
        let (saw, remedy) = of("REFRESH MATERIALIZED VIEW sums");
        assert!(
            saw.contains("behind REFRESH MATERIALIZED VIEW (application app)"),
            "{saw}"
        );
        assert!(remedy.contains("VIEW CONCURRENTLY"), "{remedy}");
        assert!(of("VACUUM FULL t").1.contains("without FULL"));
        assert!(
            of("create index on t (a)")
                .1
                .starts_with("CREATE INDEX CONCURRENTLY")
        );
        // Whatever it is that goes on after the change.
        assert!(of("SELECT 1").0.contains("a change of the schema"));
        assert!(
            of("REINDEX INDEX CONCURRENTLY i")
                .1
                .contains("lock_timeout")
        );
    }

    #[test]
    fn lock_table_is_no_change_of_the_schema() {
        let lock = "LOCK TABLE t IN EXCLUSIVE MODE";
        let mut working = holder("relation", "active", "", "UPDATE t SET n = $1", 30, 0.01);
        working.mode = "ExclusiveLock".into();
        let waiting = holder("relation", "active", "Lock:relation", lock, 60, 0.01);
        let found = ids("relation", &[working.clone(), waiting]);
        let queue = one(&found, "relation-lock-queue");
        assert_eq!(
            (queue.confidence, &queue.symptom_of),
            (Confidence::High, &None)
        );
        assert!(queue.remedy[0].text.contains("FOR UPDATE"), "{queue:#?}");
        assert!(
            found.iter().all(|f| f.id != "schema-change-queue"),
            "{found:#?}"
        );
        // The lock alone does not tell, and a change of the schema weighs as such.
        let alter = holder(
            "relation",
            "active",
            "Lock:relation",
            "ALTER TABLE t ADD x int",
            60,
            1.0,
        );
        let found = ids("relation", &[working, alter]);
        one(&found, "schema-change-queue");
    }

    #[test]
    fn prepared_transactions_and_advisory_locks_are_named() {
        let found = ids(
            "transactionid",
            &[holder(
                "transactionid",
                "prepared transaction",
                "",
                "",
                9,
                0.0,
            )],
        );
        one(&found, "prepared-transaction-locks");
        let found = ids(
            "advisory",
            &[holder(
                "advisory",
                "idle",
                "Client:ClientRead",
                "SELECT 1",
                9,
                0.0,
            )],
        );
        let advisory = one(&found, "advisory-lock-queue");
        assert!(
            advisory.evidence.join("; ").contains("is idle"),
            "{advisory:#?}"
        );
    }

    #[test]
    fn a_short_queue_and_a_handful_of_sightings_are_nothing() {
        let few = [holder(
            "transactionid",
            "idle in transaction",
            "",
            UPDATE,
            2,
            9.0,
        )];
        assert!(
            ids("transactionid", &few)
                .iter()
                .all(|f| f.id != "idle-in-transaction")
        );
    }
}
