//! What a report prints under "To measure again" measures the same experiment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::runs::{Runs, text};

/// The newest run, and what it recorded as its experiment, but for what is measured while it is set up.
fn newest(runs: &Runs) -> (PathBuf, Value) {
    let dirs = fs::read_dir(&runs.0)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let dir = dirs.max_by_key(|dir| {
        fs::metadata(dir.join("run.json"))
            .unwrap()
            .modified()
            .unwrap()
    });
    let dir = dir.expect("a run");
    let header: Value = serde_json::from_slice(&fs::read(dir.join("run.json")).unwrap()).unwrap();
    let mut experiment = header["experiment"].clone();
    for stage in experiment["stages"].as_array_mut().unwrap() {
        if let Some(pgio) = stage["driver"].get_mut("pgio") {
            pgio["setup_seconds"] = Value::Null;
        }
    }
    (dir, experiment)
}

/// The first command of the report's section on method.
fn printed(runs: &Runs, dir: &Path) -> String {
    let output = runs.run(&["report", dir.to_str().unwrap(), "--format", "markdown"]);
    let markdown = text(&output.stdout);
    let (_, after) = markdown
        .split_once("To measure again")
        .expect("the section");
    let line = after
        .lines()
        .find(|line| line.trim_start().starts_with("pgassay "));
    line.expect("a command").trim().to_owned()
}

#[track_caller]
fn measured_again(name: &str, words: &[&str]) {
    let runs = Runs::new(name);
    let output = runs.run(words);
    assert!(
        matches!(output.status.code(), Some(0 | 1 | 5)),
        "{}",
        text(&output.stderr)
    );
    let (first, experiment) = newest(&runs);
    let line = printed(&runs, &first);
    let program = env!("CARGO_BIN_EXE_pgassay");
    let again = Command::new("sh")
        .args(["-c", &line.replacen("pgassay", program, 1)])
        .env("PGASSAY_RUNS", &runs.0)
        .output()
        .unwrap();
    assert!(
        matches!(again.status.code(), Some(0 | 1 | 5)),
        "{line}: {}",
        text(&again.stderr)
    );
    let (second, same) = newest(&runs);
    assert_ne!(first, second, "{line}");
    assert_eq!(experiment, same, "{line}");
}

#[test]
fn clients_are_measured_again() {
    let words = "run select-only --clients 1,2 --time 0.1 --warmup 0 --trials 2 --scale 1 \
                 --protocol simple --ceiling --observe none --set work_mem=8MB --define";
    let words = words.split_whitespace().chain(["x=it's a $(word)"]);
    measured_again("again-clients", &words.collect::<Vec<_>>());
}

#[test]
fn axes_are_measured_again() {
    let words = "run select-only --cpus 1 --shared-buffers 16MB,32MB --clients 1 --time 0.1 --warmup 0 \
                 --trials 2 --scale 1 --observe none";
    measured_again("again-axes", &words.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn an_assay_is_measured_again() {
    let words = "assay --clients 1 --time 0.1 --trials 2 --scale 1 --threads 1";
    measured_again("again-assay", &words.split(' ').collect::<Vec<_>>());
}

#[test]
fn loads_of_other_kinds_are_measured_again() {
    for (name, words) in [
        (
            "again-lwlock",
            "run lwlock --hold-ns 50 --locks 2 --clients 1,2 --trials 2 --time 0.05",
        ),
        (
            "again-snapshot",
            "run snapshot --idle-sessions 5 --clients 1 --trials 2 --time 0.05",
        ),
        (
            "again-query",
            "run query-loop --clients 1 --trials 2 --time 0.05",
        ),
        (
            "again-pgio",
            "run pgio --size 8MB --tables 2 --update-pct 0 --clients 2 --trials 2 --time 0.1",
        ),
        (
            "again-scattered",
            "run scattered-read --size 8MB --trials 1 --only bitmap,sequential",
        ),
    ] {
        measured_again(name, &words.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn a_comparison_is_measured_again() {
    // Settings that our own questions change for themselves are in force all the same.
    let words = "compare temp temp --set-b jit=off --set-b search_path=public --clients 2 --scale 1 --slice 0.05 --warmup 0 \
                 --launches 1 --noise-pairs 2 --pairs 4 --seed 7";
    measured_again(
        "again-compare",
        &words.split_whitespace().collect::<Vec<_>>(),
    );
    for (name, what) in [
        ("again-compare-pgio", "--workload pgio --size 8MB"),
        ("again-compare-lwlock", "--workload lwlock"),
        ("again-compare-p99", "--metric p99 --scale 1"),
    ] {
        let words = format!(
            "compare temp temp --set-b jit=off {what} --clients 2 --slice 0.05 --launches 1 \
             --noise-pairs 2 --pairs 4"
        );
        measured_again(name, &words.split_whitespace().collect::<Vec<_>>());
    }
}
