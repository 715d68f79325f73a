//! What a plan says to the load engine.

use std::sync::Arc;
use std::time::Duration;

use pgassay_load::{Gaps, Length, Options, Pause, Schedule, SliceSpec};
use pgassay_model::Plan;
use pgassay_model::workload::{Launches, ScriptPlan, WorkloadPlan};
use pgassay_sys::stop::Stop;

use crate::workload;

/// How the plan's clients behave.
pub(in crate::drivers) fn engine_options(plan: &Plan, stop: &Stop) -> anyhow::Result<Options> {
    let dials = &plan.workload.dials;
    let threads = plan.points.iter().map(|point| point.threads).max();
    Ok(Options {
        threads: Some(threads.unwrap_or(1) as usize),
        max_tries: dials.max_tries.unwrap_or(1),
        latency_limit: dials.latency_limit_ms.map(milliseconds).transpose()?,
        reconnect: dials.reconnect,
        pauses: pauses(&plan.workload),
        own_clients: own_clients(&plan.workload),
        per_statement: dials.per_statement,
        drain: Duration::from_secs(5),
        cpus: dials.client_cpus.clone(),
        stop: Arc::clone(stop.flag()),
        ..workload::options_of(&plan.workload)?
    })
}

/// Clients of its own, by script; empty where none has any.
fn own_clients(workload: &WorkloadPlan) -> Vec<u32> {
    if workload.own_clients() == 0 {
        return Vec::new();
    }
    let of = |script: &ScriptPlan| script.clients.unwrap_or(0);
    workload.scripts.iter().map(of).collect()
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
pub(in crate::drivers) fn slice_spec(plan: &Plan, index: u32) -> SliceSpec {
    SliceSpec {
        warmup: Duration::from_millis(plan.warmup_ms),
        length: Length::Time(Duration::from_millis(plan.window_ms)),
        // Every slice draws other keys, the same ones when it is repeated.
        seed: plan.seed.wrapping_add(u64::from(index) << 32),
        share: None,
        schedule: schedule(plan),
        interval: Some(interval(plan.window_ms) / parts(plan.window_ms)),
        keep: parts(plan.window_ms),
        replay_from: Duration::ZERO,
        tick: None,
        follow: None,
    }
}

/// When the clients' transactions are to start: a rate that changes does so over the window.
fn schedule(plan: &Plan) -> Schedule {
    let dials = &plan.workload.dials;
    match (dials.rate_tps, dials.rate_end_tps) {
        (None, _) => Schedule::Closed,
        (Some(per_second), None) => Schedule::Paced {
            per_second,
            gaps: Gaps::Exponential,
        },
        (Some(from), Some(to)) => Schedule::Ramp {
            from,
            to,
            after: Duration::from_millis(plan.warmup_ms),
            over: Duration::from_millis(plan.window_ms),
        },
    }
}

/// Where in a recording a round begins: at the same place for all arms, whatever each of them ran before.
pub(super) fn replay_from(plan: &Plan, round: u32, launches: Launches) -> Duration {
    let trial_ms = plan.warmup_ms.saturating_add(plan.window_ms);
    let replay = plan.workload.replay.as_ref();
    replay.map_or(Duration::ZERO, |replay| {
        replay.begins(round, trial_ms, launches)
    })
}

/// Tenths of a second, and no more than a hundred intervals in a window.
pub(super) fn interval(window_ms: u64) -> Duration {
    Duration::from_millis((window_ms / 100).max(100))
}

/// Into how many parts the engine cuts an interval, so that who looks on sees each second.
fn parts(window_ms: u64) -> u32 {
    interval(window_ms).as_secs_f64().ceil() as u32
}

fn milliseconds(ms: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(ms / 1000.0)
        .map_err(|error| anyhow::anyhow!("a latency limit of {ms} ms: {error}"))
}
