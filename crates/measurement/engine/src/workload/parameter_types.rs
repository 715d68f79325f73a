//! Types of parameters that the server can't find by itself.
//!
//! A client of the extended protocol may declare the types of its parameters; a log and a script do not have them. In
//! `x <= $1 + $2` the server then finds no operator (42725), in `now() - $1` it takes an interval for a time. A cast
//! `$1::integer` declares the type. The type is that of the values, and only what fails without one is given one.

use std::collections::BTreeSet;

use pgassay_load::script::{self, Command, Program, Sql};
use pgassay_model::Plan;
use pgassay_pgwire::{Conninfo, QueryError, Session};

use super::{is_registered, options_of, program};

/// Draws of the values that scripts compute.
const DRAWS: u64 = 3;
/// Most values of a parameter that are tried.
const MOST_VALUES: usize = 200;
/// Most types that are tried for a statement.
const MOST_TRIES: usize = 24;
/// What the server parses a statement as.
const PREPARE: &str = "PREPARE pgassay_types AS ";
/// ambiguous_function, indeterminate_datatype, ambiguous_parameter, undefined_function, datatype_mismatch
const UNTYPED: [&str; 5] = ["42725", "42P18", "42P08", "42883", "42804"];

/// The plan with casts in its scripts where the server finds no type for a parameter; none where it needs none.
///
/// # Errors
/// Where the server can't be asked.
pub fn typed(plan: &Plan, conninfo: &Conninfo) -> anyhow::Result<Option<Plan>> {
    let workload = &plan.workload;
    if workload.protocol == "simple" || workload.scripts.is_empty() || is_registered(workload) {
        return Ok(None);
    }
    let program = program(workload)?;
    if !program.scripts().iter().any(|script| {
        let mut commands = script.commands.iter();
        commands.any(|command| matches!(command, Command::Sql(sql) if !sql.params.is_empty()))
    }) {
        return Ok(None);
    }
    let values = Values::of(plan, &program)?;
    let mut session = pgassay_pgwire::connect(conninfo)?;
    let mut typed = plan.clone();
    let mut changed = false;
    for (place, script) in program.scripts().iter().enumerate() {
        // From the last, so that the places of those before stay.
        for (at, command) in script.commands.iter().enumerate().rev() {
            let Command::Sql(sql) = command else { continue };
            if sql.params.is_empty() || sql.is_several {
                continue;
            }
            let types = types(&mut session, sql, &values.of_statement(place, at, sql))?;
            let text = &mut typed.workload.scripts[place].text;
            if types.iter().any(Option::is_some)
                && let Some(cast) = with_casts(text, sql, &types)
            {
                *text = cast;
                changed = true;
            }
        }
    }
    Ok(changed.then_some(typed))
}

/// The values that parameters are given, as far as the scripts alone tell.
struct Values<'a> {
    program: &'a Program,
    sent: Vec<pgassay_load::Sent>,
}

impl<'a> Values<'a> {
    fn of(plan: &Plan, program: &'a Program) -> anyhow::Result<Self> {
        let options = options_of(&plan.workload)?;
        let draws = (0..DRAWS).map(|draw| plan.seed.wrapping_add(draw));
        let sent = draws.flat_map(|seed| pgassay_load::sent(program, &options, seed));
        Ok(Self {
            program,
            sent: sent.collect(),
        })
    }

    /// Of each of a statement's parameters, without NULL.
    fn of_statement(&self, script: usize, command: usize, sql: &Sql) -> Vec<Vec<String>> {
        let drawn = self.program.scripts()[script].commands[..command]
            .iter()
            .filter_map(|command| match command {
                Command::Draw(draw) => Some(draw),
                _ => None,
            });
        let drawn: Vec<_> = drawn.collect();
        let one = |(n, slot): (usize, &script::Slot)| {
            let mut values: BTreeSet<String> = BTreeSet::new();
            for sent in self.sent.iter().filter(|s| s.place == (script, command)) {
                values.extend(sent.values.get(n).cloned().flatten());
            }
            for draw in &drawn {
                let column = draw.slots.iter().position(|drawn| drawn == slot);
                for row in column.map_or(0..0, |_| 0..draw.rows()) {
                    let value = column.and_then(|column| draw.row(row)[column].text.as_ref());
                    values.extend(value.map(|text| text.to_string()));
                }
            }
            values.into_iter().take(MOST_VALUES).collect()
        };
        sql.params.iter().enumerate().map(one).collect()
    }
}

