//! `pgassay run scattered-read` on somebody's own database: what is read is counted, nothing is made or
//! changed, and what can't be read by it is named.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::schema::assert_schema;
use pgassay_engine::workload::scattered_read::{self, ways};
use pgassay_model::scattered::{OwnReads, Pattern, Sample};
use pgassay_pgwire::connect;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;
use serde_json::Value;

use crate::pg_support::{Server, give};
use crate::runs::{Runs, signal, text};

const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

/// A schema with one of each kind of relation; orders has a row a block.
const SHOP: &str = "CREATE SCHEMA shop; \
    CREATE TABLE shop.orders (n int, x text) WITH (fillfactor = 10); \
    INSERT INTO shop.orders SELECT n, lpad('x', 500, 'x') FROM generate_series(1, 2000) n; \
    CREATE INDEX ON shop.orders (n); \
    CREATE VIEW shop.seen AS SELECT n FROM shop.orders; \
    CREATE MATERIALIZED VIEW shop.kept AS SELECT * FROM shop.orders; \
    CREATE TABLE shop.parted (n int) PARTITION BY RANGE (n); \
    CREATE TABLE shop.part_1 PARTITION OF shop.parted FOR VALUES FROM (0) TO (100); \
    CREATE SEQUENCE shop.numbers; \
    CREATE TABLE shop.small AS SELECT 1 AS n; \
    CREATE TABLE shop.\"Odd Name\" (x text); \
    INSERT INTO shop.\"Odd Name\" SELECT string_agg(md5(n::text), '') FROM generate_series(1, 30000) n GROUP BY n % 300; \
    CREATE FUNCTION shop.changes() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM shop.orders; RETURN 1; END'; \
    CREATE VIEW shop.changing AS SELECT shop.changes() AS n FROM shop.orders; \
    CREATE VIEW shop.hidden AS SELECT v.n FROM (VALUES (shop.changes()), (2)) v (n), shop.orders; \
    CREATE FUNCTION shop.random() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM shop.orders; RETURN 1; END'; \
    CREATE FUNCTION shop.\"\u{c4}nder\"() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM shop.orders; RETURN 1; END'; \
    CREATE FUNCTION shop.add(int, int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1 + $2; END'; \
    CREATE AGGREGATE shop.total (int) (SFUNC = shop.add, STYPE = int, INITCOND = '0'); \
    CREATE FUNCTION shop.stable() RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'; \
    CREATE SCHEMA other; \
    CREATE FUNCTION other.stable() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'; \
    CREATE FUNCTION shop.either(int) RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'; \
    CREATE FUNCTION shop.either(text) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'; \
    ANALYZE; CHECKPOINT";

fn shop() -> Server {
    let settings = [
        ("autovacuum", "off"),
        ("shared_buffers", "1MB"),
        ("log_statement", "all"),
    ];
    let server = Server::start(HBA, &settings, |_| {});
    server.run(SHOP);
    server
}

/// A program that is killed where a test fails, so that it does not outlive it.
struct Program(Child);

impl Program {
    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds; fails where it does not within a minute.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "not within a minute: {what}");
        sleep(Duration::from_millis(50));
    }
}

fn counters(server: &Server) -> String {
    let mut session = connect(&server.owner()).unwrap();
    let rows = "SELECT count(*) || ' ' || (SELECT count(*) FROM pg_class) || ' ' || \
                (SELECT last_value FROM shop.numbers) FROM shop.orders";
    session.value(rows).unwrap().unwrap()
}

fn document(runs: &Runs, words: &[&str]) -> (Value, String) {
    let line: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let output = runs.run(&line);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_schema(&document, "analysis-1.json");
    (document, said)
}

