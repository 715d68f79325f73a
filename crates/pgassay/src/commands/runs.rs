//! `pgassay runs`: what was recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use pgassay_analysis::analysis::RunState;
use schemars::JsonSchema;
use serde::Serialize;

use super::progress::minutes;
use crate::cli::args::{GlobalArgs, RunsAction, RunsArgs};
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, catalogue, pause};

/// What `pgassay runs --json` prints.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Runs {
    schema: &'static str,
    /// Oldest first.
    runs: Vec<catalogue::Entry>,
}

impl Runs {
    /// Name and version of the serialized form.
    pub(crate) const SCHEMA: &str = "pgassay/runs/1";

    fn new(runs: Vec<catalogue::Entry>) -> Self {
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
            let runs = catalogue::list(&root)?;
            if args.json {
                return print_json(terminal, &Runs::new(runs));
            }
            if runs.is_empty() {
                terminal.announce(&format!("no run is recorded in {}", root.display()));
                return Ok(Exit::Done);
            }
            let text = table(&runs, terminal.width);
            terminal.show(&text)?;
        }
        Some(RunsAction::Show { run }) => {
            let entry = catalogue::describe(&catalogue::find(&root, run)?)?;
            if args.json {
                return print_json(terminal, &Runs::new(vec![entry]));
            }
            let text = show(&entry);
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

fn table(runs: &[catalogue::Entry], width: usize) -> String {
    // A narrow terminal gets what names and tells a run, and a name is never broken.
    if width < 110 {
        let line = |run: &catalogue::Entry| format!("{}  {}\n", run.id, state(run.state));
        return runs.iter().map(line).collect();
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX));
    table.set_header(["run", "command", "targets", "trials", "state", "size"]);
    for run in runs {
        table.add_row([
            run.id.clone(),
            command(run).to_owned(),
            run.targets.join(", "),
            format!("{}/{}", run.trials.0, run.trials.1),
            state(run.state).to_owned(),
            format!("{} kB", run.size_bytes.div_ceil(1000)),
        ]);
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n") + "\n"
}

fn show(run: &catalogue::Entry) -> String {
    format!(
        "{}\n  command  {}\n  workload {}\n  targets  {}\n  started  {}\n  state    {}\n  \
         trials   {} of {}\n  size     {} kB\n  path     {}\n",
        run.id,
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
