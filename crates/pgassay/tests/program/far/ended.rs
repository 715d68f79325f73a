//! Either side killed, stopped or interrupted: what was measured is kept, and nothing goes on.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{CARRIED, Part, SHORT, at, lines, sessions};
use crate::runs::{Runs, Signal, gone, signal, text};

/// Waits until nothing of the far side runs and nothing of it lies around.
pub fn nothing_is_left(runs: &Runs, agent: u32) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let processes = runs.far_processes();
        let lying = sessions(agent);
        let clusters: Vec<_> = fs::read_dir(scratch(runs))
            .into_iter()
            .flatten()
            .flatten()
            .flat_map(|ours| {
                fs::read_dir(ours.path().join("clusters"))
                    .into_iter()
                    .flatten()
            })
            .flatten()
            .collect();
        if processes.is_empty() && lying.is_empty() && clusters.is_empty() {
            return;
        }
        assert!(
            Instant::now() < until,
            "left: {processes:?} {lying:?} {clusters:?}"
        );
        sleep(Duration::from_millis(50));
    }
}

/// A scratch directory of this test alone.
fn scratch(runs: &Runs) -> PathBuf {
    let name = runs.0.file_name().unwrap().to_string_lossy().into_owned();
    PathBuf::from("/var/tmp").join(format!("{name}-scratch"))
}

/// Ends whatever a test started, and removes what it made.
pub struct Measuring {
    pub near: Child,
    /// The far side's process that answers it.
    pub agent: u32,
    pub scratch: PathBuf,
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let _ = self.near.kill();
        let _ = self.near.wait();
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// A long measurement elsewhere, two trials of which are here.
pub fn measuring(
    runs: &Runs,
    target: &str,
    more: &[&str],
    ssh: Option<&str>,
) -> (Measuring, PathBuf) {
    let scratch = scratch(runs);
    fs::create_dir_all(&scratch).unwrap();
    let place = scratch.display().to_string();
    let mut args = vec!["run", "select-only", target, "--scratch", &place];
    args.extend(more);
    args.extend(SHORT);
    args.push("2000");
    let mut command = runs.by_default(&args);
    if let Some(ssh) = ssh {
        command.env("PGASSAY_SSH", ssh);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let near = command.spawn().unwrap();
    let mut measuring = Measuring {
        near,
        agent: 0,
        scratch,
    };
    let run = runs.await_trials(2);
    measuring.agent = runs.far_process(Part::Agent);
    (measuring, run)
}

/// Whoever is killed: what was measured is kept, and nothing goes on.
#[test]
fn nothing_runs_on_when_a_part_is_killed() {
    enum Victim {
        Near,
        Carrier,
        Far(&'static [Part]),
    }
    use Part::{Agent, Command, Warden};
    for (n, victim) in [
        Victim::Near,
        Victim::Carrier,
        Victim::Far(&[Agent]),
        Victim::Far(&[Command]),
        Victim::Far(&[Warden]),
        Victim::Far(&[Agent, Command]),
    ]
    .into_iter()
    .enumerate()
    {
        let runs = Runs::far("far-killed");
        let (mut measuring, run) = measuring(&runs, &at(CARRIED, "temp"), &[], None);
        let near = measuring.near.id();
        let trials = lines(&run.join("trials.jsonl"));
        let pids = match &victim {
            Victim::Near => vec![near],
            Victim::Carrier => vec![carrier_of(near)],
            Victim::Far(parts) => parts.iter().map(|part| runs.far_process(*part)).collect(),
        };
        for pid in pids {
            signal(pid, Signal::KILL);
        }
        if let Victim::Far(&[Warden]) = victim {
            // Nothing is measured by it: only now there is nobody to tidy up, should the agent be killed, too.
            signal(near, Signal::INT);
        }
        assert!(gone(near), "{n}");
        let mut said = String::new();
        use std::io::Read;
        measuring
            .near
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let code = measuring.near.wait().unwrap().code();
        match victim {
            Victim::Near => assert_eq!(code, None),
            // Ended there in order, or here with what was kept.
            _ => assert_eq!(code, Some(4), "{n}: {said}"),
        }
        if !matches!(victim, Victim::Near | Victim::Far(&[Warden])) {
            assert!(said.contains("finished trials were kept"), "{n}: {said}");
        }
        nothing_is_left(&runs, measuring.agent);
        assert!(lines(&run.join("trials.jsonl")) >= trials, "{n}");
        assert!(!pgassay_engine::rundir::is_running(&run));
        // It is told as an interrupted run.
        let list = runs.run(&["runs", "--json"]);
        assert!(
            text(&list.stdout).contains("interrupted"),
            "{}",
            text(&list.stdout)
        );
    }
}

/// A command that is stopped hears of nothing, and is ended all the same.
#[test]
fn a_command_that_is_stopped_does_not_stay() {
    let runs = Runs::far("far-stopped");
    let (measuring, _) = measuring(&runs, &at(CARRIED, "temp"), &[], None);
    signal(runs.far_process(Part::Command), Signal::STOP);
    // What it is asked waits for as long as it is stopped.
    signal(measuring.near.id(), Signal::INT);
    signal(measuring.near.id(), Signal::KILL);
    assert!(gone(measuring.near.id()));
    nothing_is_left(&runs, measuring.agent);
}

/// The carrier: the first child of the near side.
pub fn carrier_of(pid: u32) -> u32 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let all: String = lists.collect();
    all.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn ctrl_c_here_is_ctrl_c_there() {
    let runs = Runs::far("far-interrupted");
    let (mut measuring, run) = measuring(&runs, &at(CARRIED, "temp"), &[], None);
    signal(measuring.near.id(), Signal::INT);
    assert!(gone(measuring.near.id()));
    assert_eq!(measuring.near.wait().unwrap().code(), Some(4));
    nothing_is_left(&runs, measuring.agent);
    // The run was ended in order.
    let end: Value = serde_json::from_slice(&fs::read(run.join("end.json")).unwrap()).unwrap();
    assert_eq!(end["state"], "interrupted");
}