#[test]
fn a_relation_is_read_by_its_blocks_and_nothing_is_changed() {
    let server = shop();
    let target = server.owner().redacted();
    let before = counters(&server);
    let runs = Runs::new("own-relation");
    let words = [
        "run",
        "scattered-read",
        &target,
        "--load",
        "--relation",
        "shop.orders",
        "--evict",
        "--trials",
        "2",
    ];
    let (found, said) = document(&runs, &words);
    assert!(
        said.contains("6 executions in read-only transactions"),
        "{said}"
    );
    assert!(said.contains("taken out of the page cache"), "{said}");
    let read = &found["scattered_read"];
    assert_eq!(read["plan"]["own"]["relations"][0], "shop.orders");
    assert_eq!(read["plan"]["blocks"], 2000);
    let ways = read["variants"].as_array().unwrap();
    let ids: Vec<&str> = ways.iter().map(|way| way["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["every-tenth", "random-tenth", "sequential"]);
    // What was read before is in shared buffers: no more than a tenth of 2,000, and the first all of it.
    let blocks = ways[0]["blocks_read"].as_u64().unwrap();
    assert!((1..=203).contains(&blocks), "{blocks}");
    let report = text(&runs.run(&["report", "last"]).stdout);
    assert!(report.contains("shop.orders, "), "{report}");
    assert_eq!(counters(&server), before);
    let again = document(&runs, &["run", "--repeat", "last"]).0;
    assert_eq!(again["scattered_read"]["plan"]["own"], read["plan"]["own"]);
    // A name in quotes; a materialized view; TOAST does not count as its blocks.
    for name in ["shop.kept", "shop.\"Odd Name\""] {
        let line = [
            "run",
            "scattered-read",
            &target,
            "--load",
            "--relation",
            name,
            "--trials",
            "1",
        ];
        let output = runs.run(&line);
        let said = text(&output.stderr);
        match name {
            "shop.kept" => assert_eq!(output.status.code(), Some(0), "{said}"),
            _ => assert!(
                said.contains("blocks: a tenth of them shows nothing"),
                "{said}"
            ),
        }
    }
    assert_eq!(counters(&server), before);
}

#[test]
fn sessions_are_limited_at_their_start_and_nothing_is_set_for_longer() {
    let server = shop();
    server.run("ALTER ROLE owner SET statement_timeout = '5min'");
    server.run("ALTER ROLE owner SET lock_timeout = '1min'");
    let target = server.owner().redacted();
    let runs = Runs::new("own-limits");
    // The shorter of two limits holds. A division by zero where one is another.
    let limits = [
        ("statement_timeout", "5min"),
        ("lock_timeout", "2s"),
        ("default_transaction_read_only", "on"),
        ("transaction_read_only", "on"),
    ];
    let each = limits.map(|(name, is)| format!("(current_setting('{name}') = '{is}')::int"));
    let sql = format!(
        "SELECT count(*) / ({}) FROM shop.orders WHERE x <> '$v'",
        each.join(" * ")
    );
    let words = ["run", "scattered-read", &target, "--load", "--trials", "1"];
    document(&runs, &[&words[..], &["--query", &sql]].concat());
    document(
        &runs,
        &[&words[..], &["--relation", "shop.orders"]].concat(),
    );
    let log = server.log();
    let mine: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("statement: "))
        .collect();
    assert!(mine.iter().any(|line| line.contains(&sql)), "{log}");
    assert!(mine.iter().any(|line| line.contains("SET LOCAL ")));
    // What is set for a session would be found by whoever is given its connection next.
    let lasting: Vec<&&str> = mine
        .iter()
        .filter(|line| {
            let text = line.replace("SET LOCAL ", "");
            text.contains("statement: SET ") || text.contains("; SET ")
        })
        .collect();
    assert!(lasting.is_empty(), "{lasting:?}");
}

/// Whoever wants to change the table must not wait until it is out of the page cache, and a role's
/// idle_in_transaction_session_timeout must not end the session.
#[test]
fn no_transaction_is_open_while_files_are_evicted() {
    let server = shop();
    let target = server.owner().redacted();
    let runs = Runs::new("own-evicting");
    let mut session = connect(&server.owner()).unwrap();
    // A second segment of the relation that holds up whoever opens it.
    let path = session.value("SELECT pg_relation_filepath('shop.orders')");
    let path = format!("data/{}.1", path.unwrap().unwrap());
    let fifo = server.dir.join(path);
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
    give(&fifo);
    let words = [
        "run",
        "scattered-read",
        &target,
        "--load",
        "--relation",
        "shop.orders",
        "--evict",
        "--trials",
        "1",
    ];
    let mut program = Program(runs.start(&words));
    soon("the query is planned", || {
        assert!(!program.has_ended(), "the program ended");
        server.log().contains("statement: EXPLAIN SELECT")
    });
    soon("no transaction is open", || {
        let open = session.value(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start IS NOT NULL",
        );
        open.unwrap().as_deref() == Some("0")
    });
    session
        .execute("SET lock_timeout = '5s'; ALTER TABLE shop.orders ADD COLUMN y int")
        .unwrap();
    // All that while files were being evicted.
    assert!(!server.log().contains("EXPLAIN (ANALYZE"));
    soon("the program opens the segment", || {
        assert!(!program.has_ended(), "the program ended");
        // Which succeeds once somebody reads.
        let mut options = OpenOptions::new();
        options
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32);
        options.open(&fifo).is_ok()
    });
    // A FIFO can't be evicted.
    soon("the program ends", || program.has_ended());
}

