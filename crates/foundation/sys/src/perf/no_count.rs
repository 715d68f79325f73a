//! Counted events, where there is no counting them.

use std::io;

use super::{Count, Counted, Event};

/// Never there on this architecture.
#[derive(Debug)]
pub enum Counter {}

impl Counter {
    /// Says that there are none.
    ///
    /// # Errors
    /// Always, `Unsupported`.
    pub fn open(
        _event: Event,
        _pid: u32,
        _counted: Counted,
        _leader: Option<&Self>,
    ) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// As on other architectures.
    ///
    /// # Errors
    /// Never: there is no counter to read.
    pub fn so_far(&mut self) -> io::Result<Count> {
        match *self {}
    }
}
