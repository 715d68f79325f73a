//! One thing to do.

use serde::{Deserialize, Serialize};

/// A step of a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// How it is carried out.
    pub kind: StepKind,
    /// The command, the statement, or the advice.
    pub text: String,
}

/// How a step of a remedy is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// In a shell, mostly as root.
    Shell,
    /// In the server, mostly as superuser.
    Sql,
    /// By thinking.
    Advice,
}

impl Step {
    /// Advice that is no command.
    pub fn advice(text: impl Into<String>) -> Self {
        Self {
            kind: StepKind::Advice,
            text: text.into(),
        }
    }
}