/// What the server says of a statement with some types.
enum Answer {
    /// It takes the statement and the values.
    Fine,
    /// These parameters, from 0, need another type.
    Wants(Vec<usize>),
    /// Something else is wrong.
    Other,
}

/// The types of a statement's parameters that it does not run without.
fn types(
    session: &mut Session,
    sql: &Sql,
    values: &[Vec<String>],
) -> Result<Vec<Option<&'static str>>, QueryError> {
    let candidates: Vec<&[&str]> = values.iter().map(|values| candidates(values)).collect();
    let mut next = vec![0; values.len()];
    let mut types: Vec<Option<&'static str>> = vec![None; values.len()];
    for _ in 0..MOST_TRIES {
        let wanted = match ask(session, sql, &types, values)? {
            Answer::Fine => return Ok(types),
            Answer::Other => break,
            Answer::Wants(wanted) => wanted,
        };
        // One whose values are all NULL is like those with it.
        let like = wanted.iter().find(|n| !values[**n].is_empty());
        let mut any = false;
        for n in &wanted {
            let from = match values[*n].is_empty() {
                true => like.unwrap_or(n),
                false => n,
            };
            if let Some(name) = candidates[*from].get(next[*n]) {
                types[*n] = Some(name);
                next[*n] += 1;
                any = true;
            }
        }
        if !any {
            break;
        }
    }
    // As it was: what the load runs into names the mistake.
    Ok(vec![None; values.len()])
}

fn ask(
    session: &mut Session,
    sql: &Sql,
    types: &[Option<&str>],
    values: &[Vec<String>],
) -> Result<Answer, QueryError> {
    let text = with_types(&sql.parametrized, types);
    let text = text.trim_end_matches([';', ' ', '\n']);
    match session.execute(&format!("{PREPARE}{text}")) {
        Ok(()) => {}
        Err(QueryError::Server(error)) => {
            if !UNTYPED.contains(&error.sqlstate.as_str()) {
                return Ok(Answer::Other);
            }
            let position = error
                .position
                .and_then(|p| (p as usize).checked_sub(PREPARE.len() + 1));
            let named = numbered(&error.message);
            let wanted = match (named, position) {
                (Some(number), _) => vec![number],
                (None, Some(at)) => around(text, at),
                (None, None) => Vec::new(),
            };
            return Ok(match wanted.is_empty() {
                true => Answer::Other,
                false => Answer::Wants(wanted),
            });
        }
        Err(lost) => return Err(lost),
    }
    let found = session.rows(
        "SELECT pg_catalog.unnest(parameter_types)::pg_catalog.text FROM pg_catalog.pg_prepared_statements \
         WHERE name = 'pgassay_types'",
    );
    session.execute("DEALLOCATE pgassay_types")?;
    let found: Vec<String> = found?.rows.into_iter().flatten().flatten().collect();
    let mut wanted = Vec::new();
    for (n, (name, values)) in found.iter().zip(values).enumerate() {
        if !values.is_empty() && !takes(session, name, values)? {
            wanted.push(n);
        }
    }
    Ok(match wanted.is_empty() {
        true => Answer::Fine,
        false => Answer::Wants(wanted),
    })
}

/// Whether a type has all of these values.
fn takes(session: &mut Session, name: &str, values: &[String]) -> Result<bool, QueryError> {
    if matches!(name, "text" | "character varying" | "unknown") {
        return Ok(true);
    }
    let casts = values
        .iter()
        .map(|value| format!("{}::{name}", script::quoted(value)));
    let casts: Vec<String> = casts.collect();
    match session.execute(&format!("SELECT {}", casts.join(", "))) {
        Ok(()) => Ok(true),
        Err(QueryError::Server(_)) => Ok(false),
        Err(lost) => Err(lost),
    }
}

/// The parameter, from 0, that a message names in any language.
fn numbered(message: &str) -> Option<usize> {
    let digits = message.split('$').nth(1)?;
    let end = digits.find(|c: char| !c.is_ascii_digit());
    let number: usize = digits[..end.unwrap_or(digits.len())].parse().ok()?;
    number.checked_sub(1)
}

