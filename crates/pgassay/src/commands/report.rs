//! `pgassay report`: recorded runs, rendered.

use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::record::RecordedRun;
use pgassay_analysis::scattered::side_by_side;
use pgassay_analysis::{Analysis, analyse};

use super::files::to_file;
use crate::cli::args::{Format, GlobalArgs, ReportArgs};
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_report::Concluded;

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
    let format = if args.json { Format::Json } else { args.format };
    let runs = args
        .run
        .iter()
        .map(|name| rundir::read(&catalogue::find(&root, name)?))
        .collect::<anyhow::Result<Vec<RecordedRun>>>()?;
    let to_terminal = args.output.is_none();
    let text = match kernels(&runs, format, terminal, to_terminal) {
        Some(text) => text,
        None => each(&runs, format, terminal, to_terminal)?,
    };
    match &args.output {
        None => terminal.print(&text)?,
        Some(path) => {
            to_file(path, "--output", &text)?;
            terminal.announce(&format!("written: {}", path.display()));
        }
    }
    Ok(Exit::Done)
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
        Format::Html => pgassay_report::kernels_html(&side),
        Format::Markdown => pgassay_report::kernels_markdown(&side),
        _ => pgassay_report::kernels_text(&side, &style(terminal, to_terminal)),
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
        let all: Vec<Concluded> = all
            .iter()
            .map(|one| match one {
                Ok(compared) => Concluded::Compared(compared),
                Err(analysis) => Concluded::Run(analysis),
            })
            .collect();
        return Ok(pgassay_report::html_of_all(&all));
    }
    let mut text = String::new();
    for one in &all {
        text += &match one {
            Ok(compared) => render_compare(compared, format, terminal, to_terminal)?,
            Err(analysis) => render(analysis, format, terminal, to_terminal),
        };
    }
    Ok(text)
}

/// One analysis in one format; colour and width only where it goes to the terminal.
pub fn render(
    analysis: &Analysis,
    format: Format,
    terminal: &Terminal,
    to_terminal: bool,
) -> String {
    match format {
        Format::Text => {
            let style = style(terminal, to_terminal);
            pgassay_report::text(analysis, &style)
        }
        Format::Html => pgassay_report::html(analysis),
        Format::Json => pgassay_report::json(analysis),
        Format::Markdown => pgassay_report::markdown(analysis),
        Format::Csv => pgassay_report::csv(analysis),
    }
}

/// How text is laid out where it goes.
pub(super) fn style(terminal: &Terminal, to_terminal: bool) -> pgassay_report::TextStyle {
    pgassay_report::TextStyle {
        width: if to_terminal { terminal.width } else { 100 },
        color: to_terminal && terminal.colour,
        unicode: true,
    }
}

/// One comparison in one format.
///
/// # Errors
/// Never in practice; see [`pgassay_report::compare_json`].
pub fn render_compare(
    compare: &Compare,
    format: Format,
    terminal: &Terminal,
    to_terminal: bool,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Text => {
            let style = style(terminal, to_terminal);
            pgassay_report::compare_text(compare, &style)
        }
        Format::Html => pgassay_report::compare_html(compare),
        Format::Json => pgassay_report::compare_json(compare)?,
        Format::Markdown => pgassay_report::compare_markdown(compare),
        Format::Csv => pgassay_report::compare_csv(compare),
    })
}
