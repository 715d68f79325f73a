//! What a program of an installation says of itself.
//!
//! Such a program is somebody's: it is run without root's rights and without
//! the caller's environment, and not for longer than an answer takes.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::TargetError;
use super::account::Account;

/// How long it may take. A version is printed in milliseconds; a disk may have to wake up.
pub const LIMIT: Duration = Duration::from_secs(5);
/// Bytes of each stream that are kept; what goes beyond is read and forgotten.
const MOST: usize = 64 << 10;
/// How often an end without a word is looked for.
const GLANCE: Duration = Duration::from_millis(20);

/// What it said, and how it ended.
#[derive(Debug)]
pub struct Answer {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Silence {
    /// It can't be run.
    NotRun(io::Error),
    /// Nobody is there to run it as.
    NoAccount(TargetError),
    /// It had not ended after [`LIMIT`], and was killed.
    TooLate,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(error) => write!(f, "can't be run: {error}"),
            Self::NoAccount(error) => error.fmt(f),
            Self::TooLate => write!(
                f,
                "did not answer within {} s and was killed",
                LIMIT.as_secs()
            ),
        }
    }
}

/// Runs `program argument` as the server's user and gives what it says.
///
/// # Errors
/// If it can't be run or does not end in time.
pub fn ask(program: &Path, argument: &str) -> Result<Answer, Silence> {
    within(program, &[argument], LIMIT)
}

/// The same with several arguments.
///
/// # Errors
/// Like [`ask`].
pub fn ask_all(program: &Path, arguments: &[&str]) -> Result<Answer, Silence> {
    within(program, arguments, LIMIT)
}

fn within(program: &Path, arguments: &[&str], limit: Duration) -> Result<Answer, Silence> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    for name in ["PATH", "LD_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(account) = Account::for_servers().map_err(Silence::NoAccount)? {
        account.apply(&mut command);
    }
    let child = pgassay_sys::bound::spawn(command, Signal::KILL).map_err(Silence::NotRun)?;
    Asked(child).listen(Instant::now() + limit)
}

/// The program under way; it and its children are killed on drop.
struct Asked(Child);

impl Asked {
    fn listen(mut self, until: Instant) -> Result<Answer, Silence> {
        let mut out = Stream::of(self.0.stdout.take());
        let mut err = Stream::of(self.0.stderr.take());
        loop {
            // In this order: what it wrote before its end is still read after it.
            let ended = self.ended().map_err(Silence::NotRun)?;
            let patience = if ended { Duration::ZERO } else { GLANCE };
            let more = wait_for(&mut [&mut out, &mut err], patience).map_err(Silence::NotRun)?;
            // A child of its own may hold the streams open for ever.
            if ended && !more {
                self.end_group();
                return Ok(Answer {
                    status: self.0.wait().map_err(Silence::NotRun)?,
                    out: out.text(),
                    err: err.text(),
                });
            }
            if Instant::now() >= until {
                return Err(Silence::TooLate);
            }
        }
    }

    /// Whether it has ended; it is not reaped, so its group's number stays its own.
    fn ended(&self) -> io::Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.0)), look)?.is_some())
    }

    /// To be called before it is reaped.
    fn end_group(&self) {
        kill_process_group(Pid::from_child(&self.0), Signal::KILL).ok();
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.ended().is_ok() {
            self.end_group();
            self.0.wait().ok();
        }
    }
}

/// One of its streams; `None` after its end.
struct Stream<R> {
    from: Option<R>,
    bytes: Vec<u8>,
}

/// A stream of either kind.
trait Source: Read + AsFd {}
impl<T: Read + AsFd> Source for T {}

impl Stream<Box<dyn Source>> {
    fn of(from: Option<impl Source + 'static>) -> Self {
        Self {
            from: from.map(|from| Box::new(from) as Box<dyn Source>),
            bytes: Vec::new(),
        }
    }

    fn take_in(&mut self) -> io::Result<()> {
        let Some(from) = &mut self.from else {
            return Ok(());
        };
        let mut buffer = [0; 4096];
        let read = from.read(&mut buffer)?;
        let room = MOST.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&buffer[..read.min(room)]);
        if read == 0 {
            self.from = None;
        }
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim().to_owned()
    }
}

