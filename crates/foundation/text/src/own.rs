//! How pgassay's own statements and sessions are recognised in what a server reports.
//!
//! A pooler need not pass `application_name` on, so each statement carries a tag, too. The tag follows the first word:
//! from version 18 on pg_stat_statements drops comments that stand in front of a statement.

use crate::sql;

/// `application_name` of sessions that observe.
pub const OBSERVER: &str = "pgassay observer";

/// The name of the threads that give the load.
pub const LOAD_THREAD: &str = "load";

/// The comment in each statement of such a session.
pub const TAG: &str = "/* pgassay */";

/// First words of statements that carry the tag. Transaction control and settings carry none: from version 16 on
/// pg_stat_statements counts them with the application's, whatever comments they have, under the text that came first.
const TAGGED: &[&str] = &["SELECT", "WITH", "VALUES", "TABLE", "PREPARE", "SHOW"];

/// The same statements, each query with [`TAG`] behind its first word.
///
/// Whether a backslash in a plain string escapes a quote depends on the session's settings, so behind such a string
/// nothing is taken apart.
pub fn tagged(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4 * TAG.len());
    let (mut at, mut begins) = (0, true);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let (length, first_word) = match rest {
            [b, ..] if b.is_ascii_whitespace() => (1, false),
            [b'-', b'-', ..] => (sql::line_comment(rest), false),
            [b'/', b'*', ..] => (sql::block_comment(rest).unwrap_or(rest.len()), false),
            [b';', ..] => {
                begins = true;
                (1, false)
            }
            [b'e' | b'E', b'\'', ..] => {
                let string = sql::quoted(&rest[1..], true).map(|length| 1 + length);
                (string.unwrap_or(rest.len()), false)
            }
            [b'\'' | b'"', ..] => {
                let length = sql::quoted(rest, false).unwrap_or(rest.len());
                if rest[0] == b'\'' && rest[..length].contains(&b'\\') {
                    break;
                }
                (length, false)
            }
            [b'$', ..] => {
                let whole = sql::dollar_quoted(rest).map(|of| of.length.unwrap_or(rest.len()));
                (whole.unwrap_or(1), false)
            }
            [b, ..] if sql::begins_word(*b) => (sql::word(rest), std::mem::take(&mut begins)),
            _ => (1, false),
        };
        let token = &text[at..at + length];
        out.push_str(token);
        at += length;
        if first_word && TAGGED.iter().any(|word| token.eq_ignore_ascii_case(word)) {
            out.push(' ');
            out.push_str(TAG);
        }
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_of_a_text_is_tagged_behind_its_first_word() {
        for (text, expected) in [
            ("SELECT 1", "SELECT /* pgassay */ 1"),
            (
                "BEGIN; SET LOCAL a = b; -- a; b\n select ';', \"x;y\", $a$;$a$; COMMIT",
                "BEGIN; SET LOCAL a = b; -- a; b\n select /* pgassay */ ';', \"x;y\", $a$;$a$; COMMIT",
            ),
            ("/* ; */ (SELECT 1)", "/* ; */ (SELECT /* pgassay */ 1)"),
            // With standard_conforming_strings off this is one string.
            (
                r"SELECT 'a\'; SELECT'",
                r"SELECT /* pgassay */ 'a\'; SELECT'",
            ),
            (
                r"SELECT E'a\';b'; SELECT $$\$$; SELECT 2",
                r"SELECT /* pgassay */ E'a\';b'; SELECT /* pgassay */ $$\$$; SELECT /* pgassay */ 2",
            ),
            ("CREATE TABLE t AS SELECT 1", "CREATE TABLE t AS SELECT 1"),
            ("SELECT 'a", "SELECT /* pgassay */ 'a"),
            (
                "SELECT $1 + é; TABLE t",
                "SELECT /* pgassay */ $1 + é; TABLE /* pgassay */ t",
            ),
            (" ; ", " ; "),
            ("", ""),
        ] {
            assert_eq!(tagged(text), expected);
        }
    }
}
