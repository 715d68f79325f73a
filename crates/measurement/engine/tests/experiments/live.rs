//! What is told of the trial that runs, and to whom.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use pgassay_engine::rundir::live::{Follower, Teller};
use pgassay_engine::runner::{self, Driver, Keep, Schedule, Sink, TrialFailure, Watcher};
use pgassay_load::{Latency, Passed};
use pgassay_model::live::Disturbed;
use pgassay_model::plan::Stage;
use pgassay_model::point::Slice;
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_sys::stop::Stop;

use crate::pipeline::{Directory, Played, Scratch, Unwatched, begin, plan, played};

struct Kept(Directory);

impl Sink for Kept {
    fn trial(&mut self, trial: &Trial) -> anyhow::Result<()> {
        self.0.trial(trial)
    }
    fn event(&mut self, event: EventKind) -> anyhow::Result<()> {
        self.0.event(event)
    }
    fn dir(&self) -> Option<&Path> {
        Some(self.0.0.dir())
    }
}

/// Tells of a second in the middle of each slice, as the wire driver does.
struct Following {
    played: Played,
    asked: Vec<Option<Duration>>,
}

impl Driver for Following {
    fn run(
        &mut self,
        slice: Slice,
        watcher: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        self.asked.push(watcher.every());
        if watcher.looks_at_cpus() {
            watcher.disturbed(Disturbed {
                others: Some(0.25),
                steal: None,
            });
        }
        let mut latency = Latency::new();
        latency.record(2_000_000);
        // The first line is too near to that of the slice's beginning.
        std::thread::sleep(Duration::from_millis(950));
        watcher.during(&Passed {
            covered_ns: 500_000_000,
            transactions: 100,
            failures: 1,
            latency,
        });
        self.played.run(slice, watcher, keep)
    }
    fn unit(&self) -> &'static str {
        "tps"
    }
    fn describe(&self, slice: Slice) -> String {
        self.played.describe(slice)
    }
    fn takes(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
    fn follows(&self) -> bool {
        true
    }
}

#[test]
fn who_follows_is_told_of_the_trial_that_runs() {
    let scratch = Scratch::new("told");
    let plan = plan();
    let (writer, _) = begin(&scratch, &plan);
    let dir = writer.dir().to_owned();
    let slices = Stage::wire(StageId::Load, plan.clone()).schedule(1);
    let (none, stop) = (HashSet::new(), Stop::new());
    let run = |kept: &mut Kept, driver: &mut Following, slices: &[Slice]| {
        let schedule = Schedule {
            stage: StageId::Load,
            slices,
            measured: &none,
        };
        runner::run(&schedule, driver, kept, &mut Unwatched, &stop).unwrap();
    };
    let mut kept = Kept(Directory(writer));
    let mut driver = Following {
        played: played(&plan),
        asked: Vec::new(),
    };
    assert!(Follower::open(&dir).is_none(), "nothing is there yet");
    run(&mut kept, &mut driver, &slices[..1]);
    let mut follower = Follower::open(&dir).unwrap();
    run(&mut kept, &mut driver, &slices[1..2]);
    let told = follower.read();
    assert_eq!(driver.asked, [None, Some(Duration::from_secs(1))]);
    let [begun, second] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!((begun.done, begun.all, begun.second), (0, 1, None));
    let second = (second.passed_seconds, second.second.unwrap());
    assert_eq!((second.0, second.1.rate, second.1.failed), (0.5, 200.0, 1));
    assert!((second.1.latency_ms.unwrap().0 - 2.0).abs() < 0.01);
    assert_eq!(second.1.disturbed.others, Some(0.25));
    // Who has gone is told nothing more.
    drop(follower);
    assert!(!Teller::open(&dir).unwrap().is_followed());
    run(&mut kept, &mut driver, &slices[2..3]);
    assert_eq!(driver.asked.last(), Some(&None));
    let mut late = Follower::open(&dir).unwrap();
    assert!(Teller::open(&dir).unwrap().is_followed());
    assert!(late.read().is_empty(), "what is past is not told");
}

#[test]
fn lines_that_are_cut_or_foreign_are_passed_over() {
    let scratch = Scratch::new("told-cut");
    let (writer, _) = begin(&scratch, &plan());
    let dir = writer.dir();
    let file = dir.join("live.jsonl");
    std::fs::write(&file, "").unwrap();
    let mut follower = Follower::open(dir).unwrap();
    let whole = "{\"name\":\"a\",\"unit\":\"tps\",\"done\":1,\"all\":2,\"passed_seconds\":1.0}";
    std::fs::write(&file, format!("not json\n{whole}\n{}", &whole[..20])).unwrap();
    assert_eq!(follower.read().len(), 1);
    assert!(follower.read().is_empty());
    // It began anew.
    std::fs::write(&file, format!("{whole}\n")).unwrap();
    assert_eq!(follower.read().len(), 1);
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
    assert!(Follower::open(dir).is_none());
}
