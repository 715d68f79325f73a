//! Time by statement, and what the server's own counters say of statements and tables, on a real
//! server.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgassay::{Exit, Stop, Terminal};
use pgassay_model::observed::Observed;
use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::statements::SeenStatement;
use pgassay_observe::{Choice, Known, Observers, Scene};
use pgassay_pgwire::connect;
use serde_json::Value;

use crate::pg_support::{OWNER, Server};

pub(crate) const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

/// A session that sends the same statement, with another number each time, until it is told to stop.
struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Worker {
    fn start(server: &Server, sql: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, sql) = (Arc::clone(&stop), sql.to_owned());
        let mut session = connect(&server.owner().with_application_name("app")).unwrap();
        let thread = thread::spawn(move || {
            let mut done = 0;
            while !asked.load(Ordering::Relaxed) {
                done += 1;
                // A lock that times out is an error, and no other is expected.
                let _ = session.execute(&sql.replace('#', &done.to_string()));
            }
            done
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// How many statements it sent.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn scene(server: &Server) -> Scene {
    let pid = fs::read_to_string(server.dir.join("data/postmaster.pid")).unwrap();
    Scene {
        postmaster: Ok(pid.lines().next().unwrap().parse().unwrap()),
        session: Some(connect(&server.owner().with_application_name("pgassay")).unwrap()),
        known: Known::default(),
        ..Scene::unseen("not looked at")
    }
}

/// What is seen of a window in which these statements run, each in a session of its own.
fn observed(server: &Server, statements: &[&str], window: Duration) -> (Observed, Vec<u64>) {
    let mut scene = scene(server);
    let choice = Choice {
        waits: true,
        sched: true,
        perf: false,
        pmu: false,
        apart: false,
    };
    let mut observers = Observers::start(choice, &server.owner(), &scene);
    let workers: Vec<Worker> = statements
        .iter()
        .map(|sql| Worker::start(server, sql))
        .collect();
    thread::sleep(Duration::from_millis(200));
    observers.begin(&mut scene);
    thread::sleep(window);
    let (_, observed) = observers.end(&mut scene);
    let sent = workers.into_iter().map(Worker::end).collect();
    (observed.unwrap(), sent)
}

fn with<'o>(observed: &'o Observed, words: &str) -> &'o SeenStatement {
    let statements = &observed.statements.as_ref().unwrap().statements;
    let found = statements.iter().find(|s| s.text.contains(words));
    found.unwrap_or_else(|| panic!("{words}: {statements:#?}"))
}

/// By its text, and by the number that the server gives it.
#[test]
fn a_statement_is_told_from_others_with_and_without_its_number() {
    let _alone = crate::alone();
    for computed in ["off", "on"] {
        let server = Server::start(HBA, &[("compute_query_id", computed)], |_| {});
        let mut holder = connect(&server.owner()).unwrap();
        holder.execute("SELECT pg_advisory_lock(7)").unwrap();
        let (observed, _) = observed(
            &server,
            &[
                "SET lock_timeout = 80; /* secret */ SELECT pg_advisory_lock(7), 'secret#'",
                "SELECT sum(i) FROM generate_series(1, 200000 + #) i",
            ],
            Duration::from_secs(2),
        );
        let locked = with(&observed, "pg_advisory_lock");
        let at = |of: &SeenStatement, kind: &str| -> u64 {
            let at = of.at.iter().filter(|at| at.kind == kind);
            at.map(|at| at.count).sum()
        };
        assert!(at(locked, "Lock") > 0, "{locked:?}");
        assert!(
            at(locked, "Lock") * 10 > locked.sightings() * 8,
            "{locked:?}"
        );
        let working = with(&observed, "generate_series");
        assert!(
            at(working, "") > 0 && at(working, "Lock") == 0,
            "{working:?}"
        );
        assert_eq!(
            working.query_ids.is_empty(),
            computed == "off",
            "{working:?}"
        );
        // Whatever was in them as a literal or a comment is in no record.
        assert!(!format!("{observed:?}").contains("secret"), "{observed:?}");
    }
}

