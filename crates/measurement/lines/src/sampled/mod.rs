//! What a processor's sampling of memory accesses saw of the same lines: `perf mem record` on machines whose
//! processor and hypervisor offer it, as confirmation of what was counted.
//!
//! ```text
//! perf's text -> Places (whose memory) -> Gathering (by line) -> names -> Sampled
//! Account + Sampled -> Beside
//! ```

pub mod beside;
pub mod gather;
pub mod perf;
pub mod places;

use serde::{Deserialize, Serialize};

pub use beside::Beside;
use pgassay_readings::memory::{Source, Transfer};

/// The document's schema.
pub const SCHEMA: &str = "pgassay/lines-sampled/1";

/// Sampled accesses to a server's shared memory, by line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sampled {
    /// `pgassay/lines-sampled/1`.
    pub schema: String,
    /// When, UTC, RFC 3339.
    pub recorded: String,
    /// The server.
    pub target: String,
    /// Its version in its own words.
    pub version: String,
    /// The processor, in the kernel's words.
    pub processor: String,
    /// How it was sampled: the program, and the events seen.
    pub method: String,
    /// How long it was sampled, in seconds; none for a text of perf that somebody brought.
    pub seconds: Option<f64>,
    /// Clients of ours that gave the load; 0 where the sessions that were there were sampled.
    pub clients: u32,
    /// What they executed; empty where it was not our load.
    pub workload: String,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// What became of perf's samples.
    pub samples: Samples,
    /// All samples in the server's shared memory.
    pub total: Hits,
    /// The share of them that have a name.
    pub named_share: f64,
    /// Line by line, those that other processors' caches gave most often first: 200.
    pub lines: Vec<SampledLine>,
    /// By kind of memory, in the same order.
    pub groups: Vec<SampledGroup>,
    /// What could not be seen or believed.
    pub doubts: Vec<String>,
}

/// Samples by what they are of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Samples {
    /// In the server's shared memory.
    pub shared: u64,
    /// In memory of the server's processes that is their own.
    pub private: u64,
    /// Of other processes.
    pub of_others: u64,
    /// For which the processor told no address.
    pub without_address: u64,
    /// That tell of an access a second time.
    pub repeated: u64,
    /// Lines of perf's text that were not understood, and are left out.
    pub lines_not_understood: u64,
}

/// Samples, by what was accessed and where it was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hits {
    /// All.
    pub samples: u64,
    /// Of loads; locked instructions are loads.
    pub loads: u64,
    /// Of stores.
    pub stores: u64,
    /// Of locked instructions, where the processor tells them apart.
    pub locked: u64,
    /// Found modified in another cache of the node (HITM).
    pub hitm_local: u64,
    /// Found modified in a cache of another node or socket.
    pub hitm_remote: u64,
    /// Found in another cache of the node, where the processor does not tell whether it was modified (peer).
    pub peer_local: u64,
    /// The same of another node or socket.
    pub peer_remote: u64,
}

impl Hits {
    pub(crate) fn add(&mut self, source: Source) {
        self.samples += 1;
        self.loads += u64::from(source.loads());
        self.stores += u64::from(source.stores());
        self.locked += u64::from(source.locked());
        match source.transfer() {
            Some(Transfer::ModifiedNear) => self.hitm_local += 1,
            Some(Transfer::ModifiedFar) => self.hitm_remote += 1,
            Some(Transfer::PeerNear) => self.peer_local += 1,
            Some(Transfer::PeerFar) => self.peer_remote += 1,
            None => {}
        }
    }

    pub(crate) fn sum(&mut self, other: &Self) {
        for (to, from) in [
            (&mut self.samples, other.samples),
            (&mut self.loads, other.loads),
            (&mut self.stores, other.stores),
            (&mut self.locked, other.locked),
            (&mut self.hitm_local, other.hitm_local),
            (&mut self.hitm_remote, other.hitm_remote),
            (&mut self.peer_local, other.peer_local),
            (&mut self.peer_remote, other.peer_remote),
        ] {
            *to += from;
        }
    }

    /// Found in another processor's cache.
    pub fn transfers(&self) -> u64 {
        self.hitm_local + self.hitm_remote + self.peer_local + self.peer_remote
    }
}

/// A sampled line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledLine {
    /// Its address, as in the account of a counted transaction.
    pub address: String,
    /// What was sampled most on it.
    pub name: String,
    /// Whether it is some session's own.
    pub own: bool,
    /// Samples.
    pub hits: Hits,
    /// Mean of the cycles that the sampled loads took, where the processor tells.
    pub cycles: Option<f64>,
    /// What lies on it and was sampled.
    pub parts: Vec<SampledPart>,
    /// The functions that accessed it, the most sampled first.
    pub functions: Vec<SampledPart>,
}

/// A part of a line, or a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledPart {
    /// Its name.
    pub name: String,
    /// Samples.
    pub hits: Hits,
}

/// Memory of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledGroup {
    /// What it is.
    pub name: String,
    /// Whether it is sessions' own.
    pub own: bool,
    /// Samples.
    pub hits: Hits,
    /// Different lines of it.
    pub lines: usize,
}
