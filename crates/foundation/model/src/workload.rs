//! What clients do, and over which tables: enough to run it again without the files that it came from.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Its multiples lie far apart within 1.
const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;

/// The workload of a plan, enough to run it again without the files that it came from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadPlan {
    /// Its registered name, such as `select-only`, or the scripts' names joined.
    pub name: String,
    /// pgbench's scale, 100,000 accounts each; of order entry the number of warehouses.
    pub scale: u32,
    /// pgbench's protocol mode: `simple`, `extended` or `prepared`.
    pub protocol: String,
    /// What the clients run; empty in old runs, where the name says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptPlan>,
    /// What the commands of each script are, a line each, where they are measured one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Vec<String>>,
    /// Whether it changes the tables.
    #[serde(default)]
    pub writes: bool,
    /// Whether it runs without pgbench's tables.
    #[serde(default)]
    pub without_pgbench_tables: bool,
    /// Statements that make what it needs besides, in our schema; `:scale` stands for the scale.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// Statements before each trial of a writing workload, on servers that we launched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settle: Vec<String>,
    /// A question whose answer is true as long as no transaction was lost or half done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// What must hold in the tables after the load; where it does not, the run ends with an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Tables of ours that it runs on beside those of `setup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSet>,
    /// Connections that are open beside the load and do nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: u32,
    /// The file of the sessions of which it was made, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<String>,
    /// These are replayed, in place of scripts drawn by weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayPlan>,
    /// How the clients behave.
    #[serde(default, skip_serializing_if = "Dials::are_default")]
    pub dials: Dials,
    /// How pgbench's tables are made.
    #[serde(default, skip_serializing_if = "Tables::are_default")]
    pub tables: Tables,
}

impl WorkloadPlan {
    /// Clients that run one script each, with those of a point.
    pub fn own_clients(&self) -> u32 {
        let own = self.scripts.iter().filter_map(|script| script.clients);
        own.fold(0, u32::saturating_add)
    }

    /// Connections that are open besides those of a point's clients.
    pub fn further_connections(&self) -> u32 {
        self.idle.saturating_add(self.own_clients())
    }

    /// Whether its statements are about somebody's own tables: it makes none, and does without ours.
    pub fn is_on_own_tables(&self) -> bool {
        let ours = !self.setup.is_empty() || self.data.is_some();
        self.without_pgbench_tables && !ours && !self.scripts.is_empty()
    }
}

/// Recorded sessions, and how they are replayed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayPlan {
    /// How many sessions there are.
    pub sessions: u64,
    /// How many there were at once: the connections of a replay at the original pace.
    pub connections: u32,
    /// How many transactions there are.
    pub transactions: u64,
    /// From the first to the last, in milliseconds as recorded.
    pub length_ms: u64,
    /// When transactions begin.
    pub pace: Pace,
    /// By how much all times are divided.
    pub speed: f64,
    /// SHA-256 of the file that they stand in, in hexadecimal; empty in plans of older programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
}

impl ReplayPlan {
    /// How long the whole takes at its pace, where that is known beforehand.
    pub fn seconds(&self) -> Option<f64> {
        let milliseconds = (self.length_ms as f64 / self.speed).ceil();
        (self.pace == Pace::Original).then_some(milliseconds / 1000.0)
    }

    /// Where in the recording a round of trials begins that each take so many milliseconds, on the recording's clock;
    /// beyond its end it begins anew. It is the same for all arms. Rounds go on where the one before ended, and launches
    /// are spread over the recording. In a closed loop nobody knows how far a round comes: they are spread, too.
    pub fn begins(&self, round: u32, trial_ms: u64, launches: Launches) -> Duration {
        let length = self.length_ms as f64;
        let launch = f64::from(round / launches.rounds.max(1));
        let of_launch = f64::from(round % launches.rounds.max(1));
        let passed = match self.pace {
            Pace::Closed => (of_launch * GOLDEN_RATIO).fract() * length,
            Pace::Original | Pace::ThinkTimes => of_launch * trial_ms as f64 * self.speed,
        };
        let milliseconds = passed + length * launch / f64::from(launches.count.max(1));
        Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default()
    }
}