#[test]
fn what_counters_grew_by_is_what_the_sessions_did() {
    let _alone = crate::alone();
    let server = Server::start(
        HBA,
        &[("shared_preload_libraries", "pg_stat_statements")],
        |_| {},
    );
    server.run("CREATE EXTENSION pg_stat_statements");
    server.run("CREATE TABLE counted AS SELECT i FROM generate_series(1, 1000) i");
    server.run("CREATE TABLE idle AS SELECT 1");
    let mut scene = scene(&server);
    let choice = Choice {
        waits: true,
        ..Choice::default()
    };
    let mut observers = Observers::start(choice, &server.owner(), &scene);
    observers.begin(&mut scene);
    let mut session = connect(&server.owner()).unwrap();
    for i in 0..20 {
        let sql = format!("SELECT count(*) FROM counted WHERE i <> {i}");
        session.execute(&sql).unwrap();
    }
    // What a session counted is certain to be told once it has ended.
    session.close();
    thread::sleep(Duration::from_millis(1500));
    let growth = observers.end(&mut scene).1.unwrap().growth.unwrap();
    assert_eq!(growth.unread, Vec::<String>::new());
    let table = growth.tables.iter().find(|t| t.name == "public.counted");
    let table = table.unwrap_or_else(|| panic!("{growth:#?}"));
    assert_eq!(
        (table.by("seq_scan"), table.by("seq_tup_read")),
        (20.0, 20_000.0)
    );
    assert!(!growth.tables.iter().any(|t| t.name == "public.idle"));
    let ours = |s: &&Grown| (s.by("calls"), s.by("rows")) == (20.0, 20.0);
    assert_eq!(
        growth.statements.iter().filter(ours).count(),
        1,
        "{growth:#?}"
    );
}

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn pgassay(words: &[&str]) -> (Exit, String, String) {
    let (out, err) = (Page::default(), Page::default());
    let mut terminal = Terminal::plain(Box::new(out.clone()), Box::new(err.clone()), 100);
    let line = ["pgassay"].iter().chain(words).map(Into::into);
    let exit = pgassay::run(line, &mut terminal, &Stop::new());
    let text = |page: &Page| String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    (exit, text(&out), text(&err))
}

/// What `pgassay watch` says of a server while four sessions send each of these statements.
pub(crate) fn watched(server: &Server, statements: &[&str]) -> Value {
    let socket = server.socket_dir.display();
    let uri = format!(
        "host={socket} port={} user={OWNER} dbname=postgres",
        server.port
    );
    // Enough of them to be seen on a machine that is busy with other work, too.
    let each = statements.iter().flat_map(|sql| [sql; 4]);
    let workers: Vec<Worker> = each.map(|sql| Worker::start(server, sql)).collect();
    let words = ["watch", &uri, "--time", "5", "--count", "1", "--json"];
    let (exit, out, err) = pgassay(&words);
    for worker in workers {
        worker.end();
    }
    assert_eq!(exit, Exit::Done, "{err}");
    let seen: Value = serde_json::from_str(&out).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/watch-1.json");
    let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&seen)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    seen
}

/// [`watched`], and again where the finding is not there: on a busy machine there are few looks, and what so few say may
/// be chance.
pub(crate) fn watched_for(id: &str, server: &Server, statements: &[&str]) -> Value {
    let mut seen = watched(server, statements);
    for _ in 0..4 {
        if finding(&seen, id).is_some() {
            break;
        }
        seen = watched(server, statements);
    }
    seen
}

pub(crate) fn finding<'v>(seen: &'v Value, id: &str) -> Option<&'v Value> {
    let findings = seen["diagnosis"]["findings"].as_array().unwrap();
    findings.iter().find(|f| f["id"] == id)
}

pub(crate) fn the<'v>(seen: &'v Value, id: &str) -> &'v Value {
    finding(seen, id).unwrap_or_else(|| {
        let point = &seen["observed"]["points"][0];
        let (statements, tables) = (&point["statements"], &point["growth"]["tables"]);
        panic!(
            "{id} is not among {:#}\n{statements:#}\n{tables:#}",
            seen["diagnosis"]
        )
    })
}

/// By how much a counter of a table grew in the window.
fn grown(seen: &Value, table: &str, counter: &str) -> f64 {
    let tables = seen["observed"]["points"][0]["growth"]["tables"].as_array();
    let mut tables = tables.into_iter().flatten();
    let found = tables.find(|t| t["name"] == table);
    found.map_or(0.0, |t| t["grown"][counter].as_f64().unwrap_or(0.0))
}

