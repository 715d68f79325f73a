//! `pgassay runs`: what was recorded.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use pgassay_analysis::summary::Summary;
use pgassay_engine::rundir::{self, catalogue, pause};
use pgassay_model::run::RunState;
use schemars::JsonSchema;
use serde::Serialize;

use super::progress::{Progress, minutes};
use super::serve::index::{Index, Is};
use super::serve::look::Look;
use crate::cli::args::{GlobalArgs, RunsAction, RunsArgs};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// What `pgassay runs --json` prints.
#[derive(JsonSchema, Serialize)]
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
pub fn runs(args: &RunsArgs, global: &GlobalArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
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
            let summary = Look::at(&dir).ok().map(|look| look.summary());
            let run = Listed::of(entry, summary.as_ref());
            if args.json {
                return print_json(terminal, &Runs::new(vec![run]));
            }
            let text = show(&run);
            terminal.show(&text)?;
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
        Some(RunsAction::Remove { run }) => {
            // All are looked up before the first is removed, so that a mistake removes none.
            let found: BTreeMap<_, _> = run
                .iter()
                .map(|name| Ok((catalogue::find(&root, name)?, name)))
                .collect::<anyhow::Result<_>>()?;
            for dir in found.keys() {
                catalogue::remove(dir)?;
                terminal.announce(&format!("removed {}", dir.display()));
            }
        }
    }
    Ok(Exit::Done)
}

fn print_json(terminal: &mut Terminal, value: &Runs) -> anyhow::Result<Exit> {
    terminal.print(&pgassay_report::json(value))?;
    Ok(Exit::Done)
}

/// What a run came to.
#[derive(Debug, JsonSchema, Serialize)]
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

/// A table where there is room for it, else two lines for each run; a name is never broken.
fn table(runs: &[Listed], width: usize) -> String {
    if width < WIDE {
        let line = |run: &Listed| {
            let of = [command(&run.entry), state(run.entry.state)];
            let grade = run.grade.as_deref().unwrap_or("");
            let of = of
                .into_iter()
                .chain([grade])
                .filter(|word| !word.is_empty());
            let result = run.result.as_deref().unwrap_or(NO_RESULT);
            let words = of.collect::<Vec<_>>().join(", ");
            format!("{}  {words}\n    {result}\n", run.entry.id)
        };
        return runs.iter().map(line).collect();
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
