//! The real arena: target, load and observers meet here and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use pgassay_analysis::Plan;
use pgassay_analysis::plan::Slice;
use pgassay_analysis::record::TrialRecord;

use super::{Arena, SliceFailure};
use crate::load::{
    Edge, Engine, Length, Options, Protocol, ResizeError, Schedule, SliceResult, SliceSpec,
};
use crate::observe::{Readings, Scene};
use crate::pg::{ConnectError, Conninfo};
use crate::script::{Program, Value};
use crate::stop::Stop;
use crate::workload::{Workload, pgbench_tables};

/// One server with its connections.
pub struct LiveArm {
    engine: Engine,
    scene: Scene,
}

impl LiveArm {
    /// Prepares the clients of an arm; connects none yet.
    ///
    /// # Errors
    /// Where the workload's script or the protocol's name is wrong.
    pub fn new(
        workload: &Workload,
        plan: &Plan,
        conninfo: &Conninfo,
        scene: Scene,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let program = Program::builtin(workload.name).map_err(anyhow::Error::msg)?;
        let threads = plan
            .points
            .iter()
            .map(|point| point.threads)
            .max()
            .unwrap_or(1);
        let options = Options {
            protocol: protocol(&plan.workload.protocol)?,
            threads: Some(threads as usize),
            variables: vec![(
                "scale".to_owned(),
                Value::Int(i64::from(plan.workload.scale)),
            )],
            drain: Duration::from_secs(5),
            stop: Arc::clone(stop.flag()),
            ..Options::default()
        };
        let mut conninfo = conninfo.with_application_name("pgassay load");
        let path = format!("-c search_path={}", pgbench_tables::SCHEMA);
        conninfo.options = Some(match conninfo.options.take() {
            Some(options) => format!("{options} {path}"),
            None => path,
        });
        Ok(Self {
            engine: Engine::new(conninfo, program, options),
            scene,
        })
    }
}

/// The servers of a plan, in the order of its arms.
pub struct LiveArena {
    /// One entry an arm.
    pub arms: Vec<LiveArm>,
    /// Asked between the steps of a slice.
    pub stop: Stop,
}

impl LiveArena {
    /// Closes all load connections and gives the scenes back.
    pub fn close(self) -> Vec<Scene> {
        self.arms.into_iter().map(|arm| arm.scene).collect()
    }
}

impl Arena for LiveArena {
    fn run_slice(&mut self, plan: &Plan, slice: Slice) -> Result<TrialRecord, SliceFailure> {
        let missing = |what| SliceFailure::Other(anyhow::anyhow!("the plan has no such {what}"));
        let point = plan
            .points
            .get(slice.point as usize)
            .ok_or_else(|| missing("point"))?;
        let arm = self
            .arms
            .get_mut(slice.arm as usize)
            .ok_or_else(|| missing("arm"))?;
        let resized = arm.engine.resize(point.clients as usize);
        if self.stop.asked() {
            return Err(SliceFailure::Interrupted);
        }
        resized.map_err(no_connection)?;
        let spec = SliceSpec {
            warmup: Duration::from_millis(plan.warmup_ms),
            length: Length::Time(Duration::from_millis(plan.window_ms)),
            // Every slice draws other keys, the same ones when it is repeated.
            seed: plan.seed.wrapping_add(u64::from(slice.index) << 32),
            schedule: Schedule::Closed,
            interval: Some(Duration::from_millis(100)),
            tick: None,
        };
        let started = jiff::Timestamp::now();
        let mut before = None;
        let mut after = None;
        let scene = &mut arm.scene;
        let result = arm.engine.run_slice(&spec, &mut |edge| match edge {
            Edge::Start => before = Some(Readings::before(scene)),
            Edge::End => after = Some(Readings::after(scene)),
            Edge::Tick(_) => {}
        });
        if result.interrupted || self.stop.asked() {
            return Err(SliceFailure::Interrupted);
        }
        if let Some(reason) = &result.died {
            return Err(SliceFailure::ServerDied(reason.clone()));
        }
        let samples = match (before, after) {
            (Some(before), Some(after)) => before.until(after),
            _ => Default::default(),
        };
        Ok(TrialRecord {
            slice,
            started: format!("{started:.3}"),
            samples,
            ..record(slice, &result)
        })
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

fn record(slice: Slice, result: &SliceResult) -> TrialRecord {
    TrialRecord {
        slice,
        started: String::new(),
        window_ns: result.window_ns,
        transactions: result.transactions,
        failures: result.failures.clone(),
        latency: result.latency.to_base64(),
        latency_from_actual_start: result.latency_from_actual.as_ref().map(|l| l.to_base64()),
        intervals: result
            .intervals
            .iter()
            .map(|interval| interval.transactions)
            .collect(),
        client_user_ns: result.client_user_ns(),
        client_system_ns: result.client_system_ns(),
        busiest_thread_share: Some(result.busiest_thread_share()),
        transactions_sent: result.transactions_sent,
        samples: Default::default(),
        cut_short: None,
    }
}

/// What connections that can't be had mean for the run.
fn no_connection(error: ResizeError) -> SliceFailure {
    match &error {
        ResizeError::Stopped { .. } => SliceFailure::Interrupted,
        ResizeError::Descriptors { .. } => SliceFailure::PointOutOfReach(error.to_string()),
        ResizeError::Connect { cause, .. }
            if matches!(**cause, ConnectError::TooManyConnections { .. }) =>
        {
            SliceFailure::PointOutOfReach(error.to_string())
        }
        ResizeError::Connect { .. } | ResizeError::Broken { .. } => {
            SliceFailure::ServerDied(error.to_string())
        }
    }
}
