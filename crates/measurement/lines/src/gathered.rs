//! What was seen of a line, while the account is made.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::recording::Kind;

/// Accesses by kind, a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Reads.
    pub loads: f64,
    /// Writes.
    pub stores: f64,
    /// Atomic reads and writes.
    pub atomics: f64,
    /// Reads by the kernel in system calls.
    pub kernel_loads: f64,
    /// Writes by the kernel in system calls.
    pub kernel_stores: f64,
}

impl Counts {
    pub(crate) fn add(&mut self, kind: Kind, weight: f64) {
        *match kind {
            Kind::Load => &mut self.loads,
            Kind::Store => &mut self.stores,
            Kind::Atomic => &mut self.atomics,
            Kind::KernelLoad => &mut self.kernel_loads,
            Kind::KernelStore => &mut self.kernel_stores,
        } += weight;
    }

    /// Without the noise of sums of fractions.
    pub(crate) fn rounded(mut self) -> Self {
        for count in [
            &mut self.loads,
            &mut self.stores,
            &mut self.atomics,
            &mut self.kernel_loads,
            &mut self.kernel_stores,
        ] {
            *count = rounded(*count);
        }
        self
    }

    /// Accesses that need the line alone.
    pub fn takes(&self) -> f64 {
        self.stores + self.atomics + self.kernel_stores
    }

    /// All accesses.
    pub fn all(&self) -> f64 {
        self.takes() + self.loads + self.kernel_loads
    }
}

/// A figure to a millionth.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// What was seen of a line.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) counts: Counts,
    pub(crate) parts: BTreeMap<String, Counts>,
    pub(crate) takers: BTreeMap<(String, Vec<String>), Counts>,
    /// Which part of the shared memory the last access was in.
    pub(crate) region: Option<usize>,
    pub(crate) own: bool,
    pub(crate) shared: bool,
    /// Bytes used by each session: read, and written.
    pub(crate) bytes: BTreeMap<usize, (Bytes, Bytes)>,
    /// What the session writes of its own and that shares the line with the next session's, with
    /// the distance between the two.
    pub(crate) rows: BTreeSet<(String, u64)>,
    /// What is used of it, by kind of memory: whether it is the session's own, and accesses.
    pub(crate) kinds: BTreeMap<(String, String), Counts>,
}

/// Bytes of a line, a bit each; lines have at most 256.
pub(crate) type Bytes = [u64; 4];

impl Counts {
    /// Adds others' accesses.
    pub(crate) fn sum(&mut self, other: &Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.atomics += other.atomics;
        self.kernel_loads += other.kernel_loads;
        self.kernel_stores += other.kernel_stores;
    }
}

impl Gathered {
    /// Notes which bytes of the line a session uses.
    pub(crate) fn note_bytes(
        &mut self,
        session: usize,
        from: u64,
        size: u32,
        kind: Kind,
        line: u64,
    ) {
        let (read, written) = self.bytes.entry(session).or_default();
        let into = if kind.owns() { written } else { read };
        for at in from..(from + u64::from(size.max(1))).min(line) {
            into[at as usize / 64] |= 1 << (at % 64);
        }
    }
}
