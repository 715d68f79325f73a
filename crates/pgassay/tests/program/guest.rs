//! Load on a server that somebody else runs: what is set, made and left there when sessions end.

use crate::exit_codes::limited;
use crate::pg_support::{OWNER, Server};
use crate::runs::{Runs, text};
use pgassay_pgwire::connect;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

/// One client for one short trial.
const SHORT: &[&str] = &[
    "--clients",
    "1",
    "--trials",
    "1",
    "--time",
    "0.2",
    "--scale",
    "1",
];

struct Visit {
    server: Server,
    runs: Runs,
}

impl Visit {
    fn to(name: &str, settings: &[(&str, &str)]) -> Self {
        Self {
            server: Server::start(HBA, settings, |_| {}),
            runs: Runs::new(name),
        }
    }

    fn uri(&self) -> String {
        let dir = self.server.socket_dir.display();
        format!(
            "host={dir} port={} user={OWNER} dbname=postgres",
            self.server.port
        )
    }

    /// A run of select-only with load: its exit code and what it said.
    fn load(&self, more: &[&str]) -> (Option<i32>, String) {
        let uri = self.uri();
        let mut args = vec!["run", "select-only", &uri, "--load"];
        args.extend(SHORT.iter().chain(more));
        let output = self.runs.run(&args);
        (output.status.code(), text(&output.stderr))
    }

    fn schemas(&self) -> String {
        let mut session = connect(&self.server.owner()).expect("connect");
        let names = session.value(
            "SELECT coalesce(string_agg(nspname, ' '), '') FROM pg_namespace \
             WHERE nspname LIKE 'pgassay%'",
        );
        names.expect("query").expect("a text")
    }

    /// Has the server end each session of pgassay at this kind of command.
    fn end_sessions_at(&self, command: &str) {
        self.server.run(&format!(
            "CREATE FUNCTION public.ends() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
               PERFORM pg_terminate_backend(pg_backend_pid()) \
               WHERE current_setting('application_name') IN ('pgassay', 'pgassay observer'); END $$; \
             CREATE EVENT TRIGGER ends ON ddl_command_start WHEN TAG IN ('{command}') \
               EXECUTE FUNCTION public.ends()"
        ));
    }
}

/// A disk that is full when the names of functions are written down: the run fails, and what it made
/// in the server is removed all the same.
#[test]
fn what_cannot_be_written_down_leaves_nothing_in_the_server() {
    let visit = Visit::to("unwritten", &[]);
    let uri = visit.uri();
    let words = [
        "run",
        "select-only",
        &uri,
        "--load",
        "--observe",
        "all",
        "--clients",
        "1",
        "--trials",
        "2",
        "--time",
        "1",
        "--scale",
        "1",
    ];
    let running = visit.runs.start(&words);
    // Nothing can be renamed over a directory.
    let facts = visit.runs.await_trials(1).join("facts");
    std::fs::create_dir_all(facts.join("symbols-0.json")).unwrap();
    let output = running.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("symbols-0"), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
}

