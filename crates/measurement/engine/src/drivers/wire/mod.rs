//! Scripts over the wire, by the load engine.

mod agent;
mod arm;
mod giver;
mod metered;
mod plan;
mod record;

use pgassay_text::number::counted;
use std::time::Duration;

use pgassay_load::{Edge, Share, SliceSpec};
use pgassay_model::Plan;
use pgassay_model::point::Slice;
use pgassay_model::trial::Trial;
use pgassay_model::workload::Launches;
use pgassay_observe::Scene;
use pgassay_observe::glance::Glance;
use pgassay_server::clock;
use pgassay_sys::stop::Stop;

pub use agent::{Engines, identity, serve};
pub use arm::{Source, WireArm};
pub(super) use plan::{engine_options, slice_spec};
pub(super) use record::record;

use super::{Watched, missing};
use crate::runner::{Arms, Driver, Keep, TrialFailure, Watcher};
use crate::workload;
use plan::{interval, replay_from};

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
        self.arms.into_iter().map(WireArm::into_scene).collect()
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
        let own = plan.workload.own_clients();
        let clients = point.clients.saturating_add(own);
        arm.open_idle(plan.workload.idle, plan.max_clients().saturating_add(own))?;
        let resized = arm.giver.resize(clients);
        if self.stop.asked() {
            return Err(TrialFailure::Interrupted);
        }
        resized?;
        let Watched { scene, observers } = &mut arm.watched;
        if !std::mem::replace(&mut arm.acquainted, true) {
            observers.acquaint(scene);
        }
        let settled = arm.settle(&plan.workload.settle)?;
        let spec = SliceSpec {
            follow: watcher.every(),
            share: Some(Share::whole(clients)),
            replay_from: replay_from(plan, slice.round, self.launches),
            ..slice_spec(plan, slice.index)
        };
        let started = clock::now();
        let mut seen = None;
        let mut glanced = None;
        let looks = watcher.looks_at_cpus();
        let Watched { scene, observers } = &mut arm.watched;
        let given = arm.giver.run_slice(&spec, &mut |edge| match edge {
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
        if self.stop.asked() {
            return Err(TrialFailure::Interrupted);
        }
        let (result, machines) = given?;
        if result.interrupted {
            return Err(TrialFailure::Interrupted);
        }
        if let Some(why) = &result.script_error {
            return Err(TrialFailure::Other(workload::stopped(why).into()));
        }
        if let Some(reason) = &result.died {
            return Err(TrialFailure::ServerDied(reason.clone()));
        }
        let (samples, observed) = seen.unwrap_or_default();
        let mut recorded = record(&result, &plan.workload);
        if let Some(metered) = &mut arm.metered {
            let scripts = &mut recorded.scripts;
            let measured = metered.measure(plan, slice, &mut arm.watched.scene, scripts);
            recorded.not_metered = measured.err();
        }
        keep(Trial {
            started: format!("{started:.3}"),
            samples,
            interval_ns: interval(plan.window_ms).as_nanos() as u64,
            observed,
            settled_ms: settled.map(|took| took.as_secs_f64() * 1000.0),
            machines,
            ..recorded
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
