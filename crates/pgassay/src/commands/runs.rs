//! `pgassay runs`: what was recorded.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use pgassay_analysis::number::counted;
use pgassay_analysis::summary::Summary;
use pgassay_engine::rundir::{self, catalogue, pause};
use pgassay_model::run::RunState;
use pgassay_sys::stop::Stop;
use serde::Serialize;

use super::concluded::Concluded;
use super::progress::{Progress, minutes};
use super::recorded_scripts::answer;
use super::serve::index::{Index, Is};
use crate::cli::args::{GlobalArgs, RunsAction, RunsArgs};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// What `pgassay runs --json` prints.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Runs {
    schema: &'static str,
    /// Oldest first.
    runs: Vec<Listed>,
}

/// Columns from which on the runs are a table.
const WIDE: usize = 130;
/// What stands where a run has come to nothing yet.
const NO_RESULT: &str = "–";

impl Runs {
    /// Name and version of the serialized form.
    pub(crate) const SCHEMA: &str = "pgassay/runs/1";

    fn new(runs: Vec<Listed>) -> Self {
        Self {
            schema: Self::SCHEMA,
            runs,
        }
    }
}

/// Lists, shows, pauses or removes runs.
///
/// # Errors
/// Where a run is not found, or can't be read or removed.
pub fn runs(
    args: &RunsArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    match &args.action {
        None | Some(RunsAction::List) => {
            let runs = listed(&root, terminal)?;
            if args.json {
                return print_json(terminal, &Runs::new(runs));
            }
            if runs.is_empty() {
                terminal.announce(&format!("no run is recorded in {}", root.display()));
                return Ok(Exit::Done);
            }
            let text = table(&runs, terminal.width);
            terminal.show(&text)?;
            terminal.next(match runs.len() {
                1 => &["pgassay report last", "pgassay serve --open"],
                _ => &[
                    "pgassay report last",
                    "pgassay compare last previous",
                    "pgassay serve --open",
                ],
            });
        }
        Some(RunsAction::Show { run }) => {
            let dir = catalogue::find(&root, run)?;
            let entry = catalogue::describe(&dir)?;
            let summary = Concluded::at(&dir).ok().map(|look| look.summary());
            let run = Listed::of(entry, summary.as_ref());
            if args.json {
                return print_json(terminal, &Runs::new(vec![run]));
            }
            let text = show(&run);
            terminal.show(&text)?;
            terminal.next(&[&format!("pgassay report {}", run.entry.id)]);
        }
        Some(RunsAction::Pause { run, at_most }) => {
            let dir = catalogue::find(&root, run)?;
            let at_most = Duration::from_secs_f64(at_most * 60.0);
            pause::pause(&dir, at_most)?;
            terminal.announce(&format!(
                "{} waits when its trial is over, for {} at most; pgassay runs unpause goes on",
                dir.file_name().unwrap_or_default().display(),
                minutes(at_most),
            ));
        }
        Some(RunsAction::Unpause { run }) => {
            let dir = catalogue::find(&root, run)?;
            let name = dir.file_name().unwrap_or_default().display();
            terminal.announce(&match pause::unpause(&dir)? {
                true => format!("{name} goes on"),
                false => format!("{name} is not paused"),
            });
        }
        Some(RunsAction::Remove { run, yes }) => {
            // All are looked up before the first is removed, so that a mistake removes none.
            let found: BTreeMap<_, _> = run
                .iter()
                .map(|name| Ok((catalogue::find(&root, name)?, name)))
                .collect::<anyhow::Result<_>>()?;
            let dirs: Vec<&Path> = found.keys().map(PathBuf::as_path).collect();
            if !yes && !agreed(&dirs, terminal, stop)? {
                terminal.announce("nothing was removed");
                return Ok(Exit::Done);
            }
            for dir in dirs {
                catalogue::remove(dir)?;
                terminal.announce(&format!("removed {}", dir.display()));
            }
        }
    }
    Ok(Exit::Done)
}

