//! CPU samples where they can't be had.

use std::io;

use super::{Options, Record, Whose};

/// Never there on this architecture.
#[derive(Debug)]
pub enum Ring {}

impl Ring {
    /// Says that there are none.
    ///
    /// # Errors
    /// Always.
    pub fn open(_cpu: u32, _whose: Whose, _options: Options) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "CPU samples are not supported on {}",
                std::env::consts::ARCH
            ),
        ))
    }

    /// As on other architectures.
    ///
    /// # Errors
    /// Never: there is no ring to join.
    pub fn join(&mut self, _pid: u32) -> io::Result<()> {
        match *self {}
    }

    /// As on other architectures.
    ///
    /// # Errors
    /// Never: there is no ring to enable.
    pub fn enable(&self) -> io::Result<()> {
        match *self {}
    }

    /// As on other architectures.
    ///
    /// # Errors
    /// Never: there is no ring to disable.
    pub fn disable(&self) -> io::Result<()> {
        match *self {}
    }

    /// As on other architectures.
    pub fn drain(&mut self, _take: &mut dyn FnMut(Record)) {
        match *self {}
    }
}
