//! Every question that pgassay puts to a running server is understood by old and new releases: none fails on any of them. The
//! servers' logs say what failed, so that a new question is held against all of them, too.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pgassay_pgwire::{Conninfo, Session, connect};
use pgassay_server::scratch::Scratch;
use pgassay_server::{Cluster, LaunchOptions, TargetSpec};
use serde_json::Value;

use crate::own_workload::{Folder, HBA, pgassay};
use crate::pg_support::Server;

/// Objects of each kind that is asked about.
const SCHEMA: &[&str] = &[
    "CREATE FUNCTION fits(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN $1 > 0; END $$",
    "CREATE FUNCTION some_rows(n int) RETURNS SETOF int LANGUAGE sql STABLE SET work_mem = '1MB' AS \
     $$ SELECT generate_series(1, n) $$",
    "CREATE TABLE customer (id int PRIMARY KEY, name text)",
    "CREATE TABLE sale (id int PRIMARY KEY, customer int REFERENCES customer, note text COLLATE \"C\", n int, wide text, \
     at timestamptz DEFAULT now(), span int4range, UNIQUE (id, n) DEFERRABLE, EXCLUDE USING gist (span WITH &&)) \
     WITH (fillfactor = 90)",
    "CREATE INDEX ON sale (lower(note)) WHERE id > 5",
    "CREATE INDEX ON sale USING brin (at)",
    "CREATE INDEX ON sale USING gin (to_tsvector('english', note))",
    "CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN UPDATE customer SET name = 'x' WHERE id = NEW.customer; RETURN NEW; END $$",
    "CREATE TRIGGER notes BEFORE UPDATE ON sale FOR EACH ROW EXECUTE PROCEDURE notes()",
    "INSERT INTO customer SELECT g, 'name' FROM generate_series(1, 2000) g",
    "INSERT INTO sale SELECT g, 1 + g % 2000, 'note ' || g, g, repeat('x', 200), now(), int4range(g, g + 1) \
     FROM generate_series(1, 3000) g",
];

/// Partitions, from 11 on.
const PARTITIONS: &[&str] = &[
    "CREATE TABLE parts (k int, v text) PARTITION BY RANGE (k)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE parts_rest PARTITION OF parts DEFAULT",
    "INSERT INTO parts SELECT g, g FROM generate_series(1, 300) g",
    "ALTER TABLE customer ADD twice int GENERATED ALWAYS AS (id * 2) STORED",
];

/// Statements that sessions send all the time, and the first major version on which they are sent.
const SENT: &[(&str, u32)] = &[
    (
        "SELECT pg_sleep(0.05), count(fits(s.id)) FROM sale s JOIN customer c ON c.id = s.customer JOIN some_rows(3) r ON r = c.id \
         WHERE lower(s.note) = 'x' AND s.id > 6",
        9,
    ),
    (
        "SELECT pg_sleep(0.05), count(*) FROM parts WHERE v = '7'",
        13,
    ),
];
/// One that two sessions send, of which one waits for the other.
const UPDATE: &str = "UPDATE sale SET wide = wide || pg_sleep(0.05)::text WHERE id = 3";

struct Tried {
    major: &'static str,
    cluster: Cluster,
    folder: Folder,
}

impl Tried {
    fn launch(major: &'static str, scratch: &Path) -> Self {
        let spec: TargetSpec = format!("temp:{major}").parse().unwrap();
        let there = Scratch::open(Some(scratch)).unwrap();
        let stand_in = spec.stand_in().unwrap();
        let installation = stand_in
            .installation(&there, &AtomicBool::new(false))
            .unwrap();
        let mut options = LaunchOptions {
            scratch: Some(scratch.to_owned()),
            shared_buffers_bytes: Some(32 << 20),
            ..LaunchOptions::default()
        };
        for (name, value) in [
            ("log_line_prefix", "%a: "),
            ("log_min_error_statement", "error"),
            ("autovacuum", "off"),
            ("work_mem", "64kB"),
            ("enable_hashjoin", "off"),
            ("track_functions", "all"),
        ] {
            options.settings.set(name, value);
        }
        // By their numbers statements are known where the server computes these.
        if matches!(major, "17" | "18") {
            options.settings.set("compute_query_id", "on");
        }
        let cluster = Cluster::launch(&installation, &options).unwrap();
        let folder = Folder::new(&format!("catalogue-{major}"));
        Self {
            major,
            cluster,
            folder,
        }
    }

