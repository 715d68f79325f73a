//! Rows that a script of the load asks for one by one: the same statement again and again, with another value each time.

use crate::detect::common::hits::weighty;
use crate::detect::prelude::*;
use pgassay_evidence::profile::Class;
use pgassay_text::normalise::normalise;

pub const DETECTORS: &[Detector] = &[run("round-trips", asked_again)];

/// Times within a run of the script from which on it is worth a finding.
const MANY: usize = 5;

/// A statement of a script that stands there several times.
#[derive(Debug, PartialEq)]
struct Again {
    /// Without literals and variables.
    text: String,
    times: usize,
    /// All statements of the script.
    of: usize,
}

/// The statement that looks rows up most often within a script.
fn again(script: &str) -> Option<Again> {
    let lines = script
        .lines()
        .filter(|line| !line.trim_start().starts_with('\\'));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let statements = text.split(';').map(|sql| normalise(&of_one_name(sql)).text);
    let statements: Vec<String> = statements.filter(|sql| !sql.is_empty()).collect();
    let looks_up = |sql: &str| {
        let lower = sql.to_ascii_lowercase();
        lower.starts_with("select") && lower.contains(" where ") && lower.contains('=')
    };
    let times = |sql: &String| statements.iter().filter(|other| *other == sql).count();
    let most = statements
        .iter()
        .filter(|sql| looks_up(sql))
        .max_by_key(|sql| times(sql))?;
    let again = Again {
        text: most.clone(),
        times: times(most),
        of: statements.len(),
    };
    (again.times >= MANY).then_some(again)
}

/// A statement whose variables all have one name: which one it is makes it no other statement.
fn of_one_name(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(':') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let name = &from[1..];
        if let Some(cast) = name.strip_prefix(':') {
            out.push_str("::");
            rest = cast;
            continue;
        }
        let end = name
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(name.len());
        out.push_str(if end > 0 { ":v" } else { ":" });
        rest = &name[end..];
    }
    out.push_str(rest);
    out
}

fn asked_again(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let scripts = run.ours?.scripts.iter();
    let again = scripts
        .filter_map(|script| again(&script.text))
        .max_by_key(|again| again.times)?;
    // All but one of them are spared with what surrounds them, and their rows are looked up all the same.
    let executor = evidence
        .profile
        .map_or(0.0, |profile| profile.class(Class::Executor));
    let spared = (again.times - 1) as f64 / again.of as f64 * (1.0 - executor);
    let saw = format!(
        "The load sends the same statement {} times with each run of its script, a row at a time, of {} statements in all: {}.",
        again.times, again.of, again.text
    );
    let share: f64 = weighty(&run)
        .filter(|s| s.text.starts_with("SELECT") || s.text.starts_with("select"))
        .map(|s| s.share)
        .sum();
    Some(
        Observation::measured(Basis::Counters, Some(spared), saw)
            .confidence(Confidence::High)
            .severity(Severity::High)
            .covers(share.min(1.0))
            .means(
                "Each message has its way to the server and back, its system calls, and its snapshot, whatever little the statement does. Rows that are \
                 looked up one by one, as object mappers do for each row of a list (N+1), pay that for each.",
            )
            .seen(format!(
                "{} of the server's CPU samples are in the executor",
                tenths(executor)
            ))
            .advice(
                "ask for them at once, several rows per statement: a join with the statement that found their keys (eager loading in object \
                 mappers: JOIN FETCH, includes, select_related), or WHERE key = ANY($1) with an array of the keys",
            ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_look_up_for_each_row_is_told_from_several_statements() {
        let lines =
            "\\set b random(1, 9)\nSELECT line, product FROM basket WHERE id = :b;\n".to_owned();
        let one = |n: usize| {
            format!("\\set p{n} :b * {n}\nSELECT name\n FROM product WHERE id = :p{n};\n")
        };
        let script = lines.clone() + &(1..=12).map(one).collect::<String>();
        let found = again(&script).unwrap();
        assert_eq!((found.times, found.of), (12, 13));
        assert!(found.text.contains("FROM product"), "{}", found.text);
        // A few, several that differ, and writes.
        let few = lines.clone() + &(1..=3).map(one).collect::<String>();
        let others: String = (1..=12)
            .map(|n| format!("SELECT x FROM t{n} WHERE id = :b;\n"))
            .collect();
        let writes = "UPDATE t SET n = n + 1 WHERE id = :b;\n".repeat(12);
        for script in [few, others, writes] {
            assert_eq!(again(&script), None, "{script}");
        }
    }

    #[test]
    fn casts_are_no_variables() {
        assert_eq!(
            of_one_name("SELECT :a::int, x::text, ':b'"),
            "SELECT :v::int, x::text, ':v'"
        );
    }
}
