//! What the searches have in common before they measure.

use std::sync::Arc;

use pgassay_model::workload::WorkloadPlan;
use pgassay_model::{Failure, Plan};
use pgassay_observe::host;
use pgassay_server::TargetSpec;
use pgassay_sys::stop::Stop;

use crate::cli::bisect::BisectArgs;
use crate::cli::measure::{self as resolved, Budget, Concurrency, Machine};
use crate::cli::target::TargetArgs;
use crate::commands::compare::BESIDE;
use crate::commands::compare::servers::Surroundings;
use crate::commands::copies;
use crate::exit::explain;
use crate::held::Held;
use crate::terminal::Terminal;

/// The dump of which the servers get copies, where one was asked for; `recorded` is the database of which those of a
/// search that is gone on with held copies.
///
/// # Errors
/// Where it can't be made, or a resumed search needs it and it is not named.
pub fn dump(
    args: &BisectArgs,
    recorded: Option<&str>,
    servers: &[String],
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Option<Arc<Held>>> {
    let Some(original) = &args.sides.from_database else {
        return match recorded {
            None => Ok(None),
            Some(of) => Err(copies::not_kept(of).into()),
        };
    };
    let specs: Result<Vec<TargetSpec>, _> = servers.iter().map(|server| server.parse()).collect();
    terminal.progress("dumping the database for the copies");
    let specs = specs.map_err(explain)?;
    copies::dump(original, &specs, args.sides.scratch.as_deref(), stop).map(Some)
}

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
            "--clients: a search is at one number of clients; several are for run and compare",
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
