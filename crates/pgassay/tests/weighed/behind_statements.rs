//! What lies behind statements: who holds the locks that they wait for, and the foreign keys, triggers and settings
//! that their own text does not show.

use crate::pg_support::Server;
use crate::recorded::{HBA, causes, finding, sql_of, the, windows};
use pgassay_pgwire::connect;

#[test]
fn a_transaction_left_open_is_blamed_and_not_the_row() {
    let [seen, fixed] = windows("idle-in-transaction", |record| {
        let server = Server::start(HBA, &[], |_| {});
        server.run("CREATE TABLE counter AS SELECT 1 AS id, 0 AS n");
        let mut holder = connect(&server.owner().with_application_name("forgetful")).unwrap();
        holder
            .execute("BEGIN; UPDATE counter SET n = 7 WHERE id = 1")
            .unwrap();
        let turn = "SET lock_timeout = 300; UPDATE counter SET n = # WHERE id = 1";
        record.window(&server, &[turn]);
        holder.execute("COMMIT").unwrap();
        record.window(&server, &[turn]);
    });
    assert_eq!(causes(&seen), ["idle-in-transaction"]);
    let found = the(&seen, "idle-in-transaction");
    assert_eq!(found["confidence"], "high");
    let saw = found["saw"].as_str().unwrap();
    assert!(saw.contains("application forgetful"), "{saw}");
    assert!(sql_of(found).contains("pg_blocking_pids"));
    assert!(finding(&seen, "hot-row").is_none());
    // Of the holder's statement no literal is kept.
    assert!(found.to_string().contains("SET n = $1"), "{found:#}");
    assert!(finding(&fixed, "idle-in-transaction").is_none());
}

#[test]
fn a_delete_that_reads_the_referring_table_is_told_the_index_that_mends_it() {
    let remedy = "CREATE INDEX CONCURRENTLY ON public.child (parent);";
    let [seen, fixed] = windows("foreign-key-unindexed", |record| {
        let server = Server::start(HBA, &[("fsync", "off")], |_| {});
        server.run("CREATE TABLE parent (id int PRIMARY KEY)");
        server.run("INSERT INTO parent SELECT generate_series(1, 400000)");
        server.run("CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)");
        server.run("INSERT INTO child SELECT i, 400000 FROM generate_series(1, 100000) i");
        server.run("CREATE SEQUENCE next");
        server.run("VACUUM ANALYZE");
        let delete = "/* # */ DELETE FROM parent WHERE id = (SELECT nextval('next'))";
        record.window(&server, &[delete]);
        server.run(&remedy.replace("CONCURRENTLY ", ""));
        record.window(&server, &[delete]);
    });
    assert_eq!(causes(&seen), ["foreign-key-unindexed"]);
    assert_eq!(sql_of(the(&seen, "foreign-key-unindexed")), remedy);
    assert!(finding(&fixed, "foreign-key-unindexed").is_none());
}

/// Sent together with others a statement can't be explained by a guest: the log has the plan, and what came.
#[test]
fn a_plan_that_auto_explain_logged_is_read_from_the_log() {
    let [seen] = windows("auto-explain", |record| {
        let settings = [
            ("session_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_timing", "off"),
        ];
        let server = Server::start(HBA, &settings, |_| {});
        server.run(
            "CREATE TABLE pairs AS SELECT i % 100 AS a, i % 100 AS b FROM generate_series(1, 100000) i",
        );
        server.run("ANALYZE pairs");
        let sent = "SELECT #; SELECT count(*) AS secret_free FROM pairs WHERE a = 7 AND b = 7";
        record.window(&server, &[sent]);
    });
    let found = the(&seen, "rows-misestimated");
    assert_eq!(found["confidence"], "high", "{found:#}");
    assert!(
        found.to_string().contains("Seq Scan on pairs, as it ran"),
        "{found:#}"
    );
    let statements = &seen["observed"]["points"][0]["statements"]["statements"];
    let mut statements = statements.as_array().unwrap().iter();
    let of = statements.find(|s| s["text"].as_str().unwrap().contains("pairs"));
    let plan = &of.unwrap()["plan"];
    assert_eq!(plan["logged"], true, "{plan:#}");
    let plan = plan.to_string();
    assert!(plan.contains("(a = $1) AND (b = $2)"), "{plan}");
}