pub(crate) fn sql_of(finding: &Value) -> &str {
    let steps = finding["remedy"].as_array().unwrap();
    let sql = steps.iter().find(|step| step["kind"] == "sql");
    sql.unwrap_or_else(|| panic!("{finding:#}"))["text"]
        .as_str()
        .unwrap()
}

#[test]
fn a_missing_index_is_found_and_its_remedy_removes_the_scans() {
    let _alone = crate::alone();
    let server = Server::start(HBA, &[], |_| {});
    server.run(
        "CREATE TABLE things AS SELECT i AS id, 'x' || i AS mail FROM generate_series(1, 100000) i",
    );
    server.run("ANALYZE things");
    let look_up = "SELECT mail FROM things WHERE id = #";
    let seen = watched_for("sequential-scan", &server, &[look_up]);
    let found = the(&seen, "sequential-scan");
    let saw = found["saw"].as_str().unwrap();
    assert!(
        saw.contains("public.things is read whole, 100000 rows"),
        "{saw}"
    );
    assert!(found["gain_at_most"].as_f64().unwrap() > 0.5, "{found:#}");
    assert!(grown(&seen, "public.things", "seq_scan") > 0.0);
    // What it says is done, and does away with it.
    server.run(&sql_of(found).replace("CONCURRENTLY ", ""));
    let mended = watched(&server, &[look_up]);
    assert!(finding(&mended, "sequential-scan").is_none());
    assert_eq!(grown(&mended, "public.things", "seq_tup_read"), 0.0);
    assert!(grown(&mended, "public.things", "idx_scan") > 0.0);
}

#[test]
fn a_queue_full_of_dead_rows_is_told_to_vacuum() {
    let _alone = crate::alone();
    let server = Server::start(HBA, &[("autovacuum", "off"), ("fsync", "off")], |_| {});
    server.run("CREATE TABLE queue (id bigserial PRIMARY KEY, payload text)");
    server.run("INSERT INTO queue (payload) SELECT 'x' FROM generate_series(1, 150000)");
    server.run("DELETE FROM queue WHERE id < 140000");
    let turn = "INSERT INTO queue (payload) VALUES ('#'); DELETE FROM queue WHERE id = \
                (SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)";
    let seen = watched_for("autovacuum-behind", &server, &[turn]);
    let found = the(&seen, "autovacuum-behind");
    assert!(
        sql_of(found).starts_with("VACUUM (ANALYZE, VERBOSE) public.queue"),
        "{found:#}"
    );
    let first = seen["diagnosis"]["findings"].as_array().unwrap().iter();
    let of_cpus = |f: &&Value| !f["id"].as_str().unwrap().starts_with("cpu-");
    let first = first.filter(of_cpus).map(|f| &f["id"]).next();
    assert_eq!(
        first,
        Some(&Value::from("autovacuum-behind")),
        "{:#}",
        seen["diagnosis"]
    );
    let blocks_a_scan = |seen: &Value| {
        let of = |counter: &str| grown(seen, "public.queue", counter);
        (of("idx_blks_hit") + of("idx_blks_read")) / of("idx_scan").max(1.0)
    };
    assert!(blocks_a_scan(&seen) > 100.0, "{seen:#}");
    server.run("VACUUM (ANALYZE) queue");
    // Without autovacuum the queue fills again while it is watched, the faster the machine: the
    // turns are paced.
    let paced = format!("{turn}; SELECT pg_sleep(0.02)");
    let mended = watched(&server, &[&paced]);
    assert!(
        finding(&mended, "autovacuum-behind").is_none(),
        "{:#}",
        mended["diagnosis"]
    );
    let (before, after) = (blocks_a_scan(&seen), blocks_a_scan(&mended));
    assert!(after < 0.2 * before, "{after} of {before}");
}

