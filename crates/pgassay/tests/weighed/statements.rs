//! What statements and the server's own counters of tables show, and what becomes of it once the remedy is carried
//! out.

use serde_json::Value;

use crate::pg_support::Server;
use crate::recorded::{Case, HBA, causes, finding, holds, sql_of, the, windows};

/// By how much a counter of a table grew in the window.
fn grown(seen: &Value, table: &str, counter: &str) -> f64 {
    let tables = seen["observed"]["points"][0]["growth"]["tables"].as_array();
    let mut tables = tables.into_iter().flatten();
    let found = tables.find(|t| t["name"] == table);
    found.map_or(0.0, |t| t["grown"][counter].as_f64().unwrap_or(0.0))
}

#[test]
fn a_missing_index_is_found_and_its_remedy_removes_the_scans() {
    let [seen, fixed] = windows("missing-index", |record| {
        let server = Server::start(HBA, &[], |_| {});
        server.run(
            "CREATE TABLE things AS SELECT i AS id, 'x' || i AS mail FROM generate_series(1, 100000) i",
        );
        server.run("ANALYZE things");
        let look_up = ["SELECT mail FROM things WHERE id = #"];
        let seen = record.window(&server, &look_up);
        // What it says is done, and does away with it.
        server.run(&sql_of(the(&seen, "sequential-scan")).replace("CONCURRENTLY ", ""));
        record.window(&server, &look_up);
    });
    assert_eq!(causes(&seen), ["sequential-scan"]);
    let found = the(&seen, "sequential-scan");
    let saw = found["saw"].as_str().unwrap();
    assert!(
        saw.contains("public.things is read whole, 100000 rows"),
        "{saw}"
    );
    assert!(found["gain_at_most"].as_f64().unwrap() > 0.5, "{found:#}");
    assert!(grown(&seen, "public.things", "seq_scan") > 0.0);
    assert!(finding(&fixed, "sequential-scan").is_none());
    assert_eq!(grown(&fixed, "public.things", "seq_tup_read"), 0.0);
    assert!(grown(&fixed, "public.things", "idx_scan") > 0.0);
}

#[test]
fn a_queue_full_of_dead_rows_is_told_to_vacuum() {
    let [seen, fixed] = windows("autovacuum-behind", |record| {
        let server = Server::start(HBA, &[("autovacuum", "off"), ("fsync", "off")], |_| {});
        server.run("CREATE TABLE queue (id bigserial PRIMARY KEY, payload text)");
        server.run("INSERT INTO queue (payload) SELECT 'x' FROM generate_series(1, 150000)");
        server.run("DELETE FROM queue WHERE id < 140000");
        let turn = "INSERT INTO queue (payload) VALUES ('#'); DELETE FROM queue WHERE id = \
                    (SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)";
        record.window(&server, &[turn]);
        server.run("VACUUM (ANALYZE) queue");
        // Without autovacuum the queue fills again while it is watched, the faster the machine: the
        // turns are paced.
        record.window(&server, &[&format!("{turn}; SELECT pg_sleep(0.02)")]);
    });
    let found = the(&seen, "autovacuum-behind");
    assert!(
        sql_of(found).starts_with("VACUUM (ANALYZE, VERBOSE) public.queue"),
        "{found:#}"
    );
    assert_eq!(causes(&seen), ["autovacuum-behind"]);
    assert!(finding(&fixed, "autovacuum-behind").is_none());
    let blocks_a_scan = |seen: &Value| {
        let of = |counter: &str| grown(seen, "public.queue", counter);
        (of("idx_blks_hit") + of("idx_blks_read")) / of("idx_scan").max(1.0)
    };
    assert!(blocks_a_scan(&seen) > 100.0, "{seen:#}");
    let (before, after) = (blocks_a_scan(&seen), blocks_a_scan(&fixed));
    assert!(after < 0.2 * before, "{after} of {before}");
}

const WRONG: &[Case] = &[
    (
        &["partitions-not-pruned"],
        "partition key (id)",
        "SELECT v FROM parts WHERE k = #",
        "SELECT v FROM parts WHERE k = # AND id = #",
    ),
    (
        &["function-per-row"],
        "ALTER FUNCTION public.visible(integer) STABLE",
        "SELECT count(*) FROM parts_1 WHERE visible(id + #)",
        "SELECT count(*) FROM parts_1 WHERE (id + #) % 2 = 0",
    ),
];

fn partitioned() -> Server {
    let settings = [
        ("shared_preload_libraries", "pg_stat_statements"),
        ("work_mem", "64kB"),
        ("max_parallel_workers_per_gather", "0"),
        ("jit", "off"),
    ];
    let server = Server::start(HBA, &settings, |_| {});
    for sql in [
        "CREATE EXTENSION pg_stat_statements",
        "CREATE TABLE parts (id int, k int, v text) PARTITION BY HASH (id)",
        "DO $$ BEGIN FOR i IN 0..15 LOOP EXECUTE format('CREATE TABLE parts_%s PARTITION OF parts \
         FOR VALUES WITH (MODULUS 16, REMAINDER %s)', i, i); END LOOP; END $$",
        "CREATE INDEX ON parts (k)",
        "INSERT INTO parts SELECT i, i, md5(i::text) FROM generate_series(1, 40000) i",
        "CREATE FUNCTION visible(i int) RETURNS boolean LANGUAGE plpgsql AS \
         $$ BEGIN RETURN i % 2 = 0; END $$",
        "VACUUM ANALYZE parts",
    ] {
        server.run(sql);
    }
    server
}

#[test]
fn what_is_wrong_with_statements_is_named_and_gone_when_mended() {
    let better = holds("statements", WRONG, partitioned);
    for (ids, _, _, _) in WRONG {
        let found = finding(&better, ids[0]);
        assert!(found.is_none(), "{found:#?}");
    }
}

#[test]
fn a_sort_that_spills_is_told_the_memory_that_it_needs() {
    let [seen, fixed] = windows("spilling", |record| {
        let server = partitioned();
        let sort = "SELECT count(*) FROM (SELECT id FROM parts ORDER BY v DESC OFFSET 1) s";
        record.window(&server, &[sort]);
        record.window(&server, &[&format!("SET work_mem = '64MB'; {sort}")]);
    });
    let found = the(&seen, "spilling");
    let goes_to = found["evidence"][0].as_str().unwrap();
    assert!(goes_to.contains("ORDER BY v DESC"), "{goes_to}");
    assert!(
        sql_of(found).starts_with("SET work_mem = '12MB';"),
        "{found:#}"
    );
    assert!(finding(&fixed, "spilling").is_none());
}

#[test]
fn nobody_of_ours_is_a_client_of_the_servers_own_load() {
    let [seen] = windows("own-load", |record| {
        let server = Server::start(HBA, &[("autovacuum", "off")], |_| {});
        record.window(&server, &["SELECT pg_sleep(0.2)"]);
    });
    let slept = the(&seen, "wait-event/Timeout:PgSleep");
    let said = format!("{} {}", slept["evidence"], seen["diagnosis"]["time"]);
    assert!(
        !said.contains("clients") && !said.contains("the load"),
        "{said}"
    );
}
