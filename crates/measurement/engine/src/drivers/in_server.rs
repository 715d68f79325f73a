//! Primitives inside the server: sessions that call one of the extension's functions, released
//! together.

use std::time::{Duration, Instant};

use anyhow::Context;
use pgassay_load::raise_descriptor_limit;
use pgassay_model::point::{Point, Slice};
use pgassay_model::primitives::{Company, InServerTrial};
use pgassay_model::trial::{Raw, Trial};
use pgassay_pgwire::{Connector, Session};
use pgassay_server::clock;
use pgassay_sys::stop::Stop;

use super::own_cpu::OwnCpu;
use super::{Arm, Watched, missing};
use crate::runner::{Arms, Driver, Keep, TrialFailure, Watcher};
use crate::workload::inserver::{self, Arena, Call};

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
    fn resize(&mut self, load: usize, company: Company) -> anyhow::Result<i64> {
        raise_descriptor_limit(load + company.sessions() as usize)?;
        let mut parted = Vec::new();
        for (sessions, count) in [
            (&mut self.load, load),
            (&mut self.idle, company.idle as usize),
            (
                &mut self.idle_in_transaction,
                company.idle_in_transaction as usize,
            ),
            (&mut self.committing, company.committing as usize),
        ] {
            let kept = count.min(sessions.len());
            parted.extend(sessions.drain(kept..).map(|session| session.backend_pid()));
        }
        if !parted.is_empty() {
            self.see_them_gone(&parted)?;
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

    /// Waits until the server has none of the sessions left that have ended.
    fn see_them_gone(&mut self, parted: &[i32]) -> anyhow::Result<()> {
        let left = inserver::sessions_left(parted);
        let patient_until = Instant::now() + PARTING;
        while self.keeper.value(&left)?.is_some_and(|left| left != "0") {
            if Instant::now() > patient_until {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Gives the shared memory back, and checks that nothing in it is held.
    ///
    /// # Errors
    /// Where something is, or the server is lost.
    fn give_back(&mut self) -> anyhow::Result<()> {
        match self.arena.take() {
            Some(arena) => arena.drop_in(&mut self.keeper),
            None => Ok(()),
        }
    }

    /// One call in each of `count` sessions, released together; the keeper looks
    /// at what they wait for meanwhile, inside the server too.
    ///
    /// # Errors
    /// Where a call fails.
    fn trial(
        &mut self,
        call: &Call,
        count: usize,
        seed: u64,
        call_us: u32,
    ) -> anyhow::Result<InServerTrial> {
        let handle = self.resize(count, call.company)?;
        if let Some(statement) = call.beforehand() {
            self.keeper.execute(&statement)?;
        }
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
            Ok(InServerTrial {
                sessions: sessions?,
                waits: waits?,
                commits: match commits? {
                    commits if commits.is_empty() => None,
                    commits => Some(commits.iter().sum()),
                },
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

/// One server's sessions.
pub struct InServerArm {
    /// The server's name, where there are several.
    pub label: Option<String>,
    /// They call.
    pub sessions: Sessions,
    /// How it is looked at beside them.
    pub watched: Watched,
}

/// The sessions of all arms.
pub struct InServer {
    /// What they call, by the points' variants.
    pub calls: Vec<Call>,
    /// What is measured.
    pub points: Vec<Point>,
    /// Length of a call, in microseconds.
    pub call_us: u32,
    /// Seed of the sessions' random numbers.
    pub seed: u64,
    /// One entry an arm.
    pub arms: Vec<InServerArm>,
    /// Asked before each call.
    pub stop: Stop,
}

impl InServer {
    fn call(&self, slice: Slice) -> Option<(&Call, usize)> {
        let point = self.points.get(slice.point as usize)?;
        let call = self.calls.get(point.variant as usize)?;
        Some((call, point.clients as usize))
    }

    /// Gives the shared memory of all sessions back, and checks that nothing in it is held.
    ///
    /// # Errors
    /// Where something is, or a server is lost.
    pub fn give_back(&mut self) -> anyhow::Result<()> {
        let mut arms = self.arms.iter_mut();
        arms.try_for_each(|arm| arm.sessions.give_back())
    }
}

impl Driver for InServer {
    fn run(
        &mut self,
        slice: Slice,
        _: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        let (call, count) = self.call(slice).ok_or_else(|| missing("point"))?;
        let call = call.clone();
        let arm = self
            .arms
            .get_mut(slice.arm as usize)
            .ok_or_else(|| missing("arm"))?;
        let started = clock::now();
        let seed = self.seed.wrapping_add(u64::from(slice.index) << 32);
        match arm.trial(&call, count, seed, self.call_us) {
            Ok(trial) => keep(Trial {
                started: format!("{started:.3}"),
                ..trial
            })
            .map_err(TrialFailure::Other),
            Err(error) => {
                let what = format!("{} in {count} sessions", call.variant().title());
                let failure = TrialFailure::of(error.context(what), &self.stop);
                Err(match &arm.label {
                    Some(label) => failure.named(label),
                    None => failure,
                })
            }
        }
    }

    fn unit(&self) -> &'static str {
        "ops/s"
    }

    fn describe(&self, slice: Slice) -> String {
        self.call(slice).map_or_else(String::new, |(call, count)| {
            format!("{} in {count} sessions", call.variant().title())
        })
    }

    fn takes(&self) -> Option<Duration> {
        Some(Duration::from_micros(u64::from(self.call_us)))
    }

    fn arms(&mut self) -> Option<&mut dyn Arms> {
        Some(&mut self.arms)
    }
}

impl Arm for InServerArm {
    fn watched(&mut self) -> &mut Watched {
        &mut self.watched
    }
}

impl InServerArm {
    fn trial(
        &mut self,
        call: &Call,
        count: usize,
        seed: u64,
        call_us: u32,
    ) -> anyhow::Result<Trial> {
        let Watched { scene, observers } = &mut self.watched;
        let observed = observers.any();
        if observed {
            // All are connected before anybody looks.
            self.sessions.resize(count, call.company)?;
            observers.begin(scene);
        }
        let cpu = OwnCpu::now();
        let raw = self.sessions.trial(call, count, seed, call_us);
        let (client_user_ns, client_system_ns) = cpu.since();
        let (samples, observed) = match observed {
            true => observers.end(scene),
            false => Default::default(),
        };
        let raw = raw?;
        Ok(Trial {
            window_ns: raw.window_ns(),
            transactions: raw.operations(),
            transactions_sent: raw.operations(),
            client_user_ns,
            client_system_ns,
            server_cpu_ns: Some(raw.cpu_ns()),
            samples,
            observed,
            raw: Raw::InServer(raw),
            ..Trial::default()
        })
    }
}
