//! The program from outside, against a real PostgreSQL: what a user types, what comes back,
//! and that nothing is left behind.
//!
//! `make test` installs the server; without one these tests fail, they are never skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::runs::{Runs, Signal, gone, postmasters_of, signal, text};
use crate::schema::assert_schema;
use serde_json::Value;

const SHORT: &[&str] = &[
    "--time", "0.2", "--warmup", "0.05", "--scale", "1", "--seed", "5",
];

fn with<'a>(first: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    first.iter().chain(more).chain(SHORT).copied().collect()
}

fn data_directory(postmaster: u32) -> PathBuf {
    fs::read_link(format!("/proc/{postmaster}/cwd")).unwrap()
}

#[test]
fn an_assay_measures_reports_and_leaves_nothing() {
    let runs = Runs::new("whole");
    let output = runs.run(&with(
        &["assay", "--json", "--quick"],
        &["--clients", "1,2", "--trials", "6"],
    ));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert_eq!(document["schema"], "pgassay/analysis/1");
    assert_schema(&document, "analysis-1.json");
    assert_eq!(document["run"]["state"], "complete");
    assert_eq!(document["run"]["trials_measured"], 12);
    let points = document["stages"][0]["arms"][0]["points"]
        .as_array()
        .unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        let tps = &point["throughput_tps"];
        assert!(tps["estimate"].as_f64().unwrap() > 100.0, "{tps}");
        assert!(tps["low"].as_f64() <= tps["estimate"].as_f64());
        assert_eq!(tps["n"], 6);
        assert!(point["metrics"]["p50"]["estimate"].as_f64().unwrap() > 1.0);
        assert!(point["metrics"]["server-cpu"]["estimate"].as_f64().unwrap() > 1.0);
        assert!(point["metrics"]["client-cpu"]["estimate"].as_f64().unwrap() > 0.5);
    }
    // Server and client counted the same transactions, but for set-up and samplers.
    let check = &document["arms"][0]["commit_check"];
    let client = check["client_transactions"].as_f64().unwrap();
    let server = check["server_commits"].as_f64().unwrap();
    assert!((server / client - 1.0).abs() < 0.02, "{check}");
    // The binary that was inspected is the one that ran.
    let binary = &document["arms"][0]["binary"]["seen"];
    assert!(binary["atomics"]["counts"].is_object(), "{binary}");
    assert!(binary["process"]["hwcap"].is_string(), "{binary}");
    let verdict = &document["arms"][0]["verdict"];
    assert_ne!(verdict["path"], "wrong-machine", "{verdict}");

    let stderr = text(&output.stderr);
    let report = stderr
        .lines()
        .find_map(|line| line.strip_prefix("report: "))
        .expect("a path");
    // The report was there after one trial of each point.
    let early = stderr
        .lines()
        .find_map(|line| line.strip_prefix("first result after "))
        .expect("an early report");
    assert!(early.contains(" to go: "), "{early}");
    assert!(early.ends_with(report), "{early}");
    let html = fs::read_to_string(report).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>"));
    let dir = Path::new(report).parent().unwrap();
    assert!(dir.join("facts/host.json").is_file());

    // It can be rendered again, in every format, and the report does not need the server.
    for format in ["text", "markdown", "csv", "json", "html"] {
        let output = runs.run(&["report", "last", "--format", format]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{format}: {}",
            text(&output.stderr)
        );
        assert!(output.stdout.len() > 300, "{format}");
    }
    let listed = text(&runs.run(&["runs"]).stdout);
    assert!(listed.contains("complete"), "{listed}");
    // The list says what came of it, in whatever form, and what is to be done next.
    assert!(listed.contains(" tps"), "{listed}");
    let list = ["runs", "list", "--json"];
    let listed: Value = serde_json::from_slice(&runs.run(&list).stdout).unwrap();
    assert_schema(&listed, "runs-1.json");
    let result = listed["runs"][0]["result"].as_str().unwrap();
    assert!(result.contains(" tps"), "{result}");
    assert!(listed["runs"][0]["grade"].is_string(), "{listed}");
    let wide = runs
        .command(&["runs", "--verbose"])
        .env("COLUMNS", "200")
        .output()
        .unwrap();
    let (table, said) = (text(&wide.stdout), text(&wide.stderr));
    assert!(
        table.contains("quality") && table.contains(" tps"),
        "{table}"
    );
    assert!(said.contains("next: pgassay report last"), "{said}");
    assert_eq!(runs.run(&["runs", "remove", "last"]).status.code(), Some(0));
    assert!(!dir.exists());
}

