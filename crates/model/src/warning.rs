//! Warnings: what a reader must know to take a figure for what it is worth.
//!
//! A warning rides on the value that it qualifies, into every output format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A qualification of a result.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Warning {
    /// Stable name for scripts, such as `client-bound`.
    pub id: String,
    /// What was seen and what it means, one or two sentences.
    pub text: String,
    /// What to do about it, where something can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Warning {
    /// A warning without a remedy.
    pub fn new(id: &str, text: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            text: text.into(),
            remedy: None,
        }
    }

    /// The same with what can be done about it.
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
