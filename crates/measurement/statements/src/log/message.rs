//! What a record says of statements.

use std::borrow::Cow;

use pgassay_text::sql;

use super::Record;
use super::doubt::{self, Doubt};
use super::languages;
use super::plan::{self, LoggedPlan};

/// A statement as the log has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statement {
    /// Its text.
    pub text: String,
    /// The parameters' values by number, none of them NULL's.
    pub parameters: Vec<Option<String>>,
    /// By the extended protocol: what varies are parameters, not literals.
    pub prepared: bool,
    /// Why it may not be the statement that was sent.
    pub doubt: Option<Doubt>,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// A statement began (`log_statement`).
    Began(Statement),
    /// A statement ended after so many microseconds (`log_min_duration_statement`).
    Ended(Statement, u64),
    /// What began ended (`log_duration`).
    Took(u64),
    /// An execution went on after its client had fetched some of its rows, and took so much longer.
    Continued(u64),
    /// Parse or Bind of a statement took so long.
    Prepared(u64),
    /// The plan of a statement that ended after so many microseconds (`auto_explain`); none in a format
    /// that is not read.
    Explained(Option<Box<LoggedPlan>>, u64),
    /// A statement failed.
    Failed,
    /// The session is over.
    Left,
    /// A duration that is written in another language, or a part of one.
    NotUnderstood,
}

/// What messages about statements begin with.
const ENGLISH: [&str; 3] = ["duration: ", "statement: ", "execute "];

/// What begins a further Execute message of a portal.
const FETCH: &str = "execute fetch from ";

/// What a record says of statements; none where it is about something else.
pub fn said(record: &Record) -> Option<Said> {
    // PostgreSQL translates severities of all formats, too.
    match languages::severity(&record.severity) {
        Some("ERROR" | "FATAL" | "PANIC") => return Some(Said::Failed),
        Some("LOG") => {}
        // LOG in a language that is not known here.
        _ => return is_duration(&record.message).then_some(Said::NotUnderstood),
    }
    let message = &*match ENGLISH.iter().any(|head| record.message.starts_with(head)) {
        true => Cow::Borrowed(record.message.as_str()),
        false => languages::english(&record.message),
    };
    if let Some(rest) = message.strip_prefix("duration: ") {
        let Some((number, rest)) = rest.split_once(" ms") else {
            return Some(Said::NotUnderstood);
        };
        let Some(micros) = millis(number) else {
            return Some(Said::NotUnderstood);
        };
        let rest = rest.trim_start();
        if rest.is_empty() {
            return Some(Said::Took(micros));
        }
        if rest.starts_with("parse ") || rest.starts_with("bind ") {
            return Some(Said::Prepared(micros));
        }
        if rest.starts_with(FETCH) {
            return Some(Said::Continued(micros));
        }
        if rest.starts_with("plan:") {
            // A plan's text comes before its tree, so that one at the end of a file has it. The tree is told by
            // its indentation.
            let whole = matches!(record.doubt, None | Some(Doubt::LastOfFile)) && !record.reflowed;
            let plan = whole.then(|| plan::plan(rest)).flatten();
            return Some(Said::Explained(plan.map(Box::new), micros));
        }
        return Some(
            statement(rest, record).map_or(Said::NotUnderstood, |s| Said::Ended(s, micros)),
        );
    }
    if message.starts_with("disconnection: ") {
        return Some(Said::Left);
    }
    if message.starts_with(FETCH) {
        return Some(Said::Continued(0));
    }
    match statement(message, record) {
        Some(statement) => Some(Said::Began(statement)),
        // `czas trwania: 0.035 ms`
        None => is_duration(message).then_some(Said::NotUnderstood),
    }
}

/// The duration that a line mentions which can't be read otherwise, in microseconds.
pub(super) fn duration_within(line: &str) -> u64 {
    let found = line
        .split_once("duration: ")
        .and_then(|(_, rest)| rest.split_once(" ms"));
    found.and_then(|(number, _)| millis(number)).unwrap_or(0)
}

/// Whether a message is a duration in any language.
pub(super) fn is_duration(message: &str) -> bool {
    let number = message
        .split_once(": ")
        .and_then(|(_, rest)| rest.split_once(" ms"));
    number.is_some_and(|(number, _)| millis(number).is_some())
}

fn millis(text: &str) -> Option<u64> {
    let value: f64 = text.trim().parse().ok()?;
    (0.0..1e12)
        .contains(&value)
        .then_some((value * 1000.0).round() as u64)
}

/// `statement: …` or `execute NAME: …`.
fn statement(text: &str, record: &Record) -> Option<Statement> {
    let whole = |text: &str| {
        let replaced = [text, &record.detail]
            .iter()
            .any(|text| text.contains('\u{fffd}'));
        record
            .doubt
            .or(replaced.then_some(Doubt::Encoding))
            .or_else(|| doubt::of_text(text, record.reflowed))
            .or_else(|| {
                let unbounded = record.open_ended && doubt::changes_all_rows(text);
                unbounded.then_some(Doubt::NoWhere)
            })
    };
    if let Some(text) = text.strip_prefix("statement: ") {
        return Some(Statement {
            text: text.to_owned(),
            doubt: whole(text),
            ..Statement::default()
        });
    }
    let rest = text.strip_prefix("execute ")?;
    let (_, text) = rest.split_once(": ")?;
    let parameters = parameters(&record.detail);
    let of_parameters = match &parameters {
        None => Some(Doubt::Parameter),
        Some(values) => {
            let mut values = values.iter().flatten();
            let lines = record.reflowed && values.any(|value| value.contains('\n'));
            lines.then_some(Doubt::LiteralLayout)
        }
    };
    Some(Statement {
        text: text.to_owned(),
        parameters: parameters.unwrap_or_default(),
        prepared: true,
        doubt: whole(text).or(of_parameters),
    })
}

