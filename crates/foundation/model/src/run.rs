//! A run's own account: what was asked for, what happened beside its trials, how it ended.
//!
//! Fields are only ever added; [`FORMAT`] counts the changes that an older program could not read.

use serde::{Deserialize, Serialize};

use crate::plan::Experiment;
use crate::reading::Reading;
use crate::stage::StageId;
use crate::warning::Warning;

/// Version of the run directory's format that this program writes.
pub const FORMAT: u32 = 1;

/// `run.json`: written first, and again where a stage is decided on later.
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
    /// What is to be measured.
    pub experiment: Experiment,
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
    /// Somebody asked for a pause, and no trial runs from here on.
    Paused {
        /// When it goes on by itself.
        at_most_seconds: u64,
    },
    /// The pause is over.
    Unpaused {
        /// How long it was.
        seconds: f64,
    },
    /// A point could not be reached and is left out from here on.
    PointSkipped {
        /// Which of the run's stages.
        stage: StageId,
        /// Index into its points.
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

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Every slice of the plan was measured.
    Complete,
    /// Stopped by Ctrl-C, or killed.
    Interrupted,
    /// The server died or could not be reached any more.
    ServerDied,
    /// Something else failed.
    Failed,
    /// It is being measured by another process.
    Running,
}

impl From<EndState> for RunState {
    fn from(state: EndState) -> Self {
        match state {
            EndState::Complete => Self::Complete,
            EndState::Interrupted => Self::Interrupted,
            EndState::ServerDied => Self::ServerDied,
            EndState::Failed => Self::Failed,
        }
    }
}
