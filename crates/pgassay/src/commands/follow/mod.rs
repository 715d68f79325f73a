//! `pgassay follow`: a measurement that runs, seen in the terminal.

mod view;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pgassay_engine::rundir::{self, catalogue, pause};
use pgassay_model::Failure;
use pgassay_model::run::RunState;
use pgassay_report::Report;
use pgassay_sys::stop::Stop;

use super::following::Following;
use crate::cli::args::GlobalArgs;
use crate::cli::follow::FollowArgs;
use crate::exit::Exit;
use crate::screen::{Key, Screen};
use crate::terminal::Terminal;

/// How often it looks for what is new, and for the size of the terminal.
const EACH: Duration = Duration::from_millis(250);

/// Follows a run until it ends or somebody leaves.
///
/// # Errors
/// Where no run is measured, or the one that is named is not.
pub fn follow(
    args: &FollowArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    let dir = match &args.run {
        Some(run) => catalogue::find(&root, run)?,
        None => running(&root)?,
    };
    let name = dir.file_name().unwrap_or_default().display().to_string();
    let mut following = Following::of(&dir).ok_or_else(|| {
        Failure::usage(format!("{name} is not being measured"))
            .with_remedy(format!("its report: pgassay report {name}"))
    })?;
    let _deferred = stop.defer();
    let screen = match args.lines {
        true => None,
        false => Screen::enter(),
    };
    let ended = match screen {
        Some(screen) => drawn(&mut following, &dir, screen, terminal.colour, stop)?,
        None => told(&mut following, terminal, stop)?,
    };
    match ended {
        true => terminal.announce(&format!("{name} has ended: pgassay report {name}")),
        false => terminal.announce(&format!("{name} goes on; pgassay follow shows it again")),
    }
    Ok(Exit::Done)
}

/// The newest run that is measured now.
fn running(root: &Path) -> anyhow::Result<PathBuf> {
    let runs = catalogue::list(root)?.into_iter().rev();
    let mut running = runs.filter(|run| run.state == RunState::Running);
    let newest = running.next().map(|run| run.dir);
    Ok(newest.ok_or_else(|| {
        Failure::usage(format!("nothing is being measured in {}", root.display())).with_remedy(
            "start a measurement in another terminal: pgassay run; or name the directory of its \
             runs with --runs",
        )
    })?)
}

/// On a whole terminal; whether the run has ended.
fn drawn(
    following: &mut Following,
    dir: &Path,
    mut screen: Screen,
    colour: bool,
    stop: &Stop,
) -> anyhow::Result<bool> {
    let mut said: Option<String> = None;
    loop {
        let running = following.is_running();
        following.read();
        if !running {
            return Ok(true);
        }
        let (columns, rows) = screen.size();
        let room = view::Room {
            columns,
            rows,
            colour,
        };
        let so_far = following.so_far();
        let keys = match &said {
            Some(said) => said.as_str(),
            None => view::keys(so_far.pause),
        };
        screen.draw(view::lines(&so_far, keys, room))?;
        match screen.key(EACH) {
            Some(Key::Char('q') | Key::Leave) => return Ok(false),
            Some(Key::Char('p' | ' ')) => {
                let asked = match pause::asked(dir) {
                    Some(_) => pause::unpause(dir).map(drop),
                    None => pause::pause(dir, pause::USUAL),
                };
                said = asked.err().map(|error| format!("{error:#}"));
            }
            _ => {}
        }
        if stop.asked() {
            return Ok(false);
        }
    }
}

/// In lines, where there is no terminal to draw on; whether the run has ended.
fn told(following: &mut Following, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<bool> {
    let mut last = None;
    loop {
        let running = following.is_running();
        following.read();
        let so_far = following.so_far();
        let line = so_far.document().headline.join(" ");
        if last.as_ref() != Some(&line) {
            let newest = so_far.newest().map(|(stage, point)| {
                let work = stage.stage.id.work();
                let shown = pgassay_report::number::shown(&point.rate);
                let clients = pgassay_report::number::counted(point.point.clients, work.who);
                format!(" {clients}: {} {}.", shown.value, work.rate)
            });
            terminal.show(&format!("{line}{}\n", newest.unwrap_or_default()))?;
            last = Some(line);
        }
        if !running || stop.asked() {
            return Ok(!running);
        }
        std::thread::sleep(EACH);
    }
}
