//! Where the kernel's structures of io_uring are not to be had, sockets are served by calls of their
//! own.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Most messages of one call.
pub const MOST: usize = 16;
/// The longest message that is sent this way.
pub const LONGEST: usize = 4096;

/// A ring that can't be made here.
pub enum Streams {}

/// What happened at a socket.
#[derive(Debug)]
pub enum Happened {
    /// Bytes came.
    Came(u32, Held),
    /// The end of the stream, or an error in place of it.
    Ended(u32, Option<io::Error>),
    /// The receive has to be asked for again.
    Paused(u32),
    /// There is room to send.
    Room(u32),
    /// This rest of a message was not taken.
    Unsent(u32, Vec<u8>),
}

/// Bytes that came.
#[derive(Debug)]
pub enum Held {}

impl Streams {
    /// Always refuses.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Is never called, as all below.
    pub fn receive(&mut self, _: u32, _: BorrowedFd<'_>) -> io::Result<()> {
        match *self {}
    }

    /// See `receive`.
    pub fn await_room(&mut self, _: u32, _: BorrowedFd<'_>) -> io::Result<()> {
        match *self {}
    }

    /// See `receive`.
    pub fn cancel(&mut self, _: u32) -> io::Result<()> {
        match *self {}
    }

    /// See `receive`.
    pub fn cancel_all(&mut self) -> io::Result<()> {
        match *self {}
    }

    /// See `receive`.
    pub fn is_busy(&self) -> bool {
        match *self {}
    }

    /// See `receive`.
    pub fn has_room(&self, _: u32, _: usize) -> bool {
        match *self {}
    }

    /// See `receive`.
    pub fn messages(&self) -> usize {
        match *self {}
    }

    /// See `receive`.
    pub fn send(&mut self, _: u32, _: BorrowedFd<'_>, _: &[u8]) -> io::Result<()> {
        match *self {}
    }

    /// See `receive`.
    pub fn hand_over(&mut self) -> io::Result<()> {
        match *self {}
    }

    /// See `receive`.
    pub fn wait(&mut self, _: Duration) -> io::Result<()> {
        match *self {}
    }

    /// See `receive`.
    pub fn pop(&mut self) -> Option<Happened> {
        match *self {}
    }

    /// See `receive`.
    pub fn unsent(&mut self, _: u32) -> Option<Vec<u8>> {
        match *self {}
    }

    /// See `receive`.
    pub fn take(&mut self, _: Held, _: &mut [u8]) -> usize {
        match *self {}
    }
}
