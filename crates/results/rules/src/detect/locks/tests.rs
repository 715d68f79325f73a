//! Queues for locks, by who holds them.

use crate::Finding;
use crate::detect::tests::made::{found_with, one};
use crate::finding::Confidence;
use pgassay_evidence::observed::PointObserved;
use pgassay_evidence::observed::statements::{StatementAnalysis, StatementTime, StatementWait};
use pgassay_model::observed::blockers::{BlockerRecord, Holder};

fn holder(awaited: &str, state: &str, at: &str, statement: &str, pairs: u64, age: f64) -> Holder {
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

fn ids(event: &'static str, holders: &[Holder]) -> Vec<Finding> {
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
    assert!(!idle.remedy[0].text.contains("pg_terminate_backend"));
    let step = &idle.remedy[1].text;
    assert!(
        step.contains("pg_terminate_backend") && step.contains("pg_blocking_pids"),
        "{step}"
    );
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
    assert!(
        advisory.remedy[2].text.contains("pg_advisory_xact_lock"),
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

/// The loader's INSERT was called a change of the schema: its TRUNCATE had taken the lock.
#[test]
fn a_lock_that_an_earlier_statement_took_is_told_how_to_be_short() {
    let of = |mode: &str, statement: &str| {
        let mut loader = holder("relation", "active", "", statement, 30, 0.4);
        loader.mode = mode.into();
        ids("relation", &[loader])
    };
    let found = of("AccessExclusiveLock", "INSERT INTO supply SELECT g");
    let queue = one(&found, "schema-change-queue");
    assert!(
        queue.remedy[0].text.contains("swap it in")
            && queue.evidence.join(";").contains("TRUNCATE"),
        "{queue:#?}"
    );
    let found = of("AccessExclusiveLock", "ALTER TABLE supply ADD COLUMN x int");
    let queue = one(&found, "schema-change-queue");
    assert!(!queue.remedy[0].text.contains("swap it in"), "{queue:#?}");
}

fn queued_for(text: &str, holder: Holder) -> Vec<Finding> {
    let record = BlockerRecord {
        looks: 20,
        holders: vec![holder],
        unread: None,
    };
    let waiting = StatementTime {
        text: text.into(),
        waits: vec![StatementWait {
            name: "Lock:transactionid".into(),
            sessions: 6.0,
        }],
        ..StatementTime::default()
    };
    found_with(vec![("Lock", "transactionid", 6.0)], |observed| {
        observed.blockers = Some(record);
        observed.statements = Some(StatementAnalysis {
            statements: vec![waiting],
            ..StatementAnalysis::default()
        });
    })
}

#[test]
fn one_long_transaction_that_holds_the_rows_is_told_to_commit_in_parts() {
    let of = |statement: &str, age: f64| {
        let holder = holder("transactionid", "active", "", statement, 40, age);
        one(&queued_for(UPDATE, holder), "hot-row").remedy[0]
            .text
            .clone()
    };
    assert!(of("CALL reprice($1)", 2.4).contains("commit in small parts"));
    // One of those that wait, and one that is gone in no time.
    assert!(!of(UPDATE, 2.4).contains("commit in small parts"));
    assert!(!of("CALL reprice($1)", 0.01).contains("commit in small parts"));
}

#[test]
fn a_key_that_is_looked_for_is_to_come_from_a_sequence() {
    let of = |text: &str| {
        let holder = holder("transactionid", "active", "IO:WALSync", text, 40, 0.01);
        one(&queued_for(text, holder), "hot-row").remedy[0]
            .text
            .clone()
    };
    let found = of("INSERT INTO complaint SELECT max(number) + $1, $2 FROM complaint");
    assert!(found.contains("sequence"), "{found}");
    assert!(!of(UPDATE).contains("sequence"));
}

#[test]
fn upkeep_of_one_table_runs_one_after_the_other() {
    let of = |statement: &str, waiting: &str| {
        let mut holds = holder("relation", "active", "", statement, 12, 0.3);
        holds.object = "public.reading".into();
        let mut waits = holder("relation", "active", "Lock:relation", statement, 12, 0.2);
        waits.object = "public.reading".into();
        let record = BlockerRecord {
            looks: 20,
            holders: vec![holds, waits],
            unread: None,
        };
        let statement = StatementTime {
            text: waiting.into(),
            waits: vec![StatementWait {
                name: "Lock:relation".into(),
                sessions: 6.0,
            }],
            ..StatementTime::default()
        };
        found_with(vec![("Lock", "relation", 6.0)], |observed| {
            observed.blockers = Some(record);
            observed.statements = Some(StatementAnalysis {
                statements: vec![statement],
                ..StatementAnalysis::default()
            });
        })
    };
    let found = of("ANALYZE reading", "ANALYZE reading");
    let queue = one(&found, "relation-lock-queue");
    assert_eq!(
        (queue.confidence, &queue.symptom_of),
        (Confidence::High, &None)
    );
    assert!(
        queue.saw.contains("ANALYZE of public.reading"),
        "{}",
        queue.saw
    );
    assert!(queue.remedy[0].text.contains("after a bulk load"));
    assert!(queue.remedy[1].text.contains("analyze_scale_factor"));
    let found = of("VACUUM (ANALYZE) reading", "VACUUM (ANALYZE) reading");
    let queue = one(&found, "relation-lock-queue");
    assert!(queue.remedy[1].text.contains("vacuum_scale_factor"));
    assert!(found.iter().all(|f| f.id != "schema-change-queue"));
    // What rewrites the table, and what waits behind upkeep without being any.
    for (holds, waits) in [
        ("VACUUM FULL reading", "VACUUM FULL reading"),
        ("VACUUM reading", "ALTER TABLE reading ADD x int"),
    ] {
        let found = of(holds, waits);
        one(&found, "schema-change-queue");
        assert!(found.iter().all(|f| f.id != "relation-lock-queue"));
    }
}
