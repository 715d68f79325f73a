//! What a walk may still spend, shared by all levels of nesting.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use super::Limits;
use crate::error::Error;

/// Unpacked bytes below which the ratio is not asked about: small files compress far.
const RATIO_FROM_BYTES: u64 = 64 << 20;

/// What is left, and why it ended.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The limits.
    pub limits: Limits,
    bytes_left: Rc<Cell<u64>>,
    entries_left: Rc<Cell<u64>>,
    held: Rc<Cell<u64>>,
    windows: Rc<Cell<u32>>,
    by_ratio: bool,
}

/// Memory that a decompressor may take for its window: xz -9 and zstd --ultra stay below.
const WINDOW_BYTES: u64 = 256 << 20;

/// A member's bytes, counted while they are held.
#[derive(Debug)]
pub struct Held {
    /// The bytes.
    pub bytes: Vec<u8>,
    held: Rc<Cell<u64>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let bytes = self.bytes.len() as u64;
        self.held.set(self.held.get().saturating_sub(bytes));
    }
}

/// A decompressor's window, counted while it is at work.
#[derive(Debug)]
pub struct Window {
    /// How large it may be: each within another half of it, so that all take twice the first's.
    pub bytes: u64,
    windows: Rc<Cell<u32>>,
}

impl Drop for Window {
    fn drop(&mut self) {
        self.windows.set(self.windows.get().saturating_sub(1));
    }
}

impl Budget {
    /// The budget for a package of `package_bytes`.
    pub fn new(limits: Limits, package_bytes: u64) -> Self {
        let by_ratio = package_bytes
            .saturating_mul(limits.ratio)
            .max(RATIO_FROM_BYTES);
        Self {
            limits,
            bytes_left: Rc::new(Cell::new(by_ratio.min(limits.total_bytes))),
            entries_left: Rc::new(Cell::new(limits.entries)),
            held: Rc::default(),
            windows: Rc::default(),
            by_ratio: by_ratio < limits.total_bytes,
        }
    }

    /// Bytes that may yet be held.
    pub fn room(&self) -> u64 {
        self.limits.held_bytes.saturating_sub(self.held.get())
    }

    /// Counts bytes until they are dropped.
    pub fn hold(&self, bytes: Vec<u8>) -> Held {
        self.held.set(self.held.get() + bytes.len() as u64);
        Held {
            bytes,
            held: self.held.clone(),
        }
    }

    /// Grants a decompressor its window until that is dropped.
    pub fn window(&self) -> Window {
        let within = self.windows.get();
        self.windows.set(within + 1);
        Window {
            bytes: WINDOW_BYTES >> within.min(16),
            windows: self.windows.clone(),
        }
    }

    /// Counts a member.
    ///
    /// # Errors
    /// Where there were too many.
    pub fn entry(&self) -> Result<(), Error> {
        match self.entries_left.get().checked_sub(1) {
            Some(left) => {
                self.entries_left.set(left);
                Ok(())
            }
            None => Err(Error::Limit {
                what: "the number of members".into(),
                limit: self.limits.entries.to_string(),
            }),
        }
    }

    /// Nothing more may be read.
    pub fn is_spent(&self) -> bool {
        self.bytes_left.get() == 0 || self.entries_left.get() == 0
    }

    /// What a failed read means: a limit if one was reached, else damage.
    pub fn explain(&self, error: io::Error) -> Error {
        if self.bytes_left.get() > 0 {
            return Error::Archive(error.to_string());
        }
        if self.by_ratio {
            Error::Limit {
                what: "unpacking".into(),
                limit: format!("{} times the package's size", self.limits.ratio),
            }
        } else {
            Error::Limit {
                what: "unpacking".into(),
                limit: format!("{} MiB", self.limits.total_bytes >> 20),
            }
        }
    }

    fn spend(&self, bytes: u64) -> io::Result<()> {
        let left = self.bytes_left.get();
        self.bytes_left.set(left.saturating_sub(bytes));
        if bytes > left {
            return Err(io::Error::other("the limit on unpacked bytes was reached"));
        }
        Ok(())
    }
}

/// A reader that counts against a budget.
pub struct Metered<'r> {
    inner: &'r mut dyn Read,
    budget: Budget,
}

impl<'r> Metered<'r> {
    /// Counts what is read from `inner`.
    pub fn new(inner: &'r mut dyn Read, budget: Budget) -> Self {
        Self { inner, budget }
    }
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.budget.spend(got as u64)?;
        Ok(got)
    }
}
