//! A role without privileges whose statements, views, types and casts run its code with the privileges of whoever plans or casts
//! them: no command may do that on a running server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use pgassay_pgwire::connect;
use serde_json::Value;

use crate::own_workload::{Folder, HBA, pgassay};
use crate::pg_support::{OWNER, Server};

/// What the role sends all the time. Planning it evaluates table_to_xml, which is STABLE, and so the role's view.
const SENT: &str = "SELECT count(*), pg_sleep(0.05) FROM theirs.t WHERE x = table_to_xml('theirs.v', true, false, '')::text";
/// What other roles send all the time.
const OURS: &str = "SELECT count(*), pg_sleep(0.05) FROM own WHERE id < 7";

struct Visited {
    server: Server,
    /// What the role's code writes, with the server's account, if a superuser runs it.
    stolen: PathBuf,
    folder: Folder,
}

impl Visited {
    fn new() -> Self {
        let settings = [("shared_preload_libraries", "pg_stat_statements")];
        let server = Server::start(HBA, &settings, |_| {});
        let stolen = server.dir.join("stolen");
        let file = stolen.display();
        server.run("CREATE EXTENSION pg_stat_statements");
        server.run("CREATE DATABASE other");
        server.run("CREATE ROLE evil LOGIN; CREATE SCHEMA theirs AUTHORIZATION evil");
        server.run("CREATE TABLE own AS SELECT g AS id FROM generate_series(1, 1000) g");
        server.run("CREATE ROLE app LOGIN; GRANT SELECT ON own TO app");
        server.run("SELECT lo_from_bytea(4711, 'stolen')");
        let steal = format!("lo_export(4711, '{file}')");
        let mut evil = connect(&as_role(&server, "evil")).unwrap();
        for sql in [
            "CREATE TABLE theirs.t (x text)".to_owned(),
            "INSERT INTO theirs.t SELECT g FROM generate_series(1, 100) g".to_owned(),
            format!(
                "CREATE VIEW theirs.v AS SELECT query_to_xml(CASE WHEN current_user = 'evil' THEN 'select 1' \
                 ELSE 'select {}' END, true, false, '')",
                steal.replace('\'', "''")
            ),
            "CREATE TYPE theirs.mood AS ENUM ('sad', 'glad')".to_owned(),
            format!(
                "CREATE FUNCTION theirs.told(theirs.mood) RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
                 IF current_user <> 'evil' THEN PERFORM {steal}; END IF; RETURN enum_out($1); END $$"
            ),
            format!(
                "CREATE FUNCTION theirs.read(text) RETURNS theirs.mood LANGUAGE plpgsql AS $$ BEGIN \
                 IF current_user <> 'evil' THEN PERFORM {steal}; END IF; \
                 RETURN CASE $1 WHEN 'sad' THEN 'sad' ELSE 'glad' END; END $$"
            ),
            "CREATE CAST (theirs.mood AS text) WITH FUNCTION theirs.told(theirs.mood)".to_owned(),
            "CREATE CAST (text AS theirs.mood) WITH FUNCTION theirs.read(text)".to_owned(),
            "CREATE TABLE theirs.felt AS SELECT CASE g % 3 WHEN 0 THEN 'sad'::theirs.mood ELSE 'glad' END AS mood \
             FROM generate_series(1, 300) g".to_owned(),
            "ANALYZE theirs.felt".to_owned(),
        ] {
            evil.execute(&sql).expect(&sql);
        }
        let folder = Folder::new("malicious");
        Self {
            server,
            stolen,
            folder,
        }
    }

    fn target(&self, role: &str, database: &str) -> String {
        let (dir, port) = (self.server.socket_dir.display(), self.server.port);
        format!("host={dir} port={port} user={role} dbname={database}")
    }

    /// The program's JSON, after it has run to its end. The code of the role has not run.
    fn answer(&self, words: &[&str]) -> Value {
        let output = pgassay(words, &self.folder.0);
        assert!(!self.stolen.exists(), "{words:?}: {output:?}");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"))
    }

