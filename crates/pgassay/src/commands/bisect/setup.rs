//! What the searches have in common before they measure.

use pgassay_model::Plan;
use pgassay_model::workload::WorkloadPlan;
use pgassay_observe::host;

use crate::cli::args::TargetArgs;
use crate::cli::bisect::BisectArgs;
use crate::cli::measure::{self as resolved, Budget, Concurrency, Machine};
use crate::commands::compare::BESIDE;
use crate::commands::compare::servers::Surroundings;

/// What all servers of a search have in common.
pub fn surroundings(args: &BisectArgs, clients: u32) -> Surroundings {
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    Surroundings {
        common: TargetArgs {
            scratch: args.scratch.clone(),
            stand_in: args.stand_in,
            ..TargetArgs::default()
        },
        memory_bytes: machine
            .memory_limit_bytes
            .or(machine.memory_bytes)
            .unwrap_or(1 << 30),
        connections: clients.saturating_add(BESIDE),
    }
}

/// Clients where nobody named a number.
pub fn usual_clients() -> u32 {
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    machine.cpus.unwrap_or(1).saturating_mul(2)
}

/// What is measured in each block, of servers with so much of shared buffers.
///
/// # Errors
/// Where the flags do not fit the workload.
pub fn plan(
    args: &BisectArgs,
    workload: WorkloadPlan,
    clients: u32,
    shared_buffers: u64,
    seed: u64,
) -> anyhow::Result<Plan> {
    let facts = pgassay_analysis::host::summarise(&host::facts(None));
    let flags = args.slices.measured(&[clients], workload.writes);
    let machine = Machine {
        cache_bytes: facts.last_level_cache_total_bytes.unwrap_or(0),
        shared_buffers,
    };
    let concurrency = Concurrency::of(&flags, facts.cpus.unwrap_or(1));
    Ok(resolved::plan(
        workload,
        &flags,
        &concurrency,
        2,
        &machine,
        Budget::RUN,
        seed,
    )?)
}
