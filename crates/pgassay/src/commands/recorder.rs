//! The run directory as the runner sees it.

use std::path::Path;
use std::time::{Duration, Instant};

use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::{self, Driver, Ended, Schedule, Sink};
use pgassay_model::plan::Stage;
use pgassay_model::run::EventKind;
use pgassay_model::trial::Trial;
use pgassay_sys::stop::Stop;

use super::progress::Progress;

/// What is done with the run's directory once its first round is written.
pub type OnFirstRound<'a> = Box<dyn FnOnce(&Path) + 'a>;

/// A run that waits for a steady device ends after this time.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Writes trials and events down.
pub struct Recorder<'a> {
    /// Where.
    pub writer: &'a mut RunWriter,
    /// Whether trials are kept; else they were only to warm up.
    pub keep: bool,
    /// Until when it goes on, where a device's rate is waited for.
    pub steady: Option<Steady<'a>>,
    /// Called once, with the run's directory, when a first round is over and others follow.
    pub first_round: Option<OnFirstRound<'a>>,
}

impl<'a> Recorder<'a> {
    /// Keeps everything, and asks for no more than what was planned.
    pub fn new(writer: &'a mut RunWriter) -> Self {
        Self {
            writer,
            keep: true,
            steady: None,
            first_round: None,
        }
    }

    /// Runs the trials of a stage that are not yet measured, on so many arms, and further rounds as long as a steady
    /// device is waited for.
    ///
    /// # Errors
    /// Where a trial fails for a reason of our own, or the run can't be read or written.
    pub fn run(
        mut self,
        stage: &Stage,
        arms: usize,
        driver: &mut dyn Driver,
        progress: &mut Progress,
        stop: &Stop,
    ) -> anyhow::Result<Ended> {
        let schedule = Schedule {
            stage: stage.id,
            slices: &stage.schedule(arms),
            measured: &rundir::read(self.writer.dir())?.measured(stage.id),
        };
        let further = |further| stage.further_round(arms, further);
        runner::run_until_steady(&schedule, &further, driver, &mut self, progress, stop)
    }
}

impl Sink for Recorder<'_> {
    fn trial(&mut self, trial: &Trial) -> anyhow::Result<()> {
        if let Some(steady) = &mut self.steady {
            steady.rates.extend((steady.rate)(trial));
        }
        match self.keep {
            true => self.writer.append_trial(trial),
            false => Ok(()),
        }
    }

    fn dir(&self) -> Option<&Path> {
        Some(self.writer.dir())
    }

    fn event(&mut self, event: EventKind) -> anyhow::Result<()> {
        if let (EventKind::Unpaused { seconds }, Some(steady)) = (&event, &mut self.steady) {
            steady.started += Duration::from_secs_f64(*seconds);
        }
        self.writer.append_event(event)
    }

    fn again(&mut self) -> bool {
        self.steady.as_ref().is_some_and(|steady| {
            let waits = steady.started.elapsed() < LONGEST_WAIT;
            waits && !steady.rates.is_empty() && !(steady.is_stable)(&steady.rates)
        })
    }

    fn round_ended(&mut self) {
        if let Some(first_round) = self.first_round.take() {
            first_round(self.writer.dir());
        }
    }
}

/// The device's rate in a trial, with what was measured: rates of other points differ by nature.
type DeviceRate<'a> = Box<dyn Fn(&Trial) -> Option<(u32, f64)> + 'a>;

/// Waits until a device's rate stands still.
pub struct Steady<'a> {
    rate: DeviceRate<'a>,
    is_stable: fn(&[(u32, f64)]) -> bool,
    rates: Vec<(u32, f64)>,
    started: Instant,
}

impl<'a> Steady<'a> {
    /// From now on, for an hour at most.
    pub fn new(
        rate: impl Fn(&Trial) -> Option<(u32, f64)> + 'a,
        is_stable: fn(&[(u32, f64)]) -> bool,
    ) -> Self {
        Self {
            rate: Box::new(rate),
            is_stable,
            rates: Vec::new(),
            started: Instant::now(),
        }
    }
}
