//! What a command leaves on a far side when its agent is gone: nothing. A second process waits for
//! that, since who is killed can't tidy up.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgassay_server::leftover;
use pgassay_server::scratch::Scratch;
use pgassay_sys::stop::Stop;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// How long the command may take to end by itself, and then to be gone. With the seconds of silence before
/// it, the last of which may just have begun, nothing runs on after ten.
const GRACE: Duration = Duration::from_secs(2);

/// What is to be tidied up.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Estate {
    /// The command's process, and when it was started.
    child: Option<(u32, u64)>,
    /// The directory of the session.
    work: Option<PathBuf>,
    /// Where the command has its servers, if not in the usual place.
    scratch: Option<PathBuf>,
}

impl Estate {
    /// A session that has a directory.
    pub fn of(work: PathBuf, scratch: Option<PathBuf>) -> Self {
        Self {
            child: None,
            work: Some(work),
            scratch,
        }
    }

    /// Its command is this child of ours.
    pub fn add_child(&mut self, pid: u32) {
        self.child = leftover::start_ticks(pid).map(|ticks| (pid, ticks));
    }

    /// Ends what runs, and removes what is left.
    pub fn settle(&self, ask: bool) {
        if let Some((pid, ticks)) = self.child {
            let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let lives = || leftover::start_ticks(pid) == Some(ticks) && !is_zombie(pid);
            let until = Instant::now() + GRACE;
            if lives()
                && ask
                && let Some(group) = group
            {
                let _ = kill_process_group(group, Signal::TERM);
            }
            while lives() && Instant::now() < until {
                sleep(Duration::from_millis(20));
            }
            // Also what it left in its group.
            if let Some(group) = group
                && (lives() || leftover::start_ticks(pid).is_none_or(|now| now == ticks))
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
            while lives() && Instant::now() < until + GRACE {
                sleep(Duration::from_millis(20));
            }
            for base in [None, self.scratch.as_deref()] {
                sweep(base);
            }
        }
        if let Some(work) = &self.work {
            let _ = fs::remove_dir_all(work);
        }
    }
}

/// Removes what it left, again where its last processes were still writing.
fn sweep(base: Option<&Path>) {
    for _ in 0..3 {
        let Ok(Some(scratch)) = Scratch::existing(base) else {
            return;
        };
        let swept = leftover::sweep(&scratch).unwrap_or_default();
        if swept.iter().all(|left| left.failed.is_none()) {
            return;
        }
        sleep(Duration::from_millis(300));
    }
}

/// Whether it has ended and nobody has asked for its exit code. Its first thread may have while others still
/// hold its locks.
fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    stat.is_ok_and(|stat| stat.contains(") Z ")) && threads <= 1
}

/// The process that tidies up if this one is killed.
#[derive(Debug)]
pub struct Warden(Child);

impl Warden {
    /// Starts it.
    ///
    /// # Errors
    /// Where it can't be started.
    pub fn start() -> anyhow::Result<Self> {
        use std::os::unix::process::CommandExt;
        let child = Command::new("/proc/self/exe")
            .arg0("pgassay")
            .args(["far", "--warden"])
            // A signal to our group is none to it.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the process that tidies up")?;
        Ok(Self(child))
    }

    /// Tells it what there is to tidy up.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn tell(&mut self, estate: &Estate) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(estate)?;
        line.push('\n');
        let input = self.0.stdin.as_mut().context("the warden is not there")?;
        input.write_all(line.as_bytes())?;
        Ok(())
    }

    /// Waits until it has nothing more to do.
    pub fn dismiss(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// `pgassay far --warden`: waits until whoever started it ends, and settles what that told.
pub fn warden(stop: &Stop) -> anyhow::Result<Exit> {
    // A first signal does not end it.
    let _kept = stop.defer();
    let mut estate = Estate::default();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if let Ok(told) = serde_json::from_str(&line) {
            estate = told;
        }
    }
    // The command was asked to end by the death of the one that started it.
    estate.settle(false);
    Ok(Exit::Done)
}
