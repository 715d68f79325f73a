//! Statements as the sampler of wait events saw them.

use serde::{Deserialize, Serialize};

/// What was seen of statements in one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementRecord {
    /// Looks at all sessions.
    pub looks: u64,
    /// The statements, those seen most first.
    pub statements: Vec<SeenStatement>,
    /// Sightings of statements beyond those that are kept.
    #[serde(default)]
    pub others: u64,
}

/// A statement in one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeenStatement {
    /// What tells it from others, by its text without literals.
    pub id: String,
    /// That text, cut; empty where only its number was seen.
    pub text: String,
    /// The numbers that the server gives it (`query_id`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_ids: Vec<i64>,
    /// Sightings by wait event; both names are empty for none.
    pub at: Vec<Sighting>,
}

/// How often a statement was seen at a wait event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sighting {
    /// `wait_event_type`; empty for none.
    #[serde(rename = "type")]
    pub kind: String,
    /// `wait_event`; empty for none.
    pub event: String,
    /// Sessions seen there, summed over the looks.
    pub count: u64,
}

impl SeenStatement {
    /// Sightings in all.
    pub fn sightings(&self) -> u64 {
        self.at.iter().map(|s| s.count).sum()
    }

    /// Adds sightings at a wait event.
    pub fn add(&mut self, kind: &str, event: &str, count: u64) {
        let mut known = self.at.iter_mut();
        match known.find(|at| at.kind == kind && at.event == event) {
            Some(at) => at.count += count,
            None => self.at.push(Sighting {
                kind: kind.to_owned(),
                event: event.to_owned(),
                count,
            }),
        }
    }
}
