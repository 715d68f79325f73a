//! One trial, whatever the load was: what was counted in its window, and what was seen around it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machines::MachineRecord;
use crate::observed::Observed;
use crate::observed::stacks::StackRecord;
use crate::pgio::PgioSession;
use crate::point::Slice;
use crate::primitives::InServerTrial;
use crate::reading::Sample;
use crate::scattered::ExecutionRecord;
use crate::stage::StageId;

/// One line of `trials.jsonl`: a slice of load and what was seen around it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Which of the run's stages it belongs to.
    pub stage: StageId,
    /// Which slice of the stage's schedule this is.
    pub slice: Slice,
    /// When the window started, UTC, RFC 3339.
    pub started: String,
    /// Length of the counted window as it was, in nanoseconds.
    pub window_ns: u64,
    /// Units of work that ended well within the window: transactions, or what else the load counts.
    pub transactions: u64,
    /// Failed transactions by SQLSTATE, or `connection` where the connection broke.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// An example of each: script, line, command, and what the server or the client said of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failure_examples: BTreeMap<String, String>,
    /// Latency in nanoseconds from the intended start: an HDR histogram (V2, deflate, base64); empty
    /// where single transactions are not timed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
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
    /// Sum of the delays from the intended to the actual start, in nanoseconds, where there is a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_sum_ns: Option<f64>,
    /// The longest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_max_ns: Option<u64>,
    /// Latency of the first transaction of each new connection, which is in no other histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Time to connect, where clients connect for each transaction; it is part of the latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connects: Option<String>,
    /// By script of the plan, where there are several or statements are measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptRecord>,
    /// Why the CPU time of statements was not measured, where that was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_metered: Option<String>,
    /// The machines that gave the load, where that was said with `--from`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineRecord>,
    /// What only this kind of load tells.
    #[serde(default, skip_serializing_if = "Raw::is_none")]
    pub raw: Raw,
}

/// What a load tells beyond what all tell, as it was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Raw {
    /// Nothing.
    #[default]
    None,
    /// Sessions that call a primitive inside the server.
    InServer(InServerTrial),
    /// PGIO's sessions.
    Pgio(Vec<PgioSession>),
    /// One execution of a query that reads scattered blocks.
    ScatteredRead(Box<ExecutionRecord>),
    /// CPU samples of one way of executing a query.
    QueryWay(StackRecord),
}

impl Raw {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Trial {
    /// Whether it counts: it was measured to its end.
    pub fn counts(&self) -> bool {
        self.cut_short.is_none() && self.window_ns > 0
    }

    /// The execution of scattered reads, where it is one.
    pub fn execution(&self) -> Option<&ExecutionRecord> {
        match &self.raw {
            Raw::ScatteredRead(raw) => Some(raw),
            _ => None,
        }
    }

    /// CPU time of the client in its window, in nanoseconds.
    pub fn client_ns(&self) -> u64 {
        self.client_user_ns + self.client_system_ns
    }
}

/// System calls of the load threads, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScriptRecord {
    /// Its name; empty in runs of before it was kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementRecord {
    /// How often it failed.
    #[serde(default)]
    pub failures: u64,
    /// Its latencies, a histogram like the trial's; none where it never ran.
    #[serde(default)]
    pub latency: Option<String>,
    /// What it took of the server's CPUs when a session ran it with no load beside it; none where that was
    /// not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<StatementCpu>,
}

/// CPU time of a statement in the server, over so many executions by one session, one at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementCpu {
    /// Executions that ended well.
    pub executions: u64,
    /// CPU time of the session's process, nanoseconds.
    pub own_ns: u64,
    /// CPU time of children of the server's first process that ended meanwhile, in ticks of 10 ms: its parallel
    /// workers, and whatever else ended then.
    pub ended_ticks: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}
