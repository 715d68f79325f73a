//! `pgassay export`: recorded runs as tables in Parquet files.

mod lines;

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use pgassay_analysis::number::counted;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::{Failure, FailureKind};
use pgassay_records::{Added, Archive, Error, Of, Rows};
use pgassay_sys::stop::Stop;

use super::progress::Progress;
use crate::cli::args::GlobalArgs;
use crate::cli::export::ExportArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// How often it is asked whether another process has finished with the tables.
const WAITS: Duration = Duration::from_millis(100);
/// Runs that are in memory at a time, at most.
const MOST_AT_ONCE: usize = 16;

/// What became of the runs.
#[derive(Default)]
struct Counts {
    new: u64,
    replaced: u64,
    unchanged: u64,
    running: u64,
    unread: u64,
}

/// Exports the runs.
///
/// # Errors
/// Where one that was named is not found, or the tables can't be written.
pub fn export(
    args: &ExportArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let sources = sources(args, global)?;
    let mut archive = open(&args.parquet, terminal, stop)?;
    let known = match args.new {
        true => archive.complete().map_err(explain)?,
        false => BTreeSet::new(),
    };
    let of = Of {
        analysed_by: env!("CARGO_PKG_VERSION"),
        host: args.host.as_deref(),
    };
    let mut counts = Counts::default();
    let progress = Progress::new(terminal, 1000);
    let at_once = thread::available_parallelism().map_or(1, |n| n.get().min(MOST_AT_ONCE));
    let mut said: Vec<String> = Vec::new();
    read_all(&sources, at_once, of, &known, &mut |n, source, read| {
        if stop.asked() {
            return Ok(ControlFlow::Break(()));
        }
        progress.step(
            n as f64 / sources.len() as f64,
            format!("run {} of {}", n + 1, sources.len()),
        );
        let place = source.path().display();
        match read {
            Read::Rows(rows) => match archive.add(&rows).map_err(explain)? {
                Added::New => counts.new += 1,
                Added::Replaced => counts.replaced += 1,
                Added::Unchanged => counts.unchanged += 1,
                Added::Twice => said.push(format!(
                    "left out: {place}: another run of this name was exported before it"
                )),
            },
            Read::Known => counts.unchanged += 1,
            Read::Running => counts.running += 1,
            Read::Not(why) => {
                counts.unread += 1;
                said.push(format!("left out: {why}"));
            }
            Read::Fault => {
                counts.unread += 1;
                said.push(format!("left out: {place}: analysing it failed"));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    archive.finish().map_err(explain)?;
    progress.clear();
    for text in said {
        terminal.warn(&text);
    }
    terminal.print(&counts.in_words(&args.parquet))?;
    if stop.asked() {
        terminal.complain("stopped: the same command exports the rest");
        return Ok(Exit::Partial);
    }
    terminal.next(&[&format!(
        "pgassay history {}",
        pgassay_text::shell_word(&args.parquet.display().to_string())
    )]);
    Ok(match counts.unread {
        0 => Exit::Done,
        _ => Exit::Partial,
    })
}

/// Takes what was read of a source by its number, and says whether to go on.
type Take<'a> = dyn FnMut(usize, &Source, Read) -> anyhow::Result<ControlFlow<()>> + 'a;

/// Reads all of them, several at a time, since analysing takes the time, and gives them in their order. No
/// reader is further ahead than its next run.
fn read_all(
    sources: &[Source],
    at_once: usize,
    of: Of,
    known: &BTreeSet<String>,
    take: &mut Take,
) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let readers: Vec<mpsc::Receiver<Read>> = (0..at_once)
            .map(|first| {
                let (sender, receiver) = mpsc::sync_channel(0);
                scope.spawn(move || {
                    for source in sources.iter().skip(first).step_by(at_once) {
                        let read = catch_unwind(AssertUnwindSafe(|| source.read(of, known)));
                        if sender.send(read.unwrap_or(Read::Fault)).is_err() {
                            break;
                        }
                    }
                });
                receiver
            })
            .collect();
        for (n, source) in sources.iter().enumerate() {
            let read = readers[n % at_once].recv().unwrap_or(Read::Fault);
            if take(n, source, read)?.is_break() {
                break;
            }
        }
        Ok(())
    })
}

impl Counts {
    fn in_words(&self, dir: &Path) -> String {
        let all = [
            (self.new, "new"),
            (self.replaced, "replaced"),
            (self.unchanged, "unchanged"),
            (self.running, "still measured and left out"),
            (self.unread, "not readable and left out"),
        ];
        let sum: u64 = all.iter().map(|(n, _)| n).sum();
        let parts = all.iter().filter(|(n, _)| *n > 0);
        let parts: Vec<String> = parts.map(|(n, what)| format!("{n} {what}")).collect();
        format!(
            "{}: {} ({})\n",
            pgassay_text::line(&dir.display().to_string()),
            counted(sum, "run"),
            match parts.is_empty() {
                true => "nothing to do".to_owned(),
                false => parts.join(", "),
            }
        )
    }
}

/// Something to export.
enum Source {
    /// A run's directory.
    Run(PathBuf),
    /// A document of `pgassay lines`.
    Lines(PathBuf),
}

/// What was read of it.
enum Read {
    Rows(Box<Rows>),
    /// The tables have it.
    Known,
    Running,
    /// Why nothing.
    Not(String),
    /// A fault of ours.
    Fault,
}

impl Source {
    fn path(&self) -> &Path {
        match self {
            Self::Run(path) | Self::Lines(path) => path,
        }
    }

    fn read(&self, of: Of, known: &BTreeSet<String>) -> Read {
        let dir = match self {
            Self::Run(dir) => dir,
            Self::Lines(path) => {
                return match lines::rows(path, of) {
                    Ok(rows) => Read::Rows(Box::new(rows)),
                    Err(why) => Read::Not(format!("{}: {why}", path.display())),
                };
            }
        };
        let name = dir.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| known.contains(name)) {
            return Read::Known;
        }
        match rundir::read(dir) {
            Ok(run) if run.running => Read::Running,
            Ok(run) => match Rows::of(&run, of) {
                Some(rows) => Read::Rows(Box::new(rows)),
                None => Read::Not(format!(
                    "{}: its run.json does not say when it began",
                    dir.display()
                )),
            },
            Err(error) => Read::Not(format!("{error:#}")),
        }
    }
}

