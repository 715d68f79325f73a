//! Warnings: what a reader must know to take a figure for what it is worth.
//!
//! A warning rides on the value that it qualifies, into every output format.

use serde::{Deserialize, Serialize};

/// A qualification of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

    /// What is to be known, as a sentence that another may follow.
    pub fn sentence(&self) -> String {
        ended(&self.text)
    }

    /// The whole warning: what is to be known, and what to do about it.
    pub fn in_words(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{} What to do: {remedy}", self.sentence()),
            None => self.sentence(),
        }
    }
}

/// A text with an end, so that another sentence may follow.
fn ended(text: &str) -> String {
    let text = text.trim_end();
    match text.ends_with(['.', '!', '?', ':', '…']) || text.is_empty() {
        true => text.to_owned(),
        false => format!("{text}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tried: a warning without a full stop ran into what to do about it.
    #[test]
    fn what_to_do_follows_a_whole_sentence() {
        let warning = Warning::new("x", "the server died").with_remedy("start it");
        assert_eq!(warning.in_words(), "the server died. What to do: start it");
        assert_eq!(Warning::new("x", "It died!").in_words(), "It died!");
    }
}
