//! A known bottleneck as it is reported: what was seen, what it means, what to do.

use serde::{Deserialize, Serialize};

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sureness {
    /// The evidence fits, and so would something else.
    Possible,
    /// The evidence fits this and hardly anything else, or a part of it is missing.
    Likely,
    /// The evidence names it.
    Sure,
}

impl Sureness {
    /// Its name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Sure => "sure",
        }
    }
}

/// A known bottleneck, found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name of the rule.
    pub id: String,
    /// What it is, one plain sentence.
    pub title: String,
    /// What was seen, with the figures.
    pub evidence: Vec<String>,
    /// What that means.
    pub explanation: String,
    /// What to do.
    pub remedy: String,
    /// The part of all time that would be won if the cause were gone altogether, 0 to 1:
    /// an upper bound by which findings are ranked. None where nothing can be said.
    pub gain_at_most: Option<f64>,
    /// How sure it is.
    pub sureness: Sureness,
    /// Where the knowledge comes from: commits of PostgreSQL, documents.
    pub sources: Vec<String>,
}

impl Finding {
    pub(super) fn new(id: &str, title: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.into(),
            evidence: Vec::new(),
            explanation: String::new(),
            remedy: String::new(),
            gain_at_most: None,
            sureness: Sureness::Sure,
            sources: Vec::new(),
        }
    }

    pub(super) fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    pub(super) fn means(mut self, explanation: impl Into<String>) -> Self {
        self.explanation = explanation.into();
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    pub(super) fn gain(mut self, share: f64) -> Self {
        self.gain_at_most = Some(share.clamp(0.0, 1.0));
        self
    }

    pub(super) fn sure(mut self, sureness: Sureness) -> Self {
        self.sureness = sureness;
        self
    }

    pub(super) fn source(mut self, source: impl Into<String>) -> Self {
        self.sources.push(source.into());
        self
    }

    /// The gain in words; none where nothing can be said.
    pub fn gain_in_words(&self) -> Option<String> {
        let share = self.gain_at_most?;
        Some(if share >= 0.95 {
            "nearly all of the time goes there".to_owned()
        } else {
            format!(
                "without it at most {:.2} times as much could be done",
                1.0 / (1.0 - share)
            )
        })
    }
}
