//! Statistics targets of the columns that a scan compares, where they are smaller than what the server comes with.

use pgassay_model::observed::plans::{Node, Plan};
use pgassay_text::quote::quote_ident;

use super::conditions::{Compared, compared, conjuncts, disjuncts};
use crate::evidence::RunEvidence;
use crate::finding::StepKind;

const SETTING: &str = "default_statistics_target";
/// What the server comes with (PostgreSQL manual, "Query Planning").
const DEFAULT: u32 = 100;

/// A column with a target below what the server comes with.
pub(super) struct Small {
    pub column: String,
    pub target: u32,
    /// Whether it is the column's own, and not that of all columns.
    own: bool,
}

impl Small {
    pub(super) fn said(&self) -> String {
        match self.own {
            true => format!(
                "the statistics target of {} is {}",
                self.column, self.target
            ),
            false => format!("{SETTING} is {}", self.target),
        }
    }
}

/// The target of columns without one of their own.
pub(super) fn of_all(run: &RunEvidence) -> Option<u32> {
    run.setting(SETTING)?.parse().ok()
}

/// The columns that a scan compares whose targets are small.
pub(super) fn small(of_all: Option<u32>, plan: &Plan, scan: &Node) -> Vec<Small> {
    let facts = scan
        .relation
        .as_ref()
        .and_then(|table| plan.relations.get(table));
    let target = |column: String| {
        let own = facts?.targets.get(&column).copied();
        let target = own.or(of_all)?;
        (target < DEFAULT).then_some(Small {
            column,
            target,
            own: own.is_some(),
        })
    };
    columns(plan, scan).into_iter().filter_map(target).collect()
}

/// How they become larger, and are used.
pub(super) fn larger(table: &str, of: &[Small]) -> Vec<(StepKind, String)> {
    let mut steps = Vec::new();
    if of.iter().any(|small| !small.own) {
        let text = format!("ALTER SYSTEM SET {SETTING} = 100; SELECT pg_reload_conf();");
        steps.push((StepKind::Sql, text));
    }
    let own = of.iter().filter(|small| small.own);
    let own: Vec<String> = own
        .map(|small| {
            format!(
                "ALTER COLUMN {} SET STATISTICS -1",
                quote_ident(&small.column)
            )
        })
        .collect();
    if !own.is_empty() {
        steps.push((
            StepKind::Sql,
            format!("ALTER TABLE {table} {};", own.join(", ")),
        ));
    }
    let text = format!("ANALYZE {table};   -- then the planner knows of more of its values");
    steps.push((StepKind::Sql, text));
    steps
}

/// Conditions of a scan, each by itself.
pub(super) fn conditions(scan: &Node) -> Vec<&str> {
    let of = ["Index Cond", "Recheck Cond", "Filter"];
    let of = of.iter().filter_map(|name| scan.conditions.get(*name));
    of.flat_map(|condition| conjuncts(condition)).collect()
}

/// The columns that conditions of a scan compare, each by itself.
pub(super) fn columns(plan: &Plan, scan: &Node) -> Vec<String> {
    let facts = scan
        .relation
        .as_ref()
        .and_then(|table| plan.relations.get(table));
    let column = |part: &&str| match compared(part, facts?) {
        Some(Compared::Column(column)) if disjuncts(part).len() == 1 => Some(column),
        _ => None,
    };
    let mut columns: Vec<String> = conditions(scan).iter().filter_map(column).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}
