//! `pgassay workload`: a mix that is known, made again from logs and from counters of a real server, and run.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use pgassay_pgwire::connect;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;

use crate::pg_support::{OWNER, Server};

pub const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

/// How often each transaction runs.
const BY_KEY: usize = 200;
const BOOKED: usize = 60;
const COUNTED: usize = 40;
const FAILED: usize = 10;

/// A directory on a disk that goes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let name = format!("pgassay-test-own-{name}-{}", std::process::id());
        let path = Path::new("/var/tmp").join(name);
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

pub fn pgassay(words: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pgassay"))
        .args(words)
        .current_dir(dir)
        .env("COLUMNS", "120")
        .output()
        .unwrap()
}

/// The JSON that it prints.
pub fn made(words: &[&str], dir: &Path) -> Value {
    let output = pgassay(words, dir);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A server that writes all logs and counts statements, with the tables of the mix.
fn shop() -> Server {
    let server = Server::start(
        HBA,
        &[
            ("logging_collector", "on"),
            ("log_destination", "csvlog,jsonlog,stderr"),
            ("log_directory", "log"),
            ("log_filename", "own"),
            ("log_line_prefix", "%m [%p] %q%u@%d "),
            ("log_min_duration_statement", "0"),
            ("lc_messages", "C"),
            ("shared_preload_libraries", "pg_stat_statements"),
        ],
        |_| {},
    );
    server.run("CREATE EXTENSION pg_stat_statements");
    server.run("CREATE TABLE customer (id int PRIMARY KEY, name text, city text)");
    server.run(
        "CREATE TABLE booking (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int REFERENCES customer, \
         note text, at timestamptz DEFAULT now())",
    );
    server.run(
        "INSERT INTO customer SELECT g, 'name ' || g, CASE WHEN g % 4 = 0 THEN 'O''Neill' ELSE 'Köln' END \
         FROM generate_series(1, 3000) g",
    );
    server.run(
        "INSERT INTO booking (customer, note) SELECT g, 'first' FROM generate_series(1, 3000) g",
    );
    server.run("ANALYZE");
    server
}

/// The mix, in sessions of two application names.
fn run_mix(server: &Server) {
    let mut session = connect(&server.owner().with_application_name("shop")).unwrap();
    session
        .execute("SELECT pg_stat_statements_reset()")
        .unwrap();
    for n in 1..=BY_KEY {
        session
            .execute(&format!(
                "SELECT name, city FROM customer WHERE id = {n} /* trace {n} */"
            ))
            .unwrap();
    }
    for n in 1..=BOOKED {
        session.execute("BEGIN").unwrap();
        session
            .execute(&format!(
                "INSERT INTO booking (customer, note) VALUES ({n}, 'it''s {n}')"
            ))
            .unwrap();
        session
            .execute(&format!(
                "UPDATE customer SET name = 'name {n}' WHERE id = {n}"
            ))
            .unwrap();
        session.execute("COMMIT").unwrap();
    }
    for n in 1..=COUNTED {
        let city = if n % 2 == 0 { "O''Neill" } else { "Köln" };
        session
            .execute(&format!(
                "SELECT count(*) FROM customer WHERE city = '{city}' AND id > {n}"
            ))
            .unwrap();
    }
    for _ in 0..FAILED {
        assert!(session.execute("SELECT 1 / (SELECT 0)").is_err());
    }
    let mut other = connect(&server.owner().with_application_name("batch")).unwrap();
    other.execute("SELECT sum(id) FROM booking").unwrap();
}

/// The log of an ending, once all of the mix is in it.
fn log(server: &Server, ending: &str) -> PathBuf {
    log_with(server, ending, "sum(id) FROM booking")
}

/// The log of an ending, once these words are in it.
pub fn log_with(server: &Server, ending: &str, words: &str) -> PathBuf {
    let path = server.dir.join("data/log").join(format!("own{ending}"));
    for _ in 0..200 {
        let there = fs::read_to_string(&path).unwrap_or_default();
        if there.contains(words) {
            return path;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{} has no end", path.display());
}

pub fn weight(made: &Value, words: &str) -> u64 {
    let scripts = made["scripts"].as_array().unwrap();
    let found = scripts
        .iter()
        .find(|script| script["first"].as_str().unwrap().contains(words));
    found.unwrap_or_else(|| panic!("{words}: {made:#}"))["weight"]
        .as_u64()
        .unwrap()
}

/// Runs a workload file on the server; how many transactions failed, and how many there were.
pub fn runs(file: &str, server: &Server, dir: &Path) -> (f64, f64) {
    let target = format!(
        "host={} port={} user={OWNER} dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    let output = pgassay(
        &[
            "run",
            file,
            &target,
            "--load",
            "--is-copy",
            "--clients",
            "2",
            "--time",
            "0.5",
            "--trials",
            "2",
            "--runs",
            "runs",
            "--json",
        ],
        dir,
    );
    let analysis: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let mut sums = (0.0, 0.0);
    for line in fs::read_dir(dir.join("runs")).unwrap().flatten() {
        let trials = fs::read_to_string(line.path().join("trials.jsonl")).unwrap_or_default();
        for trial in trials
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
        {
            let failures = trial["failures"].as_object();
            let counts = failures.into_iter().flat_map(|failures| failures.values());
            sums.0 += counts.map(|count| count.as_f64().unwrap()).sum::<f64>();
            sums.1 += trial["transactions"].as_f64().unwrap();
        }
    }
    assert!(analysis.is_object());
    fs::remove_dir_all(dir.join("runs")).unwrap();
    sums
}

#[test]
fn a_known_mix_comes_back_from_logs_and_from_counters() {
    let server = shop();
    run_mix(&server);
    let folder = Folder::new("mix");
    let dir = folder.0.as_path();
    let mut files = Vec::new();
    for ending in ["", ".csv", ".json"] {
        let log = log(&server, ending);
        let log = log.to_str().unwrap();
        let file = format!("mine{ending}.sql");
        let mut words = vec!["workload", "from-log", log, "--to", &file, "--json"];
        // The prefix has no application_name: the users' mix is told apart there by counts.
        if !ending.is_empty() {
            words.extend(["--application", "shop"]);
        }
        let made = made(&words, dir);
        assert_eq!(
            weight(&made, "FROM customer WHERE id = "),
            BY_KEY as u64,
            "{ending}"
        );
        assert_eq!(
            weight(&made, "INSERT INTO booking (customer, note) VALUES"),
            BOOKED as u64,
            "{ending}"
        );
        assert_eq!(
            weight(&made, "SELECT count(*) FROM customer"),
            COUNTED as u64,
            "{ending}"
        );
        let left = made["left_out"].as_array().unwrap();
        let text = fs::read_to_string(dir.join(&file)).unwrap();
        assert!(!text.contains("1 / ") && !text.contains("trace"), "{text}");
        assert!(
            text.contains("@protocol simple") && text.contains("'it''s 60'"),
            "{ending}: {left:?}"
        );
        files.push(text);
    }
    assert_eq!(
        files[1].lines().skip(2).collect::<Vec<_>>(),
        files[2].lines().skip(2).collect::<Vec<_>>(),
        "csvlog and jsonlog tell the same"
    );
    let target = format!(
        "host={} port={} user={OWNER} dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    let counted = made(
        &[
            "workload",
            "from-statements",
            &target,
            "--to",
            "counted.sql",
            "--json",
        ],
        dir,
    );
    assert_eq!(weight(&counted, "SELECT name, city"), BY_KEY as u64);
    assert_eq!(weight(&counted, "INSERT INTO booking"), BOOKED as u64);
    assert_eq!(weight(&counted, "UPDATE customer SET name"), BOOKED as u64);
    assert_eq!(
        weight(&counted, "SELECT count(*) FROM customer"),
        COUNTED as u64
    );
    let (failed, done) = runs("mine.csv.sql", &server, dir);
    assert!(done > 100.0 && failed == 0.0, "{failed} of {done}");
    let (failed, done) = runs("counted.sql", &server, dir);
    assert!(done > 100.0 && failed == 0.0, "{failed} of {done}");
}

#[test]
fn texts_are_replaced_where_that_is_asked_for() {
    let server = shop();
    run_mix(&server);
    let folder = Folder::new("hashed");
    let log = log(&server, ".csv");
    let output = pgassay(
        &["workload", "from-log", log.to_str().unwrap(), "--anonymise"],
        &folder.0,
    );
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(folder.0.join("workload.sql")).unwrap();
    for original in ["O''Neill", "Köln", "it''s"] {
        assert!(!text.contains(original), "{original}");
    }
    // It is not overwritten unasked.
    let again = pgassay(&["workload", "from-log", log.to_str().unwrap()], &folder.0);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("--force"),
        "{again:?}"
    );
}

/// The trials of the only run below `runs`, which goes.
fn trials(dir: &Path) -> Vec<Value> {
    let runs = dir.join("runs");
    let mut found = Vec::new();
    for run in fs::read_dir(&runs).unwrap().flatten() {
        let lines = fs::read_to_string(run.path().join("trials.jsonl")).unwrap_or_default();
        found.extend(
            lines
                .lines()
                .map(|line| serde_json::from_str(line).unwrap()),
        );
    }
    fs::remove_dir_all(runs).unwrap();
    found
}

#[test]
fn sessions_are_recorded_replayed_and_exported() {
    let server = shop();
    run_mix(&server);
    let folder = Folder::new("sessions");
    let dir = folder.0.as_path();
    let log = log(&server, ".csv");
    let log = log.to_str().unwrap();
    let made = made(
        &[
            "workload",
            "from-log",
            log,
            "--to",
            "mine.sql",
            "--application",
            "shop",
            "--sessions",
            "--json",
        ],
        dir,
    );
    // And one that resets the counters.
    let recorded = (BY_KEY + BOOKED + COUNTED + 1) as u64;
    assert_eq!(
        (&made["recorded"], &made["connections"]),
        (&recorded.into(), &1.into())
    );
    let file = dir.join("mine.sessions.jsonl");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds values of the log");
    let file = fs::read_to_string(file).unwrap();
    assert_eq!(file.lines().count() as u64, 1 + recorded);
    assert!(file.contains("'it''s 60'"), "as it was");

    let target = format!(
        "host={} port={} user={OWNER} dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    let mut words = vec![
        "run",
        "mine.sql",
        &target,
        "--load",
        "--is-copy",
        "--runs",
        "runs",
        "--json",
    ];
    let bookings = || {
        let mut session = connect(&server.owner()).unwrap();
        let count = session.value("SELECT count(*) FROM booking WHERE note LIKE 'it''s %'");
        count.unwrap().unwrap().parse::<usize>().unwrap()
    };
    let before = bookings();
    words.extend(["--replay", "--speed", "0.1"]);
    let output = pgassay(&words, dir);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("at 0.1 times the pace"), "{said}");
    let [trial] = &trials(dir)[..] else {
        panic!("one trial is the whole of it");
    };
    let number = |name: &str| trial[name].as_u64().unwrap_or(0);
    assert_eq!(
        number("transactions_sent") + number("behind"),
        recorded,
        "{trial}"
    );
    assert!(
        trial["lag_max_ns"].is_u64() && trial["failures"].is_null(),
        "{trial}"
    );
    if number("behind") == 0 {
        assert_eq!(bookings() - before, BOOKED);
    }
    let analysis: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(analysis.to_string().contains("start-lag"));

    // What writes is for copies, a recorded number of sessions for as many connections.
    words.retain(|word| *word != "--is-copy");
    let refused = pgassay(&words, dir);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("--is-copy"),
        "{refused:?}"
    );
    words.extend(["--is-copy", "--clients", "2"]);
    let refused = pgassay(&words, dir);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    words.retain(|word| !["--speed", "0.1"].contains(word));
    let closed: Vec<&str> = words
        .iter()
        .map(|word| {
            if *word == "--replay" {
                "--replay=closed"
            } else {
                *word
            }
        })
        .collect();
    let refused = pgassay(&closed, dir);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("1 sessions were recorded"),
        "{refused:?}"
    );
    let mut closed: Vec<&str> = closed
        .into_iter()
        .map(|word| if word == "2" { "1" } else { word })
        .collect();
    closed.extend(["--time", "0.3", "--trials", "2"]);
    let output = pgassay(&closed, dir);
    assert!(output.status.success(), "{output:?}");
    let closed = trials(dir);
    assert!(
        closed.len() == 2
            && closed
                .iter()
                .all(|trial| trial["transactions"].as_u64() > Some(0))
    );
    assert!(
        closed.iter().all(|trial| trial["failures"].is_null()),
        "{closed:?}"
    );

    let exported = pgassay(
        &[
            "workload", "export", "mine.sql", "--format", "pgbench", "--to", "scripts", "--rows",
            "20",
        ],
        dir,
    );
    assert!(exported.status.success(), "{exported:?}");
    let command = String::from_utf8_lossy(&exported.stdout).into_owned();
    let scripts: Vec<&str> = command
        .split_whitespace()
        .filter(|word| word.ends_with(char::is_numeric))
        .collect();
    let directory = server.socket_dir.display().to_string();
    let port = server.port.to_string();
    let mut pgbench = vec![
        "pgbench", "-n", "-M", "simple", "-t", "30", "-U", OWNER, "-h", &directory, "-p", &port,
    ];
    for script in &scripts {
        pgbench.extend(["-f", script]);
    }
    pgbench.push("postgres");
    let output = pgassay(&pgbench, dir);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("30/30"),
        "{command} {output:?}"
    );
    let exported = pgassay(
        &[
            "workload",
            "export",
            "mine.sql",
            "--format",
            "pgreplay",
            "--to",
            "mine.json",
            "--user",
            "app",
        ],
        dir,
    );
    assert!(exported.status.success(), "{exported:?}");
    let lines = fs::read_to_string(dir.join("mine.json")).unwrap();
    let statements = BY_KEY + 4 * BOOKED + COUNTED + 1;
    assert_eq!(lines.lines().count(), statements + 2);
    assert!(
        lines.lines().next().unwrap().contains(r#""user":"app""#),
        "{lines}"
    );
}