/// Whether these runs may be removed: on a terminal that is asked, with what each came to.
fn agreed(dirs: &[&Path], terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<bool> {
    if !(terminal.watched && io::stdin().is_terminal()) {
        return Ok(true);
    }
    for dir in dirs {
        let summary = Concluded::at(dir).ok().map(|look| look.summary());
        let run = Listed::of(catalogue::describe(dir)?, summary.as_ref());
        terminal.announce(list(&[run], terminal.width).trim_end());
    }
    let runs = counted(dirs.len() as u64, "run");
    terminal.announce(&format!("Remove {runs}? [y/N]"));
    let said = answer(stop, None)?;
    Ok(matches!(said.trim(), "y" | "Y" | "yes"))
}

fn print_json(terminal: &mut Terminal, value: &Runs) -> anyhow::Result<Exit> {
    terminal.print(&pgassay_report::json(value))?;
    Ok(Exit::Done)
}

/// What a run came to.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Listed {
    #[serde(flatten)]
    entry: catalogue::Entry,
    /// Its result in a line; none where it can't be read, or is not yet there.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// How far it was disturbed: good, fair or poor; none where no load had points.
    #[serde(skip_serializing_if = "Option::is_none")]
    grade: Option<String>,
    /// What limits it most, by its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    #[serde(skip)]
    server: String,
}

impl Listed {
    fn of(entry: catalogue::Entry, summary: Option<&Summary>) -> Self {
        let server = summary.map_or_else(
            || entry.targets.join(", "),
            |summary| {
                let mut servers = summary.servers.clone();
                // A comparison's last arm is A once more.
                servers.dedup();
                servers.join(" / ")
            },
        );
        let quality = summary.and_then(|summary| summary.quality.as_ref());
        Self {
            result: summary
                .map(|summary| summary.result.clone())
                .filter(|result| !result.is_empty()),
            grade: quality.map(|quality| quality.grade.name().to_owned()),
            limit: summary.and_then(|summary| summary.limit.clone()),
            server,
            entry,
        }
    }
}

/// The runs with their results. Those that nobody has read yet are read now, and kept for the next
/// time, also for pgassay serve.
fn listed(root: &Path, terminal: &Terminal) -> anyhow::Result<Vec<Listed>> {
    let entries = catalogue::list(root)?;
    let index = Index::of(root.to_owned());
    let progress = Progress::new(terminal, 1000);
    let all = entries.len();
    let mut fresh = false;
    let runs = entries.into_iter().enumerate().map(|(n, entry)| {
        progress.step(
            n as f64 / all as f64,
            format!("reading run {} of {all}", n + 1),
        );
        fresh |= matches!(index.find(&entry.id), Some((_, Is::Unread, _)));
        match index.read(&entry.id) {
            Some(Is::Read(summary)) => Listed::of(entry, Some(&summary)),
            _ => Listed::of(entry, None),
        }
    });
    let runs = runs.collect();
    if fresh {
        index.keep();
    }
    progress.clear();
    Ok(runs)
}

/// A few lines for each run, none longer than the width.
fn list(runs: &[Listed], width: usize) -> String {
    let mut out = String::new();
    for run in runs {
        let of = [command(&run.entry), state(run.entry.state)];
        let of = of.into_iter().chain(run.grade.as_deref());
        let words = of.filter(|word| !word.is_empty());
        let words = words.collect::<Vec<_>>().join(", ");
        let first = format!("{}  {words}", run.entry.id);
        let result = run.result.as_deref().unwrap_or(NO_RESULT);
        let lines = match first.chars().count() <= width {
            true => vec![first],
            false => [
                wrapped(&run.entry.id, "", width),
                wrapped(&words, INDENT, width),
            ]
            .concat(),
        };
        for line in lines.into_iter().chain(wrapped(result, INDENT, width)) {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

/// What stands before the lines below a run's name.
const INDENT: &str = "    ";

/// A text in lines of at most so many characters: broken between words, and a longer word where the line ends.
fn wrapped(text: &str, indent: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent.len()).max(1);
    let mut lines = Table::new();
    lines
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(room.min(usize::from(u16::MAX)) as u16)
        .add_row([text]);
    if let Some(column) = lines.column_mut(0) {
        column.set_padding((0, 0));
    }
    let lines = lines.lines();
    lines
        .map(|line| format!("{indent}{}", line.trim_end()))
        .collect()
}

/// A table where there is room for it, else a list; a name is broken only where it is longer than a line.
fn table(runs: &[Listed], width: usize) -> String {
    if width < WIDE {
        return list(runs, width);
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX));
    table.set_header([
        "run",
        "command",
        "server",
        "result",
        "limited by",
        "quality",
        "state",
    ]);
    for run in runs {
        table.add_row([
            run.entry.id.clone(),
            command(&run.entry).to_owned(),
            run.server.clone(),
            run.result.clone().unwrap_or_else(|| NO_RESULT.to_owned()),
            run.limit.clone().unwrap_or_default(),
            run.grade.clone().unwrap_or_default(),
            state(run.entry.state).to_owned(),
        ]);
    }
    if let Some(column) = table.column_mut(0) {
        let longest = runs.iter().map(|run| run.entry.id.chars().count()).max();
        let longest = u16::try_from(longest.unwrap_or(0) + 2).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(longest)));
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n") + "\n"
}

