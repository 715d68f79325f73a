//! Documents in columns of type json: text that each operator reads from its beginning.

use pgassay_model::observed::plans::{Node, Plan};
use pgassay_text::quote::quote_ident;

use super::hits::{Hit, Part, joined, with_plans};
use super::{Detector, run, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Summary;

pub(super) const DETECTORS: &[Detector] = &[run("json-parsed", parsed)];

/// Documents a call from which on reading them is a burden.
const MANY: f64 = 100.0;
/// The share of the CPU samples in reading JSON from which on it matters.
const NOTABLE: f64 = 0.05;

/// How often operators and expressions of a plan read a column, where one does.
fn reads(node: &Node, column: &str) -> usize {
    let quoted = quote_ident(column);
    let texts = node
        .conditions
        .values()
        .chain(&node.group_key)
        .chain(&node.sort_key);
    let of = |text: &String| -> usize {
        let found = text.match_indices(&quoted);
        found
            .filter(|(at, name)| {
                let before = text[..*at].chars().next_back();
                let behind = &text[at + name.len()..];
                let begins = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"');
                begins
                    && (behind.starts_with(" -> ")
                        || behind.starts_with(" ->> ")
                        || behind.starts_with(" #>"))
            })
            .count()
    };
    texts.map(of).sum()
}

/// A column of type json that a plan reads by operators: its table, how many times they stand there, and for how many rows.
fn column(plan: &Plan) -> Option<(&str, &str, usize, f64)> {
    let all = plan.root.all();
    let found = plan.relations.iter().flat_map(|(table, facts)| {
        let of = facts.types.iter().filter(|(_, kind)| *kind == "json");
        of.map(move |(column, _)| (table.as_str(), column.as_str(), facts))
    });
    let found = found.filter_map(|(table, column, facts)| {
        let times: usize = all.iter().map(|(_, n)| reads(n, column)).sum();
        let scans = all
            .iter()
            .map(|(_, n)| *n)
            .filter(|n| n.relation.as_deref() == Some(table));
        let rows = scans.map(|scan| {
            let inputs = scan.nodes.iter().map(|n| n.rows).fold(scan.rows, f64::max);
            let entering = match scan.kind.as_str() {
                "Seq Scan" if scan.conditions.contains_key("Filter") => {
                    facts.rows.unwrap_or(scan.rows)
                }
                _ => inputs,
            };
            entering * plan.root.times(scan).unwrap_or(1.0)
        });
        let rows = rows.fold(0.0, f64::max);
        (times > 0 && rows >= MANY).then_some((table, column, times, rows))
    });
    found.max_by(|a, b| (a.2 as f64 * a.3).total_cmp(&(b.2 as f64 * b.3)))
}

/// The share of the CPU samples in functions that read JSON as text, with what they call where callers are known.
fn lexing(profile: &Summary) -> f64 {
    const READS: &[&str] = &[
        "json_lex",
        "json_lex_string",
        "pg_parse_json",
        "parse_object",
        "parse_object_field",
        "parse_array",
        "parse_scalar",
        "get_object_field_start",
        "get_object_field_end",
        "get_scalar",
        "get_worker",
        "get_path_all",
        "json_object_field",
        "json_object_field_text",
        "json_extract_path",
        "json_extract_path_text",
    ];
    let of = profile
        .functions
        .iter()
        .filter(|f| READS.contains(&f.symbol.as_str()));
    let (own, total) = of.fold((0.0, 0.0), |(own, total): (f64, f64), f| {
        (own + f.own_share, total.max(f.total_share))
    });
    own.max(total)
}

fn parsed(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let share = evidence.profile.map(lexing);
    if share.is_some_and(|share| share < NOTABLE) {
        return None;
    }
    let hits = with_plans(&run, |statement, plan| {
        let (table, column, times, rows) = column(plan)?;
        Some(Hit {
            statement,
            part: share.map_or(Part::UNKNOWN, |share| Part::of_samples(statement, share)),
            left: None,
            saw: format!(
                "{column} of {table} is of type json, which is kept as text: each of {times} operators on it reads the document from its \
                 beginning, for about {rows:.0} rows."
            ),
            confidence: match share {
                Some(_) => Confidence::High,
                None => Confidence::Medium,
            },
            evidence: share
                .map(|share| format!("{} of the CPU samples in reading JSON", tenths(share)))
                .into_iter()
                .collect(),
            steps: vec![
                (
                    StepKind::Sql,
                    format!(
                        "ALTER TABLE {table} ALTER {column} TYPE jsonb USING {column}::jsonb;   -- rewrites the table, under a lock that shuts \
                         all others out",
                        column = quote_ident(column)
                    ),
                ),
                (
                    StepKind::Advice,
                    "or columns of their own for the fields that are compared and added up"
                        .to_owned(),
                ),
            ],
        })
    });
    joined(&run, hits)
}
