//! The one loop that runs trials: the slices of a stage, in their order, into a sink.
//!
//! The runner decides the order and what a failure means; a [`Driver`] runs the slices. Each kind of
//! load has a driver of its own (`drivers`); the tests' has a clock of its own, so that the whole
//! pipeline runs without time.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use pgassay_load::{Latency, Passed};
use pgassay_model::live::{Disturbed, Moment, Second};
use pgassay_model::observed::stacks::SymbolTable;
use pgassay_model::point::Slice;
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_pgwire::QueryError;
use pgassay_sys::stop::Stop;

use crate::rundir::live::Teller;
use crate::rundir::pause;

/// How often a run that is held looks whether it may go on.
const LOOKS: Duration = Duration::from_millis(100);
/// How often who follows a run hears of the trial that runs.
const TELLS: Duration = Duration::from_secs(1);
/// The shortest part of a window that is told, in nanoseconds.
const WORTH_TELLING: u64 = 100_000_000;

/// Takes a trial; fails where it can't be written.
pub type Keep<'k> = &'k mut dyn FnMut(Trial) -> anyhow::Result<()>;

/// What can run a slice of load.
pub trait Driver {
    /// Runs one slice and gives its trial to `keep`, or several where the slice is repeated; the
    /// watcher may look on. The runner adds which slice of which stage it was.
    ///
    /// # Errors
    /// Why there is no trial; see [`TrialFailure`].
    fn run(
        &mut self,
        slice: Slice,
        watcher: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure>;

    /// What a slice is, in a few words for who looks on: `4 clients`.
    fn describe(&self, slice: Slice) -> String;

    /// What its work is counted in, for who looks on: `tps`.
    fn unit(&self) -> &'static str;

    /// How long a slice takes by its plan, where it tells.
    fn takes(&self) -> Option<Duration> {
        None
    }

    /// Whether it tells the watcher of each part of a window as it passes. Of the others the runner
    /// tells each trial as a whole.
    fn follows(&self) -> bool {
        false
    }

    /// The servers that it loads, where they are watched.
    fn arms(&mut self) -> Option<&mut dyn Arms> {
        None
    }

    /// The names of the functions that CPU samples hit, by arm. Ends sampling.
    fn symbols(&mut self) -> Vec<Option<SymbolTable>> {
        self.arms().map_or_else(Vec::new, |arms| arms.symbols())
    }

    /// Lets the last of several arms go, when it has done its part; the names of its functions.
    fn drop_last(&mut self) -> Option<SymbolTable> {
        self.arms()?.drop_last()
    }
}

/// The servers of a driver, each watched.
pub trait Arms {
    /// See [`Driver::symbols`].
    fn symbols(&mut self) -> Vec<Option<SymbolTable>>;

    /// See [`Driver::drop_last`].
    fn drop_last(&mut self) -> Option<SymbolTable>;
}

/// Why a slice gave no trial.
#[derive(Debug)]
pub enum TrialFailure {
    /// The point can't be measured here, as the server takes fewer connections than it needs: it is
    /// left out.
    PointOutOfReach(String),
    /// Somebody asked for a stop.
    Interrupted,
    /// The server died or can't be reached any more.
    ServerDied(String),
    /// Anything else, which ends the run.
    Other(anyhow::Error),
}

impl TrialFailure {
    /// What an error within a slice means: when a stop was asked for, whatever fails fails of it.
    pub fn of(error: anyhow::Error, stop: &Stop) -> Self {
        if stop.asked() {
            return Self::Interrupted;
        }
        match is_lost(&error) {
            true => Self::ServerDied(format!("{error:#}")),
            false => Self::Other(error),
        }
    }

    /// The same with the server's name.
    #[must_use]
    pub fn named(self, server: &str) -> Self {
        match self {
            Self::ServerDied(why) => {
                Self::ServerDied(format!("the server of {server} died: {why}"))
            }
            Self::PointOutOfReach(why) => Self::PointOutOfReach(format!("{server}: {why}")),
            Self::Other(error) => Self::Other(error.context(format!("{server} can't run this"))),
            Self::Interrupted => Self::Interrupted,
        }
    }
}

/// Whether the connection went, rather than a statement failed.
pub fn is_lost(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<QueryError>())
        .any(QueryError::is_fatal)
}

/// Where trials and events are written down as they come.
pub trait Sink {
    /// Keeps a trial.
    ///
    /// # Errors
    /// Where it can't be written; the run ends.
    fn trial(&mut self, trial: &Trial) -> anyhow::Result<()>;
    /// Keeps an event.
    ///
    /// # Errors
    /// Like [`Self::trial`].
    fn event(&mut self, event: EventKind) -> anyhow::Result<()>;
    /// The directory of the run, where it has one: by it the run is paused.
    fn dir(&self) -> Option<&Path> {
        None
    }
    /// Asked when the planned trials are done: whether a further round is wanted.
    fn again(&mut self) -> bool {
        false
    }
    /// Called when a round of the schedule is over, before the next begins.
    fn round_ended(&mut self) {}
}

