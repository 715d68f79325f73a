//! PGIO's sessions: released together, each in its loop for the trial's time.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgassay_model::Plan;
use pgassay_model::pgio::{PgioPlan, PgioSession};
use pgassay_model::point::Slice;
use pgassay_model::trial::{Raw, Trial};
use pgassay_pgwire::{Connector, QueryError, Session};
use pgassay_server::clock;
use pgassay_sys::stop::Stop;

use super::own_cpu::OwnCpu;
use super::{Arm, Watched, missing};
use crate::runner::{Arms, Driver, Keep, TrialFailure, Watcher};
use crate::workload::pgio::config::Config;
use crate::workload::pgio::loops::{self, LONGEST_CALL_US};

/// Threads only send a statement and wait for its row.
const STACK: usize = 256 << 10;
/// Beyond its time a call may wait this long, for a disk or a lock.
const PATIENCE: Duration = Duration::from_secs(600);
/// Calls that fail one after the other before a session gives up.
const MOST_FAILURES: u32 = 100;

/// One server with its sessions.
pub struct PgioArm {
    /// The server's name, where there are several.
    pub label: Option<String>,
    /// Opens sessions.
    pub connector: Connector,
    /// How it is looked at beside them.
    pub watched: Watched,
    /// `server_version_num`.
    pub version: u32,
    /// Those that are open.
    pub sessions: Vec<Session>,
}

/// The sessions of all arms.
pub struct Pgio {
    /// What is measured.
    pub plan: Plan,
    /// What the sessions share.
    pub pgio: PgioPlan,
    /// What a session does.
    pub config: Config,
    /// One entry an arm.
    pub arms: Vec<PgioArm>,
    /// Asked before each call.
    pub stop: Stop,
}

impl Driver for Pgio {
    fn run(
        &mut self,
        slice: Slice,
        _: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        let point = self.plan.points.get(slice.point as usize);
        let count = point.ok_or_else(|| missing("point"))?.clients;
        let arm = self
            .arms
            .get_mut(slice.arm as usize)
            .ok_or_else(|| missing("arm"))?;
        let seen = arm.trial((&self.plan, &self.pgio), &self.config, count, &self.stop);
        let trial = seen.map_err(|error| {
            let failure = TrialFailure::of(error.context(format!("{count} sessions")), &self.stop);
            match &arm.label {
                Some(label) => failure.named(label),
                None => failure,
            }
        })?;
        if self.stop.asked() {
            return Err(TrialFailure::Interrupted);
        }
        keep(trial).map_err(TrialFailure::Other)
    }

    fn unit(&self) -> &'static str {
        "ops/s"
    }

    fn describe(&self, slice: Slice) -> String {
        let point = self.plan.points.get(slice.point as usize);
        format!("{} sessions", point.map_or(0, |point| point.clients))
    }

    fn takes(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.plan.window_ms))
    }

    fn arms(&mut self) -> Option<&mut dyn Arms> {
        Some(&mut self.arms)
    }
}

impl Arm for PgioArm {
    fn watched(&mut self) -> &mut Watched {
        &mut self.watched
    }
}

impl PgioArm {
    fn trial(
        &mut self,
        (plan, pgio): (&Plan, &PgioPlan),
        config: &Config,
        count: u32,
        stop: &Stop,
    ) -> anyhow::Result<Trial> {
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
        let version = self.version;
        let Watched { scene, observers } = &mut self.watched;
        observers.begin(scene);
        let cpu = OwnCpu::now();
        let started_at = clock::now();
        // The window begins with the sessions' release.
        let gate = Barrier::new(count as usize + 1);
        let (results, window_ns) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0u32..)
                .zip(&mut self.sessions)
                .map(|(slot, session)| {
                    let gate = &gate;
                    let table = slot % pgio.tables + 1;
                    std::thread::Builder::new()
                        .stack_size(STACK)
                        .spawn_scoped(scope, move || {
                            gate.wait();
                            in_session(session, table, pgio, config, version, window, stop)
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
        let (client_user_ns, client_system_ns) = cpu.since();
        let (samples, observed) = observers.end(scene);
        let sessions = results
            .into_iter()
            .collect::<anyhow::Result<Vec<PgioSession>>>()?;
        let done = sessions.iter().map(|s| s.selects + s.updates).sum();
        Ok(Trial {
            started: format!("{started_at:.3}"),
            window_ns,
            transactions: done,
            transactions_sent: done,
            client_user_ns,
            client_system_ns,
            samples,
            observed,
            raw: Raw::Pgio(sessions),
            ..Trial::default()
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