/// Attack A6: SIGXFSZ ended the program without a word.
#[test]
fn a_limit_on_the_size_of_files_leaves_a_partial_run() {
    let visit = Visit::to("guest-limit", &[]);
    let uri = visit.uri();
    let run = |limit: &str, trials: &str| {
        let words = [
            "run",
            "select-only",
            &uri,
            "--load",
            "--clients",
            "1",
            "--warmup",
            "0",
            "--scale",
            "1",
        ];
        let output = limited(&visit.runs, &format!("-f {limit}"))
            .args(words)
            .args(["--time", "0.1", "--trials", trials])
            .output()
            .unwrap();
        (output.status.code(), text(&output.stderr))
    };
    // Blocks of 512 bytes: room for the facts and some of the trials, of about 13 kB each.
    let (exit, said) = run("200", "20");
    assert_eq!(exit, Some(4), "{said}");
    assert!(said.contains("(ulimit -f) is reached"), "{said}");
    assert!(said.contains("trials.jsonl"), "{said}");
    assert!(said.contains("what was measured before is whole"), "{said}");
    let kept = std::fs::read_to_string(visit.runs.await_trials(1).join("trials.jsonl")).unwrap();
    let whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert!(kept.ends_with('\n') && kept.lines().all(whole));
    assert_eq!(visit.schemas(), "", "{said}");
    let (exit, said) = run("0", "1");
    assert_eq!(exit, Some(4), "{said}");
    assert!(said.contains("(ulimit -f) is reached"), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
}

/// Attack D8: the schema was made before its comment, in a transaction of its own; a pgassay that
/// ended in between left a schema that no later run dared to remove.
#[test]
fn a_schema_is_never_without_its_comment() {
    let visit = Visit::to("guest-comment", &[]);
    visit.end_sessions_at("COMMENT");
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("terminating connection"), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
    visit.server.run("DROP EVENT TRIGGER ends");
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
}

/// Attack D8: where only pgassay's session was ended while the tables were made, they stayed.
#[test]
fn what_a_lost_session_made_is_removed_by_another() {
    let visit = Visit::to("guest-lost", &[]);
    visit.end_sessions_at("ALTER TABLE");
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("terminating connection"), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
}

/// Attack D8: where it could not be removed, nothing said so.
#[test]
fn what_stays_is_said() {
    let visit = Visit::to("guest-stays", &[]);
    visit.end_sessions_at("ALTER TABLE");
    visit.server.run(
        "CREATE FUNCTION public.keeps() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
           RAISE 'kept by order'; END $$; \
         CREATE EVENT TRIGGER keeps ON ddl_command_start WHEN TAG IN ('DROP TABLE') \
           EXECUTE FUNCTION public.keeps()",
    );
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(3), "{said}");
    for part in ["still there", "kept by order", "DROP SCHEMA pgassay"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(visit.schemas(), "pgassay");
    visit
        .server
        .run("DROP EVENT TRIGGER keeps; DROP EVENT TRIGGER ends");
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("a killed run had left"), "{said}");
    assert_eq!(visit.schemas(), "");
}

/// Attack D8: an empty schema without a comment, left by an earlier pgassay, was a stranger's.
#[test]
fn an_empty_schema_of_our_role_is_explained() {
    let visit = Visit::to("guest-empty", &[]);
    visit.server.run("CREATE SCHEMA pgassay");
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("empty schema `pgassay`"), "{said}");
    assert!(said.contains("DROP SCHEMA pgassay"), "{said}");
    visit.server.run("CREATE TABLE pgassay.theirs (i int)");
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("did not make"), "{said}");
    assert_eq!(visit.schemas(), "pgassay");
}

