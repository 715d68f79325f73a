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
use pgassay_analysis::search::document::Bisected;
use pgassay_analysis::search::steps::Traced;
use pgassay_report::{Document, Report};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::again::to_resume;
use super::show::refuse_page;
use crate::cli::args::GlobalArgs;
use crate::cli::bisect::BisectArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir;
use pgassay_model::Failure;
use pgassay_sys::input;
use pgassay_sys::stop::Stop;

/// The name of the facts that a search of settings writes down.
const SETTINGS: &str = "bisect";
/// The same of a search of commits or patches.
const STEPS: &str = "steps";

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
    args.slices.one_scale()?;
    let is_patch = |subject: &String| {
        let path = Path::new(subject);
        let named = path
            .extension()
            .is_some_and(|end| end == "patch" || end == "diff");
        named && path.is_file()
    };
    if args.good.is_some() || args.series.is_some() || args.subjects.iter().any(is_patch) {
        if args.from_database.is_some() || args.given.is_typed() {
            bail!(
                Failure::usage("--from-database, --env, --cpus-all and --wrap are for two servers, not for commits and patches")
                    .with_remedy("build both ends with pgassay build, and compare build:A build:B")
            );
        }
        return steps::bisect(args, global, terminal, stop);
    }
    settings::bisect(args, global, terminal, stop)
}

/// A recorded search.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Recorded {
    /// Of settings.
    Settings(Box<Bisected>),
    /// Of commits or patches.
    Steps(Box<Traced>),
}

impl Report for Recorded {
    fn document(&self) -> Document {
        match self {
            Self::Settings(search) => search.document(),
            Self::Steps(search) => search.document(),
        }
    }
}

/// The search of a recorded run; none where it is another kind of run.
///
/// # Errors
/// Where its record is damaged.
pub fn recorded(dir: &Path) -> anyhow::Result<Option<Recorded>> {
    if let Some(document) = fact(dir, SETTINGS)? {
        return Ok(Some(Recorded::Settings(Box::new(document))));
    }
    let steps = fact(dir, STEPS)?;
    Ok(steps.map(|document| Recorded::Steps(Box::new(document))))
}

/// Larger documents are none of a search.
const LARGEST: u64 = 64 << 20;

fn fact<T: DeserializeOwned>(dir: &Path, name: &str) -> anyhow::Result<Option<T>> {
    let path = dir.join("facts").join(format!("{name}.json"));
    let Ok(bytes) = input::read(&path, LARGEST) else {
        return Ok(None);
    };
    match serde_json::from_slice(&bytes) {
        Ok(document) => Ok(Some(document)),
        Err(error) => bail!(Failure::usage(format!(
            "{} is damaged: {error}",
            path.display()
        ))),
    }
}

fn exit_of(outcome: Outcome, worse: Option<bool>) -> Exit {
    match (outcome, worse) {
        // Causes were found, but whether all together make it worse is not shown.
        (Outcome::Open, _) | (Outcome::Found, None) => Exit::Inconclusive,
        (_, Some(true)) => Exit::Found,
        _ => Exit::Done,
    }
}
