//! Wait events of sessions, as sampled over all of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `backend_type` of a client's session.
pub const CLIENT: &str = "client backend";
/// `backend_type` of a worker that runs a part of a client's statement.
const PARALLEL: &str = "parallel worker";

/// What a session of another program is called beside a load of ours: its time is none of the load's.
pub const OTHER_CLIENT: &str = "client backend of another program";

/// A kind of session at a wait event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitKey {
    /// `backend_type` of pg_stat_activity: `client backend`, `checkpointer` …, or [`OTHER_CLIENT`].
    pub backend: String,
    /// `active`, `idle`, `idle in transaction` …; empty where the server does not show it.
    pub state: String,
    /// `wait_event_type`; empty for none.
    #[serde(rename = "type")]
    pub kind: String,
    /// `wait_event`; empty for none.
    pub event: String,
}

impl WaitKey {
    /// Whether it is a client's session, or a worker for one.
    pub fn is_of_client(&self) -> bool {
        self.backend == CLIENT || self.backend == PARALLEL
    }
}

/// The wait samples of one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitRecord {
    /// Samples a second that were asked for: fewer than usual where they cost too much.
    pub rate_hz: f64,
    /// The different keys.
    pub keys: Vec<WaitKey>,
    /// One entry a second of the window.
    pub seconds: Vec<WaitSecond>,
    /// Whether sessions ran on CPUs of the load; none where the load or the server runs elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_cpu: Option<SharedCpu>,
}

/// The server's processes that ran between two samples, summed over the samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedCpu {
    /// All of them.
    pub ran: u32,
    /// Those that last ran on the CPU on which a load thread last ran.
    pub shared: u32,
}

/// The samples of one second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitSecond {
    /// How often all sessions were looked at.
    pub samples: u32,
    /// Sessions seen, summed over the samples: index of the key, count.
    pub counts: Vec<(u32, u32)>,
}

impl WaitRecord {
    /// Adds one look at all sessions in a second of the window.
    pub fn add(&mut self, second: usize, seen: impl IntoIterator<Item = (WaitKey, u32)>) {
        if self.seconds.len() <= second {
            self.seconds.resize_with(second + 1, WaitSecond::default);
        }
        let mut counts: BTreeMap<u32, u32> = self.seconds[second].counts.iter().copied().collect();
        for (key, count) in seen {
            let index = self.keys.iter().position(|k| *k == key).unwrap_or_else(|| {
                self.keys.push(key);
                self.keys.len() - 1
            });
            *counts.entry(index as u32).or_default() += count;
        }
        let second = &mut self.seconds[second];
        second.counts = counts.into_iter().collect();
        second.samples += 1;
    }

    /// Looks at all sessions, in all.
    pub fn samples(&self) -> u64 {
        self.seconds.iter().map(|s| u64::from(s.samples)).sum()
    }

    /// Sessions seen by key, in all.
    pub fn totals(&self) -> BTreeMap<&WaitKey, u64> {
        let mut totals = BTreeMap::new();
        for (index, count) in self.seconds.iter().flat_map(|s| &s.counts) {
            if let Some(key) = self.keys.get(*index as usize) {
                *totals.entry(key).or_default() += u64::from(*count);
            }
        }
        totals
    }
}