/// Attack D3: what was set by SET stayed in connections that a pooler hands on.
#[test]
fn nothing_is_set_beyond_a_transaction() {
    let visit = Visit::to("guest-set", &[("log_statement", "all")]);
    let uri = visit.uri();
    let tpcb = [&["run", "tpcb-like", &uri, "--load"], SHORT].concat();
    let compare = [
        "compare",
        &uri,
        &uri,
        "--load",
        "--clients",
        "1",
        "--slice",
        "0.1",
    ];
    let few = ["--scale", "1", "--pairs", "5", "--noise-pairs", "2"];
    for args in [tpcb, [&compare[..], &few].concat()] {
        let output = visit.runs.run(&args);
        assert!(
            !matches!(output.status.code(), None | Some(2 | 3 | 70)),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
    let log = visit.server.log();
    let statements = || {
        log.split("statement: ")
            .skip(1)
            .flat_map(|rest| rest.split([';', '\n']))
            .map(str::trim_start)
    };
    assert!(statements().any(|one| one.starts_with("CREATE SCHEMA pgassay")));
    assert!(statements().any(|one| one.starts_with("SET LOCAL ")));
    let kept: Vec<&str> = statements()
        .filter(|one| one.starts_with("SET ") && !one.starts_with("SET LOCAL "))
        .collect();
    assert!(kept.is_empty(), "{kept:?}");
    assert_eq!(visit.schemas(), "");
}

/// Attack D14: a role's idle_session_timeout shorter than a trial ended the control session, with
/// exit 70, and the schema stayed.
#[test]
fn a_short_idle_session_timeout_ends_nothing() {
    let visit = Visit::to("guest-idle", &[]);
    visit.server.run(&format!(
        "ALTER ROLE {OWNER} SET idle_session_timeout = '300ms'"
    ));
    let uri = visit.uri();
    let more = [
        "--clients",
        "1",
        "--trials",
        "2",
        "--time",
        "1.5",
        "--scale",
        "1",
    ];
    let args = [
        &["run", "select-only", &uri, "--load", "--observe", "none"][..],
        &more,
    ]
    .concat();
    let output = visit.runs.run(&args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
}

/// Attack D14: what a role or an administrator does to a session was called a fault of pgassay.
#[test]
fn what_a_server_refuses_is_no_fault_of_ours() {
    let visit = Visit::to("guest-refused", &[]);
    // What makes a table takes longer for certain.
    visit.server.run(&format!(
        "CREATE FUNCTION public.waits() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
           PERFORM pg_sleep(60); END $$; \
         CREATE EVENT TRIGGER waits ON ddl_command_start WHEN TAG IN ('CREATE TABLE') \
           EXECUTE FUNCTION public.waits(); \
         ALTER ROLE {OWNER} SET statement_timeout = '2s'"
    ));
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("statement_timeout"), "{said}");
    visit.server.run(&format!(
        "DROP EVENT TRIGGER waits; ALTER ROLE {OWNER} RESET statement_timeout"
    ));

    // A view on the tables that a killed run left.
    visit.server.run(
        "CREATE SCHEMA pgassay; CREATE TABLE pgassay.t (i int); \
         CREATE VIEW public.theirs AS SELECT i FROM pgassay.t; \
         DO $$ BEGIN EXECUTE format('COMMENT ON SCHEMA pgassay IS %L', \
           format('made by pgassay; schema %s; tables %s', 'pgassay'::regnamespace::oid, \
                  'pgassay.t'::regclass::oid)); END $$",
    );
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("view theirs depends on"), "{said}");
    assert!(said.contains("move or drop"), "{said}");
}

/// Attack D14: the reason for which a session was ended was lost, and it was called a fault.
#[test]
fn a_session_that_is_ended_says_why() {
    let visit = Visit::to("guest-ended", &[]);
    let uri = visit.uri();
    let more = [
        "--clients",
        "1",
        "--trials",
        "40",
        "--time",
        "0.3",
        "--scale",
        "1",
    ];
    let args = [
        &[
            "run",
            "select-only",
            &uri,
            "--load",
            "--observe",
            "none",
            "--verbose",
        ][..],
        &more,
    ]
    .concat();
    let child = visit.runs.start(&args);
    visit.runs.await_trials(2);
    visit.server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgassay load'",
    );
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr) + &text(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("terminating connection"), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
}

