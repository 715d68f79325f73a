//! `pgassay bisect`: which settings, builds, commits or patches make a difference.
//!
//! The searches themselves are `analysis::search`; here servers are built and started with what they ask
//! for, and all that was measured is kept in the run directory (`facts/bisect.json` of settings,
//! `facts/steps.json` of commits and patches), from which a killed search goes on.

mod conf_file;
mod config;
mod measure;
mod positions;
mod settings;
mod setup;
mod steps;
mod tracer;
mod values;

use std::path::Path;

use anyhow::bail;
use pgassay_analysis::search::Outcome;

use super::again::to_resume;
use super::search::{Recorded, recorded};
use super::show::refuse_page;
use crate::cli::args::GlobalArgs;
use crate::cli::bisect::BisectArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir;
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

/// Searches for what makes the difference.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn bisect(
    args: &BisectArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    refuse_page(&args.show, terminal)?;
    if let Some(name) = &args.resume {
        let (dir, run) = to_resume(&rundir::root(global.runs.as_deref())?, name)?;
        return match recorded(&dir)? {
            Some(Recorded::Settings(document)) => {
                settings::resume(args, dir, run, *document, terminal, stop)
            }
            Some(Recorded::Steps(document)) => {
                steps::resume(args, dir, run, *document, terminal, stop)
            }
            None => bail!(
                Failure::usage(format!("{} is no search of pgassay bisect", run.header.id))
                    .with_remedy("pgassay runs lists what there is")
            ),
        };
    }
    args.sides.slices.one_scale()?;
    args.sides.given.refuse_beyond(2)?;
    let is_patch = |subject: &String| {
        let path = Path::new(subject);
        let named = path
            .extension()
            .is_some_and(|end| end == "patch" || end == "diff");
        named && path.is_file()
    };
    if args.good.is_some() || args.series.is_some() || args.subjects.iter().any(is_patch) {
        if args.sides.from_database.is_some() || args.sides.given.is_typed() {
            bail!(
                Failure::usage("--from-database, --env, --cpus-all and --wrap are for two servers, not for commits and patches")
                    .with_remedy("build both ends with pgassay build, and compare build:A build:B")
            );
        }
        return steps::bisect(args, global, terminal, stop);
    }
    settings::bisect(args, global, terminal, stop)
}

fn exit_of(outcome: Outcome, worse: Option<bool>) -> Exit {
    match (outcome, worse) {
        // Causes were found, but whether all together make it worse is not shown.
        (Outcome::Open, _) | (Outcome::Found, None) => Exit::Inconclusive,
        (_, Some(true)) => Exit::Found,
        _ => Exit::Done,
    }
}
