//! `pgassay history`: many runs of one plan, and when their level changed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_analysis::analyse;
use pgassay_analysis::history::{Past, history};
use pgassay_analysis::metrics::MetricId;
use pgassay_analysis::stats::ChangeRule;

use super::export;
use super::show::{next, show};
use crate::cli::args::GlobalArgs;
use crate::cli::history::HistoryArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;
use pgassay_records::{is_archive, past};

/// Follows the runs and says where they changed.
///
/// # Errors
/// Where a run or directory is not found, or none can be read.
pub fn history_of(
    args: &HistoryArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let mut runs: Vec<Past> = Vec::new();
    let (tables, named): (Vec<&String>, Vec<&String>) = args
        .named
        .iter()
        .partition(|name| is_archive(Path::new(name)));
    for name in tables {
        runs.extend(past(Path::new(name)).map_err(export::explain)?);
    }
    for dir in directories(&named, global)? {
        // A run that is being measured, or damaged, must not end a CI job.
        match rundir::read(&dir) {
            Ok(run) if run.running => {}
            Ok(run) => runs.push(Past::of(&analyse(&run))),
            Err(error) => terminal.warn(&format!("left out: {error:#}")),
        }
    }
    if runs.is_empty() {
        bail!(
            Failure::usage(format!("no finished run is in {}", args.named.join(", "))).with_remedy(
                "name a directory that holds runs; pgassay runs lists those there are"
            )
        );
    }
    let rule = ChangeRule {
        magnitude: args.magnitude,
        ..ChangeRule::default()
    };
    let metrics = match args.metrics.as_slice() {
        [] => &MetricId::usual(),
        named => named,
    };
    let followed = history(runs, metrics, rule);
    show(&followed, &args.show, terminal)?;
    if let [.., before, last] = followed.runs.as_slice() {
        let step = format!("pgassay compare {} {}", before.run, last.run);
        next(&args.show, &[step], terminal);
    }
    Ok(if followed.worse {
        Exit::Found
    } else {
        Exit::Done
    })
}

/// The run directories that were named, each once.
fn directories(named: &[&String], global: &GlobalArgs) -> anyhow::Result<Vec<PathBuf>> {
    let root = rundir::root(global.runs.as_deref())?;
    let mut found: Vec<PathBuf> = Vec::new();
    for name in named {
        let path = Path::new(name);
        if path.is_dir() && !path.join("run.json").is_file() {
            found.extend(catalogue::list(path)?.into_iter().map(|entry| entry.dir));
        } else {
            found.push(catalogue::find(&root, name)?);
        }
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    for dir in found {
        let full = fs::canonicalize(&dir).unwrap_or(dir);
        if !seen.contains(&full) {
            seen.push(full);
        }
    }
    Ok(seen)
}
