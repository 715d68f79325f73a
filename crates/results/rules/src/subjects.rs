//! The statements, functions and tables that a finding is about, by their names and ids.
//!
//! Findings are held against each other by these, never by their words: two statements can begin alike, and a
//! function's name can be a part of any sentence.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subjects {
    /// Ids of the statements whose time it accounts for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub statements: BTreeSet<String>,
    /// Functions of which it says what their CPU time goes to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub functions: BTreeSet<String>,
    /// Tables that are read or hold what it found.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub relations: BTreeSet<String>,
    /// Whether it says what other programs have of the CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_programs: bool,
    /// What is usually behind it, where other findings can confirm that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspect: Option<Suspect>,
}

/// What is usually behind a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Suspect {
    /// Processes that start and end: parallel workers, short sessions.
    ProcessStarts,
    /// Memory that statements allocate and free.
    PrivateMemory,
}

impl Subjects {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds those of another finding of the same.
    pub(super) fn join(&mut self, other: Self) {
        self.statements.extend(other.statements);
        self.functions.extend(other.functions);
        self.relations.extend(other.relations);
        self.other_programs |= other.other_programs;
        self.suspect = self.suspect.or(other.suspect);
    }
}
