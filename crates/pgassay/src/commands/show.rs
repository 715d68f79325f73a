//! A result, shown as it was asked for.

use std::path::Path;

use anyhow::bail;
use pgassay_analysis::Analysis;
use pgassay_model::Failure;
use pgassay_report::{Report, TextStyle};
use serde::Serialize;

use super::files::{page_of_run, to_file};
use super::opened;
use crate::cli::show::{Format, ShowArgs};
use crate::terminal::Terminal;

/// Renders a result and prints it, or writes the files that were named.
///
/// # Errors
/// Where a file can't be written, or the result has no rows for CSV.
pub fn show(
    result: &(impl Report + Serialize),
    args: &ShowArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let text = render(result, args.format(), terminal, args.output.is_none())?;
    deliver(&text, args, terminal)?;
    if let Some(path) = &args.html {
        to_file(path, "--html", &pgassay_report::html(result))?;
        terminal.place("written:", path);
    }
    Ok(())
}

/// Prints a text, or writes it where it was asked for.
///
/// # Errors
/// Where the file can't be written.
pub fn deliver(text: &str, args: &ShowArgs, terminal: &mut Terminal) -> anyhow::Result<()> {
    refuse_page(args, terminal)?;
    match &args.output {
        None => terminal.print(text),
        Some(path) => {
            to_file(path, "--output", text)?;
            terminal.place("written:", path);
            Ok(())
        }
    }
}

/// A page is for a browser: a terminal is not flooded with it.
///
/// # Errors
/// Where one is to be printed on a terminal.
pub fn refuse_page(args: &ShowArgs, terminal: &Terminal) -> anyhow::Result<()> {
    if args.format() == Format::Html && args.output.is_none() && terminal.results_watched {
        bail!(
            Failure::usage("--format html is for a browser, not for a terminal")
                .with_remedy("write it to a file: --output report.html")
        );
    }
    Ok(())
}

/// What can be done next, below what a user reads.
pub fn next(args: &ShowArgs, steps: &[String], terminal: &mut Terminal) {
    if args.format() == Format::Text && args.output.is_none() {
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        terminal.next(&steps);
    }
}

/// One result in one format; colour and width only where it goes to the terminal.
///
/// # Errors
/// Where CSV is asked for and the result has no rows, or a profile and it has no CPU samples.
pub fn render(
    result: &(impl Report + Serialize),
    format: Format,
    terminal: &Terminal,
    to_terminal: bool,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Text => pgassay_report::text(result, &style(terminal, to_terminal)),
        Format::Html => pgassay_report::html(result),
        Format::Json => pgassay_report::json(result),
        Format::Markdown => pgassay_report::markdown(result),
        Format::Csv => pgassay_report::csv(result).ok_or_else(|| {
            Failure::usage("this result has no rows to write as CSV")
                .with_remedy("use --format json")
        })?,
        Format::Speedscope => pgassay_report::speedscope(result).ok_or_else(no_samples)?,
        Format::Firefox => pgassay_report::firefox(result).ok_or_else(no_samples)?,
    })
}

fn no_samples() -> Failure {
    Failure::usage("this result holds no CPU samples to export")
        .with_remedy("measure with --observe all, and see what its report says was not seen")
}

/// How text is laid out where it goes.
pub fn style(terminal: &Terminal, to_terminal: bool) -> TextStyle {
    TextStyle {
        width: if to_terminal { terminal.width } else { 100 },
        color: to_terminal && terminal.colour,
        unicode: true,
    }
}

/// Writes the page into the run's directory and prints the answer; with --verbose the whole text, with `json` the
/// document. Opens the page if `open`.
pub fn conclude(
    analysis: &Analysis,
    (json, open): (bool, bool),
    dir: &Path,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let written = page_of_run(dir, &pgassay_report::html(analysis));
    let text = match (json, terminal.is_verbose()) {
        (true, _) => render(analysis, Format::Json, terminal, true)?,
        (false, true) => render(analysis, Format::Text, terminal, true)?,
        (false, false) => pgassay_report::answer(analysis, &style(terminal, true)),
    };
    let printed = terminal.print(&text);
    opened::announce(&written?, open, terminal);
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_into_a_file_or_a_pipe_but_not_onto_a_terminal() {
        let to = |watched, format, output: Option<&str>| {
            let mut terminal = Terminal::plain(Box::new(Vec::new()), Box::new(Vec::new()), 80);
            terminal.results_watched = watched;
            let args = ShowArgs {
                format,
                output: output.map(Into::into),
                ..ShowArgs::default()
            };
            refuse_page(&args, &terminal).is_ok()
        };
        assert!(!to(true, Format::Html, None));
        assert!(to(true, Format::Html, Some("report.html")));
        assert!(to(false, Format::Html, None));
        assert!(to(true, Format::Text, None));
    }
}
