//! What is known of a host and a server when detectors look at them.

use std::collections::BTreeMap;

use crate::reading::Reading;
use crate::server::Origin;
use crate::storage::Directory;
use pgassay_inspect::Binary;
use serde::{Deserialize, Serialize};

/// Name and version of the document that `pgassay collect` writes.
pub const FACTS_SCHEMA: &str = "pgassay/facts/1";

/// Facts of a running server's processes: what the CPUs had done when they were first looked at,
/// the first line of /proc/stat.
pub const MACHINE_AT_FIRST: &str = "/proc/stat at first";
/// The same about a second later.
pub const MACHINE_LATER: &str = "/proc/stat later";
/// What each process had used at first, a line `PID run_ns wait_ns timeslices` each.
pub const PROCESSES_AT_FIRST: &str = "schedstat of the processes at first";
/// The same later.
pub const PROCESSES_LATER: &str = "schedstat of the processes later";
/// CPU time that processes which had ended by then had used, in ticks: the first process' account of its children.
pub const ENDED_AT_FIRST: &str = "ticks of the ended processes at first";
/// The same later.
pub const ENDED_LATER: &str = "ticks of the ended processes later";
/// Bytes that the server had written into its log at first.
pub const LOG_AT_FIRST: &str = "bytes of the log at first";
/// The same later.
pub const LOG_LATER: &str = "bytes of the log later";
/// Nanoseconds between the two.
pub const NANOSECONDS_BETWEEN: &str = "nanoseconds between";

/// Recorded facts, raw: texts of /proc and /sys, rows of the server's views.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// [`FACTS_SCHEMA`].
    pub schema: String,
    /// Version of the pgassay that collected.
    pub pgassay_version: String,
    /// When, UTC, RFC 3339.
    pub collected: String,
    /// The server as typed, without passwords.
    pub target: String,
    /// How the server came to be looked at; none where only the host was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Whether the host that was looked at is the server's.
    pub place: Place,
    /// The host: source (a path, a system call) to text, as in a run's `facts/host.json`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, Reading>,
    /// The directories of the server's files on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<Directory>,
    /// The server's answers: question to its rows, a JSON array of objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub server: BTreeMap<String, Reading>,
    /// Why the session ended before all questions were put to the server; none where it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_lost: Option<String>,
    /// The server's processes: name of a fact to its text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub process: BTreeMap<String, Reading>,
    /// What inspect saw in the server's executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<Result<Binary, String>>,
    /// The libraries that the server has loaded, where their atomics differ by build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libraries: Option<Result<Vec<Library>, String>>,
}

impl Facts {
    /// Facts of which nothing is known yet.
    pub fn empty(target: impl Into<String>) -> Self {
        Self {
            schema: FACTS_SCHEMA.to_owned(),
            pgassay_version: String::new(),
            collected: String::new(),
            target: target.into(),
            origin: None,
            place: Place::NoServer,
            host: BTreeMap::new(),
            directories: Vec::new(),
            server: BTreeMap::new(),
            session_lost: None,
            process: BTreeMap::new(),
            binary: None,
            libraries: None,
        }
    }
}

/// Where the server runs, seen from the host that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "server", content = "why")]
pub enum Place {
    /// On this host; the text says how that is known.
    Here(String),
    /// Elsewhere, or not known to be here: nothing of this host is held against it.
    Elsewhere(String),
    /// No server was looked at.
    NoServer,
}

/// A library in the server's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Library {
    /// Its path in the process's view.
    pub path: String,
    /// LSE instructions outside helpers.
    pub inline_lse: u64,
    /// Exclusive loads and stores outside helpers.
    pub inline_llsc: u64,
    /// Calls of outline helpers.
    pub outline_calls: u64,
}
