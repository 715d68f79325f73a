//! What is recorded of PGIO's workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// What a session of PGIO does, and over what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PgioPlan {
    /// Tables.
    pub tables: u32,
    /// Rows of each, one a block.
    pub rows: u64,
    /// SCALE as it was written.
    pub scale: String,
    /// A SELECT's range holds one key more than this.
    pub work_unit: u64,
    /// An UPDATE's likewise.
    pub update_work_unit: u64,
    /// Share of operations that update, in per cent.
    pub update_pct: u32,
    /// PGIO's own way: dynamic SQL in one transaction a trial.
    pub classic: bool,
    /// The server's block size, in bytes.
    pub block_size_bytes: u64,
    /// How the planner reads a SELECT's range: with its values in the text, and
    /// with a plan that is kept.
    pub plans: (String, String),
    /// The pgio.conf as read, where one was given.
    pub config: Option<String>,
    /// CONNECT_STRING of it, which PGIO's output shows.
    pub connect_string: String,
    /// shared_buffers as the server shows it.
    pub shared_buffers: String,
    /// Seconds that set-up took, 0 where all tables were there.
    pub setup_seconds: f64,
    /// It goes on until the device's rate stands still.
    #[serde(default)]
    pub until_stable: bool,
    /// The tables stay.
    #[serde(default)]
    pub keep_tables: bool,
}

/// What one session did in a trial, by its own account.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PgioSession {
    /// Which table, from 1.
    pub table: u32,
    /// Its process.
    pub pid: i32,
    /// SELECTs.
    pub selects: u64,
    /// UPDATEs.
    pub updates: u64,
    /// The longest SELECT, in microseconds.
    pub longest_select_us: u64,
    /// The longest UPDATE, in microseconds.
    pub longest_update_us: u64,
    /// Blocks of the table that it looked at.
    pub heap_blocks: u64,
    /// Blocks of the index.
    pub index_blocks: u64,
    /// Those of both that were in shared buffers.
    pub blocks_hit: u64,
    /// Time in its loops, in microseconds.
    pub elapsed_us: u64,
    /// Calls that failed, by SQLSTATE.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
}

/// `facts/pgio-counters.json`: `pg_stat_database` around all trials, settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PgioCounters {
    /// Before the first.
    pub before: Reading,
    /// After the last session closed.
    pub after: Reading,
}