impl fmt::Display for ReplayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pace, self.speed) {
            (Pace::Original, 1.0) => f.write_str("replayed at the original pace"),
            (Pace::Original, speed) => write!(f, "replayed at {speed} times the original pace"),
            (Pace::ThinkTimes, 1.0) => f.write_str("replayed with its think times"),
            (Pace::ThinkTimes, speed) => {
                write!(f, "replayed with its think times divided by {speed}")
            }
            (Pace::Closed, _) => f.write_str("replayed in a closed loop"),
        }
    }
}

/// How rounds of trials are shared out over launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launches {
    /// How many launches there are.
    pub count: u32,
    /// How many rounds each has.
    pub rounds: u32,
}

impl Default for Launches {
    fn default() -> Self {
        Self {
            count: 1,
            rounds: u32::MAX,
        }
    }
}

/// When recorded transactions begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// When they began, whatever the server does.
    #[default]
    Original,
    /// As long after the one before in their session as they did.
    ThinkTimes,
    /// At once.
    Closed,
}

/// A condition on the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Condition {
    /// Its name or number.
    pub name: String,
    /// A question whose answer is true if it holds.
    pub question: String,
}

/// Tables that are filled by a program, not by statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DataSet {
    /// The nine tables of order entry; the scale is the number of warehouses.
    OrderEntry,
}

/// How long a person takes around a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pause {
    /// Typing before it, in milliseconds.
    pub keying_ms: u32,
    /// Thinking after it, in milliseconds: the mean of an exponential distribution.
    pub thinking_ms: u32,
}

/// One script of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScriptPlan {
    /// Its name: the file's, or the built-in's.
    pub name: String,
    /// Its share among the workload's scripts.
    pub weight: u32,
    /// Clients that run this script and no other, concurrently with those of each point, which do not run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Its text, as it was when the run began.
    pub text: String,
    /// How long a person takes around it, where clients wait so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

/// How clients behave, where it is not the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Dials {
    /// Transactions meant to start a second over all clients; `None` is a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_tps: Option<f64>,
    /// The rate at the end of each trial's window, where it changes evenly over the window from `rate_tps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_end_tps: Option<f64>,
    /// Starts that are later than this are left out, transactions that take longer are late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_limit_ms: Option<f64>,
    /// How often a transaction is tried after serialization failures and deadlocks; 0 is without
    /// limit, `None` once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tries: Option<u32>,
    /// A connection for each transaction; latencies include connecting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reconnect: bool,
    /// Latency of each statement.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub per_statement: bool,
    /// Clients wait around each transaction as long as the scripts' pauses say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub think_times: bool,
    /// Variables that scripts find set, as texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub define: Vec<(String, String)>,
    /// CPUs that the load threads are kept on; the launched server has the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_cpus: Vec<usize>,
}

/// How pgbench's tables are made, where it is not the default: what `pgbench -i` has options for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tables {
    /// Percent; `None` is 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fillfactor: Option<u32>,
    /// Partitions of pgbench_accounts; 0 is an ordinary table.
    #[serde(skip_serializing_if = "is_zero")]
    pub partitions: u32,
    /// `range`, as is `None`, or `hash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_method: Option<String>,
    /// Without WAL.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// With foreign keys between them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreign_keys: bool,
    /// Of the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tablespace: Option<String>,
    /// Of the primary keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_tablespace: Option<String>,
}

impl Tables {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Dials {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_go_through_a_recording_and_launches_are_spread_over_it() {
        let plan = |pace| ReplayPlan {
            length_ms: 60_000,
            speed: 2.0,
            pace,
            ..ReplayPlan::default()
        };
        let launches = Launches {
            count: 4,
            rounds: 10,
        };
        let begins = |pace, round| plan(pace).begins(round, 1_000, launches).as_millis();
        for pace in [Pace::Original, Pace::ThinkTimes] {
            let all = [0, 1, 9, 10, 11, 30].map(|round| begins(pace, round));
            assert_eq!(all, [0, 2_000, 18_000, 15_000, 17_000, 45_000]);
        }
        let closed: Vec<u128> = (0..10).map(|round| begins(Pace::Closed, round)).collect();
        for (n, one) in closed.iter().enumerate() {
            assert!(*one < 60_000);
            assert!(closed[..n].iter().all(|other| one.abs_diff(*other) > 3_000));
        }
        let alone = plan(Pace::Original).begins(u32::MAX - 1, 1_000, Launches::default());
        assert!(alone > Duration::ZERO);
    }
}