    /// What `watch` says of the two statements, the role's and ours, and what it says that it did not see.
    fn watched(&self, role: &str) -> (Value, Value, String) {
        let target = self.target(role, "postgres");
        let seen = self.answer(&["watch", &target, "--time", "2", "--count", "1", "--json"]);
        let statements = seen["observed"]["points"][0]["statements"]["statements"]
            .as_array()
            .unwrap_or_else(|| panic!("{seen:#}"));
        let find = |words: &str| {
            let of = |one: &&Value| one["text"].to_string().to_lowercase().contains(words);
            statements.iter().find(of).cloned().unwrap_or_default()
        };
        let not_seen = seen["diagnosis"]["not_seen"].to_string();
        (find("table_to_xml"), find("from own"), not_seen)
    }
}

fn as_role(server: &Server, role: &str) -> pgassay_pgwire::Conninfo {
    let mut conninfo = server.owner();
    conninfo.user = role.to_owned();
    conninfo
}

/// Sessions that send a statement all the time.
struct Sessions {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Sessions {
    fn start(server: &Server, of: &[(&str, &str, &str)]) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let threads = of.iter().map(|(role, application, sql)| {
            let conninfo = as_role(server, role).with_application_name(application);
            let mut session = connect(&conninfo).unwrap();
            let (asked, sql) = (Arc::clone(&ended), (*sql).to_owned());
            thread::spawn(move || {
                while !asked.load(Ordering::Relaxed) {
                    session.execute(&sql).unwrap();
                }
            })
        });
        let threads = threads.collect();
        Self { ended, threads }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(thread::panicking() || ended.is_ok());
        }
    }
}

/// What a run's trials recorded of the plans of statements.
fn recorded(runs: &Path) -> String {
    let runs = fs::read_dir(runs).unwrap().flatten();
    let trials =
        runs.map(|run| fs::read_to_string(run.path().join("trials.jsonl")).unwrap_or_default());
    trials.collect()
}

