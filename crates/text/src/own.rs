//! How pgassay's own statements and sessions are recognised in what a server reports.
//!
//! A pooler need not pass `application_name` on, so each statement carries a tag, too. The tag follows the first word:
//! from version 18 on pg_stat_statements drops comments that stand in front of a statement.

use crate::sql;

/// `application_name` of sessions that observe.
pub const OBSERVER: &str = "pgassay observer";

/// The comment in each statement of such a session.
pub const TAG: &str = "/* pgassay */";

/// The same statements, each with [`TAG`] behind its first word.
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
            [b, ..] if sql::begins_word(*b) => (sql::word(rest), begins),
            _ => (1, begins),
        };
        out.push_str(&text[at..at + length]);
        at += length;
        if first_word {
            begins = false;
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
                "BEGIN; -- a; b\n select ';', \"x;y\", $a$;$a$; COMMIT",
                "BEGIN /* pgassay */; -- a; b\n select /* pgassay */ ';', \"x;y\", $a$;$a$; COMMIT /* pgassay */",
            ),
            ("/* ; */ (SELECT 1)", "/* ; */ ( /* pgassay */SELECT 1)"),
            // With standard_conforming_strings off this is one string.
            (
                r"SELECT 'a\'; SELECT'",
                r"SELECT /* pgassay */ 'a\'; SELECT'",
            ),
            (
                r"SELECT E'a\';b'; SELECT $$\$$; COMMIT",
                r"SELECT /* pgassay */ E'a\';b'; SELECT /* pgassay */ $$\$$; COMMIT /* pgassay */",
            ),
            ("DO $$BEGIN; END$$", "DO /* pgassay */ $$BEGIN; END$$"),
            ("SELECT 'a", "SELECT /* pgassay */ 'a"),
            (
                "SELECT $1 + é; 1",
                "SELECT /* pgassay */ $1 + é; 1 /* pgassay */",
            ),
            (" ; ", " ; "),
            ("", ""),
        ] {
            assert_eq!(tagged(text), expected);
        }
    }
}
