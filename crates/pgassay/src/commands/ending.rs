//! The end of a run whose load is no clients over the wire.

use std::time::Instant;

use pgassay_analysis::{Analysis, analyse};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_model::Failure;

use super::files::page_of_run;
use super::show::conclude;
use super::{ordinary, pgio_output, record};
use crate::cli::args::RunArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Ends a run and shows its result. `measured` says whether there is one; `held` is dropped before the result is read.
pub fn end<T>(
    args: &RunArgs,
    (started, ended): (Instant, anyhow::Result<Ended>),
    mut writer: RunWriter,
    held: T,
    terminal: &mut Terminal,
    measured: fn(&Analysis) -> bool,
) -> anyhow::Result<Exit> {
    let finished = writer.finish(&record::end_of(&ended, started));
    let dir = writer.dir().to_owned();
    // The lock is given up first, so that the run does not count as running.
    drop(writer);
    drop(held);
    let analysis = analyse(&rundir::read(&dir)?);
    if !measured(&analysis) {
        return Err(match ended {
            Ok(Ended::ServerDied(why)) => Failure::target(format!(
                "the server died before anything was measured: {why}"
            ))
            .into(),
            Ok(_) => Failure::interrupted().into(),
            Err(error) => error,
        });
    }
    match analysis.pgio.as_ref().filter(|_| args.io.pgio_output) {
        Some(pgio) => {
            terminal.print(&pgio_output::render(pgio, &analysis))?;
            let path = page_of_run(&dir, &pgassay_report::html(&analysis))?;
            terminal.announce(&format!("report: {}", path.display()));
        }
        None => conclude(&analysis, (args.json, args.page.open), &dir, terminal)?,
    }
    let ended = ended.map_err(|error| ordinary::in_part(error, "run", &analysis.run.id))?;
    finished?;
    Ok(match ended {
        Ended::Complete => Exit::Done,
        Ended::Interrupted | Ended::ServerDied(_) => Exit::Partial,
    })
}
