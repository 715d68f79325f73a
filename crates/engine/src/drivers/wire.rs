//! Scripts over the wire, by the load engine.

use pgassay_text::number::counted;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgassay_load::script::Value;
use pgassay_load::{
    Edge, Engine, Gaps, Latency, Length, Options, Pause, Protocol, ResizeError, Schedule,
    SliceResult, SliceSpec, raise_descriptor_limit,
};
use pgassay_model::Plan;
use pgassay_model::point::Slice;
use pgassay_model::trial::{ClientCalls, ScriptRecord, StatementRecord, Trial};
use pgassay_model::workload::{Launches, ScriptPlan, WorkloadPlan};
use pgassay_observe::Scene;
use pgassay_observe::glance::Glance;
use pgassay_pgwire::{ConnectError, Connector, Conninfo, Session};
use pgassay_server::clock;
use pgassay_sys::stop::Stop;

use super::{Arm, Watched, missing};
use crate::runner::{Arms, Driver, Keep, TrialFailure, Watcher, is_lost};
use crate::workload::{self, sessions, setup};

/// One server with its connections.
pub struct WireArm {
    /// The server's name, where there are several.
    pub label: Option<String>,
    engine: Engine,
    watched: Watched,
    /// Whether the server is ours to vacuum and to checkpoint.
    owned: bool,
    connector: Connector,
    idle: Vec<Session>,
    /// Whether the observers have read everything once.
    acquainted: bool,
}

impl WireArm {
    /// Prepares the clients of an arm; connects none yet. `owned` says that we launched the server.
    ///
    /// # Errors
    /// Where the workload's scripts or the protocol's name are wrong.
    pub fn new(
        plan: &Plan,
        conninfo: &Conninfo,
        watched: Watched,
        owned: bool,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let program = workload::program(&plan.workload)?;
        let mut options = engine_options(plan, stop)?;
        options.replay = sessions::replay(&plan.workload, &program)?.map(Arc::new);
        let conninfo = conninfo
            .with_application_name("pgassay load")
            .with_options(&setup::find_tables(&plan.workload, conninfo)?);
        let connector = Connector::new(&conninfo.with_application_name("pgassay idle"));
        Ok(Self {
            label: None,
            engine: Engine::new(conninfo, program, options),
            watched,
            owned,
            connector,
            idle: Vec::new(),
            acquainted: false,
        })
    }

    /// Opens the connections that do nothing, before the first trial; the load has `most` at
    /// most beside them.
    fn open_idle(&mut self, wanted: u32, most: u32) -> Result<(), TrialFailure> {
        if wanted > 0 && self.idle.is_empty() {
            raise_descriptor_limit(wanted as usize + most as usize).map_err(no_connection)?;
        }
        while self.idle.len() < wanted as usize {
            let opened = self.connector.connect().map_err(|error| {
                let message = format!(
                    "{} of {wanted} idle connections could be opened: {error}",
                    self.idle.len()
                );
                match error {
                    ConnectError::TooManyConnections { .. } => {
                        TrialFailure::PointOutOfReach(message)
                    }
                    _ => TrialFailure::ServerDied(message),
                }
            })?;
            self.idle.push(opened);
        }
        Ok(())
    }

    /// Brings a launched server into the state in which every trial of a writing workload begins;
    /// how long that took, where it was done.
    fn settle(&mut self, statements: &[String]) -> Result<Option<Duration>, TrialFailure> {
        if !self.owned || statements.is_empty() {
            return Ok(None);
        }
        let Some(session) = &mut self.watched.scene.session else {
            return Ok(None);
        };
        let begin = Instant::now();
        match setup::settle(session, statements) {
            Ok(()) => Ok(Some(begin.elapsed())),
            Err(error) => Err(match is_lost(&error) {
                true => TrialFailure::ServerDied(format!("{error:#}")),
                false => TrialFailure::Other(error),
            }),
        }
    }

    /// Has a launched server write everything out, so that it stays silent while
    /// another is measured; how else it went the next trial will tell.
    fn checkpoint(&mut self) {
        if self.owned
            && let Some(session) = &mut self.watched.scene.session
        {
            drop(session.execute("CHECKPOINT"));
        }
    }
}

/// How the plan's clients behave.
pub(super) fn engine_options(plan: &Plan, stop: &Stop) -> anyhow::Result<Options> {
    let dials = &plan.workload.dials;
    let threads = plan.points.iter().map(|point| point.threads).max();
    Ok(Options {
        protocol: protocol(&plan.workload.protocol)?,
        threads: Some(threads.unwrap_or(1) as usize),
        variables: vec![(
            "scale".to_owned(),
            Value::Int(i64::from(plan.workload.scale)),
        )],
        texts: dials.define.clone(),
        max_tries: dials.max_tries.unwrap_or(1),
        latency_limit: dials.latency_limit_ms.map(milliseconds),
        reconnect: dials.reconnect,
        pauses: pauses(&plan.workload),
        per_statement: dials.per_statement,
        drain: Duration::from_secs(5),
        cpus: dials.client_cpus.clone(),
        stop: Arc::clone(stop.flag()),
        ..Options::default()
    })
}

