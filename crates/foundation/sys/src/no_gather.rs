//! Where the kernel's structures of io_uring are not to be had, every send is a call of its own.

use std::io;
use std::os::fd::BorrowedFd;

/// Most messages of one call.
pub const MOST: usize = 16;

/// A ring that can't be made here.
pub enum Gathered {}

impl Gathered {
    /// Always refuses.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Is never called.
    pub fn send(
        &mut self,
        _: &[(BorrowedFd<'_>, &[u8])],
        _: &mut Vec<io::Result<usize>>,
    ) -> io::Result<()> {
        match *self {}
    }
}
