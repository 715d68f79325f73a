//! The machines that gave a trial its load.

use serde::{Deserialize, Serialize};

/// One machine's part of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineRecord {
    /// As it was typed behind `--from`.
    pub name: String,
    /// Clients that it had.
    pub clients: u32,
    /// Its transactions that ended well within its window.
    pub transactions: u64,
    /// Length of its window as it was, in nanoseconds.
    pub window_ns: u64,
    /// When its window began, from when it was to begin, in nanoseconds.
    pub begin_ns: i64,
    /// By how much that can be wrong: half of the shortest round trip to its clock, in nanoseconds.
    pub clock_error_ns: u64,
    /// CPU time of its load threads in user mode, nanoseconds.
    pub user_ns: u64,
    /// CPU time of its load threads in the kernel, nanoseconds.
    pub system_ns: u64,
    /// The share of the window in which its busiest load thread ran, 0 to 1.
    pub busiest_thread_share: f64,
    /// The shortest time in which the server answered an empty query of it before the load, in nanoseconds: the
    /// network's round trip, and what both ends take to wake up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Whether it is the machine whose CPUs were looked at beside the load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_server: bool,
}