fn show(listed: &Listed) -> String {
    let run = &listed.entry;
    format!(
        "{}\n  result   {}\n  quality  {}\n  command  {}\n  workload {}\n  targets  {}\n  started  {}\n  \
         state    {}\n  trials   {} of {}\n  size     {} kB\n  path     {}\n",
        run.id,
        listed.result.as_deref().unwrap_or(NO_RESULT),
        listed.grade.as_deref().unwrap_or(NO_RESULT),
        command(run),
        run.workload,
        run.targets.join(", "),
        run.started,
        state(run.state),
        run.trials.0,
        run.trials.1,
        run.size_bytes.div_ceil(1000),
        run.dir.display()
    )
}

/// What was called; a run that was killed at once has written nothing of it.
fn command(run: &catalogue::Entry) -> &str {
    match run.command.as_str() {
        "" => "(killed before it began)",
        command => command,
    }
}

fn state(state: RunState) -> &'static str {
    match state {
        RunState::Complete => "complete",
        RunState::Interrupted => "interrupted",
        RunState::ServerDied => "server died",
        RunState::Failed => "failed",
        RunState::Running => "running",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of 36 and 48 columns broke names and results where the terminal ended.
    #[test]
    fn no_line_is_longer_than_the_terminal_and_nothing_is_lost() {
        let id = "20261122T011910Z-oltp-update-index-over-tables-udyy";
        let run = |id: &str, result: Option<&str>| Listed {
            entry: catalogue::Entry {
                id: id.to_owned(),
                command: "compare".to_owned(),
                ..entry()
            },
            result: result.map(str::to_owned),
            grade: Some("poor".to_owned()),
            limit: None,
            server: String::new(),
        };
        let runs = [
            run(
                id,
                Some("B is faster than A: select-only throughput is 3.2 % higher"),
            ),
            run("a-run", None),
            run(&"x".repeat(90), Some(&"y".repeat(70))),
        ];
        for width in [20, 36, 48, 80, WIDE - 1] {
            let text = list(&runs, width);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            let all: String = text.split_whitespace().collect();
            for run in &runs {
                assert!(all.contains(&run.entry.id), "{width}: {text}");
                let result: String = run.result.iter().flat_map(|r| r.split(' ')).collect();
                assert!(all.contains(&result), "{width}: {text}");
            }
        }
        let broken = wrapped(id, "", 36);
        assert_eq!((broken.len(), broken.concat().as_str()), (2, id));
        assert!(list(&runs[1..2], 48).starts_with("a-run  compare, complete, poor\n    –\n"));
    }

    fn entry() -> catalogue::Entry {
        catalogue::Entry {
            id: String::new(),
            dir: std::path::PathBuf::new(),
            command: String::new(),
            workload: String::new(),
            targets: Vec::new(),
            started: String::new(),
            state: RunState::Complete,
            trials: (1, 1),
            size_bytes: 0,
        }
    }
}
