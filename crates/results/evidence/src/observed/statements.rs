//! Statements: which ones the sessions' time went to.
//!
//! The sampler of wait events sees the statement of each session that is in one. What the kernel
//! and the samples account for is divided among them by how often each was seen: its time at a
//! wait event by that event's sightings, its time on a CPU, waiting for one, or off it without an
//! event by its sightings at no event. Exact times by statement are pg_stat_statements' alone.

use std::collections::BTreeMap;

use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::Plan;
use pgassay_model::observed::statements::{SeenStatement, StatementRecord};
use serde::{Deserialize, Serialize};

use super::budget::{Budget, Wait};

/// What the sessions' time went to, by statement, at a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementAnalysis {
    /// Looks at all sessions that it rests on.
    pub looks: u64,
    /// Sightings of sessions in a statement.
    pub sightings: u64,
    /// The statements, those with the most time first.
    pub statements: Vec<StatementTime>,
    /// Sessions in statements beyond those.
    pub other_sessions: f64,
    /// Of the execution time of all sessions that pg_stat_statements counted, what went to statements in which no
    /// session of the load was seen; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Elsewhere>,
}

/// Execution of statements that are not the load's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Elsewhere {
    /// Their share of all execution time, 0 to 1.
    pub share: f64,
    /// The number that the server gives to that with the most time.
    pub query_id: String,
    /// Its calls over the windows.
    pub calls: f64,
    /// Its execution, milliseconds a call.
    pub execution_ms: f64,
}

impl Elsewhere {
    /// Of the growth of all statements, and the numbers of those that the load's sessions were in.
    fn of(grown: &[Grown], seen: &[StatementTime]) -> Option<Self> {
        // Up to 13 a session does not tell its statement's number.
        if seen.is_empty() || seen.iter().any(|statement| statement.query_ids.is_empty()) {
            return None;
        }
        let took = |row: &Grown| row.by("total_exec_time").max(row.by("total_time"));
        let is_seen = |row: &Grown| {
            let mut ids = seen.iter().flat_map(|statement| &statement.query_ids);
            ids.any(|id| id.to_string() == row.name)
        };
        let all: f64 = grown.iter().map(took).sum();
        let others = || grown.iter().filter(|row| !is_seen(row));
        let most = others().max_by(|a, b| took(a).total_cmp(&took(b)))?;
        (all > 0.0).then(|| Self {
            share: others().map(took).sum::<f64>() / all,
            query_id: most.name.clone(),
            calls: most.by("calls"),
            execution_ms: took(most) / most.by("calls").max(1.0),
        })
    }
}

/// One statement's time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementTime {
    /// What tells it from others.
    pub id: String,
    /// Its text without literals; empty where it was not seen.
    pub text: String,
    /// The numbers that the server gives it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_ids: Vec<i64>,
    /// How often it was seen.
    pub sightings: u64,
    /// Sessions that were in it on average.
    pub sessions: f64,
    /// Its share of the sessions' time in transactions, 0 to 1; without a budget, of the time of
    /// sessions in a statement.
    pub share: f64,
    /// Its share of what was seen at no wait event, 0 to 1: about its share of the sessions' CPU time.
    pub cpu_share: f64,
    /// The part of its time that it was at no wait event, 0 to 1: on a CPU or waiting for one.
    pub running: f64,
    /// What it waited for, in sessions, the longest first.
    pub waits: Vec<StatementWait>,
    /// pg_stat_statements' counters over the windows, where the server has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// Its plan, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Why there is no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_plan: Option<String>,
}

/// What a statement waited for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementWait {
    /// `LWLock:WALWrite`.
    pub name: String,
    /// Sessions there on average.
    pub sessions: f64,
}

/// pg_stat_statements' counters of a statement, for each of its calls; none where the extension's
/// version has no such column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counters {
    /// Calls over the windows.
    pub calls: f64,
    /// Execution, milliseconds a call.
    pub execution_ms: Option<f64>,
    /// Planning, milliseconds a call; none where `track_planning` is off.
    pub planning_ms: Option<f64>,
    /// Rows a call.
    pub rows: Option<f64>,
    /// Blocks found in shared buffers, and read, a call.
    pub blocks: Option<f64>,
    /// Of them read.
    pub blocks_read: Option<f64>,
    /// Blocks of temporary files written a call.
    pub temp_blocks: Option<f64>,
    /// Bytes of log a call.
    pub wal_bytes: Option<f64>,
}

