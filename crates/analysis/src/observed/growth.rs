//! What the server's own counters grew by over a window: of statements, tables, indexes.
//!
//! Servers count since they were last reset, so that only the difference over a window says what
//! it did. Of thousands of rows those that grew most are kept, with the columns that grew.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The counters of one window.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct GrowthRecord {
    /// By pg_stat_statements, named by `queryid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<Grown>,
    /// By pg_stat_user_tables and pg_statio_user_tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Grown>,
    /// By pg_stat_user_indexes and pg_statio_user_indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Grown>,
    /// By pg_stat_slru, from 13 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slru: Vec<Grown>,
    /// By pg_stat_user_functions, where `track_functions` counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Grown>,
    /// What was not read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// A row of a statistics view over a window.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Grown {
    /// Its name: `public.queue`.
    pub name: String,
    /// What it belongs to: an index's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// By how much each of its counters grew; those that did not are left out.
    pub grown: BTreeMap<String, f64>,
    /// How it stood at the end: rows, dead rows, pages.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, f64>,
}

impl Grown {
    /// By how much a counter grew.
    pub fn by(&self, counter: &str) -> f64 {
        self.grown.get(counter).copied().unwrap_or(0.0)
    }

    /// How a figure of its state stood.
    pub fn stands(&self, figure: &str) -> Option<f64> {
        self.state.get(figure).copied()
    }
}

/// Joins rows of several windows by name.
pub fn joined<'r>(windows: impl Iterator<Item = &'r [Grown]>) -> Vec<Grown> {
    let mut all: BTreeMap<&str, Grown> = BTreeMap::new();
    for row in windows.flatten() {
        let known = all.entry(&row.name).or_default();
        known.name.clone_from(&row.name);
        known.of.clone_from(&row.of);
        known.state.clone_from(&row.state);
        for (counter, by) in &row.grown {
            *known.grown.entry(counter.clone()).or_default() += by;
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_add_up_and_the_last_state_stays() {
        let row = |by: f64, dead: f64| Grown {
            name: "public.queue".into(),
            of: None,
            grown: BTreeMap::from([("n_tup_del".to_owned(), by)]),
            state: BTreeMap::from([("n_dead_tup".to_owned(), dead)]),
        };
        let (one, two) = ([row(5.0, 5.0)], [row(7.0, 12.0)]);
        let all = joined([one.as_slice(), two.as_slice()].into_iter());
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].by("n_tup_del"), all[0].by("idx_scan")), (12.0, 0.0));
        assert_eq!(
            (all[0].stands("n_dead_tup"), all[0].stands("x")),
            (Some(12.0), None)
        );
    }
}
