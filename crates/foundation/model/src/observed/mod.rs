//! What observers saw beside the load, as recorded.
//!
//! Wait events are kept as counts a second, call chains folded to (object,
//! address) a second: raw enough to be interpreted anew by a later program, and
//! small enough that a run of minutes stays under 20 MB.

pub mod blockers;
pub mod growth;
pub mod plans;
pub mod stacks;
pub mod statements;
pub mod waits;

use serde::{Deserialize, Serialize};

use blockers::BlockerRecord;
use growth::GrowthRecord;
use plans::PlanRecord;
use stacks::{EventStacks, StackRecord};
use statements::StatementRecord;
use waits::WaitRecord;

/// What the observers of one trial recorded, within its window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observed {
    /// Wait events of all sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitRecord>,
    /// The statements that sessions were in, by the same samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statements: Option<StatementRecord>,
    /// Those of others beside the load: sessions of other programs, and workers of autovacuum; none where none
    /// was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<StatementRecord>,
    /// Who held up the sessions that waited for locks; none where nobody waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockers: Option<BlockerRecord>,
    /// What the server's own counters grew by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<GrowthRecord>,
    /// Plans that were asked for after the window; each statement's once in a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanRecord>,
    /// CPU samples of the server's processes with their call chains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<StackRecord>,
    /// Where events of the processor and the kernel happened, by samples of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventStacks>,
    /// What observing cost, by observer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// Observers that were asked for and saw nothing, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<Unavailable>,
}

/// CPU time that an observer used within the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Its name: `waits`, `perf`, `pmu`, `samplers`.
    pub observer: String,
    /// Of pgassay's own thread, nanoseconds.
    pub own_ns: u64,
    /// Of the server's process that answers it, nanoseconds; it is part of the server's CPU time.
    #[serde(default)]
    pub server_ns: u64,
    /// Statements that it sent.
    #[serde(default)]
    pub statements: u64,
}

/// Who reads the server's statistics views and asks for plans: before the window and after it.
pub const COUNTERS: &str = "counters";

/// An observer that saw nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unavailable {
    /// Its name.
    pub observer: String,
    /// Why, and what would help.
    pub why: String,
}

impl Observed {
    /// CPU time of the server's processes within the window that is the observers' doing,
    /// nanoseconds.
    pub fn server_ns(&self) -> u64 {
        let within = self.costs.iter().filter(|cost| cost.observer != COUNTERS);
        within.map(|cost| cost.server_ns).sum()
    }
}
