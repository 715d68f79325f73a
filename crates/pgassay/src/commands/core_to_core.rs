//! `pgassay core-to-core`: what a cache line takes from each CPU to each other.

use anyhow::bail;
use pgassay_kernels::placement::{self, Cpu};
use pgassay_kernels::{KernelError, core_to_core};
use pgassay_lines::measured::Measured;
use pgassay_model::Failure;
use pgassay_observe::host;
use pgassay_sys::stop::Stop;

use super::progress::Progress;
use super::quiet;
use super::show::{next, show};
use crate::cli::core_to_core::CoreToCoreArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Measures and shows the times.
///
/// # Errors
/// If there are fewer than two CPUs, one is not there, or a thread can't be kept on one.
pub fn run(args: &CoreToCoreArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    let cpus = chosen(&args.cpus)?;
    quiet::look(None, terminal, stop)?;
    let _deferred = stop.defer();
    let progress = Progress::new(terminal, 100);
    let measured = core_to_core(&cpus, stop, &mut |done, all| {
        progress.say(format!("pair {} of {all}", done + 1));
    });
    progress.clear();
    let measured = match measured {
        Err(KernelError::Interrupted) => return Err(Failure::interrupted().into()),
        Err(error @ KernelError::NotPinned { .. }) => bail!(
            Failure::usage(error.to_string()).with_remedy("name CPUs that are online with --cpus")
        ),
        measured => measured?,
    };
    let whole = measured.pairs.len() == cpus.len() * (cpus.len() - 1) / 2;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    show(
        &Measured::of(measured, machine.cpu_model),
        &args.show,
        terminal,
    )?;
    let steps = [
        "pgassay core-to-core --json -o here.json",
        "pgassay walls --map here.json",
    ];
    next(&args.show, &steps.map(str::to_owned), terminal);
    Ok(if whole { Exit::Done } else { Exit::Partial })
}

fn chosen(asked: &[usize]) -> anyhow::Result<Vec<Cpu>> {
    let mut cpus = placement::here()?;
    if let Some(missing) = asked
        .iter()
        .find(|asked| cpus.iter().all(|at| at.cpu != **asked))
    {
        let known: Vec<String> = cpus.iter().map(|at| at.cpu.to_string()).collect();
        bail!(
            Failure::usage(format!("this program may not use a CPU {missing}"))
                .with_remedy(format!("it may use {}", known.join(", ")))
        );
    }
    if !asked.is_empty() {
        cpus.retain(|at| asked.contains(&at.cpu));
    }
    if cpus.len() < 2 {
        bail!(
            Failure::usage("a line needs two CPUs to travel between, and there is one")
                .with_remedy("a machine, container or --cpus with more")
        );
    }
    Ok(cpus)
}
