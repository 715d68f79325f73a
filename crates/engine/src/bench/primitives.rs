//! Measuring primitives inside the server: sessions called together, trial by
//! trial, in a random order.

use std::time::{Duration, Instant};

use anyhow::Context;
use pgassay_analysis::primitives::{
    Company, PrimitiveTrial, PrimitivesPlan, SessionOutcome, WaitSeen,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Ended;
use crate::workload::inserver::{self, Arena, Call};
use pgassay_load::raise_descriptor_limit;
use pgassay_observe::{Observers, Scene};
use pgassay_pgwire::{Connector, QueryError, Session};
use pgassay_sys::stop::Stop;

/// A call lasts a second at most; beyond this the server is lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// Threads only send a statement and wait for its row.
const STACK: usize = 256 << 10;

/// Sessions that ended may take this long to be gone.
const PARTING: Duration = Duration::from_secs(20);

/// The sessions of a measurement.
pub struct Sessions {
    connector: Connector,
    keeper: Session,
    load: Vec<Session>,
    idle: Vec<Session>,
    idle_in_transaction: Vec<Session>,
    committing: Vec<Session>,
    /// Locks that the shared memory holds.
    locks: u32,
    arena: Option<Arena>,
}

/// What a trial saw.
pub struct Seen {
    /// What each session did.
    pub sessions: Vec<SessionOutcome>,
    waits: Vec<WaitSeen>,
    commits: Option<u64>,
    /// CPU time of this process from sending the calls to having their rows.
    client_cpu_ns: u64,
}

impl Sessions {
    /// Connects the session that keeps the shared memory; the functions must exist.
    ///
    /// # Errors
    /// Where the server can't be reached.
    pub fn new(connector: Connector, locks: u32) -> anyhow::Result<Self> {
        let keeper = connect(&connector)?;
        Ok(Self {
            connector,
            keeper,
            load: Vec::new(),
            idle: Vec::new(),
            idle_in_transaction: Vec::new(),
            committing: Vec::new(),
            locks,
            arena: None,
        })
    }

    /// As many sessions as a trial needs and not one more: idle ones cost too. The handle of
    /// their shared memory.
    ///
    /// # Errors
    /// Where they can't be had.
    pub fn resize(&mut self, load: usize, company: Company) -> anyhow::Result<i64> {
        raise_descriptor_limit(load + company.sessions() as usize)?;
        let mut parted = false;
        for (sessions, count) in [
            (&mut self.load, load),
            (&mut self.idle, company.idle as usize),
            (
                &mut self.idle_in_transaction,
                company.idle_in_transaction as usize,
            ),
            (&mut self.committing, company.committing as usize),
        ] {
            parted |= sessions.len() > count;
            sessions.truncate(count);
        }
        if parted {
            self.see_them_gone()?;
        }
        for (sessions, count, first) in [
            (&mut self.load, load, None),
            (&mut self.idle, company.idle as usize, None),
            (
                &mut self.idle_in_transaction,
                company.idle_in_transaction as usize,
                Some(inserver::BE_IN_TRANSACTION),
            ),
            (
                &mut self.committing,
                company.committing as usize,
                Some("SET synchronous_commit = off"),
            ),
        ] {
            while sessions.len() < count {
                let mut session = connect(&self.connector)?;
                if let Some(statement) = first {
                    session.execute(statement)?;
                }
                sessions.push(session);
            }
        }
        if let Some(arena) = &self.arena
            && arena.sessions() == load
        {
            return Ok(arena.handle);
        }
        self.give_back()?;
        let arena = Arena::create(&mut self.keeper, load, self.locks)?;
        let handle = arena.handle;
        self.arena = Some(arena);
        Ok(handle)
    }

    /// Waits until the server has no sessions of ours that have ended.
    fn see_them_gone(&mut self) -> anyhow::Result<()> {
        let all = [
            &self.load,
            &self.idle,
            &self.idle_in_transaction,
            &self.committing,
        ];
        // The keeper, and the control session, are sessions too.
        let kept = all.iter().map(|sessions| sessions.len()).sum::<usize>() + 2;
        let patient_until = Instant::now() + PARTING;
        loop {
            let left = self.keeper.value(inserver::SESSIONS_LEFT)?;
            let left = left.and_then(|left| left.parse::<usize>().ok());
            if left.is_some_and(|left| left <= kept) || Instant::now() > patient_until {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
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

    /// One call in each of `count` sessions, released together; the keeper looks
    /// at what they wait for meanwhile, inside the server too.
    ///
    /// # Errors
    /// Where a call fails; [`is_lost`] tells whether the server went.
    pub fn trial(
        &mut self,
        call: &Call,
        count: usize,
        seed: u64,
        call_us: u32,
    ) -> anyhow::Result<Seen> {
        let handle = self.resize(count, call.company)?;
        if let Some(statement) = call.beforehand() {
            self.keeper.execute(&statement)?;
        }
        let cpu_before = own_cpu_ns();
        let (keeper, committing) = (&mut self.keeper, &mut self.committing);
        std::thread::scope(|scope| {
            let spawn = || std::thread::Builder::new().stack_size(STACK);
            let looking = spawn().spawn_scoped(scope, || {
                inserver::waits(&keeper.rows(&inserver::look_at(handle))?)
            });
            let committing: Vec<_> = committing
                .iter_mut()
                .map(|session| {
                    spawn().spawn_scoped(scope, move || {
                        inserver::commits(&session.rows(&inserver::commit_beside(handle))?)
                    })
                })
                .collect();
            let load: Vec<_> = self
                .load
                .iter_mut()
                .enumerate()
                .map(|(slot, session)| {
                    let statement = call.statement(handle, slot, seed, call_us);
                    spawn()
                        .spawn_scoped(scope, move || inserver::outcome(&session.rows(&statement)?))
                })
                .collect();
            let sessions = first_cause(load.into_iter().map(joined).collect());
            let waits = joined(looking);
            let commits = first_cause(committing.into_iter().map(joined).collect());
            Ok(Seen {
                sessions: sessions?,
                waits: waits?,
                commits: match commits? {
                    commits if commits.is_empty() => None,
                    commits => Some(commits.iter().sum()),
                },
                client_cpu_ns: own_cpu_ns().saturating_sub(cpu_before),
            })
        })
    }
}

/// What a thread found, once it is there.
fn joined<T>(
    thread: std::io::Result<std::thread::ScopedJoinHandle<'_, anyhow::Result<T>>>,
) -> anyhow::Result<T> {
    match thread.context("no thread for a session")?.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// All outcomes, or the error that explains the others: those that waited at
/// the gate only say that somebody did not come.
fn first_cause<T>(results: Vec<anyhow::Result<T>>) -> anyhow::Result<Vec<T>> {
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
    session.execute(inserver::SEARCH_PATH)?;
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
/// once, in random order, those with the same sessions beside them together.
/// Every other round takes them from the last to the first, so that thousands of
/// sessions are connected half as often, and drift falls on both alike.
///
/// # Errors
/// Where a call fails for another reason than a server that died.
pub fn run(
    plan: &PrimitivesPlan,
    calls: &[Call],
    sessions: &mut Sessions,
    (observers, scene): (&mut Observers, &mut Scene),
    keep: &mut dyn Keep,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let all = calls.len() * plan.sessions.len() * plan.trials as usize;
    let mut index = 0;
    for round in 0..plan.trials {
        let mut order: Vec<(u32, u32)> = (0..calls.len() as u32)
            .flat_map(|call| plan.sessions.iter().map(move |count| (call, *count)))
            .collect();
        order.shuffle(&mut rng);
        order.sort_by_key(|(call, _)| calls[*call as usize].company);
        if round % 2 == 1 {
            order.reverse();
        }
        for (variant, count) in order {
            if stop.asked() {
                return Ok(Ended::Interrupted);
            }
            let started = format!("{:.3}", jiff::Timestamp::now());
            let call = &calls[variant as usize];
            let seed = plan.seed.wrapping_add(u64::from(index) << 32);
            let observed = observers.any();
            let mut trial = || {
                if observed {
                    // All are connected before anybody looks.
                    sessions.resize(count as usize, call.company)?;
                    observers.begin(scene);
                }
                let seen = sessions.trial(call, count as usize, seed, plan.call_us);
                let beside = match observed {
                    true => observers.end(scene),
                    false => Default::default(),
                };
                Ok((seen?, beside))
            };
            let (seen, (samples, observed)) = match trial() {
                Ok(seen) => seen,
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
                client_cpu_ns: seen.client_cpu_ns,
                sessions: seen.sessions,
                waits: seen.waits,
                commits: seen.commits,
                samples,
                observed,
            };
            index += 1;
            keep.keep(trial, index as usize, all)?;
        }
    }
    sessions.give_back()?;
    Ok(Ended::Complete)
}

/// Whether the connection went, rather than a statement failed.
pub fn is_lost(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<QueryError>())
        .any(QueryError::is_fatal)
}

/// CPU time of this process, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}