/// Waits for words in one of the streams and reads them; whether there were any.
fn wait_for(streams: &mut [&mut Stream<Box<dyn Source>>], time: Duration) -> io::Result<bool> {
    let open: Vec<usize> = (0..streams.len())
        .filter(|at| streams[*at].from.is_some())
        .collect();
    if open.is_empty() {
        std::thread::sleep(time.min(Duration::from_millis(1)));
        return Ok(false);
    }
    let ready: Vec<usize> = {
        let mut fds: Vec<PollFd<'_>> = open
            .iter()
            .filter_map(|at| streams[*at].from.as_ref())
            .map(|from| PollFd::new(from, PollFlags::IN))
            .collect();
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&time)) {
            Err(rustix::io::Errno::INTR) => return Ok(true),
            other => other?,
        };
        let said = fds.iter().map(|fd| !fd.revents().is_empty());
        open.iter()
            .zip(said)
            .filter(|(_, said)| *said)
            .map(|(at, _)| *at)
            .collect()
    };
    for at in &ready {
        streams[*at].take_in()?;
    }
    Ok(!ready.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program that everybody may run; its directory is removed on drop.
    fn program(script: &str) -> (pgassay_sys::private::Directory, std::path::PathBuf) {
        let dir =
            pgassay_sys::private::Directory::make(&std::env::temp_dir(), "pgassay-ask").unwrap();
        let path = dir.path().join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        for path in [dir.path(), &path] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        (dir, path)
    }

    #[test]
    fn both_streams_and_the_status_are_given() {
        let (_dir, path) = program("echo \"said $1\"; echo wrong >&2; exit 3");
        let answer = ask(&path, "--version").unwrap();
        assert_eq!(
            (answer.out.as_str(), answer.err.as_str()),
            ("said --version", "wrong")
        );
        assert_eq!(answer.status.code(), Some(3));
        let (_dir, path) = program("head -c 1000000 /dev/zero | tr '\\0' x; echo");
        assert_eq!(ask(&path, "").unwrap().out.len(), MOST);
        assert!(matches!(
            ask(Path::new("/no/such"), ""),
            Err(Silence::NotRun(_))
        ));
    }

    /// Attack D5: found programs ran as root and saw root's environment.
    #[test]
    fn it_has_neither_roots_rights_nor_our_environment() {
        let (_dir, path) = program("id -u; id -G; env");
        let out = ask(&path, "").unwrap().out;
        let mut lines = out.lines();
        let us = rustix::process::geteuid();
        let expected = Account::for_servers()
            .unwrap()
            .map_or(us.as_raw(), |account| account.uid);
        assert_ne!(expected, 0);
        assert_eq!(lines.next(), Some(expected.to_string().as_str()));
        if us.is_root() {
            assert!(!lines.next().unwrap().split(' ').any(|group| group == "0"));
        }
        assert!(!out.contains("CARGO_MANIFEST_DIR="), "{out}");
    }

    /// Attack D5: a program that slept hung every command that needed a target.
    #[test]
    fn one_that_does_not_answer_is_killed_with_its_children() {
        let dir = pgassay_sys::private::Directory::make(&std::env::temp_dir(), "pgassay-pids");
        let dir = dir.unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let pids = dir.path().join("pids");
        let (_dir, path) = program(&format!(
            "sleep 1000 & echo $! $$ >{}; wait",
            pids.display()
        ));
        let result = within(&path, &[], Duration::from_secs(2));
        assert!(matches!(result, Err(Silence::TooLate)));
        let pids = fs::read_to_string(pids).unwrap();
        for pid in pids.split_whitespace() {
            let until = Instant::now() + Duration::from_secs(60);
            let alive = || {
                fs::read_to_string(format!("/proc/{pid}/stat"))
                    .is_ok_and(|stat| !stat.contains(") Z "))
            };
            while alive() {
                assert!(Instant::now() < until, "{pid} lives on");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    #[test]
    fn a_child_that_holds_the_streams_does_not_hold_us() {
        let (_dir, path) = program("sleep 1000 & echo 'postgres (PostgreSQL) 15.1'");
        let answer = ask(&path, "").unwrap();
        assert_eq!(answer.out, "postgres (PostgreSQL) 15.1");
    }
}
