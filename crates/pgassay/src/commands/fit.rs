//! `pgassay fit`: the scaling law over a recorded sweep.

use pgassay_analysis::{analyse, fit};
use pgassay_engine::rundir::{self, catalogue};

use super::show::{next, show};
use crate::cli::args::{FitArgs, GlobalArgs};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Fits the arms of a run, or says why they can't be fitted.
///
/// # Errors
/// Where the run is not found or can't be read.
pub fn fit(args: &FitArgs, global: &GlobalArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    let run = rundir::read(&catalogue::find(&root, &args.run)?)?;
    let fitted = fit::fit(&analyse(&run));
    show(&fitted, &args.show, terminal)?;
    let step = match fitted.arms.iter().all(|arm| arm.refused.is_some()) {
        true if fitted.arms.iter().any(|arm| arm.over == fit::Over::Cpus) => {
            format!("pgassay run {} --cpus 1..16*2", fitted.workload)
        }
        true => format!("pgassay run {} --clients 1,2,4,8,16", fitted.workload),
        false => format!("pgassay diagnose {}", fitted.run),
    };
    next(&args.show, &[step], terminal);
    Ok(Exit::Done)
}