/// The ways of reading a sample, which no relation here is large enough for.
#[test]
fn a_sample_is_read_block_by_block_as_it_is_said() {
    let server = shop();
    let mut session = connect(&server.owner()).unwrap();
    let own = OwnReads {
        relations: vec!["shop.orders".to_owned()],
        sample: Some(Sample {
            stretches: 4,
            apart: 500,
            length: 100,
        }),
        ..OwnReads::default()
    };
    let version = session.value("SHOW server_version_num").unwrap().unwrap();
    let version: u32 = version.parse().unwrap();
    let ways = ways::of_relation(2000, own.sample, version, &[]);
    assert_eq!(ways.len(), 3);
    for way in ways {
        let read = (2000, own.sample);
        let wanted = ways::wanted_blocks(&mut session, read, way.pattern, 3).unwrap();
        match way.pattern {
            Pattern::EveryTenth => assert_eq!(wanted.count(), 40),
            Pattern::All => assert_eq!(wanted.count(), 400),
            _ => assert!((10..90).contains(&wanted.count()), "{wanted:?}"),
        }
        session.execute("BEGIN READ ONLY").unwrap();
        for (name, setting) in &way.settings {
            let set = format!("SET LOCAL {name} = '{setting}'");
            session.execute(&set).unwrap();
        }
        // There is a row in each block.
        let sql = scattered_read::statement(&way, Some(&own), 3);
        let rows = session.value(&sql).unwrap().unwrap();
        assert_eq!(rows, wanted.count().to_string(), "{sql}");
        let plan = session.rows(&format!("EXPLAIN {sql}")).unwrap();
        let plan: Vec<String> = plan.rows.into_iter().flatten().flatten().collect();
        let plan = plan.join("\n");
        assert!(
            plan.contains("Tid ") && !plan.contains("Seq Scan"),
            "{plan}"
        );
        session.execute("COMMIT").unwrap();
    }
}

#[test]
fn a_query_that_is_interrupted_is_cancelled() {
    let server = shop();
    let target = server.owner().redacted();
    let runs = Runs::new("own-cancelled");
    // Goes on for hours.
    let sql =
        "SELECT count(*) FROM shop.orders a, shop.orders b, shop.orders c WHERE a.n + b.n < c.n";
    let words = ["run", "scattered-read", &target, "--load", "--query", sql];
    let mut program = Program(runs.start(&words));
    let mut session = connect(&server.owner()).unwrap();
    let mut running = || {
        let any = session.value(
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'EXPLAIN (ANALYZE%'",
        );
        any.unwrap().as_deref() == Some("t")
    };
    soon("the query runs", || {
        assert!(!program.has_ended(), "the program ended");
        running()
    });
    signal(program.0.id(), Signal::INT);
    soon("the program ends", || program.has_ended());
    soon("the query ends", || !running());
    // Asked for, and not because the server missed its client.
    let log = server.log();
    assert!(
        log.contains("canceling statement due to user request"),
        "{log}"
    );
}

