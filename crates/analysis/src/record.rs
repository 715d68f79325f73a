//! What a run wrote down: raw, as it was seen.
//!
//! These types are the run directory's format. Text from `/proc` and rows from
//! `pg_stat_*` are kept as read and interpreted only by `crate::analyse`, so
//! a newer program can read more out of an old run. Fields are only ever added;
//! [`FORMAT`] counts the changes that an older program could not read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::Facts;
use crate::compare::plan::{ArmFacts, ComparisonPlan};
use crate::observed::{Observed, SymbolTable};
use crate::pgio::{PgioCounters, PgioPlan, PgioTrial};
use crate::plan::{Plan, Slice};
use crate::primitives::{PrimitiveTrial, PrimitivesPlan};
use crate::query_cost::QueryCostRecord;
use crate::scattered::{ScatteredPlan, ScatteredTrial};
use crate::storage::Storage;
use crate::warning::Warning;

/// Version of the run directory's format that this program writes.
pub const FORMAT: u32 = 1;

/// `run.json`: written first, never changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Always `pgassay/run/1`.
    pub schema: String,
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name of the run directory.
    pub id: String,
    /// The command that made the run: `assay`, `run` or `compare`.
    pub command: String,
    /// What was typed, passwords replaced by `***`.
    pub command_line: Vec<String>,
    /// Version of pgassay.
    pub pgassay_version: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// What was to be measured.
    pub plan: Plan,
}

/// Something read from the outside: its text, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The text as read.
    Text(String),
    /// Why it could not be read; missing is data.
    Unavailable(String),
}

impl Reading {
    /// The text, where there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Unavailable(_) => None,
        }
    }
}

/// One sampler's readings around the window of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// At the window's start.
    pub before: Reading,
    /// At the window's end.
    pub after: Reading,
    /// Time between the two readings, in nanoseconds.
    pub elapsed_ns: u64,
}

/// One line of `trials.jsonl`: a slice of load and what was seen around it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Which slice of the plan's schedule this is.
    pub slice: Slice,
    /// When the window started, UTC, RFC 3339.
    pub started: String,
    /// Length of the counted window as it was, in nanoseconds.
    pub window_ns: u64,
    /// Transactions that ended well within the window.
    pub transactions: u64,
    /// Failed transactions by SQLSTATE, or `connection` where the connection broke.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// Latency in nanoseconds from the intended start: an HDR histogram (V2, deflate, base64).
    pub latency: String,
    /// The same from the actual start, where a schedule makes the two differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_from_actual_start: Option<String>,
    /// Transactions completed in each of equal intervals of the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<u64>,
    /// Length of those intervals, in nanoseconds; 0 in runs of before they had one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interval_ns: u64,
    /// The latency of each interval, histograms like `latency`; empty where nothing ended in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interval_latency: Vec<String>,
    /// CPU time of the load threads in user mode, nanoseconds.
    pub client_user_ns: u64,
    /// CPU time of the load threads in the kernel, nanoseconds.
    pub client_system_ns: u64,
    /// The share of the window in which the busiest load thread ran, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_thread_share: Option<f64>,
    /// System calls of the load threads in the window; none in runs of before they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_calls: Option<ClientCalls>,
    /// All transactions of the slice, warm-up and tail included: the server counts these too.
    #[serde(default)]
    pub transactions_sent: u64,
    /// Readings by sampler id.
    #[serde(default)]
    pub samples: BTreeMap<String, Sample>,
    /// What observers saw within the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// CPU time of the server's sessions, by their own account, nanoseconds; where the
    /// load ran inside the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_ns: Option<u64>,
    /// Why the slice ended before its time; such a trial is kept and not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// How long the plan's `settle` statements took before this trial, in milliseconds; `None`
    /// where nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_ms: Option<f64>,
    /// Repetitions after serialization failures and deadlocks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// Starts that were left out because they would have missed the latency limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Transactions that ended well but later than the latency limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Starts that were meant to lie in the window and had not begun when it ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub behind: u64,
    /// Latency of the first transaction of each new connection, which is in no other histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Time to connect, where clients connect for each transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connects: Option<String>,
    /// By script of the plan, where there are several or statements are measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptRecord>,
}

/// System calls of the load threads, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCalls {
    /// recv
    pub receive: u64,
    /// send
    pub send: u64,
    /// epoll_wait, sleeps and timers
    pub wait: u64,
    /// io_uring_enter, each with the messages of several clients
    pub enter: u64,
    /// How many messages those were: 0 where the kernel refuses io_uring.
    pub gathered: u64,
}

impl ClientCalls {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.receive + self.send + self.wait + self.enter
    }

    /// The share of messages that went out with those of other clients; none without messages.
    pub fn gathered_share(&self) -> Option<f64> {
        let messages = self.send + self.gathered;
        (messages > 0).then(|| self.gathered as f64 / messages as f64)
    }
}

/// What one script came to in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptRecord {
    /// Transactions that ended well.
    pub transactions: u64,
    /// Transactions that failed.
    #[serde(default)]
    pub failures: u64,
    /// Latency from the intended start, a histogram like the trial's.
    #[serde(default)]
    pub latency: Option<String>,
    /// By command of the script, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<StatementRecord>,
}

/// What one command of a script came to in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StatementRecord {
    /// How often it failed.
    #[serde(default)]
    pub failures: u64,
    /// Its latencies, a histogram like the trial's; none where it never ran.
    #[serde(default)]
    pub latency: Option<String>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

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
}

