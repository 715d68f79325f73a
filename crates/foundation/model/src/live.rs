//! A line of `live.jsonl`: where the trial is that runs, for who looks on. No part of any result.

use serde::{Deserialize, Serialize};

/// A line of `live.jsonl`: where a trial is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// What the trial is, such as `4 clients`.
    pub name: String,
    /// What its work is counted in, such as `tps`.
    pub unit: String,
    /// How many of the schedule's trials lie behind.
    pub done: usize,
    /// How many the schedule has.
    pub all: usize,
    /// How long it takes by its plan, in seconds, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_seconds: Option<f64>,
    /// How much of its window is over, in seconds; 0 when it begins.
    pub passed_seconds: f64,
    /// The newest part of it; none when it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Second>,
}

/// About a second of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Units of work a second.
    pub rate: f64,
    /// Mean and 99th percentile of the latency in milliseconds, where a transaction ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<(f64, f64)>,
    /// Transactions that failed.
    #[serde(default)]
    pub failed: u64,
    /// What disturbed it.
    #[serde(flatten)]
    pub disturbed: Disturbed,
}

/// Shares of the machine's CPU time, 0 to 1; none where that can't be seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbed {
    /// What neither server nor load used, and was busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// What the hypervisor gave to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
}