#[test]
fn what_is_no_table_of_ones_own_is_named() {
    let server = shop();
    let target = server.owner().redacted();
    let before = counters(&server);
    let runs = Runs::new("own-refused");
    let refused = |words: &[&str], code: i32, says: &str| {
        let output = runs.run(&[&["run", "scattered-read", &target, "--load"], words].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(says), "{words:?}: {said}");
    };
    for (name, says) in [
        (
            "shop.nothing",
            "there is no relation shop.nothing in the database",
        ),
        ("shop.seen", "is a view"),
        ("shop.parted", "name one, such as shop.part_1"),
        ("shop.numbers", "is a sequence"),
        ("shop.orders_n_idx", "is an index"),
        ("shop.small", "has 1 blocks"),
        ("a.b.c.d", "a.b.c.d"),
        ("it's; DROP TABLE shop.orders", "--relation"),
    ] {
        refused(&["--relation", name], 2, says);
    }
    for (sql, says) in [
        ("DELETE FROM shop.orders", "it writes (Delete)"),
        (
            "WITH d AS (DELETE FROM shop.orders RETURNING n) SELECT count(*) FROM d",
            "it writes (Delete)",
        ),
        (
            "SELECT n FROM shop.orders FOR UPDATE",
            "it writes (row locks",
        ),
        (
            "SELECT 1; DELETE FROM shop.orders",
            "takes no such statement",
        ),
        ("DROP TABLE shop.orders", "takes no such statement"),
        (
            "SELECT nextval('shop.numbers') FROM shop.orders",
            "nextval(regclass), which is VOLATILE",
        ),
        (
            "SELECT count(*) FROM shop.orders WHERE shop.changes() = 1",
            "shop.changes()",
        ),
        ("SELECT count(n) FROM shop.changing", "shop.changes()"),
        ("SELECT count(n) FROM shop.hidden", "shop.changes()"),
        (
            "SELECT count(*) FROM shop.orders WHERE shop.random() = 1",
            "shop.random(), which is VOLATILE",
        ),
        (
            "SELECT shop.total(n) FROM shop.orders",
            "shop.total(integer), which is VOLATILE",
        ),
        (
            "SELECT shop.either(n) FROM shop.orders",
            "shop.either(text), which is VOLATILE",
        ),
        (
            "SELECT count(*) FROM (VALUES (shop.changes /* ( */ ()), (2)) v, shop.orders",
            "shop.changes()",
        ),
        // The server folds ASCII letters only: this names the function whose first letter is a capital.
        (
            "SELECT count(*) FROM (VALUES (Shop.\u{c4}NDER()), (2)) v, shop.orders",
            "shop.\"\u{c4}nder\"(), which is VOLATILE",
        ),
        (
            "SELECT pg_terminate_backend(1) FROM shop.orders",
            "VOLATILE",
        ),
        ("SELECT 1", "it reads no table"),
        ("SELECT n FROM shop.nothing", "does not exist"),
        ("SELECT n FROM shop.orders WHERE n = $1", "parameter"),
    ] {
        refused(&["--query", sql], 2, says);
    }
    // Another schema's function of that name does not count, nor PostgreSQL's own that change nothing.
    for sql in [
        "SELECT count(*) FROM shop.orders WHERE n = shop.stable()",
        "SELECT count(*) FROM shop.orders WHERE random() < 0.5 AND x <> 'changes('",
    ] {
        let words = ["run", "scattered-read", &target, "--load", "--trials", "1"];
        let output = runs.run(&[&words[..], &["--query", sql]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    refused(
        &["--relation", "shop.orders", "--query", "SELECT 1"],
        2,
        "cannot be used with",
    );
    refused(&["--relation", "shop.orders", "--size", "1GB"], 2, "--size");
    refused(&["--evict"], 2, "--evict");
    let without = runs.run(&[
        "run",
        "scattered-read",
        &target,
        "--relation",
        "shop.orders",
    ]);
    assert!(text(&without.stderr).contains("add --load"));
    let launched = runs.run(&["run", "scattered-read", "temp", "--relation", "shop.orders"]);
    assert!(text(&launched.stderr).contains("--from-database"));
    // Somebody else holds it.
    let mut holder = connect(&server.owner()).unwrap();
    holder
        .execute("BEGIN; LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    refused(
        &["--relation", "shop.orders"],
        3,
        "shop.orders is locked by another session",
    );
    refused(
        &["--query", "SELECT count(*) FROM shop.orders"],
        3,
        "is locked by another session",
    );
    holder.execute("ROLLBACK").unwrap();
    assert_eq!(counters(&server), before);
}

#[test]
fn a_query_on_a_copy_says_which_remedy_helped() {
    let server = shop();
    let original = server.owner().redacted();
    let runs = Runs::new("own-query");
    let words = [
        "run",
        "scattered-read",
        "temp",
        "--from-database",
        &original,
        "--query",
        "SELECT count(x) FROM shop.orders WHERE n % 10 = 1",
        "--trials",
        "3",
        "--only",
        "as-it-is,no-prefetch,sequential",
    ];
    let (found, _) = document(&runs, &words);
    let read = &found["scattered_read"];
    assert_eq!(read["plan"]["own"]["relations"][0], "\"shop\".\"orders\"");
    assert_eq!(read["plan"]["own"]["evicted"], true);
    // The server begins with empty buffers each time: all 2,000 blocks are read.
    let ways = read["variants"].as_array().unwrap();
    assert_eq!(ways.len(), 3);
    for way in ways {
        assert!(way["blocks_read"].as_u64().unwrap() >= 2000, "{way}");
    }
    // Nothing but a sequential scan can answer it: no way of those tried reads less.
    let remedies = read["remedies"].as_array().unwrap();
    assert_eq!(remedies.len(), 2);
    for remedy in remedies {
        assert_ne!(remedy["outcome"], "helped", "{remedy}");
    }
    let report = text(&runs.run(&["report", "last"]).stdout);
    assert!(report.contains("way tried"), "{report}");
}
