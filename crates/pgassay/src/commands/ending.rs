//! The end of a run whose load is no clients over the wire.

use std::path::Path;
use std::time::Instant;

use pgassay_analysis::{Analysis, analyse};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_model::Failure;

use super::files::page_of_run;
use super::show::conclude;
use super::subject::Subject;
use super::{ordinary, record};
use crate::cli::args::RunArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// The report goes into the run also where something else is printed.
fn write_report(analysis: &Analysis, dir: &Path, terminal: &mut Terminal) -> anyhow::Result<()> {
    let path = page_of_run(dir, &pgassay_report::html(analysis))?;
    terminal.announce(&format!("report: {}", path.display()));
    Ok(())
}

/// Ends the run and shows what it says; `measured` tells whether there is anything.
pub fn end(
    args: &RunArgs,
    (started, ended): (Instant, anyhow::Result<Ended>),
    mut writer: RunWriter,
    subject: Subject,
    terminal: &mut Terminal,
    measured: fn(&Analysis) -> bool,
    show: impl FnOnce(&Analysis, &Path, &mut Terminal) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let finished = writer.finish(&record::end_of(&ended, started));
    let dir = writer.dir().to_owned();
    // The lock is given up first, so that the run does not count as running.
    drop(writer);
    drop(subject);
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
    if args.io.pgio_output {
        show(&analysis, &dir, terminal)?;
        write_report(&analysis, &dir, terminal)?;
    } else {
        conclude(&analysis, (args.json, args.page.open), &dir, terminal)?;
    }
    let ended = ended.map_err(|error| ordinary::in_part(error, "run", &analysis.run.id))?;
    finished?;
    Ok(match ended {
        Ended::Complete => Exit::Done,
        Ended::Interrupted | Ended::ServerDied(_) => Exit::Partial,
    })
}
