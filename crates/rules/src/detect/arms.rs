//! Conditions that write out each of many values as an arm of its own.

use super::hits::{Hit, Left, Part, joined, weighty};
use super::samples::planning_and_parsing;
use super::{Detector, samples, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Class;

pub(super) const DETECTORS: &[Detector] = &[samples("or-of-many", or_of_many)];

/// Arms of one shape from which on they are a list of values.
const MANY: usize = 8;
/// What looks values up.
const EXECUTING: &[Class] = &[
    Class::BufferMapping,
    Class::ContentLock,
    Class::Executor,
    Class::Lwlock,
    Class::Pin,
    Class::Snapshot,
];
/// The share of the CPU samples in parser and planner from which on that is what the time goes to.
const NOTABLE: f64 = 0.15;

/// Arms of one shape, one after the other.
#[derive(Debug, PartialEq, Eq)]
struct Arms {
    /// How many can be seen: of a long statement only the beginning is kept.
    number: usize,
    /// What each compares, by its names.
    columns: Vec<String>,
}

/// An arm without its parentheses and the numbers of its parameters. (The text may be cut, so that parentheses say nothing.)
fn shape(arm: &str) -> String {
    let mut shape = String::with_capacity(arm.len());
    let mut of_parameter = false;
    for c in arm.chars().filter(|c| !"()".contains(*c)) {
        of_parameter = c == '$' || of_parameter && c.is_ascii_digit();
        if c == '$' || !of_parameter {
            shape.extend(c.to_lowercase());
        }
    }
    shape.trim().to_owned()
}

/// The columns of an arm that only compares columns for equality with values.
fn columns(shape: &str) -> Option<Vec<String>> {
    let parts = shape.split(" and ").map(|part| {
        let (left, right) = part.split_once(" = ")?;
        let name = left.trim().rsplit('.').next()?;
        let is_name = name
            .chars()
            .all(|c| c.is_alphanumeric() || "_\"".contains(c));
        (is_name && !name.is_empty() && right.contains('$')).then(|| name.to_owned())
    });
    parts.collect()
}

/// The longest stretch of arms of one shape. The first one stands behind the statement's beginning, and the
/// last before its end, so that only those between them are compared.
fn arms(text: &str) -> Option<Arms> {
    let lower = text.to_ascii_lowercase();
    let pieces: Vec<String> = lower.split(" or ").map(shape).collect();
    let between = pieces.get(1..pieces.len().saturating_sub(1))?;
    let longest = between
        .chunk_by(|a, b| a == b)
        .max_by_key(|same| same.len())?;
    let columns = columns(longest.first()?)?;
    (longest.len() >= MANY).then_some(Arms {
        number: longest.len() + 2,
        columns,
    })
}

fn or_of_many(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let profile = evidence.profile?;
    let share = planning_and_parsing(profile);
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let executing: f64 = EXECUTING.iter().map(|class| profile.class(*class)).sum();
    let hits = weighty(&run).filter_map(|statement| {
        let Arms { number, columns } = arms(&statement.text)?;
        let cut = if statement.text.ends_with('…') { " or more" } else { "" };
        let given: Vec<String> = (1..=columns.len())
            .map(|n| format!("${n}::type[]"))
            .collect();
        let instead = match &columns[..] {
            [column] => format!("{column} = ANY ($1), with one array of all values"),
            _ => format!(
                "JOIN unnest({}) AS given ({}) USING ({}), with an array for each column, in which each combination stands once; or JOIN (VALUES …)",
                given.join(", "),
                columns.join(", "),
                columns.join(", ")
            ),
        };
        // Parsing, planning and the memory that they take go with the arms.
        let part = Part::of_text(evidence, statement);
        Some(Hit {
            statement,
            part,
            left: Left::new(
                executing / part.cpu.max(f64::MIN_POSITIVE),
                "the executor's part of the CPU time stays, since each of the values is looked up all the same",
            ),
            saw: format!(
                "A condition has {number}{cut} arms of one shape, joined by OR ({}): each is parsed, planned and looked up by itself.",
                columns.join(", ")
            ),
            confidence: Confidence::High,
            evidence: vec![format!("{} in parser and planner, with what they call", tenths(share))],
            steps: vec![(StepKind::Advice, instead)],
        })
    });
    joined(&run, hits.collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::found_in_samples_of;
    use super::*;
    use pgassay_evidence::observed::statements::StatementTime;

    fn statement(arm: impl Fn(usize) -> String, number: usize, end: &str) -> String {
        let arms: Vec<String> = (0..number).map(arm).collect();
        format!("SELECT qty FROM stock WHERE {}{end}", arms.join(" OR "))
    }

    #[test]
    fn arms_of_one_shape_are_a_list_of_values() {
        let pair = |n: usize| {
            format!(
                "(warehouse = ${} AND s.sku = ${} + ${})",
                3 * n + 1,
                3 * n + 2,
                3 * n + 3
            )
        };
        let seen = arms(&statement(pair, 20, " OR (warehouse = $61 AND sk…")).unwrap();
        assert_eq!(seen.columns, ["warehouse", "sku"]);
        assert_eq!(seen.number, 21);
        let one = arms(&statement(|n| format!("id = ${n}"), 12, " ORDER BY id")).unwrap();
        assert_eq!((one.number, &one.columns[..]), (12, &["id".to_owned()][..]));
    }

    #[test]
    fn a_few_and_such_as_differ_are_none() {
        assert_eq!(arms(&statement(|n| format!("id = ${n}"), 9, "")), None);
        let differ = |n: usize| format!("{} = ${n}", ["a", "b", "c"][n % 3]);
        assert_eq!(arms(&statement(differ, 30, "")), None);
        let numbered = |n: usize| format!("street{n} = ${n}");
        assert_eq!(arms(&statement(numbered, 30, "")), None);
        let bounded = |n: usize| format!("(id = ${n} AND at >= ${n})");
        assert_eq!(arms(&statement(bounded, 30, "")), None);
        assert_eq!(arms("SELECT 1"), None);
        assert_eq!(arms(""), None);
        assert_eq!(arms(&" OR ".repeat(40)), None);
    }

    #[test]
    fn arms_are_told_where_planning_takes_the_time() {
        let pair = |n: usize| format!("(warehouse = ${} AND sku = ${})", 2 * n + 1, 2 * n + 2);
        let of = |listing: &'static str| {
            let long = StatementTime {
                text: statement(pair, 20, ""),
                sightings: 80,
                share: 0.9,
                cpu_share: 0.9,
                running: 1.0,
                ..StatementTime::default()
            };
            let found = found_in_samples_of(listing, vec![long]);
            found.into_iter().find(|f| f.id == "or-of-many")
        };
        let planned = "    60.00%  postgres  postgres  [.] add_path\n            |\n            ---standard_planner\n               \
                       add_path\n    40.00%  postgres  postgres  [.] ExecScan\n";
        let seen = of(planned).unwrap();
        assert!(seen.saw.contains("20 arms"), "{seen:#?}");
        assert!(
            seen.remedy[0]
                .text
                .starts_with("JOIN unnest($1::type[], $2::type[]) AS given (warehouse, sku)"),
            "{seen:#?}"
        );
        // The executor's two fifths of nine tenths of the CPU time stay.
        let (won, all) = (0.9 * 0.6, seen.budget_share.unwrap());
        assert!(
            (all - 0.9).abs() < 1e-9 && seen.gain_rests_on.is_some(),
            "{seen:#?}"
        );
        let gain = seen.gain_expected.unwrap() / seen.gain_at_most.unwrap();
        assert!((gain - won / all).abs() < 1e-9, "{seen:#?}");
        assert!(of("90.00% postgres [.] ExecScan\n").is_none());
    }
}
