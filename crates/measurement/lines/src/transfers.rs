//! What replayed sessions come to: transfers of lines, and transactions in time.

use serde::{Deserialize, Serialize};

/// Student's t at 97.5 % for four degrees of freedom.
const T: f64 = 2.776;

/// Transfers at one number of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transfers {
    /// Sessions.
    pub sessions: usize,
    /// Transfers a transaction, over the repetitions.
    pub per_transaction: Interval,
    /// The memory that is transferred most.
    pub lines: Vec<LineTransfers>,
    /// Single lines by how often they go to another owner, the most first.
    pub owners: Vec<LineOwners>,
    /// What the sessions get through in time; only where a processor was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed: Option<Timed>,
}

/// A mean with its interval of 95 %, of repetitions with different interleavings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The mean.
    pub estimate: f64,
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    pub(crate) fn of(values: &[f64]) -> Self {
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = T * (squares / (n - 1.0).max(1.0) / n).sqrt();
        Self {
            estimate: mean,
            low: (mean - half).max(0.0),
            high: mean + half,
        }
    }
}

/// A line's share in the transfers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineTransfers {
    /// Its name.
    pub name: String,
    /// Transfers a transaction.
    pub per_transaction: Interval,
}

/// How often a line goes to another owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineOwners {
    /// Its name.
    pub name: String,
    /// Transfers a transaction after which the line is written.
    pub owned: Interval,
    /// Those of them before which the session had not used the line for so long that another one
    /// could have had it meanwhile; only where that time was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits: Option<Interval>,
}

/// What N sessions get through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timed {
    /// Transactions a second of all sessions; from hand-overs that take a quarter longer to such that take
    /// a quarter less, over interleavings.
    pub tps: Interval,
    /// For which lines sessions wait, the longest first.
    pub waits: Vec<LineWait>,
}

impl Timed {
    /// No more than what the narrowest line allows.
    pub(crate) fn at_most(mut self, most: Option<f64>) -> Self {
        if let Some(most) = most {
            let tps = &mut self.tps;
            for value in [&mut tps.estimate, &mut tps.low, &mut tps.high] {
                *value = value.min(most);
            }
        }
        self
    }
}

/// Waiting for a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineWait {
    /// Its name.
    pub name: String,
    /// Its share in the time of all sessions.
    pub share: f64,
}
