//! Ctrl-C and its relatives: they end the process at once, except while there is something to keep
//! or to clean up.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Set once somebody asked the program to stop.
///
/// The first signal ends the process at once, with exit code 130, unless a [`Deferred`] is held:
/// then it sets the flag only, and whoever holds it looks at the flag within a second. The trial in
/// flight is dropped, what was measured is kept, servers are stopped and removed. The second signal
/// ends the process in every case; servers die with it, and the next run removes their files.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// The next signal ends the process.
    at_once: Arc<AtomicBool>,
    /// How many [`Deferred`] are held.
    held: Arc<Mutex<usize>>,
    /// How long the work was paused, in nanoseconds.
    paused: Arc<AtomicU64>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A flag that only [`Stop::ask`] sets.
    pub fn new() -> Self {
        Self {
            asked: Arc::default(),
            at_once: Arc::new(AtomicBool::new(true)),
            held: Arc::default(),
            paused: Arc::default(),
        }
    }

    /// A flag that SIGINT, SIGTERM and SIGHUP set. One that is ignored when the program starts, as
    /// SIGHUP is under nohup, stays ignored.
    pub fn on_signals() -> io::Result<Self> {
        Self::watched(true)
    }

    /// The same for signals that a program sends, perhaps more than once, as the kernel does for each
    /// thread of a parent that dies: while a [`Deferred`] is held, none of them ends the process.
    pub fn on_repeated_signals() -> io::Result<Self> {
        Self::watched(false)
    }

    fn watched(second_ends: bool) -> io::Result<Self> {
        let stop = Self::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if is_ignored(signal) {
                continue;
            }
            // Order matters: whether to exit is looked at before this signal decides on the next.
            signal_hook::flag::register_conditional_shutdown(signal, 130, stop.at_once.clone())?;
            signal_hook::flag::register(signal, stop.asked.clone())?;
            if second_ends {
                signal_hook::flag::register(signal, stop.at_once.clone())?;
            }
        }
        Ok(stop)
    }

    /// Keeps the first signal from ending the process while the guard is held. Its holder has
    /// something to keep or to clean up, and looks at the flag within a second.
    #[must_use = "the guard defers only while it is held"]
    pub fn defer(&self) -> Deferred {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held += 1;
        if *held == 1 && !self.asked() {
            self.at_once.store(false, Ordering::SeqCst);
            // One that came in between has been heard; the next is the second.
            if self.asked() {
                self.at_once.store(true, Ordering::SeqCst);
            }
        }
        drop(held);
        Deferred(self.clone())
    }

    /// Asks for a stop, as Ctrl-C does.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// The work was paused for so long.
    pub fn note_pause(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.paused.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// How long the work was paused: no part of the time that it may take.
    pub fn paused(&self) -> Duration {
        Duration::from_nanos(self.paused.load(Ordering::Relaxed))
    }

    /// The flag itself, for loops below this module's layer.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.asked
    }
}

/// Held while a signal only sets the flag; made by [`Stop::defer`].
#[derive(Debug)]
pub struct Deferred(Stop);

impl Drop for Deferred {
    fn drop(&mut self) {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = held.saturating_sub(1);
        if *held == 0 {
            self.0.at_once.store(true, Ordering::SeqCst);
        }
    }
}

/// Whether whoever started us had us ignore a signal.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_deferred_only_while_a_guard_is_held() {
        let stop = Stop::new();
        let at_once = || stop.at_once.load(Ordering::SeqCst);
        assert!(at_once());
        let outer = stop.defer();
        let inner = stop.clone().defer();
        assert!(!at_once());
        drop(outer);
        assert!(!at_once(), "another guard is held");
        drop(inner);
        assert!(at_once());
        // Once asked, no guard defers the second signal.
        stop.ask();
        let late = stop.defer();
        assert!(at_once());
        drop(late);
    }
}