/// A file, what is in it, further flags, the exit code, what is said.
type Case<'a> = (&'a str, &'a [u8], &'a [&'a str], i32, &'a str);

#[test]
fn what_is_no_log_of_statements_says_what_to_do() {
    let folder = Folder::new("none");
    let csv = "2026-11-23 09:00:00.000 UTC,\"a\",\"b\",1,\"x\",s1,1,\"SELECT\",2026-11-23 09:00:00 UTC,3/1,0,LOG,00000,\
               \"duration: 1.000 ms  statement: SELECT 1\",,,,,,,,,\"app\"\n";
    let half = format!("{csv}{}", &csv[..csv.len() / 2]);
    let polish = csv.replace("duration", "czas trwania");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(csv.repeat(50).as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = compress_to_vec(csv.as_bytes(), CompressionLevel::Fastest);
    let cases: &[Case<'_>] = &[
        ("empty", b"", &[], 2, "no line begins as PostgreSQL's"),
        (
            "other.log",
            b"Nov 23 09:00:00 host sshd[1]: hello\n",
            &[],
            2,
            "--prefix",
        ),
        ("cut.gz", &gzip[..gzip.len() / 2], &[], 2, "cut.gz"),
        ("whole.gz", &gzip, &[], 0, ""),
        ("whole.zst", &zstd, &[], 0, ""),
        ("packed.bz2", b"BZh91AY", &[], 2, "bzcat"),
        (
            "binary",
            &[0xff, 0, 0x80, b'\n', 0],
            &[],
            2,
            "no line begins as PostgreSQL's",
        ),
        ("polish.csv", polish.as_bytes(), &[], 2, "lc_messages"),
        ("half.csv", half.as_bytes(), &[], 0, ""),
        (
            "filtered.csv",
            csv.as_bytes(),
            &["--database", "none"],
            2,
            "leave the filters out",
        ),
        ("prefix.log", b"x", &["--prefix", "%u "], 2, "no time"),
    ];
    for (name, bytes, more, code, says) in cases {
        let file = folder.file(name, bytes);
        let mut words = vec!["workload", "from-log", file.to_str().unwrap(), "--force"];
        words.extend(*more);
        let output = pgassay(&words, &folder.0);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{name}: {said}");
        assert!(said.contains(says), "{name}: {said}");
    }
    let missing = pgassay(&["workload", "from-log", "nowhere.csv"], &folder.0);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    let launched = pgassay(
        &["workload", "from-statements", "temp:15", "--force"],
        &folder.0,
    );
    assert_eq!(launched.status.code(), Some(2), "{launched:?}");
}

#[test]
fn a_log_that_lost_its_tabs_makes_no_statement_shorter() {
    let folder = Folder::new("tabs");
    let entry = |second: u32, message: &str| {
        format!(
            "2026-11-23 09:00:{second:02}.000 UTC [7] app@shop LOG:  duration: 1.000 ms  {message}\n"
        )
    };
    let log = [
        entry(
            1,
            "statement: UPDATE orders SET closed = true\n                    WHERE id = 71;",
        ),
        entry(2, "statement: DELETE FROM orders\n        WHERE id = 72"),
        entry(3, "statement: DELETE FROM items\nWHERE id = 73"),
        entry(4, "execute s: DELETE FROM shelves WHERE note = $1")
            + "2026-11-23 09:00:04.000 UTC [7] app@shop DETAIL:  parameters: $1 = 'Kaffeemasc...'\n",
        entry(5, "statement: SELECT name FROM items WHERE id = 5"),
        // The rest of it is in the next file.
        entry(6, "statement: DELETE FROM customers"),
    ];
    let file = folder.file("own.log", log.concat().as_bytes());
    let file = file.to_str().unwrap();
    let words = ["workload", "from-log", file, "--to", "mine.sql", "--force"];
    let output = pgassay(&words, &folder.0);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = fs::read_to_string(folder.0.join("mine.sql")).unwrap();
    for (words, there) in [
        (
            "UPDATE orders SET closed = true\n            WHERE id = 71",
            true,
        ),
        ("DELETE FROM orders\nWHERE id = 72", true),
        ("SELECT name FROM items WHERE id = 5", true),
        ("DELETE FROM items", false),
        ("DELETE FROM shelves", false),
        ("DELETE FROM customers", false),
    ] {
        assert_eq!(text.contains(words), there, "{words}: {text}");
    }
    assert!(
        said.contains("50% of the time of all statements, 3 of 6 statements")
            && said.contains("Not in it: "),
        "{said}"
    );
    let made = made(&[&words[..], &["--json"]].concat(), &folder.0);
    let left = made["left_out"].as_array().unwrap();
    let whys: Vec<&str> = left.iter().filter_map(|one| one["why"].as_str()).collect();
    assert_eq!((left.len(), &made["covered"]), (3, &3.into()), "{made:#}");
    for why in [
        "without prefix or indentation",
        "the log file ends",
        "log_parameter_max_length",
    ] {
        assert!(whys.iter().any(|one| one.contains(why)), "{whys:?}");
    }
}

#[test]
fn a_server_that_counts_no_statements_says_what_to_do() {
    let server = Server::start(HBA, &[], |_| {});
    let folder = Folder::new("uncounted");
    let target = format!(
        "host={} port={} user={OWNER} dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    let output = pgassay(&["workload", "from-statements", &target], &folder.0);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("CREATE EXTENSION pg_stat_statements"),
        "{said}"
    );
}
