//! Measuring: the schedule of a plan, slice by slice, into the journal.
//!
//! This module decides the order and what a failure means; an [`Arena`] runs
//! the slices. The real one (`arena`) joins target, load and observers; the
//! tests' has a clock of its own, so that the whole pipeline runs without time.

pub mod arena;
pub mod ceiling;
pub mod pgio;
pub mod primitives;
pub mod query_cost;
pub mod scattered_read;

use std::collections::BTreeSet;
use std::collections::HashSet;
use std::time::Duration;

use pgassay_analysis::Plan;
use pgassay_analysis::observed::SymbolTable;
use pgassay_analysis::plan::Slice;
use pgassay_analysis::record::{EventKind, TrialRecord};

use pgassay_load::Passed;
use pgassay_sys::stop::Stop;

/// What can run a slice of load.
pub trait Arena {
    /// Runs one slice of the plan and says what was seen; the watcher may look on.
    ///
    /// # Errors
    /// Why there is no trial; see [`SliceFailure`].
    fn run_slice(
        &mut self,
        plan: &Plan,
        slice: Slice,
        watcher: &mut dyn Watcher,
    ) -> Result<TrialRecord, SliceFailure>;
}

/// Why a slice gave no trial.
#[derive(Debug)]
pub enum SliceFailure {
    /// The server takes fewer connections than the point needs: the point is left out.
    PointOutOfReach(String),
    /// Somebody asked for a stop.
    Interrupted,
    /// The server died or can't be reached any more.
    ServerDied(String),
    /// Anything else, which ends the run.
    Other(anyhow::Error),
}

/// Where trials and events are written down as they come.
pub trait Journal {
    /// Keeps a trial.
    ///
    /// # Errors
    /// Where it can't be written; the run ends.
    fn trial(&mut self, trial: &TrialRecord) -> anyhow::Result<()>;
    /// Keeps an event.
    ///
    /// # Errors
    /// Like [`Self::trial`].
    fn event(&mut self, event: EventKind) -> anyhow::Result<()>;
    /// Keeps the names of the functions that CPU samples hit, at the end of a sweep.
    ///
    /// # Errors
    /// Like [`Self::trial`].
    fn symbols(&mut self, arm: u32, symbols: &SymbolTable) -> anyhow::Result<()> {
        let _ = (arm, symbols);
        Ok(())
    }
}

/// Who wants to see the run go on.
pub trait Watcher {
    /// A slice is about to run; `done` of `all` lie behind.
    fn before(&mut self, plan: &Plan, slice: Slice, done: usize, all: usize);
    /// How often it wants to hear while a slice runs; `None` where nobody looks.
    fn every(&self) -> Option<Duration> {
        None
    }
    /// A further part of the slice's window is over.
    fn during(&mut self, passed: &Passed) {
        let _ = passed;
    }
    /// A slice has given this trial.
    fn after(&mut self, plan: &Plan, trial: &TrialRecord);
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

/// Runs the slices of the plan that are not in `measured`, in the plan's order.
///
/// # Errors
/// Where a slice fails for a reason of our own, or the journal can't be written.
pub fn run(
    plan: &Plan,
    measured: &HashSet<u32>,
    arena: &mut dyn Arena,
    journal: &mut dyn Journal,
    watcher: &mut dyn Watcher,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    run_slices(
        plan,
        &plan.schedule(),
        measured,
        arena,
        journal,
        watcher,
        stop,
    )
}

/// Runs those of the given slices that are not in `measured`, in their order.
///
/// # Errors
/// Like [`run`].
pub fn run_slices(
    plan: &Plan,
    slices: &[Slice],
    measured: &HashSet<u32>,
    arena: &mut dyn Arena,
    journal: &mut dyn Journal,
    watcher: &mut dyn Watcher,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let all = slices.len();
    let behind = slices.iter().filter(|s| measured.contains(&s.index));
    let mut done = behind.count();
    let mut out_of_reach: BTreeSet<u32> = BTreeSet::new();
    for &slice in slices {
        if measured.contains(&slice.index) {
            continue;
        }
        if stop.asked() {
            return Ok(Ended::Interrupted);
        }
        if out_of_reach.contains(&slice.point) {
            done += 1;
            continue;
        }
        watcher.before(plan, slice, done, all);
        match arena.run_slice(plan, slice, watcher) {
            Ok(trial) => {
                journal.trial(&trial)?;
                watcher.after(plan, &trial);
            }
            Err(SliceFailure::PointOutOfReach(reason)) => {
                out_of_reach.insert(slice.point);
                journal.event(EventKind::PointSkipped {
                    point: slice.point,
                    reason,
                })?;
            }
            Err(SliceFailure::Interrupted) => return Ok(Ended::Interrupted),
            Err(SliceFailure::ServerDied(reason)) => return Ok(Ended::ServerDied(reason)),
            Err(SliceFailure::Other(error)) => return Err(error),
        }
        done += 1;
    }
    Ok(Ended::Complete)
}
