//! `pgassay run` with each workload, as a guest in a server that has pgbench tables of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{Bench, bench};

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("pga-workloads-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The analysis of a run of the program with these arguments.
    fn run(&self, args: &[&str]) -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_pgassay"))
            .args(args)
            .args(["--json", "--runs"])
            .arg(self.0.join("runs"))
            .current_dir(&self.0)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SHORT: [&str; 10] = [
    "--clients",
    "3",
    "--time",
    "0.15",
    "--warmup",
    "0.05",
    "--trials",
    "2",
    "--scale",
    "1",
];

fn guest<'a>(workload: &'a str, server: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["run", workload, server, "--load"];
    args.extend(SHORT);
    args.extend(more);
    args
}

fn schemas(bench: &Bench) -> String {
    bench.ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgassay'")
}

fn warned(analysis: &Value, id: &str) -> bool {
    let warnings = analysis["warnings"].as_array().unwrap();
    warnings.iter().any(|warning| warning["id"] == id)
}

#[test]
fn every_workload_runs_as_a_guest_and_leaves_nothing() {
    let bench = bench();
    let place = Place::new("guest");
    let server = bench.cluster.conninfo();
    let before = bench.ask("SELECT sum(abalance) || ' ' || count(*) FROM public.pgbench_accounts");
    for workload in [
        "tpcb-like",
        "simple-update",
        "aggregate",
        "partitioned",
        "read-mostly",
        "insert-queue",
        "hot-row",
        "oltp-point",
        "oltp-range",
        "oltp-read-write",
        "oltp-update-index",
        "web",
    ] {
        let analysis = place.run(&guest(workload, &server, &[]));
        let point = &analysis["stages"][0]["arms"][0]["points"][0];
        assert!(
            point["detail"]["all"]["count"].as_u64() > Some(0),
            "{workload}"
        );
        assert_eq!(point["failures"], Value::Array(vec![]), "{workload}");
        assert!(!warned(&analysis, "not-verified"), "{workload}");
        assert_eq!(analysis["stages"][0]["plan"]["workload"]["name"], workload);
        assert_eq!(schemas(&bench), "0", "{workload} leaves nothing");
    }
    let idle = place.run(&guest("idle-beside", &server, &["--idle", "7"]));
    assert_eq!(idle["stages"][0]["plan"]["workload"]["idle"], 7);
    let after = bench.ask("SELECT sum(abalance) || ' ' || count(*) FROM public.pgbench_accounts");
    assert_eq!(before, after, "the tables of others are left alone");
}

#[test]
fn an_assay_of_a_guest_writes_in_its_second_load_and_leaves_nothing() {
    let bench = bench();
    let place = Place::new("assay");
    let server = bench.cluster.conninfo();
    let assay = |more: &[&str]| {
        let mut args = vec!["assay", &server, "--load"];
        args.extend(SHORT);
        args.extend(more);
        let analysis = place.run(&args);
        assert_eq!(schemas(&bench), "0", "{more:?} leaves nothing");
        analysis
    };
    let whole = assay(&[]);
    let second = &whole["stages"][1];
    assert_eq!(second["plan"]["workload"]["name"], "tpcb-like");
    // Two trials of the first, and the fewest of the second that have an interval.
    assert_eq!(whole["run"]["trials_measured"], 8);
    let written = &second["arms"][0]["checkpoints"]["wal_bytes_per_transaction"];
    assert!(written.as_f64() > Some(100.0), "{second}");
    assert!(
        second.get("causes").is_none(),
        "they stand in the run's own"
    );
    let quick = assay(&["--quick"]);
    assert_eq!(quick["stages"].as_array().unwrap().len(), 1);
}

#[test]
fn the_tables_are_made_as_asked() {
    let bench = bench();
    let place = Place::new("made");
    let server = bench.cluster.conninfo();
    // The question is asked after the load, while the tables are there.
    let run = |name: &str, question: &str, more: &[&str]| {
        let text = format!("-- asks for its tables\n-- @verify SELECT {question}\nSELECT 1;\n");
        fs::write(place.0.join(name), text).unwrap();
        let analysis = place.run(&guest(name, &server, more));
        assert_eq!(schemas(&bench), "0", "all of it is gone again");
        analysis
    };
    let parts = "(SELECT count(*) = 3 FROM pg_inherits i JOIN pg_class c ON c.oid = inhrelid \
        WHERE inhparent = 'pgbench_accounts'::regclass AND reloptions = '{fillfactor=90}') \
        AND (SELECT partstrat = 'h' FROM pg_partitioned_table \
        WHERE partrelid = 'pgbench_accounts'::regclass) \
        AND (SELECT count(*) = 3 FROM pg_constraint \
        WHERE contype = 'f' AND conparentid = 0 AND conrelid = 'pgbench_history'::regclass)";
    let more = [
        "--fillfactor=90",
        "--partitions=3",
        "--partition-method=hash",
        "--foreign-keys",
    ];
    let analysis = run("parts.sql", parts, &more);
    assert!(
        !warned(&analysis, "not-verified"),
        "{}",
        analysis["warnings"]
    );
    assert_eq!(
        analysis["stages"][0]["plan"]["workload"]["tables"]["partitions"],
        3
    );
    // Release 18 has no unlogged partitioned tables, and none takes the default tablespace by name.
    let unlogged = "count(*) = 4 FROM pg_class WHERE relname ~ '^pgbench_' AND relkind = 'r' AND relpersistence = 'u' \
        AND relnamespace = 'pgassay'::regnamespace";
    let more = [
        "--unlogged-tables",
        "--tablespace=pg_default",
        "--index-tablespace=pg_default",
    ];
    assert!(!warned(
        &run("unlogged.sql", unlogged, &more),
        "not-verified"
    ));
    assert!(warned(&run("logged.sql", unlogged, &[]), "not-verified"));
}

