//! What the searches have in common before they measure.

use std::sync::Arc;

use pgassay_model::workload::WorkloadPlan;
use pgassay_model::{Failure, Plan};
use pgassay_observe::host;

use crate::cli::bisect::BisectArgs;
use crate::cli::measure::{self as resolved, Budget, Concurrency, Machine};
use crate::cli::target::TargetArgs;
use crate::commands::compare::BESIDE;
use crate::commands::compare::servers::Surroundings;
use crate::held::Held;

/// What all servers of a search have in common.
pub fn surroundings(args: &BisectArgs, clients: u32, dump: Option<Arc<Held>>) -> Surroundings {
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    Surroundings {
        passage: Default::default(),
        common: TargetArgs {
            scratch: args.sides.scratch.clone(),
            stand_in: args.sides.stand_in,
            dump,
            ..TargetArgs::default()
        },
        memory_bytes: machine.usable_memory_bytes().unwrap_or(1 << 30),
        connections: clients.saturating_add(BESIDE),
    }
}

/// The number of clients: as asked, else twice the CPUs.
///
/// # Errors
/// Where several were asked for.
pub fn clients(args: &BisectArgs) -> Result<u32, Failure> {
    match args
        .sides
        .slices
        .client_counts
        .as_ref()
        .map(|list| list.0.as_slice())
    {
        None => {
            let machine = pgassay_analysis::host::summarise(&host::facts(None));
            Ok(machine.cpus.unwrap_or(1).saturating_mul(2))
        }
        Some([one]) => Ok(*one),
        Some(_) => Err(Failure::usage(
            "--clients: bisect takes one number of clients; run and compare take several",
        )),
    }
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
    let flags = args.sides.slices.measured(&[clients], workload.writes);
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
