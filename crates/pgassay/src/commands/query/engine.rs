//! What answers: which engines there are, and how a question is put to one.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;
use pgassay_sys::{bound, programs};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};

use super::duckdb;
use super::lines::{Answer, Piece, Refused};
use super::question::Question;
use crate::cli::query::EngineName;

/// The program that answers by DataFusion.
const OWN: &str = "pgassay-query";
/// A longer line is no row of ours.
const LONGEST_LINE: u64 = 8 << 20;
/// What of an engine's complaints is kept.
const MOST_SAID: u64 = 1 << 16;
/// How often it is looked whether somebody wants it to end.
const LOOKS: Duration = Duration::from_millis(100);
/// Lines that may wait to be shown.
const WAITING: usize = 64;
/// Memory for each thread of an engine, so that their stacks fit beside it.
const OF_THREAD: u64 = 64 << 20;

/// An engine that is there.
pub(super) enum Engine {
    Own(PathBuf),
    /// python3, which has DuckDB's module.
    Module(PathBuf),
}

/// What is shown as it comes.
pub(super) type Show<'a> = dyn FnMut(Piece) -> anyhow::Result<()> + 'a;

/// A program by its name, wherever the engine is started.
fn found(name: &str) -> Option<PathBuf> {
    std::path::absolute(programs::in_path(name)?).ok()
}

impl Engine {
    fn own() -> Option<Self> {
        let own = env::current_exe().ok();
        let beside = own.and_then(|own| Some(own.parent()?.join(OWN)));
        let beside = beside.filter(|path| programs::may_run(path));
        beside.or_else(|| found(OWN)).map(Self::Own)
    }

    fn module() -> Option<Self> {
        let python = found("python3")?;
        duckdb::is_in(&python).then_some(Self::Module(python))
    }

    /// The engine that was asked for, or the first that is there.
    ///
    /// # Errors
    /// Where it is not there, with all ways to have one.
    pub fn find(asked: Option<EngineName>) -> Result<Self, Failure> {
        let own_remedy =
            "make query-engine builds pgassay-query; put it beside pgassay or into PATH";
        let (found, message, remedy) = match asked {
            Some(EngineName::Datafusion) => (
                Self::own(),
                "pgassay-query is neither beside pgassay nor in PATH",
                own_remedy.to_owned(),
            ),
            Some(EngineName::Duckdb) => (
                Self::module(),
                "python3 in PATH has no module duckdb",
                "pip install duckdb, where python3 finds it".to_owned(),
            ),
            None => (
                Self::own().or_else(Self::module),
                "nothing is here that answers SQL",
                format!("{own_remedy}; or pip install duckdb, where python3 finds it"),
            ),
        };
        found.ok_or_else(|| Failure::target(message).with_remedy(remedy))
    }

    /// Which it is.
    pub fn in_words(&self) -> String {
        match self {
            Self::Own(path) => path.display().to_string(),
            Self::Module(path) => format!("duckdb of {}", path.display()),
        }
    }

    /// Puts the question, and shows what comes.
    ///
    /// # Errors
    /// Where it can't be answered, the engine ends early, or somebody wants it to end.
    pub fn ask(&self, question: &Question, stop: &Stop, show: &mut Show) -> anyhow::Result<()> {
        let command = match self {
            Self::Own(path) => {
                let mut command = pgassay_sys::programs::command(path);
                let mib = (question.memory >> 20).max(1).to_string();
                command.arg(&question.dir).args(["--memory", &mib]);
                command
            }
            Self::Module(path) => duckdb::script(path, question),
        };
        let mut answer = Answer::default();
        let ended = run(
            command,
            question,
            stop,
            &mut |line| match answer.take(line)? {
                Some(piece) => show(piece),
                None => Ok(()),
            },
        )?;
        match answer.refused {
            Some(refused) if refused.kind == "duckdb" => {
                Err(duckdb::refused(&refused.why).explained(question.memory))
            }
            Some(refused) => Err(refused.explained(question.memory)),
            None if answer.whole => Ok(()),
            None => Err(ended.early().explained(question.memory)),
        }
    }
}

/// How an engine ended.
pub(super) struct Ended {
    pub status: ExitStatus,
    /// What it complained of.
    pub said: String,
}

impl Ended {
    /// Why it ended before the answer did.
    pub fn early(&self) -> Refused {
        use std::os::unix::process::ExitStatusExt;
        let said = self.said.trim();
        let aborted = self.status.signal() == Some(Signal::ABORT.as_raw());
        let memory = said.contains("memory allocation") || said.contains("bad_alloc");
        let (kind, why) = match (aborted, memory) {
            (true, _) | (_, true) => ("memory", said.to_owned()),
            _ if said.is_empty() => ("fault", format!("it ended with {}", self.status)),
            _ => ("fault", said.to_owned()),
        };
        let kind = kind.to_owned();
        Refused { kind, why }
    }
}

/// An engine that is ended when nobody wants its answer any more.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have started others.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Starts an engine with the question on its standard input, and takes its lines.
///
/// It gets no more memory than twice what it was told to take: what a file's header makes it ask for is asked
/// for beside its own accounts.
///
/// # Errors
/// Where it can't be started, a line is refused, or somebody wants it to end.
fn run(
    mut command: Command,
    question: &Question,
    stop: &Stop,
    take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<Ended> {
    let cpus = thread::available_parallelism().map_or(1, usize::from) as u64;
    let threads = cpus.min(question.memory / OF_THREAD).max(1);
    command
        .env("TOKIO_WORKER_THREADS", threads.to_string())
        .current_dir("/")
        .env("TMPDIR", question.spill.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let program = Path::new(command.get_program()).display().to_string();
    let child = bound::spawn(command, Signal::KILL).map_err(|error| {
        Failure::target(format!("{program} can't be started: {error}"))
            .with_remedy("choose another with --engine")
    })?;
    let mut running = Running(child);
    let most = question.memory.saturating_mul(2).saturating_add(256 << 20);
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    // Where a lower one holds already, that is enough.
    let _ = prlimit(Some(Pid::from_child(&running.0)), Resource::Data, limit);
    let missing = "a pipe that was asked for is there";
    let (mut stdin, stdout, stderr) = (
        running.0.stdin.take().context(missing)?,
        running.0.stdout.take().context(missing)?,
        running.0.stderr.take().context(missing)?,
    );
    let sql = question.sql.clone();
    // Where it does not read all of it, it says why.
    let writing = thread::spawn(move || stdin.write_all(sql.as_bytes()));
    let listening = thread::spawn(move || {
        let mut said = Vec::new();
        let mut stderr = stderr;
        let _ = stderr.by_ref().take(MOST_SAID).read_to_end(&mut said);
        let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        String::from_utf8_lossy(&said).into_owned()
    });
    let (sender, lines) = mpsc::sync_channel::<Vec<u8>>(WAITING);
    let reading = thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            let read = stdout
                .by_ref()
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) || sender.send(line).is_err() {
                break;
            }
        }
    });
    loop {
        if stop.asked() {
            bail!(Failure::interrupted());
        }
        match lines.recv_timeout(LOOKS) {
            Ok(line) if line.trim_ascii().is_empty() => {}
            Ok(line) => take(line.trim_ascii())?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = running.0.wait().context("waiting for the engine")?;
    let _ = (reading.join(), writing.join());
    Ok(Ended {
        status,
        said: listening.join().unwrap_or_default(),
    })
}
