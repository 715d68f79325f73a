//! What the server's own counters grew by over a window: of statements, tables, indexes.
//!
//! Servers count since they were last reset, so that only the difference over a window says what
//! it did. Of thousands of rows those that grew most are kept, with the columns that grew.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The counters of one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrowthRecord {
    /// Time between the two readings, in nanoseconds; 0 in runs of before it was kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub elapsed_ns: u64,
    /// By pg_stat_statements, named by `queryid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<Grown>,
    /// By pg_stat_user_tables and pg_statio_user_tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Grown>,
    /// By pg_stat_user_indexes and pg_statio_user_indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Grown>,
    /// By pg_stat_slru, from 13 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slru: Vec<Grown>,
    /// By pg_stat_user_functions, where `track_functions` counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Grown>,
    /// The server's own catalogues, by pg_stat_sys_tables and pg_statio_sys_tables: what creating and dropping things
    /// writes there, and what looking them up reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalogs: Vec<Grown>,
    /// What kept dead rows from being removed as the window ended, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub horizon: Vec<HoldsHorizon>,
    /// What was not read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// Something with an old snapshot or an old transaction: rows that died since stay for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HoldsHorizon {
    /// `session`, `hidden session` (of another role), `prepared transaction`, `replication slot`, `standby`.
    pub kind: String,
    /// A session's process, or its name.
    pub name: String,
    /// Transactions that began since.
    pub transactions: f64,
    /// Its transaction's age in seconds; none for a slot or a standby.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// A session's state; of a slot `active` where something reads it, else `inactive`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// `application_name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub application: String,
    /// A session's statement without literals, or its last one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub statement: String,
    /// Whether rows of the catalogues alone stay for it (a logical slot's `catalog_xmin`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub catalogs_only: bool,
    /// Whether the horizon is the id of its own transaction, and not only the xmin of its snapshot, which it may share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_transaction: bool,
    /// Whether it held the same rows as the window began; of a session, in the same transaction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_before: bool,
}

/// A row of a statistics view over a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grown {
    /// Its name: `public.queue`.
    pub name: String,
    /// What it belongs to: an index's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// By how much each of its counters grew; those that did not are left out.
    pub grown: BTreeMap<String, f64>,
    /// How it stood at the end: rows, dead rows, pages.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, f64>,
}

impl Grown {
    /// By how much a counter grew.
    pub fn by(&self, counter: &str) -> f64 {
        self.grown.get(counter).copied().unwrap_or(0.0)
    }

    /// Scans of a table, by whatever way.
    pub fn scans(&self) -> f64 {
        self.by("idx_scan") + self.by("seq_scan")
    }

    /// Rows of a table that its scans read. One of an index alone reads none.
    pub fn rows_read(&self) -> f64 {
        self.by("idx_tup_fetch") + self.by("seq_tup_read")
    }

    /// How a figure of its state stood.
    pub fn stands(&self, figure: &str) -> Option<f64> {
        self.state.get(figure).copied()
    }
}
