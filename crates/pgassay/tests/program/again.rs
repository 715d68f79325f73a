//! What a report prints under "To measure again" measures the same experiment.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use serde_json::Value;

use super::runs::{Runs, Signal, text};

/// What a run recorded as its experiment, but for what is measured while it is set up.
fn experiment(dir: &Path) -> Value {
    let header: Value = serde_json::from_slice(&fs::read(dir.join("run.json")).unwrap()).unwrap();
    let mut experiment = header["experiment"].clone();
    for stage in experiment["stages"].as_array_mut().unwrap() {
        if let Some(pgio) = stage["driver"].get_mut("pgio") {
            pgio["setup_seconds"] = Value::Null;
        }
    }
    experiment
}

/// The run that a command begins, interrupted after its first trial: the experiment is recorded before.
fn begun(runs: &Runs, command: &mut Command) -> PathBuf {
    let before = dirs(runs);
    let said = runs.0.with_extension("said");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let dir = loop {
        let ended = child.try_wait().unwrap();
        let new = dirs(runs).difference(&before).next().cloned();
        let trials =
            |dir: &PathBuf| fs::metadata(dir.join("trials.jsonl")).map_or(0, |meta| meta.len());
        if let Some(dir) = new.filter(|dir| trials(dir) > 0) {
            break dir;
        }
        assert!(ended.is_none(), "{}", fs::read_to_string(&said).unwrap());
        sleep(Duration::from_millis(10));
    };
    kill_process(Pid::from_child(&child), Signal::INT).ok();
    child.wait().unwrap();
    fs::remove_file(said).unwrap();
    dir
}

fn dirs(runs: &Runs) -> BTreeSet<PathBuf> {
    fs::read_dir(&runs.0)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect()
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
    let first = begun(&runs, &mut runs.by_default(words));
    let line = printed(&runs, &first);
    let program = format!(
        "exec env --default-signal=INT {}",
        env!("CARGO_BIN_EXE_pgassay")
    );
    let mut again = Command::new("sh");
    again
        .args(["-c", &line.replacen("pgassay", &program, 1)])
        .env("PGASSAY_RUNS", &runs.0);
    let second = begun(&runs, &mut again);
    assert_eq!(experiment(&first), experiment(&second), "{line}");
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