#[test]
fn what_is_wrong_with_statements_is_named_and_gone_when_mended() {
    let _alone = crate::alone();
    let server = Server::start(
        HBA,
        &[
            ("shared_preload_libraries", "pg_stat_statements"),
            ("work_mem", "64kB"),
            ("max_parallel_workers_per_gather", "0"),
            ("jit", "off"),
        ],
        |_| {},
    );
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
    for (id, wrong, right) in [
        (
            "partitions-not-pruned",
            "SELECT v FROM parts WHERE k = #",
            "SELECT v FROM parts WHERE k = # AND id = #",
        ),
        (
            "function-per-row",
            "SELECT count(*) FROM parts_1 WHERE visible(id + #)",
            "SELECT count(*) FROM parts_1 WHERE (id + #) % 2 = 0",
        ),
        (
            "spilling",
            "SELECT count(*) FROM (SELECT id FROM parts ORDER BY v DESC OFFSET 1) s",
            "SET work_mem = '64MB'; SELECT count(*) FROM (SELECT id FROM parts ORDER BY v OFFSET 1) s",
        ),
    ] {
        let seen = watched_for(id, &server, &[wrong]);
        let found = the(&seen, id);
        let goes_to = found["evidence"][0].as_str().unwrap();
        assert!(goes_to.contains("parts"), "{found:#}");
        let mended = watched(&server, &[right]);
        assert!(
            finding(&mended, id).is_none(),
            "{id}: {:#}",
            mended["diagnosis"]
        );
    }
}

/// A text that somebody else wrote is one statement or none, and is not planned where planning
/// could run its author's functions as us.
#[test]
fn a_strangers_statement_runs_nothing_as_us() {
    let _alone = crate::alone();
    let server = Server::start(HBA, &[], |_| {});
    let mut session = connect(&server.owner()).unwrap();
    let several = session.execute_single("SELECT 1; CREATE TABLE made ()");
    assert!(
        several
            .unwrap_err()
            .to_string()
            .contains("multiple commands")
    );
    session.execute_single("PREPARE one AS SELECT 1").unwrap();
    let one = session.value("EXECUTE one").unwrap();
    assert_eq!(one.as_deref(), Some("1"));

    server.run("CREATE ROLE app LOGIN; GRANT ALL ON SCHEMA public TO app");
    server.run("CREATE TABLE planned (by text); GRANT ALL ON planned TO app");
    let mut app = server.owner();
    app.user = "app".to_owned();
    let mut session = connect(&app).unwrap();
    session
        .execute(
            "CREATE FUNCTION harmless() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN \
             IF current_user <> 'app' THEN RAISE 'planned as %', current_user; END IF; \
             PERFORM pg_sleep(0.05); RETURN 1; END $$",
        )
        .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let running = thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            session.execute("SELECT harmless()").unwrap();
        }
    });
    let seen = watched(&server, &[]);
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap();
    let statements = &seen["observed"]["points"][0]["statements"]["statements"];
    let why = statements[0]["no_plan"].as_str().unwrap();
    assert!(why.contains("statement of role app"), "{statements:#}");
    assert!(!server.log().contains("planned as"), "{}", server.log());
}

/// No transaction that was watched got a number of its own, and no object was made.
#[test]
fn watching_writes_nothing() {
    let _alone = crate::alone();
    let server = Server::start(HBA, &[("autovacuum", "off")], |_| {});
    let state = || {
        let mut session = connect(&server.owner()).unwrap();
        let state = session.value(
            "SELECT txid_snapshot_xmax(txid_current_snapshot()) || ' ' || pg_current_wal_insert_lsn() \
             || ' ' || count(*) FROM pg_class",
        );
        state.unwrap().unwrap()
    };
    server.run("CHECKPOINT");
    let before = state();
    let seen = watched(&server, &["SELECT pg_sleep(0.2)"]);
    assert_eq!(state(), before);
    let slept = the(&seen, "wait-event/Timeout:PgSleep");
    assert!(slept["saw"].is_string());
    // Nobody of ours is a client here.
    let points = &seen["observed"]["points"];
    let said = format!("{} {}", slept["evidence"], seen["diagnosis"]["time"]);
    assert_eq!(points[0]["own_load"], true, "{points}");
    assert!(
        !said.contains("clients") && !said.contains("the load"),
        "{said}"
    );
    let (exit, _, err) = pgassay(&["watch", "temp"]);
    assert!(
        exit != Exit::Done && err.contains("running server"),
        "{err}"
    );
}
