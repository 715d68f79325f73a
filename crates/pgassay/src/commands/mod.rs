//! The commands, one file each. They may join modules that otherwise keep apart.

mod again;
pub mod alone;
pub mod assay;
mod axes;
mod bisect;
mod buffers;
pub mod build;
pub mod build_recommend;
pub mod bytes;
pub mod check;
pub mod compare;
mod compare_runs;
mod concluded;
mod conditions;
mod copies;
mod core_to_core;
mod counts;
mod cpu_names;
mod deploy;
pub mod diagnose;
pub mod doctor;
mod ending;
mod export;
pub mod far;
mod files;
pub mod fit;
mod fleet;
pub mod follow;
mod following;
mod from;
mod given;
mod guard;
pub mod history;
pub mod inside;
pub mod inspect;
pub mod inspect_server;
mod kernels;
pub mod lab;
#[cfg_attr(
    not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        all(target_arch = "powerpc64", target_endian = "little")
    )),
    path = "no_lines.rs"
)]
pub mod lines;
mod live;
pub mod mcp;
pub mod measure;
#[cfg(test)]
mod no_lines;
mod observing;
mod opened;
mod ordinary;
pub mod patch;
mod patch_plan;
pub mod pgbench;
mod pgio_output;
pub mod pooler;
mod port;
pub mod progress;
mod query;
pub mod query_cost;
mod quiet;
mod record;
mod recorded_lab;
mod recorded_scripts;
mod recorder;
mod report;
mod request;
mod room;
pub mod runs;
pub mod sampled;
mod search;
mod second;
mod serve;
pub mod shell;
mod show;
pub mod subject;
mod sweep;
pub mod targets;
pub mod walls;
pub mod watch;
mod workload;

use crate::cli::Args;
use crate::cli::args::Command;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_sys::stop::Stop;

/// Carries out the command that was typed.
///
/// # Errors
/// What went wrong; a [`pgassay_model::Failure`] inside says with which exit code.
pub fn dispatch(args: Args, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    carry_out(args, terminal, stop).map_err(ordinary::explain)
}

fn carry_out(args: Args, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    let global = args.global;
    match args.command {
        Command::Assay(args) => {
            let _page = serve::beside(args.page, &global, terminal)?;
            assay::assay(&args, &global, terminal, stop)
        }
        Command::Run(args) => {
            let _page = serve::beside(args.page, &global, terminal)?;
            assay::run(&args, &global, terminal, stop)
        }
        Command::Compare(args) => {
            let _page = serve::beside(args.page, &global, terminal)?;
            compare::compare(&args, &global, terminal, stop)
        }
        Command::Bisect(args) => bisect::bisect(&args, &global, terminal, stop),
        Command::Build(args) => build::build(&args, terminal, stop),
        Command::Fleet(args) => fleet::fleet(&args, terminal, stop),
        Command::Deploy(args) => deploy::deploy(&args, terminal),
        Command::Far(args) => far::far(&args, terminal, stop),
        Command::Export(args) => export::export(&args, &global, terminal, stop),
        Command::Query(args) => query::query(&args, terminal, stop),
        Command::Follow(args) => follow::follow(&args, &global, terminal, stop),
        Command::Guard(args) => guard::guard(&args, &global, terminal, stop),
        Command::Lab(args) => lab::lab(&args, &global, terminal, stop),
        Command::History(args) => history::history_of(&args, &global, terminal),
        Command::Patch(args) => patch::patch(&args, &global, terminal, stop),
        Command::Targets(args) => targets::targets(&args, terminal),
        Command::Report(args) => report::report(&args, &global, terminal),
        Command::Inspect(args) => inspect::inspect(&args, terminal),
        Command::Port(args) => port::port(&args, terminal, stop),
        Command::Workload(args) => workload::workload(&args, terminal, stop),
        Command::Lines(args) => lines::lines(&args, terminal, stop),
        Command::Walls(args) => walls::walls(&args, terminal, stop),
        Command::CoreToCore(args) => core_to_core::run(&args, terminal, stop),
        Command::Diagnose(args) => diagnose::diagnose(&args, &global, terminal, stop),
        Command::Watch(args) => watch::watch(&args, &global, terminal, stop),
        Command::Check(args) => check::check(&args, terminal, stop),
        Command::Collect(args) => check::collect(&args, terminal, stop),
        Command::Doctor(args) => doctor::doctor(&args, &global, terminal, stop),
        Command::CompareRuns(args) => compare_runs::compare_runs(&args, &global, terminal),
        Command::Fit(args) => fit::fit(&args, &global, terminal),
        Command::Runs(args) => runs::runs(&args, &global, terminal, stop),
        Command::Serve(args) => serve::serve(&args, &global, terminal, stop),
        Command::Mcp(args) => mcp::mcp(&args, &global, terminal),
        Command::Completions(args) => shell::completions(&args, terminal),
        Command::Pgbench { words } => pgbench::pgbench(&words, terminal, stop),
        Command::Man => shell::manual(terminal),
    }
}
