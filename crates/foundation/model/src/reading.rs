//! What is read from the outside: a text, or the reason why there is none.

use serde::{Deserialize, Serialize};

/// Something read from the outside: its text, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// At the window's start.
    pub before: Reading,
    /// At the window's end.
    pub after: Reading,
    /// Time between the two readings, in nanoseconds.
    pub elapsed_ns: u64,
}