/// How long a person takes around each script; empty where clients wait for nobody.
fn pauses(workload: &WorkloadPlan) -> Vec<Pause> {
    if !workload.dials.think_times {
        return Vec::new();
    }
    let time = |ms: u32| Duration::from_millis(u64::from(ms));
    let of = |script: &ScriptPlan| {
        let pause = script.pause.unwrap_or_default();
        Pause {
            keying: time(pause.keying_ms),
            thinking: time(pause.thinking_ms),
        }
    };
    workload.scripts.iter().map(of).collect()
}

/// A slice of the plan, the `index`-th of its schedule.
pub(super) fn slice_spec(plan: &Plan, index: u32) -> SliceSpec {
    SliceSpec {
        warmup: Duration::from_millis(plan.warmup_ms),
        length: Length::Time(Duration::from_millis(plan.window_ms)),
        // Every slice draws other keys, the same ones when it is repeated.
        seed: plan.seed.wrapping_add(u64::from(index) << 32),
        schedule: match plan.workload.dials.rate_tps {
            None => Schedule::Closed,
            Some(per_second) => Schedule::Paced {
                per_second,
                gaps: Gaps::Exponential,
            },
        },
        interval: Some(interval(plan.window_ms) / parts(plan.window_ms)),
        keep: parts(plan.window_ms),
        replay_from: Duration::ZERO,
        tick: None,
        follow: None,
    }
}

/// Where in a recording a round begins: at the same place for all arms, whatever each of them ran before.
fn replay_from(plan: &Plan, round: u32, launches: Launches) -> Duration {
    let trial_ms = plan.warmup_ms.saturating_add(plan.window_ms);
    let replay = plan.workload.replay.as_ref();
    replay.map_or(Duration::ZERO, |replay| {
        replay.begins(round, trial_ms, launches)
    })
}

/// The servers of a plan, in the order of its arms.
pub struct Wire {
    /// What is measured.
    pub plan: Plan,
    /// One entry an arm.
    pub arms: Vec<WireArm>,
    /// Whether a server that we launched writes everything out after each of its slices, so that it
    /// stays silent while another is measured.
    pub checkpoints: bool,
    /// How the rounds are shared out over launches of the servers.
    pub launches: Launches,
    /// Asked between the steps of a slice.
    pub stop: Stop,
}

impl Wire {
    /// Closes all load connections and gives the scenes back.
    pub fn close(self) -> Vec<Scene> {
        self.arms.into_iter().map(|arm| arm.watched.scene).collect()
    }

    fn slice(
        &mut self,
        slice: Slice,
        watcher: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        let plan = &self.plan;
        let point = plan
            .points
            .get(slice.point as usize)
            .ok_or_else(|| missing("point"))?;
        let arm = self
            .arms
            .get_mut(slice.arm as usize)
            .ok_or_else(|| missing("arm"))?;
        arm.open_idle(plan.workload.idle, plan.max_clients())?;
        let resized = arm.engine.resize(point.clients as usize);
        if self.stop.asked() {
            return Err(TrialFailure::Interrupted);
        }
        resized.map_err(no_connection)?;
        let Watched { scene, observers } = &mut arm.watched;
        if !std::mem::replace(&mut arm.acquainted, true) {
            observers.acquaint(scene);
        }
        let settled = arm.settle(&plan.workload.settle)?;
        let spec = SliceSpec {
            follow: watcher.every(),
            replay_from: replay_from(plan, slice.round, self.launches),
            ..slice_spec(plan, slice.index)
        };
        let started = clock::now();
        let mut seen = None;
        let mut glanced = None;
        let looks = watcher.looks_at_cpus();
        let Watched { scene, observers } = &mut arm.watched;
        let result = arm.engine.run_slice(&spec, &mut |edge| match edge {
            Edge::Start => {
                glanced = looks.then(|| Glance::at(&scene.postmaster));
                observers.begin(scene);
            }
            Edge::End => seen = Some(observers.end(scene)),
            Edge::Passed(passed) => {
                if let Some(before) = &mut glanced {
                    let now = Glance::at(&scene.postmaster);
                    watcher.disturbed(now.since(before));
                    *before = now;
                }
                watcher.during(&passed);
            }
            Edge::Tick(_) => {}
        });
        if result.interrupted || self.stop.asked() {
            return Err(TrialFailure::Interrupted);
        }
        if let Some(reason) = &result.died {
            return Err(TrialFailure::ServerDied(reason.clone()));
        }
        let (samples, observed) = seen.unwrap_or_default();
        keep(Trial {
            started: format!("{started:.3}"),
            samples,
            interval_ns: interval(plan.window_ms).as_nanos() as u64,
            observed,
            settled_ms: settled.map(|took| took.as_secs_f64() * 1000.0),
            ..record(&result, &plan.workload)
        })
        .map_err(TrialFailure::Other)?;
        if self.checkpoints {
            arm.checkpoint();
        }
        Ok(())
    }
}

