//! A wall clock that steps by hours in the middle of a run, forwards and back, for pgassay and
//! for the server alike: figures, windows and the order of what was recorded do not notice.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use pgassay_model::trial::Trial;
use serde_json::Value;

use crate::runs::{Runs, postmasters_of, text};

const TRIALS: usize = 16;
const HOUR: i64 = 3600;

/// A clock that can be stepped, and an installation whose server goes by it.
struct Stepped {
    dir: PathBuf,
    offset: File,
}

impl Stepped {
    fn new(which: &str) -> Self {
        let name = format!("pgassay-test-stepped-{}-{which}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("bin")).unwrap();
        // The server's own user reads all of it.
        let readable = |path: &Path| {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        };
        readable(&dir);
        readable(&dir.join("bin"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/stepped.c");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .arg(dir.join("stepped.so"))
            .arg(&source)
            .output()
            .expect("a C compiler, which make test installs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        readable(&dir.join("stepped.so"));
        fs::write(dir.join("seconds"), 0i64.to_ne_bytes()).unwrap();
        readable(&dir.join("seconds"));
        for tool in fs::read_dir(crate::pg_support::bin_dir()).unwrap() {
            let tool = tool.unwrap();
            let script = format!(
                "#!/bin/sh\nexport LD_PRELOAD='{0}/stepped.so' STEPPED_CLOCK='{0}/seconds'\n\
                 exec '{1}' \"$@\"\n",
                dir.display(),
                tool.path().display()
            );
            let wrapper = dir.join("bin").join(tool.file_name());
            fs::write(&wrapper, script).unwrap();
            readable(&wrapper);
        }
        let offset = File::options().write(true).open(dir.join("seconds"));
        Self {
            offset: offset.unwrap(),
            dir,
        }
    }

    /// From now on the clock is so many seconds ahead, or behind.
    fn set(&self, seconds: i64) {
        self.offset.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_wall_clock_that_steps_changes_no_figure() {
    let runs = Runs::new("clock");
    let clock = Stepped::new("steps");
    let answer = clock.dir.join("answer.json");
    let (trials, bin) = (TRIALS.to_string(), clock.dir.join("bin"));
    let mut child = runs
        .command(&["run", "select-only", bin.to_str().unwrap(), "--json"])
        .args(["--clients", "2", "--trials", &trials, "--seed", "5"])
        .args(["--time", "0.5", "--warmup", "0.1", "--scale", "1"])
        .env("LD_PRELOAD", clock.dir.join("stepped.so"))
        .env("STEPPED_CLOCK", clock.dir.join("seconds"))
        .stdout(File::create(&answer).unwrap())
        .stderr(File::create(clock.dir.join("said")).unwrap())
        .spawn()
        .expect("the program starts");
    let run = runs.await_trials(1);
    let server = postmasters_of(child.id())[0];
    let maps = fs::read_to_string(format!("/proc/{server}/maps")).unwrap();
    assert!(
        maps.contains("stepped.so"),
        "the server goes by another clock"
    );
    clock.set(5 * HOUR);
    runs.await_trials(4);
    clock.set(-2 * HOUR);
    let ended = child.wait().unwrap();
    let said = fs::read_to_string(clock.dir.join("said")).unwrap();
    assert_eq!(ended.code(), Some(0), "{said}");

    let lines = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let trials: Vec<Trial> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(trials.len(), TRIALS);
    // The clock did step, both ways: as many hours lie between two trials.
    let started: Vec<i64> = trials
        .iter()
        .map(|t| t.started.parse::<jiff::Timestamp>().unwrap().as_second())
        .collect();
    let steps: Vec<i64> = started.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(steps.iter().any(|s| *s > 4 * HOUR), "{steps:?}");
    assert!(steps.iter().any(|s| *s < -6 * HOUR), "{steps:?}");
    for (at, trial) in trials.iter().enumerate() {
        assert_eq!(trial.slice.index as usize, at, "in the schedule's order");
        // Half a second and what a busy machine adds to it, but no hour.
        let hour = HOUR as u64 * 1_000_000_000;
        assert!((500_000_000..hour).contains(&trial.window_ns), "{at}");
        assert!(trial.transactions > 0, "{at}");
        let intervals = trial.intervals.len() as u64;
        let whole = trial.window_ns / trial.interval_ns;
        assert!(
            (whole..=whole + 1).contains(&intervals),
            "{at}: {intervals}"
        );
        assert_eq!(trial.intervals.iter().sum::<u64>(), trial.transactions);
        for (id, sample) in &trial.samples {
            let elapsed = sample.elapsed_ns;
            assert!((1_000_000..hour).contains(&elapsed), "{id}: {elapsed}");
        }
        let observed = trial.observed.as_ref().unwrap();
        // A second of the window each: an hour's step would have left 3,600 of them.
        let waits = observed
            .waits
            .as_ref()
            .map_or(0, |w| w.seconds.len() as u64);
        assert!(
            waits <= trial.window_ns / 1_000_000_000 + 1,
            "{at}: {waits}"
        );
    }

    let analysis: Value = serde_json::from_slice(&fs::read(&answer).unwrap()).unwrap();
    assert_eq!(analysis["run"]["state"], "complete");
    assert_eq!(analysis["run"]["trials_measured"], TRIALS);
    let took = analysis["run"]["elapsed_seconds"].as_f64().unwrap();
    assert!((0.0..HOUR as f64).contains(&took), "{took}");
    let point = &analysis["stages"][0]["arms"][0]["points"][0];
    let longest = point["latency_us"]["max"].as_f64().unwrap();
    assert!((0.0..HOUR as f64 * 1e6).contains(&longest), "{longest}");
    let server = point["metrics"]["server-cpu"]["estimate"].as_f64();
    assert!(server.is_some_and(|us| us > 0.0), "{point}");
    let checkpoints = &analysis["stages"][0]["arms"][0]["checkpoints"];
    assert_eq!(checkpoints["windows"], TRIALS, "{checkpoints}");
    // Nothing was said against the figures but what a busy machine explains.
    let warnings = analysis["warnings"].as_array().unwrap();
    let known = ["not-alone", "steal", "commits-differ"];
    let odd: Vec<&Value> = warnings
        .iter()
        .filter(|w| !known.contains(&w["id"].as_str().unwrap()))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}

/// Attack, clock: a date that cannot be written was a panic.
#[test]
fn a_clock_beyond_all_dates_is_borne() {
    let runs = Runs::new("clock-beyond");
    let clock = Stepped::new("beyond");
    for seconds in [1 << 45, -(1 << 40)] {
        clock.set(seconds);
        let collected = runs
            .command(&["collect", "--host"])
            .env("LD_PRELOAD", clock.dir.join("stepped.so"))
            .env("STEPPED_CLOCK", clock.dir.join("seconds"))
            .output()
            .unwrap();
        assert_eq!(
            collected.status.code(),
            Some(0),
            "{}",
            text(&collected.stderr)
        );
    }
}