/// The parameters, from 0, of the operator or function at this character.
fn around(text: &str, character: usize) -> Vec<usize> {
    let Some((at, first)) = text.char_indices().nth(character) else {
        return Vec::new();
    };
    let all = parameters(text);
    if first.is_alphabetic() || first == '_' || first == '"' {
        let Some(open) = text[at..].find('(').map(|open| at + open) else {
            return Vec::new();
        };
        let mut depth = 0_i32;
        let close = text[open..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        let close = close.map_or(text.len(), |(length, _)| open + length);
        let within = all.iter().filter(|(from, ..)| (open..close).contains(from));
        return within.map(|(.., number)| *number).collect();
    }
    // What may stand between an operator and its operand: a cast, parentheses, a sign.
    let is_between = |between: &str| {
        !between.contains(['$', ',', '\'']) && between.len() < 40 && !between.contains(" AND ")
    };
    let before = all
        .iter()
        .rev()
        .find(|(_, end, _)| *end <= at)
        .filter(|(_, end, _)| is_between(text[*end..at].trim()));
    let after = all
        .iter()
        .find(|(from, ..)| *from > at)
        .filter(|(from, ..)| is_between(text[at..*from].trim()));
    before
        .into_iter()
        .chain(after)
        .map(|(.., number)| *number)
        .collect()
}

/// The parameters of a text, with where each begins and ends and its number from 0.
fn parameters(text: &str) -> Vec<(usize, usize, usize)> {
    let made = pgassay_text::normalise::normalise(text);
    let spans = made.values.into_iter();
    let numbered = spans.filter_map(|span| {
        let number: usize = text[span.clone()].strip_prefix('$')?.parse().ok()?;
        Some((span.start, span.end, number.checked_sub(1)?))
    });
    numbered.collect()
}

/// A text with `$1`, `$2` … and a cast behind each whose type is known.
fn with_types(text: &str, types: &[Option<&str>]) -> String {
    let mut typed = String::with_capacity(text.len());
    let mut kept = 0;
    for (_, end, number) in parameters(text) {
        typed.push_str(&text[kept..end]);
        if let Some(Some(name)) = types.get(number) {
            typed.push_str("::");
            typed.push_str(name);
        }
        kept = end;
    }
    typed + &text[kept..]
}

/// A script with casts behind the variables of a statement; none where the statement does not stand in it as it is sent.
fn with_casts(script: &str, sql: &Sql, types: &[Option<&str>]) -> Option<String> {
    let line: usize = script
        .split_inclusive('\n')
        .take(sql.line.checked_sub(1)?)
        .map(str::len)
        .sum();
    let at = line + script[line..].find(&sql.text)?;
    let mut text = String::with_capacity(sql.text.len());
    let mut n = 0;
    for part in &sql.parts {
        match part {
            script::Part::Text(piece) => text.push_str(piece),
            script::Part::Var(_, name) => {
                text.push(':');
                text.push_str(name);
                if let Some(Some(name)) = types.get(n) {
                    text.push_str("::");
                    text.push_str(name);
                }
                n += 1;
            }
        }
    }
    Some(format!(
        "{}{text}{}",
        &script[..at],
        &script[at + sql.text.len()..]
    ))
}

/// The types that values may have by their form, the likeliest first.
fn candidates(values: &[String]) -> &'static [&'static str] {
    let all = |is: &dyn Fn(&str) -> bool| !values.is_empty() && values.iter().all(|v| is(v));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let whole = |text: &str| digits(text.strip_prefix('-').unwrap_or(text));
    let listed = |text: &str, is: &dyn Fn(&str) -> bool| {
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        inner.is_some_and(|inner| inner.split(',').all(is))
    };
    // `2026-11-28`, and what follows.
    let dated = |text: &str| {
        let mut parts = text.splitn(3, '-');
        let (year, month, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let day = rest.get(..2)?;
        let is_date = year.len() == 4 && [year, month, day].iter().all(|part| digits(part));
        is_date.then(|| rest[2..].to_owned())
    };
    if all(&|v| v.parse::<i32>().is_ok() && whole(v)) {
        &["integer", "bigint", "numeric", "double precision", "text"]
    } else if all(&|v| v.parse::<i64>().is_ok() && whole(v)) {
        &["bigint", "numeric", "double precision", "text"]
    } else if all(&script::is_number) {
        &["numeric", "double precision", "text"]
    } else if all(&|v| matches!(v, "t" | "f" | "true" | "false")) {
        &["boolean", "text"]
    } else if all(&|v| dated(v).is_some_and(|rest| rest.is_empty())) {
        &["date", "timestamptz", "timestamp", "text"]
    } else if all(&|v| dated(v).is_some_and(|rest| rest.contains(['+', '-', 'Z']))) {
        &["timestamptz", "timestamp", "text"]
    } else if all(&|v| dated(v).is_some()) {
        &["timestamp", "timestamptz", "text"]
    } else if all(&is_interval) {
        &["interval", "time", "text"]
    } else if all(&is_uuid) {
        &["uuid", "text"]
    } else if all(&|v| v.starts_with("\\x")) {
        &["bytea", "text"]
    } else if all(&|v| listed(v, &whole)) {
        &["integer[]", "bigint[]", "text[]", "jsonb"]
    } else if all(&|v| v.starts_with('{') && v.ends_with('}') && !v.contains(':')) {
        &["text[]", "jsonb", "text"]
    } else if all(&|v| v.starts_with(['{', '['])) {
        &["jsonb", "json", "text"]
    } else {
        &["text", "character varying"]
    }
}

/// `1 day`, `01:30:00`, `-2 mons +3 days`
fn is_interval(text: &str) -> bool {
    const UNITS: [&str; 9] = [
        "micro", "milli", "sec", "min", "hour", "day", "week", "mon", "year",
    ];
    let word = |word: &str| {
        let number = word.trim_start_matches(['+', '-']);
        let is_number = number.starts_with(|c: char| c.is_ascii_digit())
            && number
                .bytes()
                .all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'));
        let is_unit = UNITS
            .iter()
            .any(|unit| word.to_ascii_lowercase().starts_with(unit));
        is_number || is_unit
    };
    text.contains([':', ' ']) && text.split_whitespace().all(word)
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(script: &str) -> (Program, usize) {
        let mut program = Program::new();
        program.add("a.sql", script, 1).unwrap();
        let commands = &program.scripts()[0].commands;
        let is_sql = |command: &Command| matches!(command, Command::Sql(_));
        let at = commands.iter().rposition(is_sql).unwrap();
        (program, at)
    }

    #[test]
    fn the_parameters_of_an_operator_and_of_a_function() {
        let of = |text: &str, word: &str| {
            let byte = text.find(word).unwrap();
            around(text, text[..byte].chars().count())
        };
        assert_eq!(of("SELECT a FROM t WHERE a <= $2 + $3", "+"), [1, 2]);
        assert_eq!(of("SELECT 'é', since + ($1)", "+"), [0]);
        assert_eq!(of("SELECT $1, f(x, $2, g($3)), $4", "f("), [1, 2]);
        assert_eq!(of("SELECT '$1', $1 - 5", "-"), [0]);
        assert_eq!(of("SELECT $1, a + b", "+"), Vec::<usize>::new());
        assert_eq!(
            numbered("could not determine data type of parameter $12"),
            Some(11)
        );
        assert_eq!(numbered("нельзя"), None);
    }

    #[test]
    fn casts_stand_behind_the_variables_of_one_statement() {
        let script = "\\set p1 5\nSELECT :p1 + 1;\nSELECT ':p1', :p1 + :p2, a::text\nFROM t;\n";
        let (program, at) = sql(script);
        let Command::Sql(sql) = &program.scripts()[0].commands[at] else {
            panic!();
        };
        let count = sql.params.len();
        let mut types = vec![Some("integer"); count];
        types[0] = None;
        let cast = with_casts(script, sql, &types).unwrap();
        assert_eq!(
            cast,
            "\\set p1 5\nSELECT :p1 + 1;\nSELECT ':p1', :p1::integer + :p2::integer, a::text\nFROM t;\n"
        );
        assert_eq!(
            with_types("$1 + $2 - $10", &[None, Some("date")]),
            "$1 + $2::date - $10"
        );
    }

    #[test]
    fn values_have_types_by_their_form() {
        let first = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
            candidates(&values)[0]
        };
        for (values, expected) in [
            (&["1", "-7"][..], "integer"),
            (&["1", "3000000000"], "bigint"),
            (&["1", "2.5"], "numeric"),
            (&["99999999999999999999"], "numeric"),
            (&["t", "f"], "boolean"),
            (&["2026-11-28"], "date"),
            (&["2026-11-28", "2026-11-28 10:00:00"], "timestamp"),
            (&["2026-11-28 10:00:00+01"], "timestamptz"),
            (&["1 day", "01:30:00"], "interval"),
            (&["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], "uuid"),
            (&["\\xdeadbeef"], "bytea"),
            (&["{1,2}", "{3}"], "integer[]"),
            (&["{a,b}"], "text[]"),
            (&["{\"a\": 1}", "[1]"], "jsonb"),
            (&["5", "five"], "text"),
            (&["today"], "text"),
            (&[], "text"),
        ] {
            assert_eq!(first(values), expected, "{values:?}");
        }
    }
}
