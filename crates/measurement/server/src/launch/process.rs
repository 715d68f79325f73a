//! The process of a launched server, and how it is ended.

use std::fs;
use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::POLL;
use crate::huge_pages::Reservation;

/// How long a fast shutdown, which writes a checkpoint, may take.
const FAST: Duration = Duration::from_secs(10);
/// How long an immediate shutdown may take.
const IMMEDIATE: Duration = Duration::from_secs(5);

/// The server's first process; stopped on drop.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) child: Child,
    /// Given back after the server has ended: fields are dropped after `drop`.
    pub(super) _huge_pages: Option<Reservation>,
}

impl Server {
    /// Wakes processes that somebody stopped: a stopped one takes no shutdown, and one whose
    /// postmaster is gone would stay for ever.
    pub(super) fn go_on(&self) {
        self.to_children(Signal::CONT);
        kill_process(Pid::from_child(&self.child), Signal::CONT).ok();
    }

    /// Sends a signal to the server's other processes, each of which has a group of its own.
    fn to_children(&self, signal: Signal) {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_ascii_whitespace();
        for pid in children.filter_map(|pid| pid.parse().ok()) {
            if let Some(pid) = Pid::from_raw(pid) {
                kill_process(pid, signal).ok();
            }
        }
    }

    /// Fast shutdown, then an immediate one, then SIGKILL.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.go_on();
        for (signal, patience) in [
            (Signal::INT, FAST),
            (Signal::QUIT, IMMEDIATE),
            (Signal::KILL, IMMEDIATE),
        ] {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            if signal == Signal::KILL {
                // One that is busy would not see that its parent is gone.
                self.to_children(signal);
            }
            // The child is not yet reaped, so its pid is nobody else's.
            kill_process(Pid::from_child(&self.child), signal).ok();
            let until = Instant::now() + patience;
            while Instant::now() < until {
                if self.child.try_wait()?.is_some() {
                    return Ok(());
                }
                std::thread::sleep(POLL);
            }
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "not even SIGKILL ended it",
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop().ok();
    }
}
