//! Which functions a query calls, and whether one of them may change something.

use std::collections::BTreeSet;

use pgassay_pgwire::Session;
use pgassay_text::quote::quote_literal;
use pgassay_text::sql;

/// PostgreSQL's own volatile functions that change nothing.
const HARMLESS: &[&str] = &[
    "random",
    "random_normal",
    "clock_timestamp",
    "timeofday",
    "gen_random_uuid",
    "uuidv4",
    "uuidv7",
];

/// A function as a text names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    schema: Option<String>,
    name: String,
}

/// A function called in one of these texts that may change something: one of which the catalog says that it
/// is volatile, or an aggregate made of such. A name that several functions have counts as all of them.
pub(super) fn volatile<'a>(
    session: &mut Session,
    texts: impl Iterator<Item = &'a str>,
) -> anyhow::Result<Option<String>> {
    let calls: BTreeSet<Call> = texts.flat_map(named).collect();
    if calls.is_empty() {
        return Ok(None);
    }
    // What a bare name is looked for in, before the question has a search_path of its own.
    let path = session.value("SELECT pg_catalog.current_schemas(true)")?;
    let path = quote_literal(&path.unwrap_or_default());
    let rows: Vec<String> = calls
        .iter()
        .map(|call| {
            let schema = call
                .schema
                .as_deref()
                .map_or("NULL".to_owned(), quote_literal);
            format!("({schema}, {})", quote_literal(&call.name))
        })
        .collect();
    let harmless: Vec<String> = HARMLESS.iter().map(|name| quote_literal(name)).collect();
    Ok(session.catalog_value(&format!(
        "SELECT p.oid::regprocedure::text FROM (VALUES {}) c (schema, name) \
         JOIN pg_proc p ON p.proname = c.name \
         JOIN pg_namespace n ON n.oid = p.pronamespace \
           AND CASE WHEN c.schema IS NULL THEN n.nspname = ANY ({path}::name[]) ELSE n.nspname = c.schema END \
         LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid \
         WHERE (p.provolatile = 'v' OR EXISTS (SELECT FROM pg_proc f WHERE f.provolatile = 'v' \
           AND f.oid IN (a.aggtransfn, a.aggfinalfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn))) \
         AND NOT (n.nspname = 'pg_catalog' AND p.proname IN ({})) ORDER BY 1 LIMIT 1",
        rows.join(", "),
        harmless.join(", ")
    ))?)
}

/// The functions that a text names, with each name folded in both ways a server may do it: ASCII letters only,
/// as in UTF-8, or all of them, as in an encoding of single bytes.
fn named(text: &str) -> Vec<Call> {
    let mut calls = called(text, str::to_ascii_lowercase);
    calls.extend(called(text, str::to_lowercase));
    calls
}

/// The names before a parenthesis, folded to lower case where they are not quoted. Key words may be among
/// them, which no function has for its name.
fn called(text: &str, fold: fn(&str) -> String) -> Vec<Call> {
    let bytes = text.as_bytes();
    let mut calls = Vec::new();
    // The parts of the name that ends here, and whether a point follows it.
    let (mut parts, mut point): (Vec<String>, bool) = (Vec::new(), false);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let mut named = |name: String| {
            if !std::mem::take(&mut point) {
                parts.clear();
            }
            parts.push(name);
        };
        at += match byte {
            b'-' if rest.starts_with(b"--") => sql::line_comment(rest),
            b'/' if rest.starts_with(b"/*") => sql::block_comment(rest).unwrap_or(rest.len()),
            b'"' => {
                let length = sql::quoted(rest, false).unwrap_or(rest.len());
                let inner = text.get(at + 1..at + length - 1).unwrap_or_default();
                named(inner.replace("\"\"", "\""));
                length
            }
            b'\'' => {
                // E'…', but not date'…'.
                let escapes = text[..at].ends_with(['e', 'E']) && parts == ["e"];
                parts.clear();
                sql::quoted(rest, escapes).unwrap_or(rest.len())
            }
            b'$' => {
                parts.clear();
                match sql::dollar_quoted(rest) {
                    Some(quoted) => quoted.length.unwrap_or(rest.len()),
                    None => 1,
                }
            }
            _ if sql::begins_word(byte) => {
                let length = sql::word(rest);
                named(fold(text.get(at..at + length).unwrap_or_default()));
                length
            }
            b'(' => {
                if let Some(name) = parts.pop() {
                    let schema = parts.pop();
                    calls.push(Call { schema, name });
                }
                parts.clear();
                1
            }
            b'.' => {
                point = !parts.is_empty();
                1
            }
            _ if byte.is_ascii_whitespace() => 1,
            _ => {
                parts.clear();
                point = false;
                1
            }
        };
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_functions_are_found_in_queries_and_plans() {
        let names = |text: &str| -> Vec<String> {
            let shown = |call: Call| match call.schema {
                Some(schema) => format!("{schema}|{}", call.name),
                None => call.name,
            };
            called(text, str::to_ascii_lowercase)
                .into_iter()
                .map(shown)
                .collect()
        };
        assert_eq!(
            names("SELECT Max(x), s.\"My Fn\" (1), a.F(2), \"a\"\"b\"(3) FROM t WHERE (b)"),
            ["max", "s|My Fn", "a|f", "a\"b", "where"]
        );
        // A comment in between hides nothing; nothing is called in a literal.
        assert_eq!(
            names(
                "SELECT shop . /* a (b) */ changes -- c (\n (1), 'd (1)', $$e (1)$$, E'\\'f (1)' || date'\\' || g(2)"
            ),
            ["shop|changes", "g"]
        );
        assert_eq!(names("SELECT db.shop.f(1)"), ["shop|f"]);
        assert_eq!(names("SELECT 1"), Vec::<String>::new());
        assert_eq!(names("SELECT \"open ("), Vec::<String>::new());
        assert_eq!(names("SELECT \""), Vec::<String>::new());
        assert_eq!(names("((a).b(1))"), ["b"]);
    }

    #[test]
    fn names_are_folded_as_in_any_encoding() {
        let found = |schema: &str, name: &str| Call {
            schema: Some(schema.to_owned()),
            name: name.to_owned(),
        };
        assert_eq!(
            named("SELECT SHOP.\u{c4}NDER(1), s.\"\u{c4}\"(2)"),
            [
                found("shop", "\u{c4}nder"),
                found("s", "\u{c4}"),
                found("shop", "\u{e4}nder"),
                found("s", "\u{c4}"),
            ]
        );
    }
}