impl Counters {
    /// Of growth over the windows, summed up by column.
    fn of(grown: &BTreeMap<String, f64>) -> Option<Self> {
        let of = |name: &str| grown.get(name).copied();
        let calls = of("calls").filter(|calls| *calls > 0.0)?;
        let a_call = |value: Option<f64>| value.map(|value| value / calls);
        // These columns are in every version: what is not there did not grow.
        let at_least_0 = |name: &str| of(name).unwrap_or(0.0);
        let read = at_least_0("shared_blks_read");
        let plans = of("plans").filter(|plans| *plans > 0.0);
        Some(Self {
            calls,
            // Its name up to the version of PostgreSQL 12.
            execution_ms: a_call(of("total_exec_time").or(of("total_time"))),
            planning_ms: plans.and_then(|_| a_call(of("total_plan_time"))),
            rows: a_call(Some(at_least_0("rows"))),
            blocks: a_call(Some(at_least_0("shared_blks_hit") + read)),
            blocks_read: a_call(Some(read)),
            temp_blocks: a_call(Some(at_least_0("temp_blks_written"))),
            wal_bytes: a_call(of("wal_bytes")),
        })
    }
}

impl StatementTime {
    /// What it is called in a sentence: its text, cut further, with a clause behind the cut that tells what it does.
    pub fn named(&self) -> String {
        const MOST: usize = 120;
        if self.text.is_empty() {
            let ids: Vec<String> = self.query_ids.iter().map(i64::to_string).collect();
            return format!("the statement with query_id {}", ids.join(", "));
        }
        match self.text.char_indices().nth(MOST) {
            Some((end, _)) => {
                let clause = telling(&self.text, end);
                let clause = clause.map(|clause| format!(" {clause}"));
                let head = self.text[..end].trim_end_matches('…');
                format!("{head}…{}", clause.unwrap_or_default())
            }
            None => self.text.clone(),
        }
    }
}

/// The first clause of a statement beyond `end` that tells what it does besides reading or writing rows, cut.
fn telling(text: &str, end: usize) -> Option<String> {
    const CLAUSES: &[&str] = &[
        "ON CONFLICT",
        "FOR UPDATE",
        "FOR NO KEY UPDATE",
        "FOR SHARE",
        "FOR KEY SHARE",
        "WITH HOLD",
    ];
    const MOST: usize = 70;
    let upper = text.to_ascii_uppercase();
    let found = CLAUSES.iter().filter_map(|clause| {
        let mut all = upper.match_indices(clause).map(|(at, _)| at);
        all.find(|at| at + clause.len() > end)
    });
    let clause = &text[found.min()?..];
    Some(match clause.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", clause[..end].trim_end_matches('…')),
        None => clause.to_owned(),
    })
}

/// Joins the records of the windows of a point. `plans` are what was made of each statement's plan.
pub fn analyse<'r>(
    records: impl Iterator<Item = &'r StatementRecord>,
    grown: &[Grown],
    plans: &BTreeMap<String, Result<Plan, String>>,
    budget: Option<&Budget>,
) -> Option<StatementAnalysis> {
    let mut looks = 0;
    let mut others = 0;
    let mut all: BTreeMap<&str, SeenStatement> = BTreeMap::new();
    for record in records {
        looks += record.looks;
        others += record.others;
        for statement in &record.statements {
            let known = all.entry(&statement.id).or_default();
            known.id.clone_from(&statement.id);
            if known.text.is_empty() {
                known.text.clone_from(&statement.text);
            }
            for id in &statement.query_ids {
                if !known.query_ids.contains(id) {
                    known.query_ids.push(*id);
                }
            }
            for at in &statement.at {
                known.add(&at.kind, &at.event, at.count);
            }
        }
    }
    if looks == 0 {
        return None;
    }
    let sightings: u64 = all.values().map(SeenStatement::sightings).sum::<u64>() + others;
    let seen = |count: u64| count as f64 / looks as f64;
    let at_none = |statement: &SeenStatement| -> u64 {
        let none = statement.at.iter().filter(|at| at.kind.is_empty());
        none.map(|at| at.count).sum()
    };
    let all_at_none: u64 = all.values().map(at_none).sum();
    let scales = Scales::new(budget, &all, looks);
    let mut statements: Vec<StatementTime> = all
        .values()
        .map(|statement| {
            let running = scales.running(at_none(statement), looks);
            let mut waits: Vec<StatementWait> = statement
                .at
                .iter()
                .filter(|at| !at.kind.is_empty())
                .map(|at| StatementWait {
                    name: format!("{}:{}", at.kind, at.event),
                    sessions: seen(at.count) * scales.wait(&at.kind, &at.event),
                })
                .collect();
            waits.sort_by(|a, b| b.sessions.total_cmp(&a.sessions));
            let sessions = running + waits.iter().map(|w| w.sessions).sum::<f64>();
            let share = match budget {
                Some(budget) if budget.off.is_some() => budget.share(sessions),
                _ => ratio(statement.sightings(), sightings),
            };
            let of_it = grown.iter().filter(|row| {
                let mut ids = statement.query_ids.iter();
                ids.any(|id| id.to_string() == row.name)
            });
            let mut sums: BTreeMap<String, f64> = BTreeMap::new();
            for (name, value) in of_it.flat_map(|row| &row.grown) {
                *sums.entry(name.clone()).or_default() += value;
            }
            let plan = plans.get(&statement.id);
            StatementTime {
                id: statement.id.clone(),
                text: statement.text.clone(),
                query_ids: statement.query_ids.clone(),
                sightings: statement.sightings(),
                sessions,
                share,
                cpu_share: ratio(at_none(statement), all_at_none),
                running: if sessions > 0.0 {
                    running / sessions
                } else {
                    0.0
                },
                waits,
                counters: Counters::of(&sums),
                plan: plan.and_then(|plan| plan.as_ref().ok().cloned()),
                no_plan: plan.and_then(|plan| plan.as_ref().err().cloned()),
            }
        })
        .collect();
    statements.sort_by(|a, b| b.sessions.total_cmp(&a.sessions).then(a.id.cmp(&b.id)));
    let elsewhere = Elsewhere::of(grown, &statements);
    Some(StatementAnalysis {
        elsewhere,
        looks,
        sightings,
        statements,
        other_sessions: seen(others),
    })
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// What a sighting stands for, by the budget; 1 session a look without one.
struct Scales<'b> {
    /// Sessions of the budget in a statement at no wait event, and sightings of them.
    running: Option<(f64, u64)>,
    /// Sessions of the budget at each event.
    waits: Option<&'b [Wait]>,
    /// Sessions seen at each event.
    seen: BTreeMap<(String, String), f64>,
}

