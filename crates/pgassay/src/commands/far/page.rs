//! Pages of what another machine measured. No HTML comes from there: a page is rendered here, from the data that
//! came.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

use super::files::is_data;
use super::given::show;
use super::keep::Keeper;
use crate::cli::args::Command;
use crate::cli::compare::By;
use crate::cli::show::Format;
use crate::commands::check;
use crate::commands::concluded::Concluded;
use crate::commands::files::{page_of_run, to_file};
use crate::commands::recorded_lab;
use crate::terminal::Terminal;

/// A page that was asked for with `--html`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The file.
    pub to: PathBuf,
    /// The entries of the catalogue that `check` is to show; all where it names none.
    only: Vec<String>,
    source: Source,
}

/// The data that a page is rendered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The facts that `check` audits.
    Facts,
    /// The run, or the lab, that the command records.
    Run,
}

/// More bytes than that are not rendered without being asked for.
const LARGEST: u64 = 256 << 20;

/// Refuses to write what another machine sends into a file that a browser may take for a page. A file without an ending
/// is one: browsers look into it.
///
/// # Errors
/// Where the file's name is not that of data.
pub fn refuse_name(path: &Path) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match is_data(&name) || name.ends_with(".md") {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} may be taken for a page, and what another machine sends is written as data only",
            path.display()
        ))
        .with_remedy("choose a name that ends in .json, .jsonl, .csv, .toml, .sql, .txt or .md")),
    }
}

impl Page {
    /// The page that a command writes, if any.
    ///
    /// # Errors
    /// Where no data come from which it could be rendered.
    pub fn of(command: &Command, name: &str) -> Result<Option<Self>, Failure> {
        let shown = show(command);
        if shown.is_some_and(|show| show.format() == Format::Html) {
            return Err(Failure::usage(
                "--format html: pages of what another machine measured are rendered here",
            )
            .with_remedy("name the file with --html FILE, or choose --format markdown"));
        }
        let (to, only) = match command {
            Command::Check(args) => (&args.html, args.only.clone()),
            _ => match shown {
                Some(show) => (&show.html, Vec::new()),
                None => return Ok(None),
            },
        };
        let Some(to) = to.clone() else {
            return Ok(None);
        };
        let source = match command {
            Command::Check(_) => Source::Facts,
            Command::Compare(args) if args.by == By::Time => Source::Run,
            Command::Lab(args) if !args.list && !args.check && !args.show && !args.dry_run => {
                Source::Run
            }
            _ => {
                return Err(Failure::usage(format!(
                    "--html: no data come from which the page of this {name} could be rendered here"
                ))
                .with_remedy("use --format markdown, or type the command on the other machine"));
            }
        };
        Ok(Some(Self { to, only, source }))
    }
}

/// Renders the report of each run that came.
pub fn of_runs(keeper: &Keeper, terminal: &mut Terminal, stop: &Stop) {
    if keeper.bytes() > LARGEST {
        terminal.warn("what was recorded is too large to be rendered at once: pgassay report does");
        return;
    }
    for dir in keeper.recorded() {
        if stop.asked() {
            break;
        }
        let rendered = rendered(&dir, stop).and_then(|page| page_of_run(&dir, &page));
        if let Err(error) = rendered {
            terminal.warn(&format!("no report of {}: {error:#}", dir.display()));
        }
    }
}

/// Renders the page that was asked for.
///
/// # Errors
/// Where what came is no such data, or the file can't be written.
pub fn write(
    page: Option<&Page>,
    keeper: &Keeper,
    facts: Option<&[u8]>,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<()> {
    let Some(page) = page else {
        return Ok(());
    };
    let text = match (page.source, facts, keeper.recorded().first()) {
        (Source::Facts, Some(facts), _) => guarded(stop, || check::page(facts, &page.only))?,
        (Source::Run, _, Some(dir)) if keeper.bytes() <= LARGEST => rendered(dir, stop)?,
        _ => bail!(
            Failure::partial(format!("nothing came to render {} from", page.to.display()))
                .with_remedy("read what the other machine said above")
        ),
    };
    to_file(&page.to, "--html", &text)?;
    terminal.place("written:", &page.to);
    Ok(())
}

/// The page of the run or lab in this directory.
fn rendered(dir: &Path, stop: &Stop) -> anyhow::Result<String> {
    guarded(stop, || match dir.join(recorded_lab::RECORD).exists() {
        true => recorded_lab::page(dir),
        false => Ok(pgassay_report::html(&Concluded::at(dir)?.document())),
    })
}

/// Renders unless Ctrl-C was pressed. What came may be damaged, so that a panic is an error like others.
fn guarded(stop: &Stop, render: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<String> {
    if stop.asked() {
        bail!(Failure::interrupted());
    }
    catch_unwind(AssertUnwindSafe(render))
        .unwrap_or_else(|_| bail!(Failure::usage("pgassay fails on it: please report that")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_data_is_refused() {
        for name in [
            "a.json",
            "/x/a.b.jsonl",
            "a.csv",
            "a.toml",
            "a.sql",
            "a.txt",
            "a.md",
        ] {
            assert!(refuse_name(Path::new(name)).is_ok(), "{name}");
        }
        for name in [
            "a.html",
            "a.SVG",
            "a.svgz",
            "a.shtm",
            "a.xsl",
            "a.json.html",
            "a",
            ".json/a",
            "/",
            "a.json.",
        ] {
            let refused = refuse_name(Path::new(name)).unwrap_err();
            assert!(
                refused
                    .remedy
                    .is_some_and(|remedy| remedy.contains(".json")),
                "{name}"
            );
        }
    }

    #[test]
    fn a_panic_while_a_page_is_rendered_is_an_error() {
        let stop = Stop::new();
        let damaged = guarded(&stop, || panic!("damaged")).unwrap_err();
        assert!(damaged.to_string().contains("please report"), "{damaged}");
        stop.ask();
        let interrupted = guarded(&stop, || panic!("it is rendered")).unwrap_err();
        assert!(
            interrupted.to_string().contains("interrupted"),
            "{interrupted}"
        );
    }
}
