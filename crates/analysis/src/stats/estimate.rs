//! An estimate and how sure it is: the form of every figure in a report.

use serde::{Deserialize, Serialize};

use crate::warning::Warning;

/// A figure with its interval; what qualifies it travels with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate, in the unit that its key names.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Coverage of the interval, 0.95 for 95 %; with few trials the highest that they allow.
    pub level: f64,
    /// Trials that it rests on.
    pub n: usize,
    /// What qualifies it, such as too few trials.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}
