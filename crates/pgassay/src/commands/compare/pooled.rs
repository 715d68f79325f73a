//! `pgassay compare --pool`: the same comparison from several runs, taken together.

use std::io;
use std::path::Path;

use anyhow::bail;
use pgassay_analysis::compare::pooled::{Refusal, pool_runs};
use pgassay_analysis::compare::{self, Compare};

use crate::cli::args::GlobalArgs;
use crate::cli::compare::CompareArgs;
use crate::commands::patch_plan::{PatchPlan, read_plan};
use crate::commands::show::show;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;
use pgassay_sys::input;

/// Pools the runs named.
///
/// # Errors
/// Where one is not found, or they are not of one plan.
pub fn pool(
    args: &CompareArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    let mut runs = Vec::new();
    let mut plans: Vec<(&String, PatchPlan)> = Vec::new();
    for name in &args.targets {
        let (run, plan) = read(&root, name)?;
        runs.push(run);
        if let Some(plan) = plan {
            if let Some((other, first)) = plans.first()
                && !first.same_code(&plan)
            {
                bail!(Failure::usage(format!(
                    "{name} and {other} can't be pooled: their patch plans differ in the base, the \
                     patches or the variant"
                )));
            }
            plans.push((name, plan));
        }
    }
    let pooled = pool_runs(&runs).map_err(|refusal| {
        let failure = Failure::usage(refusal.to_string());
        match refusal {
            Refusal::OtherPlan {
                what: "the scale", ..
            } => failure
                .with_remedy("give --scale where it is measured: by default it goes by memory"),
            Refusal::OtherPlan { .. } | Refusal::NoCommonPoint => {
                failure.with_remedy("only runs of one plan can be pooled")
            }
            Refusal::NotComparable { .. } | Refusal::Sequential(_) => {
                failure.with_remedy("leave that run out")
            }
            Refusal::TooFew | Refusal::Twice(_) | Refusal::NoPairs(_) => failure.with_remedy(
                "pgassay compare --pool RUN RUN…, each recorded by pgassay compare or patch",
            ),
        }
    })?;
    show(&pooled, &args.show, terminal)?;
    Ok(pooled.verdict.into())
}

/// A run by its name or directory, or the document that `compare --json` printed elsewhere; with the
/// plan of `pgassay patch`, where it has one.
fn read(root: &Path, name: &str) -> anyhow::Result<(Compare, Option<PatchPlan>)> {
    let path = Path::new(name);
    if path.is_file() {
        let text = input::open(path)
            .and_then(io::read_to_string)
            .map_err(|error| Failure::usage(format!("{name}: {error}")))?;
        let run = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!(
                "{name} is no document of pgassay compare --json: {error}"
            ))
        })?;
        return Ok((run, None));
    }
    let dir = catalogue::find(root, name)?;
    let Some(run) = compare::conclude(&rundir::read(&dir)?) else {
        bail!(
            Failure::usage(format!("{name} is no comparison, or no pair was measured"))
                .with_remedy("pgassay runs lists them")
        );
    };
    let plan = dir.join("patch-plan.json");
    let plan = plan.is_file().then(|| read_plan(&plan)).transpose()?;
    Ok((run, plan))
}
