//! What sessions of other programs and workers of autovacuum did beside the load.

use pgassay_model::observed::statements::{SeenStatement, StatementRecord};
use serde::{Deserialize, Serialize};

use super::statements::StatementWait;

/// A statement that is none of the load's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Beside {
    /// Its text without literals; what a worker of autovacuum says that it does.
    pub text: String,
    /// Sessions that were in it on average.
    pub sessions: f64,
    /// Of them at no wait event: on a CPU, or waiting for one.
    pub running: f64,
    /// What they waited for, in sessions, the longest first.
    pub waits: Vec<StatementWait>,
}

impl Beside {
    /// Sessions that wait at these events on average, by type and name.
    pub fn at(&self, pick: impl Fn(&str, &str) -> bool) -> f64 {
        let those = self.waits.iter().filter(|wait| {
            let (kind, event) = wait.name.split_once(':').unwrap_or_default();
            pick(kind, event)
        });
        those.map(|wait| wait.sessions).sum()
    }
}

/// Statements that are kept.
const KEPT: usize = 10;

/// Those of all windows, each once.
pub fn joined<'a>(records: impl Iterator<Item = &'a StatementRecord>) -> Vec<Beside> {
    let mut all: Vec<SeenStatement> = Vec::new();
    let mut looks = 0;
    for record in records {
        looks += record.looks;
        for statement in &record.statements {
            match all.iter_mut().find(|known| known.id == statement.id) {
                Some(known) => {
                    for at in &statement.at {
                        known.add(&at.kind, &at.event, at.count);
                    }
                }
                None => all.push(statement.clone()),
            }
        }
    }
    all.sort_by(|a, b| b.sightings().cmp(&a.sightings()).then(a.id.cmp(&b.id)));
    all.truncate(KEPT);
    let each = |count: u64| count as f64 / looks.max(1) as f64;
    let beside = all.into_iter().map(|statement| {
        let waits = statement.at.iter().filter(|at| !at.kind.is_empty());
        let mut waits: Vec<StatementWait> = waits
            .map(|at| StatementWait {
                name: format!("{}:{}", at.kind, at.event),
                sessions: each(at.count),
            })
            .collect();
        waits.sort_by(|a, b| b.sessions.total_cmp(&a.sessions));
        let running = statement.at.iter().filter(|at| at.kind.is_empty());
        Beside {
            running: each(running.map(|at| at.count).sum()),
            sessions: each(statement.sightings()),
            waits,
            text: statement.text,
        }
    });
    beside.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_of_two_windows_is_one() {
        let window = |looks, running, reading| {
            let mut seen = SeenStatement {
                id: "1".into(),
                text: "SELECT report".into(),
                ..SeenStatement::default()
            };
            seen.add("", "", running);
            seen.add("IO", "DataFileRead", reading);
            StatementRecord {
                looks,
                statements: vec![seen],
                others: 0,
            }
        };
        let (one, two) = (window(50, 30, 20), window(50, 60, 0));
        let joined = joined([&one, &two].into_iter());
        assert_eq!(joined.len(), 1);
        assert!((joined[0].sessions - 1.1).abs() < 1e-9);
        assert!((joined[0].running - 0.9).abs() < 1e-9);
        assert!((joined[0].at(|kind, _| kind == "IO") - 0.2).abs() < 1e-9);
    }
}