impl Driver for Wire {
    fn run(
        &mut self,
        slice: Slice,
        watcher: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        self.slice(slice, watcher, keep).map_err(|failure| {
            let arm = self.arms.get(slice.arm as usize);
            match arm.and_then(|arm| arm.label.as_deref()) {
                Some(label) => failure.named(label),
                None => failure,
            }
        })
    }

    fn unit(&self) -> &'static str {
        "tps"
    }

    fn describe(&self, slice: Slice) -> String {
        let point = self.plan.points.get(slice.point as usize);
        counted(point.map_or(0, |point| point.clients), "client")
    }

    fn takes(&self) -> Option<Duration> {
        Some(Duration::from_millis(
            self.plan.warmup_ms + self.plan.window_ms,
        ))
    }

    fn follows(&self) -> bool {
        true
    }

    fn arms(&mut self) -> Option<&mut dyn Arms> {
        Some(&mut self.arms)
    }
}

impl Arm for WireArm {
    fn watched(&mut self) -> &mut Watched {
        &mut self.watched
    }
}

fn protocol(name: &str) -> anyhow::Result<Protocol> {
    Ok(match name {
        "simple" => Protocol::Simple,
        "extended" => Protocol::Extended,
        "prepared" => Protocol::Prepared,
        other => anyhow::bail!("there is no protocol `{other}`"),
    })
}

/// The record of a slice.
pub(super) fn record(result: &SliceResult, workload: &WorkloadPlan) -> Trial {
    let scheduled = result.latency_from_actual.is_some();
    Trial {
        window_ns: result.window_ns,
        transactions: result.transactions,
        failures: result.failures.clone(),
        latency: result.latency.to_base64(),
        latency_from_actual_start: result.latency_from_actual.as_ref().map(|l| l.to_base64()),
        intervals: result.intervals.iter().map(|i| i.transactions).collect(),
        interval_latency: result
            .intervals
            .iter()
            .map(|interval| match interval.latency() {
                latency if latency.count() == 0 => String::new(),
                latency => latency.to_base64(),
            })
            .collect(),
        client_user_ns: result.client_user_ns(),
        client_system_ns: result.client_system_ns(),
        busiest_thread_share: Some(result.busiest_thread_share()),
        client_calls: Some(client_calls(result)),
        transactions_sent: result.transactions_sent,
        retries: result.retries,
        skipped: result.skipped,
        late: result.late,
        behind: result.behind,
        lag_sum_ns: scheduled.then_some(result.lag_sum_ns),
        lag_max_ns: scheduled.then_some(result.lag_max_ns),
        first: (result.first.count() > 0).then(|| result.first.to_base64()),
        connects: (result.connects.count() > 0).then(|| result.connects.to_base64()),
        scripts: script_records(result, workload),
        ..Trial::default()
    }
}

fn client_calls(result: &SliceResult) -> ClientCalls {
    let calls = result.system_calls();
    ClientCalls {
        receive: calls.receive,
        send: calls.send,
        wait: calls.wait,
        enter: calls.enter,
        gathered: calls.gathered,
    }
}

/// What each script came to, where the workload has several or its statements are measured.
fn script_records(result: &SliceResult, workload: &WorkloadPlan) -> Vec<ScriptRecord> {
    let kept = |latency: &Latency| (latency.count() > 0).then(|| latency.to_base64());
    result
        .scripts
        .iter()
        .enumerate()
        .filter(|(_, script)| script.latency.is_some())
        .map(|(at, script)| ScriptRecord {
            name: workload
                .scripts
                .get(at)
                .map_or_else(String::new, |plan| plan.name.clone()),
            transactions: script.transactions,
            failures: script.failures,
            latency: script.latency.as_ref().and_then(kept),
            statements: script
                .commands
                .iter()
                .map(|command| StatementRecord {
                    failures: command.failures,
                    latency: command.latency.as_ref().and_then(kept),
                })
                .collect(),
        })
        .collect()
}

/// Tenths of a second, and no more than a hundred intervals in a window.
fn interval(window_ms: u64) -> Duration {
    Duration::from_millis((window_ms / 100).max(100))
}

/// Into how many parts the engine cuts an interval, so that who looks on sees each second.
fn parts(window_ms: u64) -> u32 {
    interval(window_ms).as_secs_f64().ceil() as u32
}

fn milliseconds(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1000.0)
}

/// What connections that can't be had mean for the run.
fn no_connection(error: ResizeError) -> TrialFailure {
    match &error {
        ResizeError::Stopped { .. } => TrialFailure::Interrupted,
        ResizeError::Descriptors { .. } => TrialFailure::PointOutOfReach(error.to_string()),
        ResizeError::Connect { cause, .. }
            if matches!(**cause, ConnectError::TooManyConnections { .. }) =>
        {
            TrialFailure::PointOutOfReach(error.to_string())
        }
        ResizeError::Connect { .. } | ResizeError::Broken { .. } => {
            TrialFailure::ServerDied(error.to_string())
        }
    }
}
