//! What was measured, before anything is concluded from it: how the run went, and of each server the
//! metrics at each client count, with what observers saw beside them.

use std::collections::BTreeMap;

use pgassay_model::axis::AxisValue;
use pgassay_model::confinement::ConfinementPlan;
use pgassay_model::point::Point;
use pgassay_model::run::RunState;
use pgassay_model::server::Origin;
use pgassay_model::storage::Storage;
use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::checkpoints::Checkpoints;
use crate::latency::LatencyDetail;
use crate::levels::PointLevels;
use crate::metrics::{MetricId, THROUGHPUT};
use crate::observed::ArmObserved;
use crate::server::{Setting, SettingsOf};
use pgassay_stats::Estimate;

/// How far a machine that gives load is from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTrip {
    /// The machine, as typed.
    pub name: String,
    /// The shortest time in which the server answered an empty query of it before the load, microseconds: the
    /// network's round trip, and what both ends take to wake up.
    pub us: f64,
}

/// A run's identity and how it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunInfo {
    /// Name of the run directory.
    pub id: String,
    /// `assay`, `run` or `compare`.
    pub command: String,
    /// What was typed, passwords replaced.
    pub command_line: Vec<String>,
    /// Version of pgassay that measured.
    pub pgassay_version: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// The machines that the load came from, as typed; empty where it was the measuring process alone. CPU
    /// time of the client is theirs together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// How far those are from the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trips: Vec<RoundTrip>,
    /// Whether it completed.
    pub state: RunState,
    /// Why it did not complete.
    pub reason: Option<String>,
    /// Duration of the whole command in seconds, where it ended by itself.
    pub elapsed_seconds: Option<f64>,
    /// Trials that were measured and count.
    pub trials_measured: u32,
    /// Trials that the plan asked for.
    pub trials_planned: u32,
    /// Most resident memory of pgassay itself, in bytes.
    pub max_rss_bytes: Option<u64>,
}

/// How one server did under one load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageArm {
    /// The server's short name in tables.
    pub label: String,
    /// One entry a client count, ascending; none where the load is not clients over the wire.
    pub points: Vec<PointAnalysis>,
    /// Where the bytes came from: logical reads, misses, device reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<ReadsAnalysis>,
    /// Log and checkpoints within the windows; absent where they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Checkpoints>,
    /// What observers saw beside the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<ArmObserved>,
}

impl StageArm {
    /// The point of the highest throughput.
    pub fn peak(&self) -> Option<&PointAnalysis> {
        let rate = |point: &PointAnalysis| point.throughput_tps.estimate;
        let measured = self.points.iter().filter(|point| rate(point).is_finite());
        measured.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }
}

/// One server: what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmAnalysis {
    /// Short name in tables.
    pub label: String,
    /// The server in words.
    pub target: String,
    /// The target as typed, without passwords; empty where none was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub typed: String,
    /// Settings that were asked for, in the order given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(String, String)>,
    /// What was asked for it of the machine.
    #[serde(flatten)]
    pub confinement: ConfinementPlan,
    /// What it has of each axis that was varied beside clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisValue>,
    /// What the server is.
    pub server: Option<ServerSummary>,
    /// What inspect saw in its executable; the text says why there is none.
    #[serde(with = "seen")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "seen::Seen<pgassay_inspect::Binary>")
    )]
    pub binary: Result<pgassay_inspect::Binary, String>,
    /// Which path its atomics take on this host, and what that costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<pgassay_inspect::cpu::Verdict>,
    /// The server's own count of transactions against the client's.
    pub commit_check: Option<CommitCheck>,
}

/// What the read metrics of one server rest on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadsAnalysis {
    /// What lies under the data directory.
    pub storage: Storage,
    /// The server's block size, in bytes.
    pub block_size_bytes: u64,
    /// What can't be seen, and why.
    pub unseen: Vec<String>,
}

