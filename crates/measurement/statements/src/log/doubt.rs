//! Whether a log holds all of a statement.
//!
//! A statement without its last line may still be one that the server takes: `DELETE FROM orders` without its WHERE
//! clause. So a statement that may not be whole is dropped, never used as it stands.

use pgassay_text::sql;

/// Least length at which log collectors cut lines; their limits are powers of two.
const LEAST_LIMIT: usize = 1024;
/// CloudWatch Logs: an event of 256 KiB has 26 bytes of overhead.
const CLOUDWATCH: usize = (256 << 10) - 26;

/// Why a statement of a log may not be the one that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Nothing of the file follows it.
    LastOfFile,
    /// The next line has neither the prefix nor an indentation.
    Unprefixed,
    /// Some lines of it begin with a tab, others with blanks.
    MixedIndentation,
    /// A line of it is as long as a collector lets lines be.
    CollectorLimit,
    /// A line of it is too long to be read.
    LongLine,
    /// Its text ends within a literal, a comment or parentheses.
    Unclosed,
    /// A literal of several lines whose indentation or line ends the log lost.
    LiteralLayout,
    /// The value of a parameter.
    Parameter,
    /// Its bytes are not UTF-8.
    Encoding,
    /// An entry of another session stands between its first line and a further one.
    Interleaved,
    /// It changes all rows of a table, and nothing shows that its last line is there.
    NoWhere,
}

impl Doubt {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::LastOfFile => "may be cut off: the log file ends with it",
            Self::Unprefixed => {
                "may be cut off: a line without prefix or indentation follows it in the log"
            }
            Self::MixedIndentation => "may be cut off: only some of its lines begin with a tab",
            Self::CollectorLimit => {
                "may be cut off: a line of it has the length at which log collectors cut"
            }
            Self::LongLine => "may be cut off: a line in or behind it is longer than 4 MiB",
            Self::Unclosed => "text cut off",
            Self::LiteralLayout => {
                "a literal of several lines whose indentation or line ends the log lost"
            }
            Self::Parameter => "a parameter may be cut off (log_parameter_max_length)",
            Self::Encoding => {
                "text that is not UTF-8 (iconv -f ENCODING -t UTF-8 FILE | pgassay workload from-log -)"
            }
            Self::Interleaved => {
                "may be cut off: lines of another entry stand between its lines in the log"
            }
            Self::NoWhere => {
                "an UPDATE or DELETE without WHERE and semicolon, whose end may not be in the log"
            }
        }
    }
}

/// Whether a collector may have cut a line of that many bytes.
pub(super) fn is_collector_limit(length: usize) -> bool {
    // Some count the line's end.
    let limits = [length, length + 1];
    let power = |limit: &usize| *limit >= LEAST_LIMIT && limit.is_power_of_two();
    length == CLOUDWATCH || limits.iter().any(power)
}

/// Whether a text ends in an UPDATE or DELETE of all rows that no semicolon or parenthesis ends.
pub(super) fn changes_all_rows(text: &str) -> bool {
    let bytes = text.as_bytes();
    // The depth of the UPDATE or DELETE that has no WHERE so far.
    let mut without: Option<i64> = None;
    let mut depth = 0_i64;
    let mut before: &[u8] = b"";
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let second = rest.get(1);
        let skipped = match byte {
            b'-' if second == Some(&b'-') => Some(sql::line_comment(rest)),
            b'/' if second == Some(&b'*') => sql::block_comment(rest),
            b'\'' | b'"' => sql::quoted(rest, false),
            b'e' | b'E' if second == Some(&b'\'') => sql::quoted(&rest[1..], true).map(|n| n + 1),
            b'$' => sql::dollar_quoted(rest).and_then(|string| string.length),
            _ => None,
        };
        if let Some(length) = skipped {
            at += length;
            continue;
        }
        if sql::begins_word(*byte) {
            let word = &rest[..sql::word(rest)];
            let is = |wanted: &str| word.eq_ignore_ascii_case(wanted.as_bytes());
            // FOR UPDATE, FOR NO KEY UPDATE, ON DELETE CASCADE, ON CONFLICT DO UPDATE, MERGE's THEN DELETE.
            let part = ["for", "key", "on", "do", "then"];
            let part = part
                .iter()
                .any(|of| before.eq_ignore_ascii_case(of.as_bytes()));
            if (is("update") || is("delete")) && !part {
                without = Some(depth);
            } else if is("where") && without == Some(depth) {
                without = None;
            }
            before = word;
            at += word.len();
            continue;
        }
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' => without = None,
            _ => {}
        }
        without = without.filter(|of| depth >= *of);
        at += 1;
    }
    without.is_some()
}

