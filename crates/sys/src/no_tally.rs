//! Instructions of one process, where there is no counting them.

use std::io;

/// Never there on this architecture.
#[derive(Debug)]
pub enum Instructions {}

impl Instructions {
    /// Says that there are none.
    ///
    /// # Errors
    /// Always, `Unsupported`.
    pub fn of(_pid: u32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// As on other architectures.
    ///
    /// # Errors
    /// Never: there is no counter to read.
    pub fn so_far(&mut self) -> io::Result<u64> {
        match *self {}
    }
}
