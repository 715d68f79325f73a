//! A measurement that was started from a page: one at a time, its output followed, ended with the server.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pgassay_http::{Feed, Next};
use pgassay_report::site;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};

/// Bytes of its output that are shown: the newest.
const SHOWN: u64 = 64 << 10;
/// How long it may take to keep what it measured when the server ends.
const ENDS_IN: Duration = Duration::from_secs(60);

/// What is measured for the pages, if anything is.
#[derive(Clone, Default)]
pub(super) struct Started(Arc<Mutex<Option<Measuring>>>);

struct Measuring {
    typed: String,
    child: Child,
    /// All that it writes: a file without a name, so that nothing waits for whoever reads it.
    output: File,
    ended: Option<ExitStatus>,
    stopped: bool,
}

impl Measuring {
    /// Whether it runs still.
    fn runs(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.is_none()
    }

    /// Has it stop and keep what it measured, as Ctrl-C does. A second one would end it at once.
    fn stop(&mut self) {
        if self.runs() && !std::mem::replace(&mut self.stopped, true) {
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                let _ = kill_process(pid, Signal::INT);
            }
        }
    }
}

/// Why nothing was started.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// Another one runs.
    Another,
    /// It can't be.
    Io(io::Error),
}

impl Started {
    /// Starts this program with these words, its runs in `runs`.
    pub(super) fn start(
        &self,
        words: &[String],
        typed: String,
        runs: &Path,
    ) -> Result<(), NotStarted> {
        let mut now = self.lock();
        if now.as_mut().is_some_and(Measuring::runs) {
            return Err(NotStarted::Another);
        }
        let output = memfd_create("pgassay output", MemfdFlags::CLOEXEC);
        let output = File::from(output.map_err(|e| NotStarted::Io(e.into()))?);
        let its = || output.try_clone().map(Stdio::from);
        // The program itself, also if the file has been replaced since.
        let child = Command::new("/proc/self/exe")
            .arg0("pgassay")
            .arg("--runs")
            .arg(runs)
            .args(words)
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .stdin(Stdio::null())
            .stdout(its().map_err(NotStarted::Io)?)
            .stderr(its().map_err(NotStarted::Io)?)
            // Ctrl-C on the server is passed on once, and not twice.
            .process_group(0)
            .spawn()
            .map_err(NotStarted::Io)?;
        *now = Some(Measuring {
            typed,
            child,
            output,
            ended: None,
            stopped: false,
        });
        Ok(())
    }

    /// Has what runs stop; whether anything runs.
    pub(super) fn stop(&self) -> bool {
        let mut now = self.lock();
        now.as_mut().is_some_and(|measuring| {
            let runs = measuring.runs();
            measuring.stop();
            runs
        })
    }

    /// Whether anything runs.
    pub(super) fn runs(&self) -> bool {
        self.lock().as_mut().is_some_and(Measuring::runs)
    }

    /// What is shown of it; none where nothing was started.
    pub(super) fn seen(&self) -> Option<site::Output> {
        let mut now = self.lock();
        let measuring = now.as_mut()?;
        let runs = measuring.runs();
        let length = measuring.output.metadata().map_or(0, |meta| meta.len());
        let from = length.saturating_sub(SHOWN);
        let mut text = vec![0; (length - from) as usize];
        let read = measuring.output.read_at(&mut text, from).unwrap_or(0);
        text.truncate(read);
        let state = match (runs, measuring.stopped, measuring.ended) {
            (true, false, _) => "It runs.".to_owned(),
            (true, true, _) => "It stops, and keeps what was measured.".to_owned(),
            (false, _, Some(status)) => match status.code() {
                Some(code) => format!("It ended with exit code {code}."),
                None => format!("It was killed: {status}."),
            },
            (false, _, None) => "It has ended.".to_owned(),
        };
        Some(site::Output {
            command: measuring.typed.clone(),
            state,
            runs,
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    /// Ends what runs, and waits until it has kept what it measured.
    pub(super) fn end(&self) {
        if !self.stop() {
            return;
        }
        let until = Instant::now() + ENDS_IN;
        while Instant::now() < until && self.runs() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Measuring>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of its output as it comes.
pub(super) struct Output {
    started: Started,
    /// What stands before every address of the site.
    root: String,
    told: Option<String>,
}

impl Output {
    pub(super) fn of(started: &Started, root: &str) -> Option<Self> {
        started.seen()?;
        Some(Self {
            started: started.clone(),
            root: root.to_owned(),
            told: None,
        })
    }
}

impl Feed for Output {
    fn next(&mut self) -> Next {
        let Some(seen) = self.started.seen() else {
            return Next::Last(String::new());
        };
        let part = site::output_part(&seen, &self.root);
        if !seen.runs {
            return Next::Last(part);
        }
        match self.told.as_ref() == Some(&part) {
            true => Next::Same,
            false => {
                self.told = Some(part.clone());
                Next::Event(part)
            }
        }
    }
}