#[test]
fn no_command_runs_the_code_of_a_role_without_privileges() {
    let visited = Visited::new();
    let server = &visited.server;
    // The attack works: planning the statement as a superuser runs the role's code.
    server.run(&format!("EXPLAIN {SENT}"));
    assert!(visited.stolen.exists());
    fs::remove_file(&visited.stolen).unwrap();
    for sql in ["told('sad')", "read('sad')"] {
        server.run(&format!("SELECT theirs.{sql}"));
        assert!(visited.stolen.exists(), "{sql}");
        fs::remove_file(&visited.stolen).unwrap();
    }

    // One of the role's sessions pretends to be of a load of ours.
    let sessions = Sessions::start(
        server,
        &[
            ("evil", "app", SENT),
            ("evil", "pgassay load", SENT),
            (OWNER, "app", OURS),
            ("app", "app", OURS),
        ],
    );
    let refused = "statement of role evil is not planned: pgassay plans only statements of its own role, owner; \
                   connect as that role (user=evil)";
    let (theirs, ours, not_seen) = visited.watched(OWNER);
    assert!(
        theirs["no_plan"].as_str().unwrap().contains(refused),
        "{theirs:#}"
    );
    assert!(not_seen.contains(refused), "{not_seen}");
    // Ours may have been sent with another search path, or by SET ROLE.
    let planted = "role evil owns objects in this database";
    let why = ours["no_plan"].as_str().unwrap();
    assert!(why.contains(planted), "{ours:#}");
    // A role without privileges over others plans its own.
    let (_, ours, _) = visited.watched("app");
    assert_eq!(ours["plan"]["root"]["type"], "Aggregate", "{ours:#}");
    // As that role its statement is planned, and ours is not.
    let (theirs, ours, not_seen) = visited.watched("evil");
    assert!(theirs["plan"].is_object(), "{theirs:#}");
    assert!(
        ours.is_null() && !not_seen.contains("not planned"),
        "{ours:#} {not_seen}"
    );

    let (here, there) = (
        visited.target(OWNER, "postgres"),
        visited.target(OWNER, "other"),
    );
    let short = "--load --observe waits --clients 1 --scale 1 --warmup 0 --json";
    let runs = visited.folder.0.join("runs");
    let runs_there = ["--runs", runs.to_str().unwrap()];
    for (command, more) in [
        (vec!["run", "select-only", &here], "--trials 1 --time 1"),
        (vec!["assay", &here], "--trials 1 --time 1"),
        (
            vec!["compare", &here, &there],
            "--pairs 2 --noise-pairs 2 --slice 1",
        ),
    ] {
        let mut words = command.clone();
        words.extend(short.split(' ').chain(more.split(' ')).chain(runs_there));
        visited.answer(&words);
        let trials = recorded(&runs);
        assert!(
            trials.contains("statement of role evil is not planned"),
            "{words:?}: {trials}"
        );
        if command[0] == "run" {
            visited.answer(&["diagnose", "last", runs_there[0], runs_there[1], "--json"]);
        }
        fs::remove_dir_all(&runs).unwrap();
    }
    visited.answer(&["check", &here, "--json"]);

    server.run("SELECT count(*) FROM theirs.felt WHERE mood = 'sad'");
    let from_statements = |target: &str| {
        let words = [
            "workload",
            "from-statements",
            target,
            "--to",
            "counted.sql",
            "--json",
            "--force",
        ];
        let output = pgassay(&words, &visited.folder.0);
        assert!(!visited.stolen.exists(), "{output:?}");
        format!("{output:?}")
    };
    let said = from_statements(&here);
    assert!(!said.contains("table_to_xml"), "{said}");
    let said = from_statements(&visited.target("app", "postgres"));
    assert!(said.contains("FROM own"), "{said}");
    // A load of ours that takes a role on is not planned with the privileges that it gave up.
    let script = visited.folder.0.join("role.sql");
    let text = format!("BEGIN;\nSET LOCAL ROLE evil;\n{SENT};\nCOMMIT;\n");
    fs::write(&script, text).unwrap();
    let script = script.to_str().unwrap();
    let words = "--load --observe waits --clients 1 --warmup 0 --trials 1 --time 1 --json";
    let words: Vec<&str> = ["run", script, &here]
        .into_iter()
        .chain(words.split(' '))
        .collect();
    let words = [&words[..], &runs_there].concat();
    visited.answer(&words);
    let taken = pgassay(
        &["workload", "statistics", &here, "--to", "statistics"],
        &visited.folder.0,
    );
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    assert!(!visited.stolen.exists());
    drop(sessions);

    // What a statement names could be the role's, where it can create objects in the search path, or has. A schema of the
    // role that is called as ours is in no search path.
    server.run("GRANT CREATE ON SCHEMA public TO evil; GRANT CREATE ON DATABASE postgres TO evil");
    let mut evil = connect(&as_role(server, "evil")).unwrap();
    evil.execute(
        "CREATE SCHEMA pgassay; GRANT USAGE ON SCHEMA pgassay TO PUBLIC; \
         CREATE VIEW pgassay.own AS SELECT g AS id FROM generate_series(1, 9) g; GRANT SELECT ON pgassay.own TO PUBLIC",
    )
    .unwrap();
    let _sessions = Sessions::start(server, &[(OWNER, "app", OURS), ("app", "app", OURS)]);
    let (_, ours, not_seen) = visited.watched(OWNER);
    let why = "role evil can create objects in schema public";
    assert!(ours["no_plan"].as_str().unwrap().contains(why), "{ours:#}");
    assert!(not_seen.contains(why), "{not_seen}");
    let (_, ours, _) = visited.watched("app");
    assert!(
        ours["plan"]["relations"]["public.own"].is_object(),
        "{ours:#}"
    );
    evil.execute("CREATE VIEW public.planted AS SELECT 1 AS id")
        .unwrap();
    let (_, ours, _) = visited.watched("app");
    let why = "role evil owns objects in schema public";
    assert!(ours["no_plan"].as_str().unwrap().contains(why), "{ours:#}");
}