impl<'b> Scales<'b> {
    fn new(budget: Option<&'b Budget>, all: &BTreeMap<&str, SeenStatement>, looks: u64) -> Self {
        let mut seen: BTreeMap<(String, String), f64> = BTreeMap::new();
        let mut at_none = 0;
        for at in all.values().flat_map(|statement| &statement.at) {
            if at.kind.is_empty() {
                at_none += at.count;
            }
            let sessions = seen.entry((at.kind.clone(), at.event.clone())).or_default();
            *sessions += at.count as f64 / looks as f64;
        }
        let off = budget.and_then(|budget| budget.off.as_ref());
        Self {
            running: budget
                .zip(off)
                .map(|(budget, off)| (budget.on_cpu + budget.ready + off.unnamed, at_none)),
            waits: off.map(|off| off.waits.as_slice()),
            seen,
        }
    }

    /// Sessions on a CPU, waiting for one, or off it without an event.
    fn running(&self, count: u64, looks: u64) -> f64 {
        match self.running {
            Some((sessions, all)) => sessions * ratio(count, all),
            None => ratio(count, looks),
        }
    }

    /// What a session seen at an event counts for.
    fn wait(&self, kind: &str, event: &str) -> f64 {
        let Some(waits) = self.waits else {
            return 1.0;
        };
        let seen = self.seen.get(&(kind.to_owned(), event.to_owned()));
        let wait = waits.iter().find(|w| w.kind == kind && w.event == event);
        match (wait, seen) {
            (Some(wait), Some(seen)) if *seen > 0.0 => wait.sessions / seen,
            // Waits for the client are no part of the budget's waits.
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::OffCpu;
    use super::*;

    fn seen(id: &str, at: &[(&str, &str, u64)]) -> SeenStatement {
        let mut statement = SeenStatement {
            id: id.to_owned(),
            text: format!("SELECT {id}"),
            ..SeenStatement::default()
        };
        for (kind, event, count) in at {
            statement.add(kind, event, *count);
        }
        statement
    }

    #[test]
    fn a_clause_that_tells_what_a_statement_does_is_not_cut_off() {
        let of = |text: String| {
            StatementTime {
                text,
                ..StatementTime::default()
            }
            .named()
        };
        let columns = "a_column, ".repeat(14);
        let read = format!("SELECT {columns} 1 FROM t");
        assert!(of(read.clone()).ends_with('…'));
        let named = of(format!("{read} WHERE id = $1 for update"));
        assert!(named.ends_with("… for update"), "{named}");
        let named = of(format!(
            "{read} ON CONFLICT (k) DO UPDATE SET {columns} b = 1"
        ));
        assert!(
            named.contains("… ON CONFLICT (k) DO UPDATE SET a_column"),
            "{named}"
        );
        assert!(named.len() < 210, "{named}");
    }

    fn record() -> StatementRecord {
        StatementRecord {
            looks: 100,
            statements: vec![
                seen("a", &[("", "", 30), ("IO", "DataFileRead", 100)]),
                seen("b", &[("", "", 10)]),
            ],
            others: 20,
        }
    }

    /// The counters of a server whose own load is a twentieth of what it executes.
    #[test]
    fn statements_of_other_sessions_are_told_by_their_execution_time() {
        let row = |name: &str, calls: f64, ms: f64| Grown {
            name: name.to_owned(),
            grown: [("calls", calls), ("total_exec_time", ms)]
                .map(|(k, v)| (k.to_owned(), v))
                .into(),
            ..Grown::default()
        };
        let grown = [
            row("-4256036602817179818", 40.0, 9620.5),
            row("-4627799183743240274", 706.0, 484.0),
            row("8932077728945485319", 61.0, 0.4),
        ];
        let statement = |ids: &[i64]| StatementTime {
            query_ids: ids.to_vec(),
            ..StatementTime::default()
        };
        let elsewhere = Elsewhere::of(&grown, &[statement(&[-4627799183743240274])]).unwrap();
        assert!(
            (elsewhere.share - 9620.9 / 10104.9).abs() < 1e-9,
            "{elsewhere:?}"
        );
        assert_eq!(elsewhere.query_id, "-4256036602817179818");
        assert!((elsewhere.execution_ms - 240.5125).abs() < 1e-9);
        assert_eq!(Elsewhere::of(&grown, &[statement(&[])]), None);
    }

    #[test]
    fn the_budget_is_divided_among_statements() {
        // Samples see a third of those that run: the rest had just been woken.
        let budget = Budget {
            sessions: 3.0,
            on_cpu: 1.0,
            ready: 0.6,
            off_cpu: 1.4,
            off: Some(OffCpu {
                waits: vec![Wait {
                    kind: "IO".into(),
                    event: "DataFileRead".into(),
                    sessions: 0.4,
                    ..Wait::default()
                }],
                idle: 1.0,
                ..OffCpu::default()
            }),
            ..Budget::default()
        };
        let record = record();
        let of = analyse([&record].into_iter(), &[], &BTreeMap::new(), Some(&budget)).unwrap();
        let [a, b] = of.statements.as_slice() else {
            panic!("{of:?}");
        };
        assert!((a.sessions - (1.6 * 0.75 + 0.4)).abs() < 1e-9, "{a:?}");
        assert!((b.sessions - 0.4).abs() < 1e-9, "{b:?}");
        // All of the time in transactions is theirs.
        assert!((a.share + b.share - 1.0).abs() < 1e-9);
        assert_eq!((a.cpu_share, b.cpu_share), (0.75, 0.25));
        assert!((a.running - 0.75).abs() < 1e-9);
        assert_eq!(a.waits[0].name, "IO:DataFileRead");
        assert_eq!(of.other_sessions, 0.2);
    }

    #[test]
    fn without_a_budget_sightings_are_all_there_is() {
        let record = record();
        let both = [&record, &record].into_iter();
        let of = analyse(both, &[], &BTreeMap::new(), None).unwrap();
        assert_eq!(of.statements[0].sessions, 1.3);
        assert_eq!((of.looks, of.sightings), (200, 320));
        assert!((of.statements[0].share - 130.0 / 160.0).abs() < 1e-9);
        assert_eq!(analyse([].into_iter(), &[], &BTreeMap::new(), None), None);
    }

    #[test]
    fn counters_are_for_each_call() {
        let mut record = record();
        record.statements[0].query_ids = vec![-7, 8];
        let grown = |name: &str, calls: f64| Grown {
            name: name.to_owned(),
            grown: BTreeMap::from([
                ("calls".to_owned(), calls),
                ("total_exec_time".to_owned(), 40.0),
                ("temp_blks_written".to_owned(), 10.0),
                ("plans".to_owned(), 0.0),
                ("total_plan_time".to_owned(), 0.0),
            ]),
            ..Grown::default()
        };
        let rows = [grown("-7", 15.0), grown("8", 5.0), grown("9", 100.0)];
        let of = analyse([&record].into_iter(), &rows, &BTreeMap::new(), None).unwrap();
        let counters = of.statements[0].counters.clone().unwrap();
        assert_eq!((counters.calls, counters.execution_ms), (20.0, Some(4.0)));
        assert_eq!(
            (counters.temp_blocks, counters.planning_ms),
            (Some(1.0), None)
        );
        assert_eq!(of.statements[1].counters, None);
    }
}