#[test]
fn scripts_are_mixed_measured_and_repeated_without_their_files() {
    let bench = bench();
    let place = Place::new("scripts");
    let server = bench.cluster.conninfo();
    let mine = place.0.join("mine.sql");
    let text = "\\set aid random(1, :most)\nBEGIN;\nSELECT abalance FROM pgbench_accounts \
                WHERE aid = :aid;\nSELECT 1 / (:aid % 5);\nEND;\n";
    fs::write(&mine, text).unwrap();
    let more = [
        "--file",
        "select-only@3",
        "--define",
        "most=100",
        "--per-statement",
        "--rate",
        "400",
    ];
    let analysis = place.run(&guest("mine.sql@2", &server, &more));
    let workload = &analysis["stages"][0]["plan"]["workload"];
    assert_eq!(workload["name"], "mine.sql+select-only");
    assert_eq!(workload["scripts"][0]["text"], text);
    let point = &analysis["stages"][0]["arms"][0]["points"][0];
    // Every fifth divides by zero, and that is counted and no more.
    assert_eq!(point["failures"][0][0], "22012");
    let scripts = point["detail"]["scripts"].as_array().unwrap();
    assert_eq!(scripts.len(), 2);
    assert_eq!(scripts[0]["statements"].as_array().unwrap().len(), 5);
    assert!(scripts[1]["latency"]["p50"].as_f64() > Some(0.0));
    assert!(point["detail"]["from_actual_start"]["count"].as_u64() > Some(0));

    fs::remove_file(&mine).unwrap();
    let run = analysis["run"]["id"].as_str().unwrap();
    let again = place.run(&["run", "--repeat", run]);
    assert_eq!(again["stages"][0]["plan"], analysis["stages"][0]["plan"]);
    assert_ne!(again["run"]["id"], analysis["run"]["id"]);
}

#[test]
fn a_mistake_in_the_hundredth_line_is_found_before_anything_runs() {
    let place = Place::new("mistake");
    let mut text = "SELECT 1;\n".repeat(99);
    text.push_str("\\set x 1 +\n");
    fs::write(place.0.join("long.sql"), text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_pgassay"))
        .args(["run", "long.sql"])
        .current_dir(&place.0)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("long.sql:100:"), "{said}");
}

#[test]
fn the_client_alone_is_faster_than_with_a_server() {
    let place = Place::new("ceiling");
    let mut args = vec!["run", "tpcb-like", "--ceiling", "--set", "fsync=off"];
    args.extend(SHORT);
    let analysis = place.run(&args);
    let point = &analysis["stages"][0]["arms"][0]["points"][0];
    let most = point["ceiling_tps"].as_f64().unwrap();
    assert!(most > point["throughput_tps"]["estimate"].as_f64().unwrap());
    let run = analysis["run"]["id"].as_str().unwrap();
    let trials = fs::read_to_string(place.0.join("runs").join(run).join("trials.jsonl")).unwrap();
    let settled = trials
        .lines()
        .filter(|line| line.contains("\"settled_ms\""));
    assert_eq!(
        settled.count(),
        2,
        "each trial of a writing workload begins alike"
    );
}

#[test]
fn an_interrupted_load_of_the_tables_is_gone_on_with() {
    let bench = bench();
    bench.execute("DROP DATABASE IF EXISTS resumed");
    bench.execute("CREATE DATABASE resumed");
    let server = bench
        .cluster
        .conninfo()
        .replace("dbname=postgres", "dbname=resumed");
    assert!(server.contains("resumed"), "{server}");
    let initialize = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_pgassay"))
            .args(["pgbench", "-i", "-q", "-s", "3"])
            .args(more)
            .arg(&server)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    initialize(&["-I", "dtg"]);
    let conninfo = pgassay_pgwire::Conninfo::parse(&server).unwrap();
    let mut session = pgassay_pgwire::connect(&conninfo).unwrap();
    // As after a kill: a branch is whole or not there.
    session
        .execute("DELETE FROM pgbench_accounts WHERE bid = 2")
        .unwrap();
    let said = initialize(&["--resume"]);
    assert!(said.contains("2 of 3 branches are there"), "{said}");
    let check = "SELECT count(*) || ' ' || count(DISTINCT aid) || ' ' || max(aid) || ' ' || \
                 count(*) FILTER (WHERE bid = (aid - 1) / 100000 + 1) FROM pgbench_accounts";
    let found = session.value(check).unwrap().unwrap();
    assert_eq!(found, "300000 300000 300000 300000");
    drop(session);
    bench.execute("DROP DATABASE resumed");
}
