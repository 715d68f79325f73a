//! Measuring primitives inside the server: sessions called together, trial by
//! trial, in a random order.

use std::time::Duration;

use anyhow::Context;
use pgassay_analysis::primitives::{PrimitiveTrial, PrimitivesPlan, SessionOutcome};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Ended;
use crate::pg::{Connector, QueryError, Session};
use crate::stop::Stop;
use crate::workload::inserver::{self, Arena, Call};

/// A call lasts a second at most; beyond this the server is lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// Threads only send a statement and wait for its row.
const STACK: usize = 256 << 10;

/// The sessions of a measurement.
pub struct Sessions {
    connector: Connector,
    keeper: Session,
    load: Vec<Session>,
    idle: Vec<Session>,
    arena: Option<Arena>,
}

impl Sessions {
    /// Connects the session that keeps the shared memory; the functions must exist.
    ///
    /// # Errors
    /// Where the server can't be reached.
    pub fn new(connector: Connector) -> anyhow::Result<Self> {
        let keeper = connect(&connector)?;
        Ok(Self {
            connector,
            keeper,
            load: Vec::new(),
            idle: Vec::new(),
            arena: None,
        })
    }

    /// As many sessions as a trial needs and not one more: idle ones cost too.
    fn resize(&mut self, load: usize, idle: usize) -> anyhow::Result<i64> {
        for (sessions, count) in [(&mut self.load, load), (&mut self.idle, idle)] {
            sessions.truncate(count);
            while sessions.len() < count {
                sessions.push(connect(&self.connector)?);
            }
        }
        if let Some(arena) = &self.arena
            && arena.sessions() == load
        {
            return Ok(arena.handle);
        }
        self.give_back()?;
        let arena = Arena::create(&mut self.keeper, load)?;
        let handle = arena.handle;
        self.arena = Some(arena);
        Ok(handle)
    }

    /// Gives the shared memory back, and checks that nothing in it is held.
    ///
    /// # Errors
    /// Where something is, or the server is lost.
    pub fn give_back(&mut self) -> anyhow::Result<()> {
        match self.arena.take() {
            Some(arena) => arena.drop_in(&mut self.keeper),
            None => Ok(()),
        }
    }

    /// One call in each of `count` sessions, released together.
    fn trial(
        &mut self,
        call: &Call,
        count: usize,
        seed: u64,
        call_us: u32,
    ) -> anyhow::Result<Vec<SessionOutcome>> {
        let handle = self.resize(count, call.idle as usize)?;
        if let Some(statement) = call.beforehand() {
            self.keeper.execute(&statement)?;
        }
        let results: Vec<anyhow::Result<SessionOutcome>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .load
                .iter_mut()
                .enumerate()
                .map(|(slot, session)| {
                    let statement = call.statement(handle, slot, seed, call_us);
                    std::thread::Builder::new()
                        .stack_size(STACK)
                        .spawn_scoped(scope, move || inserver::outcome(&session.rows(&statement)?))
                })
                .collect();
            threads
                .into_iter()
                .map(
                    |thread| match thread.context("no thread for a session")?.join() {
                        Ok(result) => result,
                        Err(panic) => std::panic::resume_unwind(panic),
                    },
                )
                .collect()
        });
        first_cause(results)
    }
}

/// All outcomes, or the error that explains the others: those that waited at
/// the gate only say that somebody did not come.
fn first_cause(
    results: Vec<anyhow::Result<SessionOutcome>>,
) -> anyhow::Result<Vec<SessionOutcome>> {
    let mut outcomes = Vec::new();
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => errors.push(error),
        }
    }
    let waited = |error: &anyhow::Error| error.to_string().contains("came to the gate");
    let cause = errors.iter().position(|error| !waited(error)).unwrap_or(0);
    if errors.is_empty() {
        Ok(outcomes)
    } else {
        Err(errors.swap_remove(cause))
    }
}

fn connect(connector: &Connector) -> anyhow::Result<Session> {
    let mut session = connector.connect().context("a session inside the server")?;
    session.set_read_timeout(Some(PATIENCE));
    Ok(session)
}

/// What is done with each trial as it comes.
pub trait Keep {
    /// Keeps a trial; `done` of `all` lie behind.
    ///
    /// # Errors
    /// Where it can't be written; the run ends.
    fn keep(&mut self, trial: PrimitiveTrial, done: usize, all: usize) -> anyhow::Result<()>;
}

/// Runs all trials of the plan: each round visits every call at every count
/// once, in random order, those with idle sessions beside them together.
///
/// # Errors
/// Where a call fails for another reason than a server that died.
pub fn run(
    plan: &PrimitivesPlan,
    calls: &[Call],
    sessions: &mut Sessions,
    keep: &mut dyn Keep,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let all = calls.len() * plan.sessions.len() * plan.trials as usize;
    let mut index = 0;
    for _round in 0..plan.trials {
        let mut order: Vec<(u32, u32)> = (0..calls.len() as u32)
            .flat_map(|call| plan.sessions.iter().map(move |count| (call, *count)))
            .collect();
        order.shuffle(&mut rng);
        order.sort_by_key(|(call, _)| calls[*call as usize].idle);
        for (variant, count) in order {
            if stop.asked() {
                return Ok(Ended::Interrupted);
            }
            let started = format!("{:.3}", jiff::Timestamp::now());
            let cpu_before = own_cpu_ns();
            let call = &calls[variant as usize];
            let seed = plan.seed.wrapping_add(u64::from(index) << 32);
            let outcomes = match sessions.trial(call, count as usize, seed, plan.call_us) {
                Ok(outcomes) => outcomes,
                Err(_) if stop.asked() => return Ok(Ended::Interrupted),
                Err(error) if is_lost(&error) => {
                    return Ok(Ended::ServerDied(format!("{error:#}")));
                }
                Err(error) => {
                    return Err(
                        error.context(format!("{} in {count} sessions", call.variant().title()))
                    );
                }
            };
            let trial = PrimitiveTrial {
                variant,
                index,
                started,
                client_cpu_ns: own_cpu_ns().saturating_sub(cpu_before),
                sessions: outcomes,
            };
            index += 1;
            keep.keep(trial, index as usize, all)?;
        }
    }
    sessions.give_back()?;
    Ok(Ended::Complete)
}

/// Whether the connection went, rather than a statement failed.
fn is_lost(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<QueryError>())
        .any(QueryError::is_fatal)
}

/// CPU time of this process, in nanoseconds.
fn own_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}
