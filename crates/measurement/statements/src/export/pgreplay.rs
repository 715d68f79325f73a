//! Lines that pgreplay-go replays (`pgreplay run --json-input`): a JSON object each, in the order of their times.
//!
//! Each session connects before its first statement and disconnects after its last one. Statements of one transaction
//! are spread over its time, their pauses kept.

use pgassay_load::Execution;
use pgassay_load::script::{Command, Draw, Program, Sql};
use serde_json::{Value, json};

use super::{among, text};

/// What the lines say beside the statements.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// The user that all sessions connect as.
    pub user: &'a str,
    /// The database that they connect to.
    pub database: &'a str,
    /// Whether values are sent as parameters.
    pub prepared: bool,
}

/// The lines, each with its time in microseconds from the begin, for which `stamp` gives a time stamp.
pub fn lines(
    program: &Program,
    sessions: &[Vec<Execution>],
    about: &About<'_>,
    stamp: &dyn Fn(u64) -> String,
) -> Vec<String> {
    let mut timed: Vec<(u64, usize, String)> = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let mut put = |at_us: u64, kind: &str, more: Vec<(&str, Value)>| {
            let mut item = json!({
                "timestamp": stamp(at_us),
                "session_id": format!("pgassay.{}", number + 1),
                "user": about.user,
                "database": about.database,
            });
            for (name, value) in more {
                item[name] = value;
            }
            let order = timed.len();
            timed.push((
                at_us,
                order,
                json!({"type": kind, "item": item}).to_string(),
            ));
        };
        let mut last = session.first().map_or(0, |first| first.at_ns / 1000);
        put(last, "Connect", Vec::new());
        for one in session {
            let Some(script) = program.scripts().get(one.script) else {
                continue;
            };
            let draw = script.commands.iter().find_map(|command| match command {
                Command::Draw(draw) => Some(&**draw),
                _ => None,
            });
            let statements: Vec<&Sql> = script
                .commands
                .iter()
                .filter_map(|command| match command {
                    Command::Sql(sql) => Some(&**sql),
                    _ => None,
                })
                .collect();
            let pauses = one.pauses_ns.iter().copied().fold(0, u64::saturating_add);
            let each = one.took_ns.saturating_sub(pauses) / statements.len().max(1) as u64;
            let mut at_ns = one.at_ns;
            for (n, sql) in statements.into_iter().enumerate() {
                at_ns = at_ns.saturating_add(one.pauses_ns.get(n).copied().unwrap_or(0));
                last = last.max(at_ns / 1000);
                let (kind, more) = statement(sql, draw, one, about);
                put(last, kind, more);
                at_ns = at_ns.saturating_add(each);
            }
        }
        let end = session
            .last()
            .map_or(0, |end| end.at_ns.saturating_add(end.took_ns) / 1000);
        put(end.max(last), "Disconnect", Vec::new());
    }
    timed.sort_by_key(|(at_us, order, _)| (*at_us, *order));
    timed.into_iter().map(|(_, _, line)| line).collect()
}

fn statement(
    sql: &Sql,
    draw: Option<&Draw>,
    one: &Execution,
    about: &About<'_>,
) -> (&'static str, Vec<(&'static str, Value)>) {
    let slots = draw.map_or(&[][..], |draw| draw.slots.as_slice());
    if about.prepared && !sql.params.is_empty() {
        let query = sql.parametrized.trim().trim_end_matches(';').to_owned();
        let value = |slot: &u32| among(slots, &one.row, *slot).and_then(|drawn| drawn.text.clone());
        let parameters: Vec<Value> = sql
            .params
            .iter()
            .map(|slot| value(slot).map_or(Value::Null, |text| Value::String(text.into())))
            .collect();
        return (
            "BoundExecute",
            vec![("query", query.into()), ("parameters", parameters.into())],
        );
    }
    let query = text(sql, |slot| {
        among(slots, &one.row, slot).map(|drawn| drawn.literal.to_string())
    });
    ("Statement", vec![("query", query.into())])
}

#[cfg(test)]
mod tests {
    use pgassay_load::script::Drawn;

    use super::*;

    #[test]
    fn sessions_become_lines_in_the_order_of_their_times() {
        let mut program = Program::new();
        program
            .add("s", "\\draw a b from 1 'x'\nBEGIN;\nSELECT :a, :b;\n", 1)
            .unwrap();
        let values = |a: &str, b: &str| {
            [a, b]
                .map(|value| Drawn::read(value).unwrap())
                .to_vec()
                .into_boxed_slice()
        };
        let one = Execution {
            at_ns: 5_000_000,
            took_ns: 3_000_000,
            row: values("7", "NULL"),
            pauses_ns: vec![0, 1_000_000].into(),
            ..Execution::default()
        };
        let other = Execution {
            at_ns: 6_500_000,
            took_ns: 100_000,
            row: values("8", "'it''s'"),
            ..Execution::default()
        };
        let sessions = [vec![one], vec![other]];
        let stamp = |us: u64| us.to_string();
        for (prepared, select) in [
            (true, r#""parameters":["7",null],"query":"SELECT $1, $2""#),
            (false, r#""query":"SELECT 7, NULL""#),
        ] {
            let about = About {
                user: "me",
                database: "shop",
                prepared,
            };
            let lines = lines(&program, &sessions, &about, &stamp);
            let times: Vec<u64> = lines
                .iter()
                .map(|line| {
                    let value: Value = serde_json::from_str(line).unwrap();
                    value["item"]["timestamp"]
                        .as_str()
                        .unwrap()
                        .parse()
                        .unwrap()
                })
                .collect();
            assert_eq!(times, [5000, 5000, 6500, 6500, 6550, 6600, 7000, 8000]);
            assert!(lines[0].contains("Connect") && lines[7].contains("Disconnect"));
            assert!(lines[6].contains("pgassay.1"), "{}", lines[6]);
            let mut query: Vec<&str> = select.split("\",\"").collect();
            query.retain(|part| !lines[6].contains(part.trim_end_matches('"')));
            assert!(query.is_empty(), "{query:?} in {}", lines[6]);
        }
    }
}