/// A slice that is about to run.
#[derive(Debug)]
pub struct Upcoming {
    /// What it is: `4 clients`.
    pub name: String,
    /// What its work is counted in: `tps`.
    pub unit: &'static str,
    /// How long it takes by its plan, where that is known.
    pub takes: Option<Duration>,
    /// How many slices lie behind.
    pub done: usize,
    /// How many there are in all.
    pub all: usize,
}

/// Who wants to see the run go on.
pub trait Watcher {
    /// A slice is about to run.
    fn before(&mut self, upcoming: Upcoming);
    /// How often it wants to hear while a slice runs; `None` where nobody looks.
    fn every(&self) -> Option<Duration> {
        None
    }
    /// Whether it wants to hear what disturbs a slice while it runs.
    fn looks_at_cpus(&self) -> bool {
        false
    }
    /// What disturbed the part of the window that it is told of next.
    fn disturbed(&mut self, disturbed: Disturbed) {
        let _ = disturbed;
    }
    /// A further part of the slice's window is over.
    fn during(&mut self, passed: &Passed) {
        let _ = passed;
    }
    /// The run is held, for so long at most; `None` when it goes on.
    fn held(&mut self, at_most: Option<Duration>) {
        let _ = at_most;
    }
    /// A slice has given this trial.
    fn after(&mut self, trial: &Trial);
}

/// How the schedule ended.
#[derive(Debug)]
pub enum Ended {
    /// Every slice was run.
    Complete,
    /// Somebody asked for a stop.
    Interrupted,
    /// The server died.
    ServerDied(String),
}

/// What is run: slices of one stage.
pub struct Schedule<'a> {
    /// Which stage of the run.
    pub stage: StageId,
    /// Its slices, in their order.
    pub slices: &'a [Slice],
    /// Those of them that need not be run, as they were before.
    pub measured: &'a HashSet<u32>,
}

/// Runs the slices of the schedule that were not measured before, in their order. A run that is asked to
/// pause waits before a slice, but not between the arms of a round: they are to be compared.
///
/// # Errors
/// Where a slice fails for a reason of our own, or the sink can't write.
pub fn run(
    schedule: &Schedule<'_>,
    driver: &mut dyn Driver,
    sink: &mut dyn Sink,
    watcher: &mut dyn Watcher,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let all = schedule.slices.len();
    let behind = |slice: &Slice| schedule.measured.contains(&slice.index);
    let mut done = schedule.slices.iter().filter(|slice| behind(slice)).count();
    let mut out_of_reach: BTreeSet<u32> = BTreeSet::new();
    let mut before: Option<Slice> = None;
    let watcher = &mut Telling::new(watcher, sink.dir());
    let ahead = schedule.slices.iter().filter(|slice| !behind(slice));
    let mut ahead = ahead.copied().peekable();
    while let Some(slice) = ahead.next() {
        let of_same_round = |b: Slice| (b.round, b.point) == (slice.round, slice.point);
        if !before.is_some_and(of_same_round) {
            hold(sink, watcher, stop)?;
        }
        before = Some(slice);
        if stop.asked() {
            return Ok(Ended::Interrupted);
        }
        if !out_of_reach.contains(&slice.point) {
            watcher.before(Upcoming {
                name: driver.describe(slice),
                unit: driver.unit(),
                takes: driver.takes(),
                done,
                all,
            });
            match run_slice(schedule.stage, slice, driver, sink, watcher) {
                Ok(()) => {}
                Err(TrialFailure::PointOutOfReach(reason)) => {
                    out_of_reach.insert(slice.point);
                    sink.event(EventKind::PointSkipped {
                        stage: schedule.stage,
                        point: slice.point,
                        reason,
                    })?;
                }
                Err(TrialFailure::Interrupted) => return Ok(Ended::Interrupted),
                Err(TrialFailure::ServerDied(reason)) => return Ok(Ended::ServerDied(reason)),
                Err(TrialFailure::Other(error)) => return Err(error),
            }
        }
        done += 1;
        if ahead.peek().is_some_and(|next| next.round != slice.round) {
            sink.round_ended();
        }
    }
    Ok(Ended::Complete)
}

/// Runs the schedule, and after it further rounds as long as the sink asks for them; `further` gives
/// the slices of each, from 0.
///
/// # Errors
/// Like [`run`].
pub fn run_until_steady(
    schedule: &Schedule<'_>,
    further: &dyn Fn(u32) -> Vec<Slice>,
    driver: &mut dyn Driver,
    sink: &mut dyn Sink,
    watcher: &mut dyn Watcher,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let mut ended = run(schedule, driver, sink, watcher, stop)?;
    let mut rounds = 0..;
    while let Ended::Complete = ended
        && sink.again()
        && let Some(round) = rounds.next()
    {
        let slices = further(round);
        let more = Schedule {
            slices: &slices,
            ..*schedule
        };
        ended = run(&more, driver, sink, watcher, stop)?;
    }
    Ok(ended)
}