/// What the server said of itself, as far as it bears on the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerSummary {
    /// Launched or running.
    pub origin: Origin,
    /// `version()`.
    pub version: String,
    /// `server_version_num`.
    pub version_num: Option<u32>,
    /// Path of the executable, or why it can't be seen.
    pub executable: String,
    /// The settings that bear on the figures, in a fixed order.
    pub settings: Vec<Setting>,
    /// All of them; not in JSON.
    #[serde(skip)]
    pub all_settings: Vec<Setting>,
    /// The role and the database that they hold for; not in JSON.
    #[serde(skip)]
    pub place: SettingsOf,
}

/// How one server did at one client count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointAnalysis {
    /// Clients and threads.
    pub point: Point,
    /// Transactions a second, with the interval over trials.
    pub throughput_tps: Estimate,
    /// All other metrics, with the intervals over trials; those that were not seen are missing.
    pub metrics: BTreeMap<MetricId, Estimate>,
    /// Latency in microseconds, of all trials together.
    pub latency_us: LatencyRange,
    /// System calls of pgassay's load threads for each transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_calls_per_transaction: Option<f64>,
    /// The share of the client's messages that io_uring sent together with those of other clients,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_gathered_share: Option<f64>,
    /// Share of the machine's CPU time that neither server nor client used, 0 to 1: the median of
    /// the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share: Option<f64>,
    /// The same in CPUs, of which clients on other machines have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_cpus: Option<f64>,
    /// Failed transactions of all counted trials by SQLSTATE.
    pub failures: Vec<(String, u64)>,
    /// Transactions a second beyond which this client does not come, where it was measured alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_tps: Option<f64>,
    /// Latency in all detail: far percentiles, scripts and statements, over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<LatencyDetail>,
    /// The levels at which throughput lies, where it is more than one: then nothing was measured at the estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<PointLevels>,
    /// Every trial, in the order in which they ran.
    pub trials: Vec<TrialAnalysis>,
    /// What qualifies this point.
    pub warnings: Vec<Warning>,
}

impl PointAnalysis {
    /// A metric at this point; none where it was not seen.
    pub fn estimate(&self, metric: MetricId) -> Option<&Estimate> {
        match metric == THROUGHPUT {
            true => Some(&self.throughput_tps),
            false => self.metrics.get(&metric),
        }
    }

    /// A metric in each of the trials that show it.
    pub fn values(&self, metric: MetricId) -> impl Iterator<Item = f64> {
        self.trials.iter().filter_map(move |t| t.value(metric))
    }
}

/// Latency at one point, microseconds from the intended start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRange {
    /// Transactions that the percentiles are read from.
    pub count: u64,
    /// The mean; for checks against other tools, not for judgement.
    pub mean: f64,
    /// The longest of all trials.
    pub max: f64,
}

/// One trial, reduced to its metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialAnalysis {
    /// Position in the schedule.
    pub index: u32,
    /// Transactions a second.
    pub throughput_tps: f64,
    /// All other metrics that it shows.
    pub metrics: BTreeMap<MetricId, f64>,
}

impl TrialAnalysis {
    /// A metric of this trial; none where it was not seen.
    pub fn value(&self, metric: MetricId) -> Option<f64> {
        match metric == THROUGHPUT {
            true => Some(self.throughput_tps),
            false => self.metrics.get(&metric).copied(),
        }
    }
}

/// Whether server and client counted the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommitCheck {
    /// Transactions that the client sent over the whole run, warm-ups included.
    pub client_transactions: u64,
    /// `xact_commit` over the same time, by `pg_stat_database`; set-up included, what our observers sent not.
    pub server_commits: u64,
}

/// `{"seen": …}` or `{"unavailable": "why"}`: a `Result` under names that suit a document.
mod seen {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Seen<T> {
        /// What was seen.
        Seen(T),
        /// Why there is none.
        Unavailable(String),
    }

    pub fn serialize<T: Serialize, S: Serializer>(
        result: &Result<T, String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match result {
            Ok(seen) => Seen::Seen(seen),
            Err(why) => Seen::Unavailable(why.clone()),
        }
        .serialize(serializer)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Result<T, String>, D::Error> {
        Ok(match Seen::deserialize(deserializer)? {
            Seen::Seen(seen) => Ok(seen),
            Seen::Unavailable(why) => Err(why),
        })
    }
}