/// What was named, each once.
fn sources(args: &ExportArgs, global: &GlobalArgs) -> anyhow::Result<Vec<Source>> {
    let root = rundir::root(global.runs.as_deref())?;
    let mut seen = BTreeSet::new();
    let mut sources = Vec::new();
    let mut take = |source: Source| {
        let path = source.path();
        let full = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if seen.insert(full) {
            sources.push(source);
        }
    };
    for name in &args.named {
        let path = Path::new(name);
        if path.is_file() {
            take(Source::Lines(path.to_owned()));
        } else if path.is_dir() && !path.join("run.json").is_file() {
            let runs = catalogue::directories(path).map_err(|error| {
                Failure::usage(format!("cannot read {}: {error}", path.display()))
                    .with_remedy("name a directory that you may read")
            })?;
            if runs.is_empty() {
                bail!(
                    Failure::usage(format!("no run is in {}", path.display())).with_remedy(
                        "name a directory that holds runs; pgassay runs lists those there are"
                    )
                );
            }
            runs.into_iter().map(Source::Run).for_each(&mut take);
        } else {
            take(Source::Run(catalogue::find(&root, name)?));
        }
    }
    Ok(sources)
}

/// The tables, as soon as nobody else writes them.
fn open(dir: &Path, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Archive> {
    let mut waits = false;
    loop {
        if let Some(archive) = Archive::open(dir).map_err(explain)? {
            return Ok(archive);
        }
        if !waits {
            let place = dir.display();
            terminal.announce(&format!(
                "{place} is being written by another pgassay export: waiting"
            ));
            waits = true;
        }
        if stop.asked() {
            bail!(Failure::interrupted());
        }
        thread::sleep(WAITS);
    }
}

/// An error of the tables with what to do about it.
pub(super) fn explain(error: Error) -> anyhow::Error {
    let remedy = match &error {
        Error::Write { error, .. } => match pgassay_sys::output::no_room(error) {
            Some(_) => "make room for it, and export again: what was there is unchanged".to_owned(),
            None => "name a directory of your own with --parquet".to_owned(),
        },
        Error::Damaged { path, .. } => format!(
            "move {} away and export the runs of that day again",
            path.display()
        ),
        Error::Newer { .. } => "use a newer pgassay, or another directory".to_owned(),
    };
    Failure {
        kind: FailureKind::Usage,
        message: error.to_string(),
        remedy: Some(remedy),
    }
    .into()
}
