//! CPU time of each statement in the server: after each slice one session runs the workload's scripts with no load
//! beside it, and the CPU clock of its process is read around every statement.
//!
//! Under the load itself a process' time can't be divided exactly: its clock would have to be read between a statement's
//! answer and the next one, while the load waits. The scripts have equal weights here, so that rare statements are seen,
//! too, and all arms of a round draw the same scripts and values.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pgassay_load::script::Command;
use pgassay_load::{Engine, Entry, Journal, Length, Options, SliceSpec};
use pgassay_model::Plan;
use pgassay_model::point::Slice;
use pgassay_model::trial::{ScriptRecord, StatementCpu};
use pgassay_observe::{Scene, childrens_ticks, processes};
use pgassay_pgwire::Conninfo;
use pgassay_sys::process_clock::ProcessClock;
use pgassay_sys::stop::Stop;

use super::plan::engine_options;
use crate::workload;

/// The part of a slice's window that measuring takes after it, and its bounds in milliseconds.
const PART: u64 = 4;
const SHORTEST_MS: u64 = 50;
const LONGEST_MS: u64 = 250;
/// What tells its draws from those of the load.
const SEED: u64 = 0x6d65_7465_7265_6421;
/// How often a process that goes to sleep is looked at, at most.
const LOOKS: u32 = 1000;

/// Names of sessions differ, so that each finds its own process.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

/// One server's session, and what measures it.
pub(super) struct Metered {
    engine: Engine,
    name: String,
    shared: Arc<Mutex<Shared>>,
}

/// What the session's thread reads and fills.
#[derive(Default)]
struct Shared {
    /// The session's process.
    clock: Option<ProcessClock>,
    /// /proc/PID/stat of the server's first process.
    first: String,
    /// By script and command.
    found: Vec<Vec<StatementCpu>>,
}

impl Metered {
    /// A session for this server, not connected yet; none where the plan's statements can't be told apart.
    ///
    /// # Errors
    /// Where the workload's scripts are wrong.
    pub fn new(plan: &Plan, conninfo: &Conninfo, stop: &Stop) -> anyhow::Result<Option<Self>> {
        let mut evenly = plan.workload.clone();
        for script in &mut evenly.scripts {
            script.weight = script.weight.min(1);
        }
        let program = workload::program(&evenly)?;
        // The statements of a pipeline are one exchange.
        if program.has_pipeline() || !plan.workload.dials.per_statement {
            return Ok(None);
        }
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgassay statements {}-{number}", std::process::id());
        let shared = Arc::new(Mutex::new(Shared::default()));
        let of_thread = Arc::clone(&shared);
        let options = Options {
            threads: Some(1),
            latency_limit: None,
            reconnect: false,
            pauses: Vec::new(),
            journal: Some(Arc::new(move |_| {
                Box::new(Meter {
                    shared: Arc::clone(&of_thread),
                    begun: None,
                })
            })),
            ..engine_options(plan, stop)?
        };
        let conninfo = conninfo.with_application_name(&name);
        Ok(Some(Self {
            engine: Engine::new(conninfo, program, options),
            name,
            shared,
        }))
    }

    /// Measures after a slice, into what is recorded of its scripts.
    ///
    /// # Errors
    /// Why it could not: no trial fails by it.
    pub fn measure(
        &mut self,
        plan: &Plan,
        slice: Slice,
        scene: &mut Scene,
        scripts: &mut [ScriptRecord],
    ) -> Result<(), String> {
        let postmaster = scene.postmaster.clone()?;
        if self.engine.clients() == 0 {
            self.lock().clock = None;
            self.engine.resize(1).map_err(|error| error.to_string())?;
        }
        if self.lock().clock.is_none() {
            let clock = self.clock(postmaster, scene)?;
            self.lock().clock = Some(clock);
        }
        let program = self.engine.program().scripts();
        let nothing = program
            .iter()
            .map(|script| vec![StatementCpu::default(); script.commands.len()]);
        let nothing = nothing.collect();
        {
            let mut shared = self.lock();
            shared.first = format!("/proc/{postmaster}/stat");
            shared.found = nothing;
        }
        let length = (plan.window_ms / PART).clamp(SHORTEST_MS, LONGEST_MS);
        let spec = SliceSpec {
            length: Length::Time(Duration::from_millis(length)),
            seed: plan.seed ^ SEED ^ (u64::from(slice.round) << 32) ^ u64::from(slice.point),
            ..SliceSpec::default()
        };
        let result = self.engine.run_slice(&spec, &mut |_| {});
        if let Some(reason) = result.died {
            return Err(reason);
        }
        let found = std::mem::take(&mut self.lock().found);
        if result.interrupted {
            return Ok(());
        }
        let program = self.engine.program().scripts();
        for ((record, found), script) in scripts.iter_mut().zip(found).zip(program) {
            let statements = record.statements.iter_mut().zip(found);
            for ((statement, cpu), command) in statements.zip(&script.commands) {
                if matches!(command, Command::Sql(_)) && cpu.executions > 0 {
                    statement.cpu = Some(cpu);
                }
            }
        }
        Ok(())
    }

    /// The clock of the session's process, which has to be one of the server's here.
    fn clock(&self, postmaster: u32, scene: &mut Scene) -> Result<ProcessClock, String> {
        let session = scene.session.as_mut();
        let session = session.ok_or("no session to ask which process a session has")?;
        let asked = session.catalog_value(&format!(
            "SELECT pid FROM pg_stat_activity WHERE application_name = '{}'",
            self.name
        ));
        let pid = asked.map_err(|error| error.to_string())?;
        let pid: Option<u32> = pid.and_then(|pid| pid.parse().ok());
        match pid.filter(|pid| processes(postmaster).contains(pid)) {
            Some(pid) => ProcessClock::of(pid).map_err(|e| format!("the CPU clock of {pid}: {e}")),
            None => Err("the session's process can't be seen from here".to_owned()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// CPU time of the session's process once it sleeps, and ticks of the server's children that have ended.
    fn at_rest(&self) -> Option<(u64, u64)> {
        let clock = self.clock?;
        let mut own = clock.now_ns().ok()?;
        // It goes on for a moment after its answer has been read.
        for _ in 0..LOOKS {
            thread::yield_now();
            let now = clock.now_ns().ok()?;
            if now == own {
                break;
            }
            own = now;
        }
        let ended = fs::read_to_string(&self.first).ok();
        Some((own, ended.and_then(|stat| childrens_ticks(&stat))?))
    }
}

/// Reads clocks around each statement of the one session, on its thread.
struct Meter {
    shared: Arc<Mutex<Shared>>,
    begun: Option<(u64, u64)>,
}

impl Journal for Meter {
    fn ended(&mut self, _entry: &Entry<'_>) {}

    fn command_begins(&mut self) {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        self.begun = shared.at_rest();
    }

    fn command_ended(&mut self, script: usize, command: usize) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(begun), Some(now)) = (self.begun.take(), shared.at_rest()) else {
            return;
        };
        let place = shared.found.get_mut(script);
        if let Some(found) = place.and_then(|commands| commands.get_mut(command)) {
            found.executions += 1;
            found.own_ns += now.0.saturating_sub(begun.0);
            found.ended_ticks += now.1.saturating_sub(begun.1);
        }
    }
}
