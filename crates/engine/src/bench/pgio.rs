//! PGIO's sessions: released together, each in its loop for the trial's time,
//! trial by trial.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgassay_analysis::pgio::{PgioPlan, PgioSession, PgioTrial};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Ended;
use crate::workload::pgio::config::Config;
use crate::workload::pgio::loops::{self, LONGEST_CALL_US};
use pgassay_observe::{Observers, Scene};
use pgassay_pgwire::{Connector, QueryError, Session};
use pgassay_sys::stop::Stop;

/// Threads only send a statement and wait for its row.
const STACK: usize = 256 << 10;
/// Beyond its time a call may wait this long, for a disk or a lock.
const PATIENCE: Duration = Duration::from_secs(600);
/// Calls that fail one after the other before a session gives up.
const MOST_FAILURES: u32 = 100;

/// What runs the trials.
pub struct Bench<'a> {
    /// Opens sessions.
    pub connector: Connector,
    /// What can be looked at.
    pub scene: &'a mut Scene,
    /// What looks at it beside the load.
    pub observers: &'a mut Observers,
    /// What a session does.
    pub config: &'a Config,
    /// `server_version_num`.
    pub version: u32,
    sessions: Vec<Session>,
}

/// Where trials go, and who wants to see them.
pub trait Keep {
    /// Keeps a trial; `done` of `all` lie behind.
    ///
    /// # Errors
    /// Where it can't be written; the run ends.
    fn keep(&mut self, trial: PgioTrial, done: usize, all: usize) -> anyhow::Result<()>;
    /// Asked when the planned trials are done: whether another round is wanted.
    fn again(&mut self) -> bool;
}

/// Runs the trials: each round visits every session count once, in random order.
/// Those that were `measured` before, by the same plan, are passed over.
///
/// # Errors
/// Where a loop fails for another reason than a server that died.
pub fn run(
    plan: &PgioPlan,
    measured: &[PgioTrial],
    bench: &mut Bench,
    keep: &mut dyn Keep,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let mut order = plan.sessions.clone();
    let all = order.len() * plan.trials as usize;
    let mut index = measured.len() as u32;
    let mut round = 0;
    let rounds_of = |count: u32| {
        let of = measured
            .iter()
            .filter(|t| t.sessions.len() == count as usize);
        of.count() as u32
    };
    while round < plan.trials || keep.again() {
        order.shuffle(&mut rng);
        for &count in &order {
            if round < rounds_of(count) {
                continue;
            }
            if stop.asked() {
                return Ok(Ended::Interrupted);
            }
            let trial = match bench.trial(plan, count, index, stop) {
                Ok(trial) => trial,
                Err(_) if stop.asked() => return Ok(Ended::Interrupted),
                Err(error) if is_lost(&error) => {
                    return Ok(Ended::ServerDied(format!("{error:#}")));
                }
                Err(error) => return Err(error.context(format!("{count} sessions"))),
            };
            index += 1;
            if stop.asked() {
                return Ok(Ended::Interrupted);
            }
            keep.keep(trial, (index as usize).min(all), all)?;
        }
        round += 1;
    }
    Ok(Ended::Complete)
}

impl<'a> Bench<'a> {
    /// Without sessions yet.
    pub fn new(
        connector: Connector,
        scene: &'a mut Scene,
        observers: &'a mut Observers,
        config: &'a Config,
        version: u32,
    ) -> Self {
        Self {
            connector,
            scene,
            observers,
            config,
            version,
            sessions: Vec::new(),
        }
    }

    fn trial(
        &mut self,
        plan: &PgioPlan,
        count: u32,
        index: u32,
        stop: &Stop,
    ) -> anyhow::Result<PgioTrial> {
        self.sessions.truncate(count as usize);
        while self.sessions.len() < count as usize {
            let mut session = self.connector.connect().context("a session")?;
            session.set_read_timeout(Some(PATIENCE + Duration::from_millis(plan.window_ms)));
            // The same keys in a repeated run: a seed of -1 to 1.
            let place = self.sessions.len() as f64 + 1.0;
            let seed = (plan.seed as f64 * 0.618_033_988 + place * 0.317).fract();
            session.execute(&format!("SELECT setseed({seed})"))?;
            self.sessions.push(session);
        }
        let window = Duration::from_millis(plan.window_ms);
        let (config, version) = (self.config, self.version);
        self.observers.begin(self.scene);
        let cpu_before = own_cpu_ns();
        let started_at = jiff::Timestamp::now();
        // The window begins with the sessions' release.
        let gate = Barrier::new(count as usize + 1);
        let (results, window_ns) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0u32..)
                .zip(&mut self.sessions)
                .map(|(slot, session)| {
                    let gate = &gate;
                    let table = slot % plan.tables + 1;
                    std::thread::Builder::new()
                        .stack_size(STACK)
                        .spawn_scoped(scope, move || {
                            gate.wait();
                            in_session(session, table, plan, config, version, window, stop)
                        })
                })
                .collect();
            gate.wait();
            let start = Instant::now();
            let results: Vec<anyhow::Result<PgioSession>> = threads
                .into_iter()
                .map(
                    |thread| match thread.context("no thread for a session")?.join() {
                        Ok(result) => result,
                        Err(panic) => std::panic::resume_unwind(panic),
                    },
                )
                .collect();
            (results, start.elapsed().as_nanos() as u64)
        });
        let client_cpu_ns = own_cpu_ns().saturating_sub(cpu_before);
        let (samples, observed) = self.observers.end(self.scene);
        Ok(PgioTrial {
            index,
            started: format!("{started_at:.3}"),
            window_ns,
            sessions: results.into_iter().collect::<anyhow::Result<_>>()?,
            client_cpu_ns,
            samples,
            observed,
        })
    }
}

/// Calls the loop until the time is up; a classic one lasts all of it.
fn in_session(
    session: &mut Session,
    table: u32,
    plan: &PgioPlan,
    config: &Config,
    version: u32,
    window: Duration,
    stop: &Stop,
) -> anyhow::Result<PgioSession> {
    let mut done = PgioSession {
        table,
        pid: session.backend_pid(),
        ..PgioSession::default()
    };
    let start = Instant::now();
    let mut failed_in_a_row = 0;
    loop {
        let left = window.saturating_sub(start.elapsed()).as_micros() as u64;
        // What is left of less than a few units is not worth a call.
        if (left < 2000 && done.elapsed_us > 0) || left == 0 || stop.asked() {
            return Ok(done);
        }
        let length = if plan.classic {
            left
        } else {
            left.min(LONGEST_CALL_US)
        };
        let first = done.selects + done.updates;
        let statement = loops::call(table, config, plan.classic, version, length, first);
        match session.rows(&statement) {
            Ok(result) => {
                let called = loops::called(&result)?;
                done.selects += called.selects;
                done.updates += called.updates;
                done.longest_select_us = done.longest_select_us.max(called.longest_us.0);
                done.longest_update_us = done.longest_update_us.max(called.longest_us.1);
                done.heap_blocks += called.fetched.0;
                done.index_blocks += called.fetched.1;
                done.blocks_hit += called.hit.0 + called.hit.1;
                done.elapsed_us += called.elapsed_us;
                failed_in_a_row = 0;
            }
            // A deadlock between updates of one range is no reason to stop.
            Err(QueryError::Server(error)) if failed_in_a_row < MOST_FAILURES => {
                *done.failures.entry(error.sqlstate.clone()).or_default() += 1;
                failed_in_a_row += 1;
                if !matches!(error.sqlstate.as_str(), "40P01" | "40001" | "55P03") {
                    return Err(QueryError::Server(error).into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
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