/// How a server came to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// Launched by pgassay from this bin directory and removed afterwards.
    Launched {
        /// The installation's bin directory.
        bin_dir: String,
        /// True for the archive that stands in where nothing was installed.
        #[serde(default)]
        stand_in: bool,
    },
    /// A server that was there before.
    Running,
}

/// `facts/ceiling.json`: what this client did against a peer that answers at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// By client count of the plan.
    pub points: Vec<CeilingPoint>,
}

/// The client alone at one client count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CeilingPoint {
    /// Connections.
    pub clients: u32,
    /// Load threads.
    pub threads: u32,
    /// Transactions a second, the most of a few short slices.
    pub throughput_tps: f64,
    /// CPU time of the load threads for each transaction, microseconds, the least of them.
    pub client_cpu_us_per_transaction: f64,
}

impl CeilingPoint {
    /// Transactions a second beyond which this client does not come: what it did, or what its
    /// threads would do if they never had to wait, where the peer was what held them back.
    pub fn most_tps(&self) -> f64 {
        let busy = f64::from(self.threads) * 1e6 / self.client_cpu_us_per_transaction.max(1e-3);
        busy.max(self.throughput_tps)
    }
}

/// One line of `events.jsonl`: something that happened beside the trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// UTC, RFC 3339.
    pub at: String,
    /// What it means for the results.
    #[serde(flatten)]
    pub what: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum EventKind {
    /// A server was started for an arm.
    Launched {
        /// Index into the plan's arms.
        arm: u32,
    },
    /// The run went on after an interruption.
    Resumed,
    /// A point could not be reached and is left out from here on.
    PointSkipped {
        /// Index into the plan's points.
        point: u32,
        /// Why, in words for the report.
        reason: String,
    },
    /// Something the reader must know.
    Warned {
        /// The warning.
        warning: Warning,
    },
    /// `pg_stat_database` after the last connection closed, as one JSON row.
    DatabaseAfter {
        /// Index into the plan's arms.
        arm: u32,
        /// The row, or why there is none.
        row: Reading,
    },
}

/// `end.json`: written last. A run without one was killed, or is still running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// How it ended.
    pub state: EndState,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// UTC, RFC 3339.
    pub at: String,
    /// From the start of the command to here, in seconds.
    pub elapsed_seconds: f64,
    /// Most resident memory of pgassay itself, in bytes.
    #[serde(default)]
    pub max_rss_bytes: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// Every slice of the plan was measured.
    Complete,
    /// Somebody pressed Ctrl-C, or the process was told to stop.
    Interrupted,
    /// The server died or could not be reached any more.
    ServerDied,
    /// Something else failed; the reason says what.
    Failed,
}

/// A run as it lies in its directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedRun {
    /// `run.json`.
    pub header: RunHeader,
    /// Host facts, source path to text.
    pub host: BTreeMap<String, Reading>,
    /// Server facts by arm.
    pub servers: BTreeMap<u32, ServerFacts>,
    /// What lies under each arm's data directory.
    pub storage: BTreeMap<u32, Storage>,
    /// What inspect saw in the server's executable, by arm.
    pub binaries: BTreeMap<u32, Result<pgassay_inspect::Binary, String>>,
    /// `facts/check.json`: what the audit looked at beside the host and the binary.
    pub check: Option<Facts>,
    /// Names of functions that CPU samples hit, by arm.
    pub symbols: BTreeMap<u32, SymbolTable>,
    /// All whole lines of `trials.jsonl`.
    pub trials: Vec<TrialRecord>,
    /// `facts/comparison.json`, where arms were compared.
    pub comparison: Option<ComparisonPlan>,
    /// `facts/arm-N.json` by arm, likewise.
    pub arm_facts: BTreeMap<u32, ArmFacts>,
    /// `facts/ceiling.json`, where the client was measured alone.
    pub ceiling: Option<Ceiling>,
    /// `facts/primitives.json`, where primitives inside the server were measured.
    pub primitives_plan: Option<PrimitivesPlan>,
    /// All whole lines of `primitives.jsonl`.
    pub primitives: Vec<PrimitiveTrial>,
    /// `facts/query-cost.json`, where a query's way was sampled.
    pub query_cost: Option<QueryCostRecord>,
    /// `facts/scattered-read.json`, where scattered reads were measured.
    pub scattered_plan: Option<ScatteredPlan>,
    /// All whole lines of `scattered.jsonl`.
    pub scattered: Vec<ScatteredTrial>,
    /// `facts/second.json`: the plan of the assay's second load, where there is one.
    pub second_plan: Option<Plan>,
    /// All whole lines of `second.jsonl`.
    pub second: Vec<TrialRecord>,
    /// `facts/pgio.json`, where PGIO was run.
    pub pgio_plan: Option<PgioPlan>,
    /// All whole lines of `pgio.jsonl`.
    pub pgio: Vec<PgioTrial>,
    /// `facts/pgio-counters.json`.
    pub pgio_counters: Option<PgioCounters>,
    /// All whole lines of `events.jsonl`.
    pub events: Vec<Event>,
    /// `end.json`, or none.
    pub end: Option<RunEnd>,
    /// Another process holds the run: it is being measured now.
    pub running: bool,
    /// What was damaged when it was read, in words.
    pub damage: Vec<String>,
}
