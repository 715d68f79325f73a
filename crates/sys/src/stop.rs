//! Ctrl-C and its relatives, as a flag that long work looks at.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Set once somebody asked the program to stop.
///
/// The first signal asks for a clean stop: the trial in flight is dropped, what
/// was measured is kept, servers are stopped and removed. The second ends the
/// process at once; servers die with it, and the next run removes their files.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that only [`Stop::ask`] sets.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that SIGINT, SIGTERM and SIGHUP set.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Order matters: the conditional exit looks at the flag before this signal sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 130, stop.0.clone())?;
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    /// Asks for a stop, as Ctrl-C does.
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for loops below this module's layer.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0
    }
}
