//! `pgassay report`: recorded runs, rendered.

use anyhow::bail;
use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::kernels::side_by_side;
use pgassay_analysis::{Analysis, analyse};
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;
use pgassay_model::plan::DriverConfig;
use pgassay_model::record::RecordedRun;
use pgassay_report::{Document, Report};

use super::files::to_file;
use super::search;
use super::show::{deliver, next, refuse_page, render, show, style};
use crate::cli::args::{GlobalArgs, ReportArgs};
use crate::cli::show::Format;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Analyses the runs again, as they stand, and renders them.
///
/// # Errors
/// Where a run is not found or the file can't be written.
pub fn report(
    args: &ReportArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    let format = args.show.format();
    refuse_page(&args.show, terminal)?;
    if let [name] = args.run.as_slice()
        && let Some(search) = search::recorded(&catalogue::find(&root, name)?)?
    {
        show(&search, &args.show, terminal)?;
        return Ok(Exit::Done);
    }
    let runs = args
        .run
        .iter()
        .map(|name| {
            let dir = catalogue::find(&root, name)?;
            let run = rundir::read(&dir)?;
            if search::recorded(&dir)?.is_some() {
                bail!(
                    Failure::usage(format!(
                        "{} is a search of pgassay bisect, which is reported by itself",
                        run.header.id
                    ))
                    .with_remedy(format!("pgassay report {}", run.header.id))
                );
            }
            Ok(run)
        })
        .collect::<anyhow::Result<Vec<RecordedRun>>>()?;
    let to_terminal = args.show.output.is_none();
    let text = match kernels(&runs, format, terminal, to_terminal) {
        Some(text) => text,
        None => each(&runs, format, terminal, to_terminal)?,
    };
    deliver(&text, &args.show, terminal)?;
    if let Some(path) = &args.show.html {
        let page = match kernels(&runs, Format::Html, terminal, false) {
            Some(page) => page,
            None => each(&runs, Format::Html, terminal, false)?,
        };
        to_file(path, "--html", &page)?;
        terminal.place("written:", path);
    }
    next(&args.show, &next_of(&runs), terminal);
    Ok(Exit::Done)
}

/// Two runs are compared; what holds one back is told in full.
fn next_of(runs: &[RecordedRun]) -> Vec<String> {
    let id = |run: &RecordedRun| run.header.id.clone();
    let under_load = |run: &RecordedRun| {
        let experiment = &run.header.experiment;
        let load = experiment.stages.first();
        experiment.arms.len() == 1 && load.is_some_and(|load| load.driver == DriverConfig::Wire)
    };
    let first = match runs {
        [a, b] => format!("pgassay compare {} {}", id(a), id(b)),
        [one] if under_load(one) => format!("pgassay diagnose {}", id(one)),
        _ => return vec!["pgassay serve --open".to_owned()],
    };
    vec![first, "pgassay serve --open".to_owned()]
}

/// Runs of scattered reads, in formats for people, in one report.
fn kernels(
    runs: &[RecordedRun],
    format: Format,
    terminal: &Terminal,
    to_terminal: bool,
) -> Option<String> {
    if runs.len() < 2 || matches!(format, Format::Json | Format::Csv) {
        return None;
    }
    let analyses: Vec<Analysis> = runs.iter().map(analyse).collect();
    let side = side_by_side(&analyses)?;
    Some(match format {
        Format::Html => pgassay_report::html(&side),
        Format::Markdown => pgassay_report::markdown(&side),
        _ => pgassay_report::text(&side, &style(terminal, to_terminal)),
    })
}

/// The runs one after the other.
fn each(
    runs: &[RecordedRun],
    format: Format,
    terminal: &Terminal,
    to_terminal: bool,
) -> anyhow::Result<String> {
    // A comparison of which no pair was measured is shown as what it has.
    let all: Vec<Result<Box<Compare>, Box<Analysis>>> = runs
        .iter()
        .map(|run| match compare::conclude(run) {
            Some(compared) => Ok(Box::new(compared)),
            None => Err(Box::new(analyse(run))),
        })
        .collect();
    if format == Format::Html && all.len() > 1 {
        let all: Vec<Document> = all
            .iter()
            .map(|one| match one {
                Ok(compared) => compared.document(),
                Err(analysis) => analysis.document(),
            })
            .collect();
        return Ok(pgassay_report::html_of_all(&all));
    }
    let mut text = String::new();
    for one in &all {
        text += &match one {
            Ok(compared) => render(compared.as_ref(), format, terminal, to_terminal)?,
            Err(analysis) => render(analysis.as_ref(), format, terminal, to_terminal)?,
        };
    }
    Ok(text)
}
