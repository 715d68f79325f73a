//! `pgassay compare --recorded`: runs that were not interleaved.

use std::path::Path;

use anyhow::bail;
use pgassay_analysis::compare::recorded::compare_recorded;
use pgassay_analysis::{Analysis, analyse};

use super::load::metric;
use crate::cli::args::GlobalArgs;
use crate::cli::compare::CompareArgs;
use crate::commands::show::show;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;
use pgassay_server::TargetSpec;

/// Whether two recorded runs were named where targets are: `last previous`. What is a target is one.
pub(super) fn are_runs(args: &CompareArgs, global: &GlobalArgs) -> bool {
    let Ok(root) = rundir::root(global.runs.as_deref()) else {
        return false;
    };
    let is_run = |name: &String| {
        let is_target = name.parse::<TargetSpec>().is_ok();
        let holds_run = Path::new(name).join("run.json").is_file();
        (!is_target || holds_run) && catalogue::find(&root, name).is_ok()
    };
    args.targets.len() == 2 && args.targets.iter().all(is_run)
}

/// Holds the runs named second against those named first.
///
/// # Errors
/// Where a run is not found, or they did other work.
pub fn recorded(
    args: &CompareArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let [a, b] = args.targets.as_slice() else {
        bail!(
            Failure::usage("--recorded takes two sides, each a run or several with commas between")
                .with_remedy("pgassay compare --recorded RUN-A RUN-B")
        );
    };
    let root = rundir::root(global.runs.as_deref())?;
    let read = |names: &str| -> anyhow::Result<Vec<Analysis>> {
        let names = names.split(',').filter(|name| !name.is_empty());
        names
            .map(|name| Ok(analyse(&rundir::read(&catalogue::find(&root, name)?)?)))
            .collect()
    };
    let (a, b) = (read(a)?, read(b)?);
    let replay = a
        .first()
        .and_then(|run| run.main().plan.workload.replay.as_ref());
    let metric = metric(args.metric, replay)?;
    let compare = compare_recorded(&a, &b, metric, args.delta, args.run_spread)
        .map_err(|refusal| Failure::usage(refusal.to_string()))?;
    show(&compare, &args.show, terminal)?;
    Ok(compare.verdict.into())
}
