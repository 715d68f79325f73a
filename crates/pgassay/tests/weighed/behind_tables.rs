//! What lies behind tables: pages that are mostly empty, and queues of work.

use crate::pg_support::Server;
use crate::recorded::{HBA, causes, finding, sql_of, the, windows};

#[test]
fn a_table_that_was_large_once_is_told_to_be_rewritten() {
    let [seen, fixed] = windows("swollen-table", |record| {
        let server = Server::start(HBA, &[("fsync", "off"), ("autovacuum", "off")], |_| {});
        server.run("CREATE TABLE online AS SELECT i AS id, i % 20 AS app, repeat('x', 100) AS who FROM generate_series(1, 200000) i");
        server.run("DELETE FROM online WHERE id <= 199800");
        server.run("VACUUM ANALYZE online");
        let read = "SELECT count(who) FROM online WHERE app = # % 20";
        record.window(&server, &[read]);
        server.run("VACUUM (FULL, ANALYZE) online");
        record.window(&server, &[read]);
    });
    assert_eq!(causes(&seen), ["swollen-table"]);
    let found = the(&seen, "swollen-table");
    assert!(
        sql_of(found).starts_with("VACUUM (FULL, ANALYZE) public.online;"),
        "{found:#}"
    );
    assert!(finding(&seen, "autovacuum-behind").is_none());
    assert!(finding(&fixed, "swollen-table").is_none());
}

#[test]
fn workers_that_want_the_same_row_are_told_to_pass_over_it() {
    let [seen, fixed] = windows("skip-locked", |record| {
        let server = Server::start(HBA, &[("fsync", "off")], |_| {});
        server.run("CREATE TABLE job AS SELECT i AS id FROM generate_series(1, 1000) i");
        server.run("CREATE INDEX ON job (id)");
        for passes in ["", " SKIP LOCKED"] {
            let take = format!(
                "BEGIN; SELECT # FROM job ORDER BY id LIMIT 1 FOR UPDATE{passes}; SELECT pg_sleep(0.01); COMMIT"
            );
            record.window(&server, &[&take]);
        }
    });
    assert_eq!(causes(&seen), ["skip-locked"]);
    let found = the(&seen, "skip-locked");
    assert_eq!(found["confidence"], "high", "{found:#}");
    assert!(found["remedy"].to_string().contains("SKIP LOCKED"));
    assert!(finding(&seen, "hot-row").is_none());
    assert!(finding(&fixed, "skip-locked").is_none());
}
