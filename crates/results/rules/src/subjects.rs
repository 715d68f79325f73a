//! The statements, functions and tables that a finding is about, by their names and ids.
//!
//! Findings are held against each other by these, never by their words: two statements can begin alike, and a
//! function's name can be a part of any sentence.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::finding::Observation;
use pgassay_evidence::observed::statements::StatementTime;

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

impl Observation {
    /// The same, accounting for the time of these statements.
    pub(super) fn of_statements<'s>(
        mut self,
        statements: impl IntoIterator<Item = &'s StatementTime>,
    ) -> Self {
        let ids = statements.into_iter().map(|statement| statement.id.clone());
        self.subjects.statements.extend(ids);
        self
    }

    /// The same with the statement that most of the time goes to, where there is one.
    pub(super) fn most_in(self, statement: Option<&StatementTime>) -> Self {
        let named = statement.map(|s| format!("the one with the most time: {}", s.named()));
        self.all_seen(named).of_statements(statement)
    }

    /// The same, accounting for the CPU time of these functions.
    pub(super) fn of_functions<S: Into<String>>(
        mut self,
        symbols: impl IntoIterator<Item = S>,
    ) -> Self {
        let symbols = symbols.into_iter().map(Into::into);
        self.subjects.functions.extend(symbols);
        self
    }

    /// The same about these tables.
    pub(super) fn of_relations<S: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        self.subjects
            .relations
            .extend(names.into_iter().map(Into::into));
        self
    }

    /// The same, saying what other programs have of the CPUs.
    pub(super) fn of_other_programs(mut self, is: bool) -> Self {
        self.subjects.other_programs |= is;
        self
    }

    /// The same with what is usually behind it.
    pub(super) fn suspects(mut self, suspect: Suspect) -> Self {
        self.subjects.suspect = Some(suspect);
        self
    }
}