/// The values of `parameters: $1 = '42', $2 = NULL`; none where they are not whole. With `log_parameter_max_length`
/// the server ends a value that it cuts with `...`.
fn parameters(detail: &str) -> Option<Vec<Option<String>>> {
    let mut values = Vec::new();
    let mut rest = match detail.split_once(": ") {
        Some((head, rest)) if languages::is_parameters(head) => rest,
        _ => return Some(values),
    };
    loop {
        let (number, after) = rest.strip_prefix('$')?.split_once(" = ")?;
        if number.parse() != Ok(values.len() + 1) {
            return None;
        }
        let (value, after) = if after.starts_with('\'') {
            let (quoted, after) = after.split_at(sql::quoted(after.as_bytes(), false)?);
            let value = &quoted[1..quoted.len() - 1];
            if value.ends_with("...") {
                return None;
            }
            (Some(value.replace("''", "'")), after)
        } else {
            (None, after.strip_prefix("NULL")?)
        };
        values.push(value);
        if after.is_empty() {
            return Some(values);
        }
        rest = after.strip_prefix(", ")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(message: &str, detail: &str) -> Option<Said> {
        said(&Record {
            severity: "LOG".to_owned(),
            message: message.to_owned(),
            detail: detail.to_owned(),
            ..Record::default()
        })
    }

    #[test]
    fn statements_with_their_durations_and_values() {
        let Some(Said::Ended(statement, 35)) = log("duration: 0.035 ms  statement: SELECT 1", "")
        else {
            panic!();
        };
        assert_eq!(
            (statement.text.as_str(), statement.prepared),
            ("SELECT 1", false)
        );
        let detail = "parameters: $1 = '4''2', $2 = NULL, $3 = 'a, $4 = b'";
        let Some(Said::Ended(statement, _)) =
            log("duration: 1.5 ms  execute S_1: SELECT $1, $2, $3", detail)
        else {
            panic!();
        };
        let texts: Vec<_> = statement.parameters.iter().map(Option::as_deref).collect();
        assert_eq!(texts, [Some("4'2"), None, Some("a, $4 = b")]);
        assert!(statement.prepared);
        // As 16 writes it.
        let later = log(
            "duration: 1 ms  execute <unnamed>: SELECT $1",
            "Parameters: $1 = '7'",
        );
        assert!(
            matches!(later, Some(Said::Ended(s, 1000)) if s.parameters == [Some("7".to_owned())])
        );
    }

    #[test]
    fn bytes_of_another_encoding_are_no_value() {
        for (sent, detail) in [
            ("SELECT 'caf\u{fffd}'", ""),
            ("SELECT $1", "parameters: $1 = 'caf\u{fffd}'"),
        ] {
            let said = log(&format!("duration: 1 ms  execute a: {sent}"), detail);
            assert!(
                matches!(said, Some(Said::Ended(s, _)) if s.doubt == Some(Doubt::Encoding)),
                "{sent}"
            );
        }
    }

    #[test]
    fn the_other_records() {
        assert_eq!(log("duration: 0.1 ms", ""), Some(Said::Took(100)));
        assert_eq!(
            log("duration: 0.1 ms  bind x: SELECT 1", ""),
            Some(Said::Prepared(100))
        );
        assert!(matches!(
            log("statement: SELECT 1", ""),
            Some(Said::Began(_))
        ));
        assert_eq!(
            log("disconnection: session time: 0:00:01", ""),
            Some(Said::Left)
        );
        assert_eq!(log("checkpoint starting: time", ""), None);
        let plan = "duration: 1.000 ms  plan:\nQuery Text: SELECT 1\nResult  (cost=0.00..0.01 rows=1 width=4)";
        assert!(
            matches!(log(plan, ""), Some(Said::Explained(Some(of), 1000)) if of.query == "SELECT 1")
        );
        assert_eq!(
            log("duration: x ms  statement: a", ""),
            Some(Said::NotUnderstood)
        );
        assert_eq!(log("duration: 1", ""), Some(Said::NotUnderstood));
        assert_eq!(
            log("czas trwania: 0.035 ms  wyrażenie: SELECT 1", ""),
            Some(Said::NotUnderstood)
        );
        let french = log(
            "durée : 1.5 ms  exécute S_1: SELECT $1",
            "paramètres : $1 = '7'",
        );
        assert!(
            matches!(french, Some(Said::Ended(s, 1500)) if s.parameters == [Some("7".to_owned())] && s.text == "SELECT $1")
        );
        for detail in [
            "parameters: $",
            "parameters: $1 = '",
            "parameters: $1 = 'x",
            "é: $1",
            "parameters: $1 = ''' ",
            "parameters: $1 = 'Kaffeemasc...'",
            "parameters: $1 = 'a', $2 = NUL",
            "parameters: $1 = 'a', $3 = 'b'",
            "parameters: $1 = 'a', ",
        ] {
            let said = log("duration: 1 ms  execute a: b", detail);
            let Some(Said::Ended(statement, _)) = said else {
                panic!("{said:?}");
            };
            let damaged = detail.starts_with('p').then_some(Doubt::Parameter);
            assert_eq!(statement.doubt, damaged, "{detail}");
        }
    }
}
