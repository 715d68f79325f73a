//! What a server said of itself, as recorded.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// What is done where commits wait for a synchronous standby, and none is connected.
pub const STANDBY_ABSENT: &str = "start the standby, or have the server not wait for it: ALTER SYSTEM SET \
     synchronous_standby_names = ''; SELECT pg_reload_conf()";

/// `facts/server-ARM.json`: what the server said of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// How the server came to be measured.
    pub origin: Origin,
    /// `version()` as the server gives it.
    pub version: Reading,
    /// `server_version_num`, 150018 for 15.18.
    pub version_num: Option<u32>,
    /// `pg_settings`, as a JSON array of `{name, setting, unit, source}`.
    pub settings: Reading,
    /// Path of the executable that serves, where it can be seen.
    pub executable: Reading,
    /// `pg_stat_database` of the measured database when the load began, as one JSON row.
    pub database_before: Option<Reading>,
    /// The pooler through which the server answered, where one is in between; what else is here is of a server behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<PoolerFacts>,
    /// The role that settings are those of, as SQL quotes it; none in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The database, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

/// A connection pooler, and the server behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolerFacts {
    /// The name of the process that listens.
    pub process: Reading,
    /// How many servers answered.
    pub servers: u32,
    /// Address and port of the server, as it sees itself.
    pub address: Reading,
    /// The system identifier of its cluster.
    pub system_identifier: Reading,
    /// Its first process, where that is on this machine.
    pub postmaster: Reading,
}

/// How a server came to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// Launched by pgassay from this bin directory and removed afterwards.
    Launched {
        /// The installation's bin directory.
        bin_dir: String,
        /// True for the archive that stands in where nothing was installed.
        #[serde(default)]
        stand_in: bool,
        /// True where the data directory was copied from one that initdb had made for an earlier run of the same build.
        #[serde(default)]
        prepared: bool,
    },
    /// A server that was there before.
    Running,
}