#[test]
fn a_server_that_is_killed_leaves_the_trials_before() {
    let runs = Runs::new("died");
    let mut child = runs.start(&with(
        &["assay", "--quick"],
        &["--clients", "1,2", "--trials", "200"],
    ));
    let dir = runs.await_trials(3);
    let postmaster = postmasters_of(child.id())[0];
    let data = data_directory(postmaster);
    signal(postmaster, Signal::KILL);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let end: Value = serde_json::from_slice(&fs::read(dir.join("end.json")).unwrap()).unwrap();
    assert_eq!(end["state"], "server_died");
    assert!(!data.exists(), "{} is still there", data.display());
    let report = text(&runs.run(&["report", "last"]).stdout);
    assert!(report.contains("the server died"), "{report}");
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_it_goes_on_later() {
    let runs = Runs::new("interrupted");
    let mut child = runs.start(&with(
        &["assay", "--quick"],
        &["--clients", "1,2", "--trials", "8"],
    ));
    runs.await_trials(2);
    let postmaster = postmasters_of(child.id())[0];
    let data = data_directory(postmaster);
    signal(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert!(gone(postmaster));
    assert!(!data.exists());
    let output = runs.run(&["assay", "--resume", "last", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["run"]["state"], "complete");
    assert_eq!(document["run"]["trials_measured"], 16);
    assert_eq!(
        runs.run(&["assay", "--resume", "last"]).status.code(),
        Some(2)
    );
}

#[test]
fn kill_9_takes_the_server_along_and_the_next_run_removes_its_files() {
    let runs = Runs::new("killed");
    // A scratch directory of its own, so that no other test's run sweeps it first.
    let scratch = PathBuf::from(format!(
        "/var/tmp/pgassay-test-killed-{}",
        std::process::id()
    ));
    fs::create_dir_all(&scratch).unwrap();
    let at = scratch.display().to_string();
    let many = ["--clients", "1,2", "--trials", "200", "--scratch", &at];
    let mut child = runs.start(&with(&["assay", "--quick"], &many));
    runs.await_trials(2);
    let postmaster = postmasters_of(child.id())[0];
    let data = data_directory(postmaster);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(gone(postmaster), "the server outlived pgassay");
    assert!(data.exists());
    let listed = text(&runs.run(&["runs"]).stdout);
    assert!(listed.contains("interrupted"), "{listed}");
    let once = ["--clients", "1", "--trials", "1", "--scratch", &at];
    let output = runs.run(&with(&["assay", "--quick"], &once));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("removed what a killed run had left"));
    assert!(!data.exists());
    fs::remove_dir_all(&scratch).unwrap();
}

#[test]
fn a_sweep_beyond_the_servers_connections_measures_what_it_can() {
    let runs = Runs::new("narrow");
    let flags = [
        "--set",
        "max_connections=8",
        "--clients",
        "1,40",
        "--trials",
        "2",
    ];
    let output = runs.run(&with(&["assay", "--json", "--quick"], &flags));
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        document["stages"][0]["arms"][0]["points"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let warnings = document["warnings"].as_array().unwrap();
    assert!(
        warnings.iter().any(|w| w["id"] == "point-skipped"),
        "{warnings:?}"
    );
}

#[test]
fn a_closed_pipe_is_no_error() {
    let runs = Runs::new("pipe");
    let mut child = runs.start(&["--help"]);
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn mistakes_have_their_codes_and_name_the_remedy() {
    let runs = Runs::new("mistakes");
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["assay", "nosuch"],
            2,
            "is not a target; did you mean 'host=nosuch'?",
        ),
        (&["assay", "temp15"], 2, "did you mean 'temp:15'?"),
        (&["assay", "tmep"], 2, "did you mean 'temp'?"),
        (&["check", "facts.json"], 2, "no such file"),
        (
            &["report", "/etc"],
            2,
            "/etc is not a run: it has no run.json",
        ),
        (
            &["compare", "--time", "20", "temp", "temp"],
            2,
            "the flag of this command is --minutes",
        ),
        (
            &["run", "select-only", "temp", "--minutes=2"],
            2,
            "the flag of this command is --time",
        ),
        (&["run", "select_only"], 2, "did you mean 'select-only'?"),
        (
            &["inspect", "/bin/true", "--cpu", "gravitn4"],
            2,
            "did you mean 'graviton4'?",
        ),
        (&["lab", "page_sizes"], 2, "did you mean 'page-size'?"),
        (&["assay", "temp:99"], 3, "no PostgreSQL 99"),
        (&["assay", "/nonexistent"], 3, "no such directory"),
        (
            &["assay", "host=/nonexistent user=x dbname=y"],
            3,
            "no such socket",
        ),
        (
            &["assay", "postgres://u:hunter2@127.0.0.1:1/db"],
            3,
            "refused",
        ),
        (
            &["assay", "host=/x", "--set", "a=b"],
            2,
            "launched server only",
        ),
        (
            &["assay", "--set", "work_mem=-99"],
            3,
            "outside the valid range",
        ),
        (&["assay", "--scratch", "/dev/shm"], 3, "tmpfs"),
        (&["run", "nosuch"], 2, "select-only"),
        (&["run", "select-only", "host=/x user=y"], 2, "--load"),
        (&["report", "nosuch"], 2, "pgassay runs"),
        (&["report", "last"], 2, "pgassay assay"),
        (&["runs", "remove", ""], 2, "name"),
        (&["assay", "--clients", "0"], 2, "smallest count is 1"),
        (&["assay", "--clients", "1..1000000*2"], 2, "most is"),
        (
            &["assay", "--trials", "18446744073709551616"],
            2,
            "--trials",
        ),
        (&["assay", "--time", "1e300"], 2, "day"),
        (&["assay", "--scale=-1"], 2, "scale"),
        (&["nonsense"], 2, "nonsense"),
        (&[], 2, "Usage"),
    ];
    for (args, code, said) in cases {
        let output = runs.run(args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
        assert!(
            output.stdout.is_empty(),
            "{args:?}: {}",
            text(&output.stdout)
        );
    }
}

#[test]
fn installations_are_listed() {
    let runs = Runs::new("targets");
    let document: Value = serde_json::from_slice(&runs.run(&["targets", "--json"]).stdout).unwrap();
    assert_schema(&document, "targets-1.json");
    let targets = document["targets"].as_array().unwrap();
    assert!(
        targets.iter().any(|t| t["can_launch"] == true),
        "{targets:?}"
    );
    let shown = text(&runs.run(&["targets"]).stdout);
    assert!(shown.contains("temp:"), "{shown}");
}

/// Two clients run a script once, for so many seconds.
fn run_script(runs: &Runs, name: &str, script: &str, seconds: &str, more: &[&str]) -> Output {
    let file = format!("pgassay-test-{name}-{}.sql", std::process::id());
    let file = std::env::temp_dir().join(file);
    fs::write(&file, script).unwrap();
    let words = ["--clients", "2", "--trials", "1", "--warmup", "0.1"];
    let typed = ["run", file.to_str().unwrap(), "--time", seconds];
    let output = runs.run(&[&typed, &words[..], more].concat());
    fs::remove_file(&file).unwrap();
    output
}

/// It ended with 0, and nothing named the SQLSTATE.
#[test]
fn a_run_whose_transactions_all_fail_says_so_and_is_no_success() {
    let runs = Runs::new("all-fail");
    let script = "-- @without-pgbench-tables\nSELECT * FROM no_such_table;\n";
    let output = run_script(&runs, "all-fail", script, "0.3", &[]);
    let (said, page) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("SQLSTATE 42P01"), "{said}");
    assert!(
        page.contains("with 2 clients") && page.contains("42P01"),
        "{page}"
    );
}

#[test]
fn transactions_that_fail_among_others_are_a_finding_with_their_sqlstate() {
    let runs = Runs::new("some-fail");
    let script = "-- @without-pgbench-tables\n\\set by random(0, 3)\nSELECT 1 / :by;\n";
    let observed = ["--observe", "waits,sched", "--json"];
    let output = run_script(&runs, "some-fail", script, "1", &observed);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = seen["stages"][0]["diagnosis"]["findings"]
        .as_array()
        .unwrap();
    let failed = findings.iter().find(|f| f["id"] == "transactions-failed");
    let failed = failed.unwrap_or_else(|| panic!("{findings:#?}"));
    // A quarter divides by zero.
    let share = failed["budget_share"].as_f64().unwrap();
    assert!((0.2..0.3).contains(&share), "{failed:#}");
    let evidence = failed["evidence"].to_string();
    assert!(evidence.contains("SQLSTATE 22012"), "{evidence}");
}
