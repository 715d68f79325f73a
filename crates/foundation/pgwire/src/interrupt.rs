//! The user's wish to stop, heard in every wait for a server.
//!
//! Signals are the process's, and so is this: who waits, a sampler deep within a trial or a client's
//! start-up, need not be handed the flag.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often a wait looks at the flag.
const LOOK: Duration = Duration::from_millis(250);
/// How long a wait under way goes on once the flag is set.
const GRACE: Duration = Duration::from_millis(500);
/// How long a wait may take that begins after that: something is cleaned up.
const CLEANING_UP: Duration = Duration::from_secs(10);

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Ends every wait for a server soon after `flag` is set; the first flag given is the process's.
pub fn end_waits_by(flag: Arc<AtomicBool>) {
    let _ = FLAG.set(flag);
}

/// Why a wait ended that heard the flag.
#[derive(Debug)]
struct WishToStop;

impl fmt::Display for WishToStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer came before pgassay had to stop")
    }
}

impl Error for WishToStop {}

/// Whether a wait ended because the user wants to stop.
pub(super) fn is_wish_to_stop(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<WishToStop>())
}

/// One wait, which hears the flag.
pub(super) struct Hearing<'a> {
    flag: Option<&'a AtomicBool>,
    asked: bool,
    give_up: Option<Instant>,
}

impl<'a> Hearing<'a> {
    pub fn begin() -> Hearing<'static> {
        Hearing::of(FLAG.get().map(|flag| &**flag))
    }

    fn of(flag: Option<&'a AtomicBool>) -> Hearing<'a> {
        let asked = flag.is_some_and(|flag| flag.load(Ordering::Relaxed));
        Hearing {
            flag,
            asked,
            give_up: asked.then(|| Instant::now() + CLEANING_UP),
        }
    }

    /// How long to wait before the next call; an error once the wait has to end.
    pub fn slice(&mut self) -> io::Result<Duration> {
        let now = Instant::now();
        if !self.asked && self.flag.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            self.asked = true;
            self.give_up = now.checked_add(GRACE);
        }
        match self.give_up {
            None => Ok(LOOK),
            Some(end) if now >= end => Err(io::Error::other(WishToStop)),
            Some(end) => Ok(LOOK.min(end - now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_once_the_flag_is_set() {
        let flag = AtomicBool::new(false);
        let mut waiting = Hearing::of(Some(&flag));
        assert_eq!(waiting.slice().unwrap(), LOOK);
        flag.store(true, Ordering::Relaxed);
        assert!(waiting.slice().is_ok(), "a grace is given");
        // What is begun now cleans up, and has longer.
        let mut cleaning = Hearing::of(Some(&flag));
        std::thread::sleep(GRACE);
        let ended = waiting.slice().unwrap_err();
        assert!(is_wish_to_stop(&ended));
        assert!(!is_wish_to_stop(&io::Error::other("reset")));
        assert!(cleaning.slice().is_ok());
        assert!(Hearing::of(None).slice().is_ok());
    }
}