    fn number(&self) -> u32 {
        self.major.split('.').next().unwrap().parse().unwrap()
    }

    fn session(&self) -> Session {
        let conninfo = Conninfo::parse(&self.cluster.conninfo()).unwrap();
        connect(&conninfo.with_application_name("app")).unwrap()
    }

    fn answer(&self, words: &[&str]) -> Value {
        let output = pgassay(words, &self.folder.0);
        let answer = serde_json::from_slice(&output.stdout);
        answer.unwrap_or_else(|error| panic!("{}: {words:?}: {error}: {output:?}", self.major))
    }

    /// What failed in sessions of pgassay, with the statements.
    fn failed(&self) -> Vec<String> {
        let log = self.cluster.log_tail(1_000_000);
        let lines: Vec<&str> = log.lines().collect();
        let ours = |line: &&str| line.starts_with("pgassay") && line.contains("ERROR:");
        let places = (0..lines.len()).filter(|at| ours(&lines[*at]));
        let shown = |line: &str| line.chars().take(400).collect::<String>();
        places
            .map(|at| {
                lines[at..lines.len().min(at + 2)]
                    .iter()
                    .copied()
                    .map(shown)
                    .collect::<Vec<_>>()
                    .join("\n")
            })
            .collect()
    }
}

/// Makes what is asked about.
fn make(tried: &Tried) {
    let mut session = tried.session();
    let partitions = PARTITIONS.iter().filter(|_| tried.number() >= 13);
    for sql in SCHEMA.iter().chain(partitions) {
        session.execute(sql).expect(sql);
    }
    session.execute("VACUUM ANALYZE").unwrap();
}

fn plan<'v>(seen: &'v Value, words: &str, major: &str) -> &'v Value {
    let statements = &seen["observed"]["points"][0]["statements"]["statements"];
    let of = |one: &&Value| one["text"].to_string().to_lowercase().contains(words);
    let found = statements.as_array().into_iter().flatten().find(of);
    let plan = found.map(|found| &found["plan"]);
    plan.filter(|plan| plan.is_object())
        .unwrap_or_else(|| panic!("{major}: {words}: {statements:#}"))
}

/// Nothing is among what was not seen that a question was for.
fn nothing_failed(diagnosis: &Value, major: &str) {
    let observers = [
        "plans: ",
        "auto_explain: ",
        "waits: ",
        "counters: ",
        "blockers: ",
    ];
    let not_seen = diagnosis["not_seen"].as_array().into_iter().flatten();
    let failed: Vec<&str> = not_seen
        .filter_map(Value::as_str)
        .filter(|text| observers.iter().any(|of| text.starts_with(of)))
        .collect();
    assert!(failed.is_empty(), "{major}: {failed:#?}");
}