/// Attack D14: with a CONNECTION LIMIT the error was an unrelated warning, and a run that left out
/// half of its points was complete.
#[test]
fn points_that_are_left_out_make_a_run_partial() {
    let visit = Visit::to("guest-limit", &[]);
    visit
        .server
        .run("CREATE ROLE few LOGIN CONNECTION LIMIT 3; GRANT CREATE ON DATABASE postgres TO few");
    let uri = visit.uri().replace(OWNER, "few");
    let run = |clients: &str| {
        let short = [
            "--trials",
            "2",
            "--time",
            "0.2",
            "--scale",
            "1",
            "--observe",
            "none",
        ];
        let args = ["run", "select-only", &uri, "--load", "--clients", clients];
        let output = visit.runs.run(&[&args[..], &short].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (exit, said) = run("8");
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("too many connections for role"), "{said}");
    let (exit, said) = run("1,8");
    assert_eq!(exit, Some(4), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
}

/// A script finds the tables that the user's own sessions find, in whatever schema.
#[test]
fn a_script_finds_the_users_tables() {
    let visit = Visit::to("guest-script", &[]);
    visit.server.run(
        "CREATE SCHEMA \"odd schema\"; CREATE TABLE \"odd schema\".mine AS SELECT 1 AS n; \
         CREATE TABLE public.theirs AS SELECT 1 AS n; \
         CREATE ROLE visitor LOGIN; ALTER ROLE visitor SET search_path = \"odd schema\", public; \
         GRANT CREATE ON DATABASE postgres TO visitor; \
         GRANT USAGE ON SCHEMA \"odd schema\" TO visitor; \
         GRANT SELECT ON \"odd schema\".mine, public.theirs TO visitor",
    );
    std::fs::create_dir_all(&visit.runs.0).expect("a directory");
    let script = visit.runs.0.join("mine.sql");
    let statement = "SELECT m.n FROM mine m, theirs t, pgbench_branches b WHERE b.bid = 1;\n";
    std::fs::write(&script, statement).expect("a script");
    let uri = visit.uri().replace(OWNER, "visitor");
    let script = script.to_str().expect("a name");
    let args = ["run", script, &uri, "--load", "--json"];
    let output = visit.runs.run(&[&args[..], SHORT].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let point = &json["stages"][0]["arms"][0]["points"][0];
    let tps = point["throughput_tps"]["estimate"].as_f64();
    assert!(tps.is_some_and(|tps| tps > 0.0), "{point}");
    assert_eq!(
        point["failures"].as_array().map(Vec::len),
        Some(0),
        "{point}"
    );
    assert_eq!(visit.schemas(), "", "{said}");
}

/// A file that reads one of our tables may still write into one of the user's: only on a copy, and
/// whatever a recorded run says of itself.
#[test]
fn a_script_that_writes_into_the_users_tables_is_for_copies() {
    let visit = Visit::to("guest-writes", &[]);
    visit
        .server
        .run("CREATE TABLE orders AS SELECT 1 AS id, 0 AS total");
    let total = || {
        let mut session = connect(&visit.server.owner()).expect("connect");
        let total = session
            .value("SELECT max(total) FROM orders")
            .expect("query");
        total.expect("a row")
    };
    std::fs::create_dir_all(&visit.runs.0).expect("a directory");
    let uri = visit.uri();
    let run = |words: &[&str]| {
        let output = visit.runs.run(&[words, SHORT].concat());
        (output.status.code(), text(&output.stderr))
    };
    let script = visit.runs.0.join("mixed.sql");
    let reads = "SELECT abalance FROM pgbench_accounts WHERE aid = 1;\n";
    for head in ["", "-- @setup CREATE TABLE mine (i int)\n"] {
        let text = format!("{head}{reads}UPDATE orders SET total = total + 1 WHERE id = 1;\n");
        std::fs::write(&script, text).expect("a script");
        let (exit, said) = run(&["run", script.to_str().expect("a name"), &uri, "--load"]);
        assert_eq!(exit, Some(2), "{said}");
        assert!(
            said.contains("UPDATE orders") && said.contains("--is-copy"),
            "{said}"
        );
    }
    assert_eq!((total().as_str(), visit.schemas().as_str()), ("0", ""));

    // What is written to our tables and those of the set-up is not theirs.
    let ours = "-- @setup CREATE TABLE mine (i int)\n\
         UPDATE pgbench_accounts SET abalance = 1 WHERE aid = 1;\nINSERT INTO mine VALUES (1);\n";
    std::fs::write(&script, ours).expect("a script");
    let name = script.to_str().expect("a name");
    let (exit, said) = run(&["run", name, &uri, "--load"]);
    assert_eq!(exit, Some(0), "{said}");

    let dirs = std::fs::read_dir(&visit.runs.0).expect("runs");
    let mut headers = dirs.map(|dir| dir.expect("a run").path().join("run.json"));
    let header = headers.find(|file| file.exists()).expect("a header");
    let recorded = std::fs::read_to_string(&header).expect("a header");
    let mut forged: serde_json::Value = serde_json::from_str(&recorded).expect("JSON");
    let workload = &mut forged["experiment"]["stages"][0]["workload"];
    assert_eq!(workload["writes"], true, "{workload}");
    workload["writes"] = false.into();
    workload["scripts"][0]["text"] =
        format!("{reads}UPDATE orders SET total = total + 1 WHERE id = 1;\n").into();
    std::fs::write(&header, forged.to_string()).expect("a header");
    let dir = header
        .parent()
        .and_then(|dir| dir.to_str())
        .expect("a name");
    let (exit, said) = {
        let output = visit.runs.run(&["run", "--repeat", dir]);
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(exit, Some(2), "{said}");
    assert!(
        said.contains("UPDATE orders") && said.contains("--is-copy"),
        "{said}"
    );
    assert_eq!((total().as_str(), visit.schemas().as_str()), ("0", ""));
}

#[test]
fn a_function_that_writes_is_not_called_in_somebodys_database() {
    let visit = Visit::to("guest-functions", &[]);
    for sql in [
        "CREATE TABLE orders AS SELECT 1 AS id, 0 AS total",
        "CREATE FUNCTION pay() RETURNS int LANGUAGE sql AS 'UPDATE orders SET total = total + 1 RETURNING total'",
    ] {
        visit.server.run(sql);
    }
    let total = || {
        let mut session = connect(&visit.server.owner()).expect("connect");
        let total = session.value("SELECT max(total) FROM orders");
        total
            .expect("query")
            .expect("a row")
            .parse::<u64>()
            .expect("a number")
    };
    std::fs::create_dir_all(&visit.runs.0).expect("a directory");
    let script = visit.runs.0.join("pays.sql");
    std::fs::write(&script, "-- @without-pgbench-tables\nSELECT pay();\n").expect("a script");
    let uri = visit.uri();
    let name = script.to_str().expect("a name");
    let run = |more: &[&str]| {
        let words = ["run", name, &uri, "--load"];
        let output = visit.runs.run(&[&words, more, SHORT].concat());
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let (exit, said) = run(&[]);
    assert_ne!(exit, Some(0), "{said}");
    assert!(
        said.contains("25006") && said.contains("--is-copy"),
        "{said}"
    );
    assert_eq!((total(), visit.schemas().as_str()), (0, ""));
    // Of a copy it is known that it may.
    let (exit, said) = run(&["--is-copy"]);
    assert_eq!(exit, Some(0), "{said}");
    assert!(total() > 0);
}

/// The first CREATE would have waited for ever.
#[test]
fn a_server_that_waits_for_a_lost_standby_is_not_loaded() {
    let visit = Visit::to("guest-standby", &[]);
    visit
        .server
        .run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    visit.server.run("SELECT pg_reload_conf()");
    // the postmaster hands it to sessions that begin after it has read it
    let in_force = || {
        let mut session = connect(&visit.server.owner()).expect("connect");
        let value = session.value("SHOW synchronous_standby_names");
        value.expect("query").as_deref() == Some("nobody")
    };
    let soon = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        in_force()
    });
    assert!(soon, "the setting is not in force");
    let (exit, said) = visit.load(&[]);
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("synchronous_standby_names"), "{said}");
    assert_eq!(visit.schemas(), "", "{said}");
}

/// A look without load named huge pages first, on a server whose application filled its CPUs.
#[test]
fn a_server_that_its_application_saturates_is_told_so_first() {
    let visit = Visit::to("guest-saturated", &[]);
    let running = Arc::new(AtomicBool::new(true));
    let cpus = thread::available_parallelism().map_or(2, usize::from);
    let application: Vec<_> = (0..4 * cpus)
        .map(|_| {
            let (owner, running) = (visit.server.owner(), Arc::clone(&running));
            thread::spawn(move || {
                let mut session = connect(&owner).unwrap();
                while running.load(Ordering::Relaxed) {
                    let busy = "SELECT count(*) FROM generate_series(1, 200000)";
                    session.value(busy).unwrap();
                }
            })
        })
        .collect();
    let output = visit.runs.run(&["assay", &visit.uri(), "--json"]);
    running.store(false, Ordering::Relaxed);
    for session in application {
        session.join().unwrap();
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let analysis: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // The cluster of the tests runs without fsync, which stands before everything.
    let causes = analysis["causes"].as_array().unwrap().iter();
    let mut causes = causes.map(|c| c["id"].as_str().unwrap());
    let first = causes.find(|id| *id != "fsync-off");
    // Whatever else runs on this machine may take more than this server.
    let told = ["cpu-saturated", "cpu-others"];
    assert!(told.contains(&first.unwrap()), "{}", analysis["causes"]);
    let headline = analysis["headline"].to_string();
    let told = ["The CPUs are saturated", "Other programs keep"];
    assert!(told.iter().any(|t| headline.contains(t)), "{headline}");
}

/// Attack, terminate: a comparison whose server was stopped did not say that its schema was left.
#[test]
fn a_comparison_says_what_it_leaves_on_a_stopped_server() {
    let visit = Visit::to("guest-compared", &[]);
    let uri = visit.uri();
    let more = [
        "--load",
        "--pairs",
        "200",
        "--noise-pairs",
        "4",
        "--slice",
        "0.2",
        "--scale",
        "1",
        "--clients",
        "1",
    ];
    let child = visit
        .runs
        .start(&[&["compare", &uri, &uri][..], &more].concat());
    visit.runs.await_trials(2);
    visit.server.signal(rustix::process::Signal::INT); // a fast shutdown
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert!(said.contains("the schema pgassay is still there"), "{said}");
}

/// What the catalogues tell of a schema, on a real server.
#[test]
fn a_neglected_schema_is_seen() {
    let visit = Visit::to("guest-schema", &[("autovacuum", "off")]);
    visit.server.run(
        "CREATE TABLE parent (a int, b int, PRIMARY KEY (a, b)); \
         INSERT INTO parent SELECT i, i FROM generate_series(1, 1000) i; \
         CREATE TABLE child (x int, b int, a int, note text, FOREIGN KEY (a, b) REFERENCES parent); \
         CREATE TABLE fine (b int, a int, FOREIGN KEY (a, b) REFERENCES parent); \
         CREATE INDEX ON fine (b, a); \
         INSERT INTO child SELECT i, i % 1000 + 1, i % 1000 + 1, repeat('x', 400) \
           FROM generate_series(1, 30000) i; \
         CREATE TABLE jobs (i int); ALTER TABLE jobs SET (autovacuum_enabled = off); \
         INSERT INTO jobs SELECT generate_series(1, 30000); DELETE FROM jobs",
    );
    let mut session = connect(&visit.server.owner()).expect("connect");
    // It fails on the first key that occurs twice, and leaves the index behind.
    let twice = "CREATE UNIQUE INDEX CONCURRENTLY once ON child (b)";
    assert!(session.execute(twice).is_err());
    drop(session);
    let output = visit.runs.run(&["check", &visit.uri(), "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap();
    let saw = |id: &str| {
        let result = results.iter().find(|r| r["id"] == id);
        result
            .unwrap_or_else(|| panic!("{id}: {results:#?}"))
            .to_string()
    };
    let index = saw("invalid-index");
    assert!(index.contains("public.once on public.child"), "{index}");
    let keys = saw("foreign-key-unindexed");
    assert!(
        keys.contains("public.child (a, b) to public.parent"),
        "{keys}"
    );
    assert!(!keys.contains("fine"), "{keys}");
    let dead = saw("autovacuum-behind");
    assert!(dead.contains("public.jobs (30000 dead of 30000"), "{dead}");
}
