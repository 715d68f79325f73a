//! Blocks: two servers started together and loaded in turn, pair by pair.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use pgassay_analysis::metrics::MetricId;
use pgassay_engine::drivers::wire::Wire;
use pgassay_engine::rundir::RunWriter;
use pgassay_engine::runner::{self, Driver, Ended, Schedule, Sink};
use pgassay_engine::workload;
use pgassay_engine::workload::sessions::Recordings;
use pgassay_model::comparison::{Typed, launch_order};
use pgassay_model::point::Slice;
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_model::{Failure, FailureKind, Plan};
use pgassay_observe::Choice;
use pgassay_sys::stop::Stop;

use crate::commands::compare::servers::{Servers, Surroundings};
use crate::commands::progress::Progress;
use crate::terminal::Terminal;

/// Pairs of a block that only warm up.
const WARM_UP: u32 = 2;

/// How a block went.
pub enum Measured {
    /// The metric in both, pair by pair.
    Pairs(Vec<(f64, f64)>),
    /// Somebody asked for a stop.
    Interrupted,
    /// One of the servers did not start.
    NotStarted(anyhow::Error),
}

/// What all blocks have in common.
pub struct Bench {
    /// What opening needs beside the targets.
    pub around: Surroundings,
    /// What is compared.
    pub metric: MetricId,
    /// Pairs of a block.
    pub pairs: u32,
    /// Raised by Ctrl-C.
    pub stop: Stop,
}

/// Trials by pair and arm.
struct Kept<'w> {
    metric: MetricId,
    values: BTreeMap<(u32, u32), f64>,
    writer: &'w mut RunWriter,
}

impl Sink for Kept<'_> {
    fn dir(&self) -> Option<&Path> {
        Some(self.writer.dir())
    }

    fn trial(&mut self, trial: &Trial) -> anyhow::Result<()> {
        let value = self.metric.in_trial(trial);
        let slice = trial.slice;
        self.values
            .extend(value.map(|value| ((slice.round, slice.arm), value)));
        Ok(())
    }

    fn event(&mut self, event: EventKind) -> anyhow::Result<()> {
        match event {
            EventKind::PointSkipped { reason, .. } => bail!(Failure::target(reason)),
            event => self.writer.append_event(event),
        }
    }
}

/// The failure that says that a server does not start.
fn refusal(error: &anyhow::Error) -> Option<&Failure> {
    Failure::of(error).filter(|failure| failure.kind == FailureKind::Target)
}

impl Bench {
    /// What a server says that does not start; none where it does.
    ///
    /// # Errors
    /// Where it is not the server that refuses.
    pub fn refuses(&self, typed: &Typed) -> anyhow::Result<Option<String>> {
        let arms = [("the server".to_owned(), typed.clone())];
        match Servers::open(&arms, &[0], &self.around, &self.stop) {
            Ok(_) => Ok(None),
            Err(error) => match refusal(&error) {
                Some(failure) => Ok(Some(failure.message.clone())),
                None => Err(error),
            },
        }
    }

    /// Measures one block; the order within each pair is drawn from `seed`.
    ///
    /// # Errors
    /// Where a server can't be had, dies, or the metric is not shown.
    pub fn block(
        &self,
        arms: &[(String, Typed); 2],
        plan: &Plan,
        seed: u64,
        writer: &mut RunWriter,
        terminal: &Terminal,
    ) -> anyhow::Result<Measured> {
        let order = launch_order(seed, 0, 2);
        let mut servers = match Servers::open(arms, &order, &self.around, &self.stop) {
            Err(error) if refusal(&error).is_some() && !self.stop.asked() => {
                return Ok(Measured::NotStarted(error));
            }
            opened => opened?,
        };
        let mut progress = Progress::new(terminal, 100);
        let plans = [plan.clone(), plan.clone()];
        servers.refuse_full_disk(&[workload::bytes(&plan.workload); 2][..servers.launched()])?;
        servers.fill(&plans, &progress, &self.stop)?;
        let labels: Vec<String> = arms.iter().map(|(label, _)| label.clone()).collect();
        let mut driver = Wire {
            arms: servers.arms(
                &plans,
                &labels,
                Choice::default(),
                (None, &Recordings::default()),
                &self.stop,
            )?,
            checkpoints: plan.workload.writes,
            launches: Default::default(),
            plan: plan.clone(),
            stop: self.stop.clone(),
        };
        let slices: Vec<Slice> = (0..WARM_UP + self.pairs)
            .flat_map(|round| {
                let arms = launch_order(seed, round + 1, 2).into_iter();
                arms.enumerate().map(move |(n, arm)| Slice {
                    index: 2 * round + n as u32,
                    round,
                    arm: arm as u32,
                    point: 0,
                })
            })
            .collect();
        let schedule = Schedule {
            stage: StageId::Load,
            slices: &slices,
            measured: &Default::default(),
        };
        let mut kept = Kept {
            metric: self.metric,
            values: BTreeMap::new(),
            writer,
        };
        let driver: &mut dyn Driver = &mut driver;
        let ended = runner::run(&schedule, driver, &mut kept, &mut progress, &self.stop);
        progress.clear();
        match ended? {
            Ended::Complete => {}
            Ended::Interrupted => return Ok(Measured::Interrupted),
            Ended::ServerDied(why) => {
                let cause = servers.cause_of_death();
                let cause = cause.map_or_else(String::new, |said| format!("; its log: {said}"));
                bail!(Failure::target(format!("{why}{cause}")));
            }
        }
        let value = |round: u32, arm: u32| kept.values.get(&(round, arm)).copied();
        let pairs: Vec<(f64, f64)> = (WARM_UP..WARM_UP + self.pairs)
            .filter_map(|round| value(round, 0).zip(value(round, 1)))
            .filter(|(a, b)| *a > 0.0 && *b > 0.0)
            .collect();
        if pairs.len() < 2 {
            bail!(
                Failure::usage(format!(
                    "the search can't go by {}: no trial of {} shows it here",
                    self.metric, plan.workload.name
                ))
                .with_remedy("name another metric with --metric, or longer slices with --slice")
            );
        }
        Ok(Measured::Pairs(pairs))
    }

    /// What a plan needs to know of the servers at both ends.
    ///
    /// # Errors
    /// Where one can't be had.
    pub fn shared_buffers(&self, arms: &[(String, Typed); 2]) -> anyhow::Result<u64> {
        let mut servers = Servers::open(arms, &[0, 1], &self.around, &self.stop)?;
        servers.shared_buffers().context("asking the servers")
    }
}