/// What a statement's text says of its own end. Where the log lost its layout (`reflowed`), a literal of several lines
/// may not be what it was.
pub(super) fn of_text(text: &str, reflowed: bool) -> Option<Doubt> {
    let bytes = text.as_bytes();
    let mut depth = 0_i64;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let second = rest.get(1);
        // A token that has to be closed, and whether it is a literal or a name in quotes.
        let closed = match byte {
            b'/' if second == Some(&b'*') => Some((sql::block_comment(rest), false)),
            b'\'' | b'"' => Some((sql::quoted(rest, false), true)),
            b'e' | b'E' if second == Some(&b'\'') => {
                let length = sql::quoted(&rest[1..], true);
                Some((length.map(|length| length + 1), true))
            }
            b'$' => sql::dollar_quoted(rest).map(|string| (string.length, true)),
            _ => None,
        };
        if let Some((length, literal)) = closed {
            let Some(length) = length else {
                return Some(Doubt::Unclosed);
            };
            if reflowed && literal && rest[..length].contains(&b'\n') {
                return Some(Doubt::LiteralLayout);
            }
            at += length;
            continue;
        }
        depth += match byte {
            b'(' | b'[' => 1,
            b')' | b']' => -1,
            _ => 0,
        };
        at += match byte {
            b'-' if second == Some(&b'-') => sql::line_comment(rest),
            byte if sql::begins_word(*byte) => sql::word(rest),
            _ => 1,
        };
    }
    let ellipsis = text.trim_end().ends_with(['…']) || text.trim_end().ends_with("...");
    (depth != 0 || ellipsis).then_some(Doubt::Unclosed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_ends_within_a_token_or_parentheses_is_doubtful() {
        for text in [
            "SELECT 'it''s', E'\\'', \"a\"\"b\", $$ ( $$, $x$ ' $x$, $1 FROM t -- (",
            "DELETE FROM t WHERE a[1] IN (SELECT b /* ( */ FROM u)",
            "SELECT type'x', 1e5",
        ] {
            assert_eq!(of_text(text, false), None, "{text}");
        }
        for text in [
            "SELECT 'a",
            "SELECT E'a\\'",
            "SELECT \"a",
            "SELECT $x$ $$",
            "SELECT 1 /* a",
            "DELETE FROM t WHERE a IN (1",
            "b) FROM t",
            "SELECT a...",
            "SELECT a… ",
        ] {
            assert_eq!(of_text(text, false), Some(Doubt::Unclosed), "{text}");
        }
        let lines = "SELECT 'a\n b'";
        assert_eq!(of_text(lines, false), None);
        assert_eq!(of_text(lines, true), Some(Doubt::LiteralLayout));
        assert_eq!(of_text("SELECT /* a\n b */ 1\n", true), None);
    }

    #[test]
    fn changes_of_all_rows_need_an_end() {
        for text in [
            "DELETE FROM orders",
            "/* a */ -- ;\n update only orders SET closed = true -- WHERE a = 1",
            "UPDATE t SET (a, b) = (SELECT 1, 2 FROM u WHERE u.id = 7)",
            "UPDATE t SET a = ' WHERE ', \"where\" = $$ ; WHERE $$",
            "WITH old AS (SELECT id FROM t WHERE a = 1) DELETE FROM t USING old",
            "UPDATE t SET a = 1 WHERE id = 1; DELETE FROM t",
            "EXPLAIN DELETE FROM t RETURNING id",
        ] {
            assert!(changes_all_rows(text), "{text}");
        }
        for text in [
            "DELETE FROM orders ; -- all",
            "DELETE FROM t WHERE id = 1",
            "UPDATE t SET a = (SELECT max(b) FROM u)\n\twhere id = 1",
            "WITH gone AS (DELETE FROM t RETURNING id) SELECT * FROM gone",
            "SELECT a FROM t FOR NO KEY UPDATE",
            "SELECT a FROM t FOR /* b */ UPDATE",
            "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1",
            "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
            "SELECT 'DELETE FROM t', \"update\", updated FROM t",
        ] {
            assert!(!changes_all_rows(text), "{text}");
        }
    }

    #[test]
    fn limits_of_collectors_count_with_and_without_the_end_of_a_line() {
        for length in [1023, 1024, 8191, 16_384, 262_118, 262_144] {
            assert!(is_collector_limit(length), "{length}");
        }
        for length in [0, 1, 512, 1022, 1025, 262_143 - 1] {
            assert!(!is_collector_limit(length), "{length}");
        }
    }
}
