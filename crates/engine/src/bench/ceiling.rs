//! The client's own ceiling: the plan's scripts against a peer that answers at once.
//!
//! What the engine reaches there is the most that it can do on this machine; points of a measurement
//! that come near it say more about the client than about the server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pgassay_analysis::Plan;
use pgassay_analysis::record::{Ceiling, CeilingPoint};

use super::arena::{engine_options, slice_spec};
use crate::workload;
use pgassay_load::{Engine, Length, Peer, Schedule, SliceSpec};
use pgassay_sys::stop::Stop;

/// Slices at each client count; the best of them is the ceiling, as all that disturbs only lowers it.
const SLICES: u32 = 3;
/// The window of each.
const WINDOW: Duration = Duration::from_millis(400);
/// What precedes it.
const WARMUP: Duration = Duration::from_millis(100);

/// Measures the ceiling at each of the plan's client counts, with a peer on a socket in `directory`.
///
/// # Errors
/// Where the peer can't listen, or a script can't run against a peer that answers everything with
/// one row.
pub fn measure(plan: &Plan, directory: &Path, stop: &Stop) -> anyhow::Result<Ceiling> {
    let peer = Peer::listen(directory)?;
    let program = workload::program(&plan.workload)?;
    let mut options = engine_options(plan, stop)?;
    // Neither a limit nor a new connection for each transaction belongs to what a thread can do.
    options.reconnect = false;
    options.latency_limit = None;
    options.stop = Arc::clone(stop.flag());
    let mut engine = Engine::new(peer.conninfo(), program, options);
    let mut ceiling = Ceiling::default();
    for point in &plan.points {
        engine.resize(point.clients as usize)?;
        let mut best = CeilingPoint {
            clients: point.clients,
            threads: point.threads,
            throughput_tps: 0.0,
            client_cpu_us_per_transaction: f64::INFINITY,
        };
        for round in 0..SLICES {
            let spec = SliceSpec {
                warmup: WARMUP,
                length: Length::Time(WINDOW),
                schedule: Schedule::Closed,
                ..slice_spec(plan, round)
            };
            let result = engine.run_slice(&spec, &mut |_| {});
            if stop.asked() {
                return Ok(ceiling);
            }
            if let Some(reason) = result.died {
                anyhow::bail!("the client against a peer that answers at once: {reason}");
            }
            if result.transactions == 0 {
                continue;
            }
            let cpu = (result.client_user_ns() + result.client_system_ns()) as f64 / 1000.0;
            best.throughput_tps = best.throughput_tps.max(result.throughput());
            best.client_cpu_us_per_transaction = best
                .client_cpu_us_per_transaction
                .min(cpu / result.transactions as f64);
        }
        if best.throughput_tps > 0.0 {
            ceiling.points.push(best);
        }
    }
    Ok(ceiling)
}