fn try_all(major: &'static str, scratch: &Path) {
    let tried = Tried::launch(major, scratch);
    make(&tried);
    let target = tried.cluster.conninfo();
    let ended = Arc::new(AtomicBool::new(false));
    let sent = SENT.iter().filter(|(_, from)| tried.number() >= *from);
    let sent = sent.map(|(sql, _)| *sql).chain([UPDATE, UPDATE]);
    let threads: Vec<_> = sent
        .map(|sql| {
            let (mut session, ended) = (tried.session(), Arc::clone(&ended));
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    session.execute(sql).unwrap();
                }
            })
        })
        .collect();
    let seen = tried.answer(&["watch", &target, "--time", "3", "--count", "1", "--json"]);
    ended.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    let failed = tried.failed();
    assert!(failed.is_empty(), "{major}: {failed:#?}");
    nothing_failed(&seen["diagnosis"], major);
    let joined = plan(&seen, "some_rows", major);
    let sale = &joined["relations"]["public.sale"];
    for facts in ["indexes", "referenced_by", "triggers", "options", "wide"] {
        let of = match facts {
            "referenced_by" => &joined["relations"]["public.customer"][facts],
            _ => &sale[facts],
        };
        let any = of.as_array().is_some_and(|all| !all.is_empty()) || of.is_object();
        assert!(any, "{major}: {facts}: {sale:#}");
    }
    for facts in ["functions", "volatile", "work_mem_bytes"] {
        assert!(!joined[facts].is_null(), "{major}: {facts}: {joined:#}");
    }
    if tried.number() >= 13 {
        let parts = plan(&seen, "from parts", major);
        let part = &parts["relations"]["public.parts_rest"];
        assert_eq!(part["partition_key"][0], "k", "{major}: {parts:#}");
    }
    let unread = &seen["observed"]["points"][0]["blockers"]["unread"];
    assert!(unread.is_null(), "{major}: {unread}");

    tried.answer(&["check", &target, "--json"]);
    let file = tried.folder.0.join("own.sql");
    fs::write(
        &file,
        "SELECT count(*) FROM sale WHERE fits(id) AND wide LIKE '%y';\n",
    )
    .unwrap();
    let words = format!(
        "run {} --load --is-copy --observe waits --clients 2 --trials 1 --time 2 --json --runs {}",
        file.display(),
        tried.folder.0.join("runs").display()
    );
    let mut words: Vec<&str> = words.split(' ').collect();
    words.insert(2, &target);
    let run = tried.answer(&words);
    let stage = &run["stages"][0];
    let failed = tried.failed();
    assert!(failed.is_empty(), "{major}: {failed:#?}");
    nothing_failed(&stage["diagnosis"], major);
    tried.cluster.stop().unwrap();
}

#[test]
fn no_question_fails_on_the_oldest_release() {
    try_all("9.6", &Folder::new("catalogue-oldest").0);
}

#[test]
#[ignore = "long: make test-all"]
fn no_question_fails_on_later_releases() {
    let scratch = Folder::new("catalogue-scratch");
    for major in ["13", "15", "17", "18"] {
        try_all(major, &scratch.0);
    }
}

#[test]
fn a_question_that_fails_is_named_and_the_others_are_asked() {
    let server = Server::start(HBA, &[], |_| {});
    let folder = Folder::new("catalogue-refused");
    for sql in [
        "CREATE ROLE app LOGIN",
        "CREATE FUNCTION fits(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN $1 > 0; END $$",
        "CREATE TABLE sale AS SELECT g AS id FROM generate_series(1, 100) g",
        "GRANT SELECT ON sale TO app",
        "REVOKE SELECT ON pg_catalog.pg_trigger FROM PUBLIC",
    ] {
        server.run(sql);
    }
    let mut conninfo = server.owner();
    conninfo.user = "app".to_owned();
    let mut session = connect(&conninfo).unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&ended);
    let running = thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            session
                .execute("SELECT pg_sleep(0.05), count(*) FROM sale WHERE fits(id)")
                .unwrap();
        }
    });
    let (dir, port) = (server.socket_dir.display(), server.port);
    let target = format!("host={dir} port={port} user=app dbname=postgres");
    let output = pgassay(
        &["watch", &target, "--time", "2", "--count", "1", "--json"],
        &folder.0,
    );
    ended.store(true, Ordering::Relaxed);
    running.join().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let not_seen = seen["diagnosis"]["not_seen"].to_string();
    let why = "plans: tables of its plan: ERROR: permission denied for table pg_trigger";
    assert!(not_seen.contains(why), "{not_seen}");
    let plan = plan(&seen, "from sale", "15");
    assert!(plan["relations"].is_null(), "{plan:#}");
    assert_eq!(plan["functions"]["fits"], "plpgsql", "{plan:#}");
}
