//! A point of a stage, and one trial of its schedule.

use serde::{Deserialize, Serialize};

/// One concurrency at which every arm is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Connections that carry load at once.
    pub clients: u32,
    /// Threads of pgassay that drive them.
    pub threads: u32,
    /// Which of the load's variants, where it has several: a way of using a primitive, or of reading.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub variant: u32,
}

/// One trial of the schedule.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// Position in the schedule, from 0.
    pub index: u32,
    /// Which trial of its arm and point this is, from 0.
    pub round: u32,
    /// Index into [`crate::plan::Experiment::arms`].
    pub arm: u32,
    /// Index into [`crate::plan::Plan::points`].
    pub point: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
