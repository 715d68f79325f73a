//! The client's own ceiling: the plan's scripts against a peer that answers at once.
//!
//! What the engine reaches there is the most that it can do on this machine; points of a measurement
//! that come near it say more about the client than about the server.

use pgassay_text::number::counted;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pgassay_load::{Engine, Peer, Schedule, SliceSpec};
use pgassay_model::Plan;
use pgassay_model::plan::{DriverConfig, Stage};
use pgassay_model::point::Slice;
use pgassay_model::stage::StageId;
use pgassay_server::clock;
use pgassay_sys::stop::Stop;

use super::missing;
use super::wire::{engine_options, record, slice_spec};
use crate::runner::{Driver, Keep, TrialFailure, Watcher};
use crate::workload;

/// Trials at each client count.
const TRIALS: u32 = 3;
/// The window of each.
const WINDOW: Duration = Duration::from_millis(400);
/// What precedes it.
const WARMUP: Duration = Duration::from_millis(100);

/// The client and its peer.
pub struct Ceiling {
    plan: Plan,
    engine: Engine,
    _peer: Peer,
    stop: Stop,
}

/// The stage in which the client of a plan is measured alone.
pub fn stage(plan: &Plan) -> Stage {
    Stage {
        id: StageId::Ceiling,
        driver: DriverConfig::Ceiling,
        plan: Plan {
            trials: TRIALS,
            warmup_ms: WARMUP.as_millis() as u64,
            window_ms: WINDOW.as_millis() as u64,
            ..plan.clone()
        },
    }
}

impl Ceiling {
    /// The client of a plan, with a peer on a socket in `directory`.
    ///
    /// # Errors
    /// Where the peer can't listen, or a script has a mistake.
    pub fn open(plan: &Plan, directory: &Path, stop: &Stop) -> anyhow::Result<Self> {
        let peer = Peer::listen(directory)?;
        let program = workload::program(&plan.workload)?;
        let mut options = engine_options(plan, stop)?;
        // Neither a limit nor a new connection for each transaction belongs to what a thread can do.
        options.reconnect = false;
        options.latency_limit = None;
        options.stop = Arc::clone(stop.flag());
        Ok(Self {
            engine: Engine::new(peer.conninfo(), program, options),
            plan: plan.clone(),
            _peer: peer,
            stop: stop.clone(),
        })
    }
}

impl Driver for Ceiling {
    fn run(
        &mut self,
        slice: Slice,
        _: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        let point = self
            .plan
            .points
            .get(slice.point as usize)
            .ok_or_else(|| missing("point"))?;
        let clients = point.clients + self.plan.workload.own_clients();
        let resized = self.engine.resize(clients as usize);
        resized.map_err(|error| TrialFailure::Other(error.into()))?;
        let started = clock::now();
        let spec = SliceSpec {
            schedule: Schedule::Closed,
            ..slice_spec(&self.plan, slice.round)
        };
        let result = self.engine.run_slice(&spec, &mut |_| {});
        if self.stop.asked() {
            return Err(TrialFailure::Interrupted);
        }
        if let Some(reason) = result.died {
            return Err(TrialFailure::Other(anyhow::anyhow!(
                "the client against a peer that answers at once: {reason}"
            )));
        }
        let trial = pgassay_model::Trial {
            started: format!("{started:.3}"),
            ..record(&result, &self.plan.workload)
        };
        keep(trial).map_err(TrialFailure::Other)
    }

    fn unit(&self) -> &'static str {
        "tps"
    }

    fn describe(&self, slice: Slice) -> String {
        let point = self.plan.points.get(slice.point as usize);
        let clients = point.map_or(0, |point| point.clients);
        format!("the client alone, {}", counted(clients, "client"))
    }

    fn takes(&self) -> Option<Duration> {
        Some(WARMUP + WINDOW)
    }
}
