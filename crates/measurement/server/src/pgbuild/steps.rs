//! Runs a build's commands: everything they say goes to the log, what they are
//! at is told to a watcher, and nothing goes on after the user has said stop.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::builder::fit;
use super::recipe::Step;
use super::trouble;
use pgassay_model::{Failure, FailureKind};
use pgassay_sys::stop::Stop;

/// How often a running command is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// Variables that a build's commands see; others could change what is built.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CCACHE_DIR",
    "CCACHE_MAXSIZE",
    "CCACHE_BASEDIR",
];

/// How far a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advance {
    /// Files compiled, or ninja's steps.
    pub done: u32,
    /// Of how many, where that is known.
    pub of: Option<u32>,
}

/// Runs commands into one log.
pub struct Runner<'a> {
    /// The log.
    pub log: PathBuf,
    /// Set once the user has said stop.
    pub stop: &'a Stop,
    /// Further variables.
    pub environment: Vec<(String, String)>,
}

impl Runner<'_> {
    /// Runs one step to its end; gives the seconds it took.
    ///
    /// # Errors
    /// Where it fails, with the first real error and the log's path; where the
    /// user has said stop.
    pub fn run(&self, step: &Step, watch: &mut dyn FnMut(Advance)) -> anyhow::Result<f64> {
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("{} can't be written", self.log.display()))?;
        writeln!(log, "\n== {}: {}", step.title, step.words.join(" "))?;
        let from = log.seek(SeekFrom::End(0))?;
        let started = Instant::now();
        let status = self.follow(step, &log, from, watch)?;
        if self.stop.asked() {
            bail!(Failure {
                kind: FailureKind::Interrupted,
                message: format!("interrupted in {}", step.title),
                remedy: Some("the same command goes on where it stopped".into()),
            });
        }
        if status.success() {
            return Ok(started.elapsed().as_secs_f64());
        }
        let said = tail_from(&self.log, from).unwrap_or_default();
        let trouble = trouble::first(&said, Some(&step.dir.join("config.log")));
        bail!(
            Failure::target(format!(
                "{} failed ({status})\n  {}\nThe log is {}",
                step.title,
                trouble.text.replace('\n', "\n  "),
                self.log.display()
            ))
            .with_remedy(trouble.remedy.unwrap_or("the log has all of it"))
        )
    }

    fn follow(
        &self,
        step: &Step,
        log: &File,
        from: u64,
        watch: &mut dyn FnMut(Advance),
    ) -> anyhow::Result<ExitStatus> {
        let program = step.words.first().map_or("", String::as_str);
        let mut command = Command::new(program);
        command.args(&step.words[1..]).current_dir(&step.dir);
        command.env_clear().env("LC_ALL", "C");
        for name in KEPT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        fit(&mut command);
        command
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        let mut child = pgassay_sys::bound::spawn(command, Signal::TERM)
            .with_context(|| format!("{program} can't be run"))?;
        let mut reader = Reader::open(&self.log, from)?;
        let mut told = Advance::default();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.stop.asked() {
                end_group(&mut child);
                return Ok(child.wait()?);
            }
            let now = reader.advance();
            if now != told {
                told = now;
                watch(now);
            }
            std::thread::sleep(GLANCE);
        }
    }
}

/// Ends make and all compilers that it started.
fn end_group(child: &mut std::process::Child) {
    let group = Pid::from_child(child);
    for signal in [Signal::TERM, Signal::KILL] {
        if kill_process_group(group, signal).is_err() {
            return;
        }
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(GLANCE);
        }
    }
}

/// Reads what a command adds to the log.
struct Reader {
    file: File,
    rest: Vec<u8>,
    seen: Advance,
}

impl Reader {
    fn open(log: &Path, from: u64) -> std::io::Result<Self> {
        let mut file = File::open(log)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(Self {
            file,
            rest: Vec::new(),
            seen: Advance::default(),
        })
    }

    fn advance(&mut self) -> Advance {
        // What can't be read now is read at the next glance.
        self.file.read_to_end(&mut self.rest).ok();
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return self.seen;
        };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            take_in(line, &mut self.seen);
        }
        self.seen
    }
}

/// Ninja's `[12/345] …`, or a compiler's command line among make's words.
fn take_in(line: &str, seen: &mut Advance) {
    let ninja = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .and_then(|(counts, _)| counts.split_once('/'))
        .and_then(|(done, of)| Some((done.parse().ok()?, of.parse().ok()?)));
    if let Some((done, of)) = ninja {
        seen.done = done;
        seen.of = Some(of);
    } else if line.contains(" -c ") && line.contains(" -o ") {
        seen.done += 1;
    }
}

/// What was written to a log from an offset on.
pub(super) fn tail_from(log: &Path, from: u64) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(script: &str) -> Step {
        Step {
            title: "try".into(),
            dir: std::env::temp_dir(),
            words: ["sh", "-c", script].map(str::to_owned).to_vec(),
            once: false,
        }
    }

    #[test]
    fn what_is_said_is_kept_and_counted() {
        let log = std::env::temp_dir().join(format!("pgassay-steps-{}.log", std::process::id()));
        std::fs::remove_file(&log).ok();
        let stop = Stop::new();
        let runner = Runner {
            log: log.clone(),
            stop: &stop,
            environment: vec![("GIVEN".into(), "yes".into())],
        };
        let mut last = Advance::default();
        let script = "echo \"$GIVEN ${MAKEFLAGS:-plain}\"; echo 'cc -c a.c -o a.o'; \
                      echo 'cc -c b.c -o b.o'; sleep 0.3";
        runner.run(&step(script), &mut |now| last = now).unwrap();
        assert_eq!(last, Advance { done: 2, of: None });
        assert!(std::fs::read_to_string(&log).unwrap().contains("yes plain"));

        let failing = step("echo 'x.c:3:1: error: no such thing'; exit 2");
        let error = runner.run(&failing, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("x.c:3:1: error: no such thing"), "{error}");
        assert!(error.contains(log.to_str().unwrap()), "{error}");

        stop.ask();
        let begun = Instant::now();
        let error = runner.run(&step("sleep 60"), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::fs::remove_file(&log).unwrap();
    }

    #[test]
    fn ninja_says_how_far_it_is() {
        let mut seen = Advance::default();
        take_in("[12/345] cc -c x.c -o x.o", &mut seen);
        assert_eq!(
            seen,
            Advance {
                done: 12,
                of: Some(345)
            }
        );
        take_in("[not/one] x", &mut seen);
        assert_eq!(seen.done, 12);
    }
}
