//! A run that is held between two trials, by a file that other processes make.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pgassay_engine::rundir::{self, pause};
use pgassay_engine::runner::{self, Ended, Schedule, Sink, Watcher};
use pgassay_model::plan::Stage;
use pgassay_model::point::Slice;
use pgassay_model::run::{EndState, EventKind};
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_sys::stop::Stop;

use crate::pipeline::{Directory, Played, Scratch, Unwatched, analysed, begin, end, plan, played};

/// What another process does when the run is held.
type Then<'a> = &'a dyn Fn(&Path);

/// Keeps trials and asks for a pause after some of them.
struct Paused<'a> {
    inner: Directory,
    /// After so many trials, for so long at most.
    after: usize,
    at_most: Duration,
    then: Then<'a>,
    slices: Vec<Slice>,
    held: Vec<usize>,
}

impl Sink for Paused<'_> {
    fn trial(&mut self, trial: &Trial) -> anyhow::Result<()> {
        self.slices.push(trial.slice);
        if self.slices.len() == self.after {
            pause::pause(self.inner.0.dir(), self.at_most)?;
        }
        self.inner.trial(trial)
    }

    fn event(&mut self, event: EventKind) -> anyhow::Result<()> {
        if let EventKind::Paused { .. } = event {
            self.held.push(self.slices.len());
            (self.then)(self.inner.0.dir());
        }
        self.inner.event(event)
    }

    fn dir(&self) -> Option<&Path> {
        Some(self.inner.0.dir())
    }
}

struct Ran {
    ended: Ended,
    slices: Vec<Slice>,
    /// How many trials there were when it was held.
    held: Vec<usize>,
    dir: PathBuf,
    stop: Stop,
}

/// Runs the plan for so many arms.
fn ran(
    scratch: &Scratch,
    arms: usize,
    after: usize,
    at_most: Duration,
    then: Then<'_>,
    stop: &Stop,
) -> Ran {
    let plan = plan();
    let (writer, _) = begin(scratch, &plan);
    let slices = Stage::wire(StageId::Load, plan.clone()).schedule(arms);
    let mut sink = Paused {
        inner: Directory(writer),
        after,
        at_most,
        then,
        slices: Vec::new(),
        held: Vec::new(),
    };
    let schedule = Schedule {
        stage: StageId::Load,
        slices: &slices,
        measured: &HashSet::new(),
    };
    let mut driver: Played = played(&plan);
    let watcher: &mut dyn Watcher = &mut Unwatched;
    let ended = runner::run(&schedule, &mut driver, &mut sink, watcher, stop).unwrap();
    let state = match ended {
        Ended::Complete => EndState::Complete,
        _ => EndState::Interrupted,
    };
    sink.inner.0.finish(&end(state)).unwrap();
    Ran {
        ended,
        slices: sink.slices,
        held: sink.held,
        dir: sink.inner.0.dir().to_owned(),
        stop: stop.clone(),
    }
}

fn events(dir: &Path) -> Vec<EventKind> {
    let run = rundir::read(dir).unwrap();
    run.events.into_iter().map(|event| event.what).collect()
}

#[test]
fn a_paused_run_waits_until_it_is_let_go_and_records_that() {
    let scratch = Scratch::new("paused");
    let goes_on = |dir: &Path| assert!(pause::unpause(dir).unwrap());
    let ran = ran(&scratch, 1, 3, pause::USUAL, &goes_on, &Stop::new());
    assert!(matches!(ran.ended, Ended::Complete));
    assert_eq!((ran.held, ran.slices.len()), (vec![3], 24));
    let events = events(&ran.dir);
    let [
        EventKind::Paused {
            at_most_seconds: 3600,
        },
        EventKind::Unpaused { seconds },
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    // What was waited is known to whoever has a time to keep.
    assert!((ran.stop.paused().as_secs_f64() - seconds).abs() < 1e-3);
    let analysis = analysed(&scratch);
    let said = analysis.warnings.iter().find(|w| w.id == "paused").unwrap();
    assert!(
        said.text.starts_with("Measuring was paused once, for 0 s"),
        "{said:?}"
    );
    assert!(!ran.dir.join("pause.json").exists());
}

#[test]
fn a_pause_whose_maker_was_killed_ends_by_itself() {
    let scratch = Scratch::new("pause-forgotten");
    let ran = ran(&scratch, 1, 1, Duration::ZERO, &|_| {}, &Stop::new());
    assert!(matches!(ran.ended, Ended::Complete));
    assert_eq!((ran.held, ran.slices.len()), (vec![1], 24));
    assert!(
        !ran.dir.join("pause.json").exists(),
        "it would hold the next trial again"
    );
}

#[test]
fn ctrl_c_ends_a_paused_run() {
    let scratch = Scratch::new("pause-stopped");
    let stop = Stop::new();
    let ran = ran(&scratch, 1, 5, pause::USUAL, &|_| stop.ask(), &stop);
    assert!(matches!(ran.ended, Ended::Interrupted));
    assert_eq!(ran.slices.len(), 5);
    // It is resumed as one that runs.
    assert!(!ran.dir.join("pause.json").exists());
}

#[test]
fn a_pair_is_not_torn_apart() {
    let scratch = Scratch::new("pause-pairs");
    let goes_on = |dir: &Path| assert!(pause::unpause(dir).unwrap());
    // After the first slice of a pair.
    let ran = ran(&scratch, 2, 3, pause::USUAL, &goes_on, &Stop::new());
    assert_eq!(ran.held, [4]);
    let pair = |slice: &Slice| (slice.round, slice.point);
    assert_eq!(pair(&ran.slices[2]), pair(&ran.slices[3]));
    assert_ne!(pair(&ran.slices[3]), pair(&ran.slices[4]));
}

#[test]
fn what_is_not_measured_is_not_paused_and_no_file_stands_for_one() {
    let scratch = Scratch::new("pause-idle");
    let (writer, header) = begin(&scratch, &plan());
    let dir = writer.dir().to_owned();
    let file = dir.join("pause.json");
    pause::pause(&dir, Duration::from_secs(5)).unwrap();
    assert_eq!(
        pause::asked(&dir).unwrap().at_most(),
        Duration::from_secs(5)
    );
    // What can't be understood holds it for the usual time, and no time is longer than the longest.
    fs::write(&file, "{").unwrap();
    assert_eq!(pause::asked(&dir).unwrap().at_most(), pause::USUAL);
    fs::write(&file, format!("{{\"seconds\":{},\"at\":\"\"}}", u64::MAX)).unwrap();
    assert_eq!(pause::asked(&dir).unwrap().at_most(), pause::LONGEST);
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    assert!(pause::asked(&dir).is_none(), "a link leads elsewhere");
    assert!(pause::unpause(&dir).unwrap() && !pause::unpause(&dir).unwrap());
    // Left behind by a process that was killed.
    pause::pause(&dir, pause::USUAL).unwrap();
    drop(writer);
    assert!(pause::pause(&dir, pause::USUAL).is_err());
    drop(rundir::RunWriter::reopen(&dir, &header).unwrap());
    assert!(pause::asked(&dir).is_none());
}
