//! Evidence is collected: what of a server is seen and counted, and that nothing is done to it. How long things take,
//! and which share of the time, is judged nowhere here.

use std::thread;
use std::time::{Duration, Instant};

use pgassay::Exit;
use pgassay_model::observed::Observed;
use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::Plan;
use pgassay_model::observed::statements::SeenStatement;
use pgassay_observe::{Choice, Known, Observers, Scene};
use pgassay_pgwire::connect;
use serde_json::Value;

use crate::captured::pgassay;
use crate::pg_support::{OWNER, Server};
use crate::recorded::{HBA, Worker, validate};

/// What is seen of a server while something is done there.
fn observed(server: &Server, during: impl FnOnce()) -> Observed {
    let mut scene = Scene {
        postmaster: Ok(server.pid()),
        session: Some(connect(&server.owner().with_application_name("pgassay")).unwrap()),
        known: Known::default(),
        ..Scene::unseen("not looked at")
    };
    let choice = Choice {
        waits: true,
        sched: true,
        ..Choice::default()
    };
    let mut observers = Observers::start(choice, &server.owner(), &scene);
    observers.begin(&mut scene);
    during();
    observers.end(&mut scene).1.unwrap()
}

fn app(server: &Server, sql: &str) -> Worker {
    let conninfo = server.owner().with_application_name("app");
    Worker::start(connect(&conninfo).unwrap(), sql)
}

/// Long enough for many looks at the sessions.
fn look() {
    thread::sleep(Duration::from_secs(2));
}

/// Waits until a query answers `t`.
fn until(server: &Server, sql: &str) {
    let mut session = connect(&server.owner()).unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while session.value(sql).unwrap().as_deref() != Some("t") {
        assert!(Instant::now() < give_up, "{sql}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn with<'o>(observed: &'o Observed, words: &str) -> &'o SeenStatement {
    let statements = &observed.statements.as_ref().unwrap().statements;
    let found = statements.iter().find(|s| s.text.contains(words));
    found.unwrap_or_else(|| panic!("{words}: {statements:#?}"))
}

fn plan<'o>(observed: &'o Observed, words: &str) -> &'o Plan {
    let id = &with(observed, words).id;
    let record = observed.plans.iter().find(|plan| plan.statement == *id);
    record.unwrap().plan.as_ref().unwrap()
}

/// By its text, and by the number that the server gives it; with who holds up the one that waits.
#[test]
fn a_statement_is_told_from_others_with_and_without_its_number() {
    for computed in ["off", "on"] {
        let settings = [("compute_query_id", computed), ("deadlock_timeout", "1h")];
        let server = Server::start(HBA, &settings, |_| {});
        let mut holder = connect(&server.owner().with_application_name("forgetful")).unwrap();
        holder.execute("SELECT pg_advisory_lock(7)").unwrap();
        let waiting = app(
            &server,
            "/* secret */ SELECT pg_advisory_lock(7), 'secret#'",
        );
        let working = app(
            &server,
            "SELECT sum(i) FROM generate_series(1, 200000 + #) i",
        );
        until(
            &server,
            "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted",
        );
        let observed = observed(&server, look);
        holder.execute("SELECT pg_advisory_unlock(7)").unwrap();
        waiting.end();
        working.end();
        let locked = with(&observed, "pg_advisory_lock");
        let at = |of: &SeenStatement, kind: &str| -> u64 {
            let at = of.at.iter().filter(|at| at.kind == kind);
            at.map(|at| at.count).sum()
        };
        assert!(at(locked, "Lock") > 0, "{locked:?}");
        assert_eq!(at(locked, "Lock"), locked.sightings(), "{locked:?}");
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
        let holders = &observed.blockers.as_ref().unwrap().holders;
        assert_eq!(holders.len(), 1, "{holders:#?}");
        let holder = (&*holders[0].application, &*holders[0].awaited);
        assert_eq!(holder, ("forgetful", "advisory"));
        // Whatever was in them as a literal or a comment is in no record.
        assert!(!format!("{observed:?}").contains("secret"), "{observed:?}");
    }
}

#[test]
fn what_counters_grew_by_is_what_the_sessions_did() {
    let preloaded = [("shared_preload_libraries", "pg_stat_statements")];
    let server = Server::start(HBA, &preloaded, |_| {});
    server.run("CREATE EXTENSION pg_stat_statements");
    server.run("CREATE TABLE counted AS SELECT i FROM generate_series(1, 1000) i");
    server.run("CREATE TABLE idle AS SELECT 1");
    let observed = observed(&server, || {
        let mut session = connect(&server.owner()).unwrap();
        for i in 1..=20 {
            let sql = format!("SELECT i FROM counted WHERE i BETWEEN {i} AND {i} + 2");
            session.execute(&sql).unwrap();
        }
        // What a session counted is certain to be told once it has ended.
        session.close();
        until(
            &server,
            "SELECT seq_scan = 20 FROM pg_stat_user_tables WHERE relname = 'counted'",
        );
    });
    let growth = observed.growth.unwrap();
    assert_eq!(growth.unread, Vec::<String>::new());
    let table = growth.tables.iter().find(|t| t.name == "public.counted");
    let table = table.unwrap_or_else(|| panic!("{growth:#?}"));
    assert_eq!(
        (table.by("seq_scan"), table.by("seq_tup_read")),
        (20.0, 20_000.0)
    );
    assert!(!growth.tables.iter().any(|t| t.name == "public.idle"));
    let ours = |s: &&Grown| (s.by("calls"), s.by("rows")) == (20.0, 60.0);
    assert_eq!(
        growth.statements.iter().filter(ours).count(),
        1,
        "{growth:#?}"
    );
}