/// A watcher, and beside it those who follow the run from other processes.
struct Telling<'w> {
    inner: &'w mut dyn Watcher,
    teller: Option<Teller>,
    /// Whether anybody follows the trial that runs.
    followed: bool,
    moment: Moment,
    gathered: Passed,
    disturbed: Disturbed,
}

impl<'w> Telling<'w> {
    fn new(inner: &'w mut dyn Watcher, dir: Option<&Path>) -> Self {
        Self {
            inner,
            teller: dir.and_then(Teller::open),
            followed: false,
            moment: Moment::default(),
            gathered: Passed::default(),
            disturbed: Disturbed::default(),
        }
    }
}

impl Watcher for Telling<'_> {
    fn before(&mut self, upcoming: Upcoming) {
        self.followed = self.teller.as_ref().is_some_and(Teller::is_followed);
        self.moment = Moment {
            name: upcoming.name.clone(),
            unit: upcoming.unit.to_owned(),
            done: upcoming.done,
            all: upcoming.all,
            takes_seconds: upcoming.takes.map(|takes| takes.as_secs_f64()),
            ..Moment::default()
        };
        self.gathered = Passed::default();
        self.inner.before(upcoming);
        if let (true, Some(teller)) = (self.followed, &mut self.teller) {
            teller.tell(&self.moment);
        }
    }

    fn every(&self) -> Option<Duration> {
        let own = self.followed.then_some(TELLS);
        self.inner.every().into_iter().chain(own).min()
    }

    fn looks_at_cpus(&self) -> bool {
        self.followed || self.inner.looks_at_cpus()
    }

    fn disturbed(&mut self, disturbed: Disturbed) {
        self.disturbed = disturbed;
        self.inner.disturbed(disturbed);
    }

    fn during(&mut self, passed: &Passed) {
        self.inner.during(passed);
        let Some(teller) = self.teller.as_mut().filter(|_| self.followed) else {
            return;
        };
        self.gathered.add(passed);
        self.moment.passed_seconds += passed.covered_ns as f64 / 1e9;
        if self.gathered.covered_ns < WORTH_TELLING {
            return;
        }
        let gathered = std::mem::take(&mut self.gathered);
        let milliseconds = |nanoseconds: f64| nanoseconds / 1e6;
        let latency = &gathered.latency;
        self.moment.second = Some(Second {
            rate: gathered.transactions as f64 / (gathered.covered_ns as f64 / 1e9),
            latency_ms: (latency.count() > 0).then(|| {
                let p99 = latency.percentile(99.0) as f64;
                (milliseconds(latency.mean()), milliseconds(p99))
            }),
            failed: gathered.failures,
            disturbed: std::mem::take(&mut self.disturbed),
        });
        teller.tell(&self.moment);
    }

    fn held(&mut self, at_most: Option<Duration>) {
        self.inner.held(at_most);
    }

    fn after(&mut self, trial: &Trial) {
        self.inner.after(trial);
    }
}

/// Waits as long as somebody asks for it, and notes that in the record.
fn hold(sink: &mut dyn Sink, watcher: &mut dyn Watcher, stop: &Stop) -> anyhow::Result<()> {
    let Some(dir) = sink.dir().map(Path::to_owned) else {
        return Ok(());
    };
    let Some(mut asked) = pause::asked(&dir) else {
        return Ok(());
    };
    let begun = Instant::now();
    let mut since = begun;
    sink.event(EventKind::Paused {
        at_most_seconds: asked.at_most().as_secs(),
    })?;
    watcher.held(Some(asked.at_most()));
    while !stop.asked() {
        match pause::asked(&dir) {
            None => break,
            Some(now) if now != asked => {
                since = Instant::now();
                watcher.held(Some(now.at_most()));
                asked = now;
            }
            Some(_) if since.elapsed() >= asked.at_most() => break,
            Some(_) => std::thread::sleep(LOOKS),
        }
    }
    // Where it can't be removed it would hold the next trial as long again, and no longer.
    let _ = pause::unpause(&dir);
    let held = begun.elapsed();
    stop.note_pause(held);
    watcher.held(None);
    sink.event(EventKind::Unpaused {
        seconds: held.as_secs_f64(),
    })
}

fn run_slice(
    stage: StageId,
    slice: Slice,
    driver: &mut dyn Driver,
    sink: &mut dyn Sink,
    watcher: &mut dyn Watcher,
) -> Result<(), TrialFailure> {
    let follows = driver.follows();
    let mut kept = Vec::new();
    driver.run(slice, watcher, &mut |trial| {
        let trial = Trial {
            stage,
            slice,
            ..trial
        };
        sink.trial(&trial)?;
        kept.push(trial);
        Ok(())
    })?;
    for trial in kept {
        if !follows {
            watcher.during(&Passed {
                covered_ns: trial.window_ns,
                transactions: trial.transactions,
                failures: trial.failures.values().sum(),
                latency: Latency::new(),
            });
        }
        watcher.after(&trial);
    }
    Ok(())
}
