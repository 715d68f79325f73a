//! What lies behind statements, on a real server: who holds the locks that they wait for, and the
//! foreign keys, triggers and settings that their own text does not show.

use crate::pg_support::Server;
use crate::statements::{HBA, finding, sql_of, the, watched, watched_for};
use pgassay_pgwire::connect;

#[test]
fn a_transaction_left_open_is_blamed_and_not_the_row() {
    let _alone = crate::alone();
    let server = Server::start(HBA, &[], |_| {});
    server.run("CREATE TABLE counter AS SELECT 1 AS id, 0 AS n");
    let mut holder = connect(&server.owner().with_application_name("forgetful")).unwrap();
    holder
        .execute("BEGIN; UPDATE counter SET n = 7 WHERE id = 1")
        .unwrap();
    let turn = "SET lock_timeout = 300; UPDATE counter SET n = # WHERE id = 1";
    let seen = watched_for("idle-in-transaction", &server, &[turn]);
    let found = the(&seen, "idle-in-transaction");
    assert_eq!(found["confidence"], "high");
    assert!(found["symptom_of"].is_null(), "{found:#}");
    assert!(
        found["saw"]
            .as_str()
            .unwrap()
            .contains("application forgetful"),
        "{found:#}"
    );
    assert!(sql_of(found).contains("pg_blocking_pids"));
    assert!(
        finding(&seen, "hot-row").is_none(),
        "{:#}",
        seen["diagnosis"]
    );
    // Of the holder's statement no literal is kept.
    assert!(found.to_string().contains("SET n = $1"), "{found:#}");
    holder.execute("COMMIT").unwrap();
    let mended = watched(&server, &[turn]);
    assert!(finding(&mended, "idle-in-transaction").is_none());
}

#[test]
fn a_delete_that_reads_the_referring_table_is_told_the_index_that_mends_it() {
    let _alone = crate::alone();
    let server = Server::start(HBA, &[("fsync", "off")], |_| {});
    server.run("CREATE TABLE parent (id int PRIMARY KEY)");
    server.run("INSERT INTO parent SELECT generate_series(1, 400000)");
    server.run("CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)");
    server.run("INSERT INTO child SELECT i, 400000 FROM generate_series(1, 100000) i");
    server.run("CREATE SEQUENCE next");
    server.run("VACUUM ANALYZE");
    let delete = "/* # */ DELETE FROM parent WHERE id = (SELECT nextval('next'))";
    let seen = watched_for("foreign-key-unindexed", &server, &[delete]);
    let found = the(&seen, "foreign-key-unindexed");
    assert_eq!(
        sql_of(found),
        "CREATE INDEX CONCURRENTLY ON public.child (parent);"
    );
    server.run(&sql_of(found).replace("CONCURRENTLY ", ""));
    let mended = watched(&server, &[delete]);
    assert!(
        finding(&mended, "foreign-key-unindexed").is_none(),
        "{:#}",
        mended["diagnosis"]
    );
}

/// Sent together with others a statement can't be explained by a guest: the log has the plan, and what came.
#[test]
fn a_plan_that_auto_explain_logged_is_read_from_the_log() {
    let _alone = crate::alone();
    let server = Server::start(
        HBA,
        &[
            ("session_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_timing", "off"),
        ],
        |_| {},
    );
    server.run(
        "CREATE TABLE pairs AS SELECT i % 100 AS a, i % 100 AS b FROM generate_series(1, 100000) i",
    );
    server.run("ANALYZE pairs");
    let sent = "SELECT #; SELECT count(*) AS secret_free FROM pairs WHERE a = 7 AND b = 7";
    let seen = watched_for("rows-misestimated", &server, &[sent]);
    let found = the(&seen, "rows-misestimated");
    assert_eq!(found["confidence"], "high", "{found:#}");
    assert!(
        found.to_string().contains("Seq Scan on pairs, as it ran"),
        "{found:#}"
    );
    let statements = &seen["observed"]["points"][0]["statements"]["statements"];
    let of = statements
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["text"].as_str().unwrap().contains("pairs"));
    let plan = &of.unwrap()["plan"];
    assert_eq!(plan["logged"], true, "{statements:#}");
    assert!(
        plan.to_string().contains("(a = $1) AND (b = $2)"),
        "{plan:#}"
    );
}