/// Of a statement the plan, of the tables and functions in it what the catalogues say.
#[test]
fn a_plan_is_read_with_what_lies_behind_it() {
    let server = Server::start(HBA, &[], |_| {});
    server.run("CREATE TABLE parent (id int PRIMARY KEY)");
    server.run("CREATE TABLE child (id int, parent int REFERENCES parent)");
    server.run("INSERT INTO parent SELECT generate_series(1, 100); ANALYZE parent");
    server.run(
        "CREATE FUNCTION shown(i int) RETURNS boolean LANGUAGE plpgsql AS \
         $$ BEGIN RETURN i > 0; END $$",
    );
    let sent = "SELECT pg_sleep(0.1) FROM parent WHERE id = 1 + # % 100 AND shown(id)";
    let workers: Vec<Worker> = (0..4).map(|_| app(&server, sent)).collect();
    let observed = observed(&server, look);
    workers.into_iter().for_each(Worker::end);
    let plan = plan(&observed, "parent");
    assert!(!plan.logged);
    assert_eq!(plan.root.relation.as_deref(), Some("public.parent"));
    let relation = &plan.relations["public.parent"];
    assert_eq!(
        (relation.rows, &*relation.indexes[0].name),
        (Some(100.0), "public.parent_pkey")
    );
    assert_eq!(relation.referenced_by[0].table, "public.child");
    assert!(!relation.referenced_by[0].indexed);
    assert!(plan.functions.values().eq(["plpgsql"]), "{plan:#?}");
    // A rule that is written after the run reads what no field names today.
    let recorded = serde_json::to_string(plan).unwrap();
    let read: Plan = serde_json::from_str(&recorded).unwrap();
    assert!(read.root.other["Startup Cost"].is_number(), "{recorded}");
}

/// Sent together with others a statement can't be explained by a guest: the log has the plan, and what came.
#[test]
fn a_plan_that_auto_explain_logged_is_read_from_the_log() {
    let settings = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_analyze", "on"),
        ("auto_explain.log_timing", "off"),
    ];
    let server = Server::start(HBA, &settings, |_| {});
    server.run("CREATE TABLE pairs AS SELECT i AS a, i % 2 AS b FROM generate_series(1, 10) i");
    server.run("ANALYZE pairs");
    let sent = "SELECT #; SELECT count(*), pg_sleep(0.1) FROM pairs WHERE a < 8 AND b = 1";
    let workers: Vec<Worker> = (0..4).map(|_| app(&server, sent)).collect();
    let observed = observed(&server, look);
    workers.into_iter().for_each(Worker::end);
    let plan = plan(&observed, "pairs");
    assert!(plan.logged);
    let scan = &plan.root.nodes[0];
    assert_eq!(
        scan.filter().unwrap().to_string(),
        "((a < $1) AND (b = $2))"
    );
    assert_eq!(scan.actual_rows, Some(4.0));
}

/// What `pgassay watch` says of a server while a session sends this statement.
fn watched(server: &Server, worker: Worker) -> Value {
    let socket = server.socket_dir.display();
    let uri = format!(
        "host={socket} port={} user={OWNER} dbname=postgres",
        server.port
    );
    let words = ["watch", &uri, "--time", "2", "--count", "1", "--json"];
    let (exit, out, err) = pgassay(&words);
    worker.end();
    assert_eq!(exit, Exit::Done, "{err}");
    let seen: Value = serde_json::from_str(&out).unwrap();
    validate(&seen);
    seen
}

/// A text that somebody else wrote is one statement or none, and is not planned where planning
/// could run its author's functions as us.
#[test]
fn a_strangers_statement_runs_nothing_as_us() {
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
    let mut stranger = server.owner();
    stranger.user = "app".to_owned();
    let mut session = connect(&stranger).unwrap();
    session
        .execute(
            "CREATE FUNCTION harmless() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN \
             IF current_user <> 'app' THEN RAISE 'planned as %', current_user; END IF; \
             PERFORM pg_sleep(0.05); RETURN 1; END $$",
        )
        .unwrap();
    let seen = watched(&server, Worker::start(session, "SELECT harmless()"));
    let statements = &seen["observed"]["points"][0]["statements"]["statements"];
    let why = statements[0]["no_plan"].as_str().unwrap();
    assert!(why.contains("statement of role app"), "{statements:#}");
    assert!(!server.log().contains("planned as"), "{}", server.log());
}

/// No transaction that was watched got a number of its own, and no object was made.
#[test]
fn watching_writes_nothing() {
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
    let seen = watched(&server, app(&server, "SELECT pg_sleep(0.2)"));
    assert_eq!(state(), before);
    assert_eq!(seen["observed"]["points"][0]["own_load"], true);
    let (exit, _, err) = pgassay(&["watch", "temp"]);
    assert!(
        exit != Exit::Done && err.contains("running server"),
        "{err}"
    );
}
