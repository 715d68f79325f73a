//! What was seen of a stepped session, in addresses.

use std::collections::BTreeMap;

/// How memory is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Read.
    Load,
    /// Written, not atomically; one that reads before it writes is a load, too.
    Store,
    /// Read and written at once: lock prefix, or xchg.
    Atomic,
    /// Read by the kernel in a system call.
    KernelLoad,
    /// Written by the kernel in a system call.
    KernelStore,
}

impl Kind {
    /// Whether the line has to be owned for it.
    pub fn owns(self) -> bool {
        matches!(self, Self::Store | Self::Atomic | Self::KernelStore)
    }
}

/// An access to shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Instructions executed before it.
    pub step: u64,
    /// Its first byte.
    pub address: u64,
    /// Its length in bytes.
    pub size: u32,
    /// How.
    pub kind: Kind,
    /// By which code: an index of [`Recording::sites`].
    pub site: u32,
}

/// A place in the code, and how it was come to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    /// The instruction.
    pub address: u64,
    /// Return addresses, the innermost first; those from before the recording are unknown.
    pub callers: Vec<u64>,
}

/// A session's accesses to shared memory.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// In order.
    pub accesses: Vec<Access>,
    /// Segments other than the main one, by where they are recorded to begin: processes have them at
    /// different addresses.
    pub segments: BTreeMap<u64, String>,
    /// What [`Access::site`] points to.
    pub sites: Vec<Site>,
    /// Instructions executed in user mode, vDSO left out.
    pub instructions: u64,
    /// System calls made.
    pub system_calls: u64,
    /// Where the session waited for its client: so many accesses were made before.
    pub pauses: Vec<usize>,
    /// Accesses whose address could not be computed: gathers and scatters.
    pub unresolved: u64,
    /// System calls that may use shared memory in a way that is not seen: io_uring.
    pub unseen_calls: u64,
    /// Seconds that stepping took.
    pub seconds: f64,
    /// The transactions that it holds, where the limit of stepping was reached before the last one.
    pub whole: Option<u64>,
}
