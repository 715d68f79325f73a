//! Texts of statements without their literals, as pg_stat_statements writes them.
//!
//! A statement is told from another by its text alone, as servers before 14, and later ones
//! without `compute_query_id`, give it no number. Literals become `$1`, `$2` …, lists of them one
//! `$1, ...`; comments go, and blanks become one. So neither a value nor a password of somebody's
//! statement reaches a run's record. The rules are those of PostgreSQL's own lexer (manual,
//! "Lexical Structure") with `standard_conforming_strings` on.

use std::fmt::Write as _;
use std::ops::Range;

use crate::sql;

/// Bytes of a normalised text that are kept.
const MOST_TEXT: usize = 600;

/// A statement's text without its literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalised {
    /// What tells it from others: 16 hexadecimal digits of its text in lower case.
    pub id: String,
    /// The text, cut.
    pub text: String,
    /// Whether a quote or comment was left open: the server had cut the text.
    pub cut: bool,
    /// Whether there is more after a semicolon.
    pub several: bool,
    /// The largest number of a parameter in it.
    pub parameters: u32,
    /// Where literals and parameters stand in the text that was given, in bytes.
    pub values: Vec<Range<usize>>,
    /// Where comments do.
    pub comments: Vec<Range<usize>>,
}

/// Takes the literals out of a statement's text.
pub fn normalise(sql: &str) -> Normalised {
    let mut made = Making::default();
    let mut at = 0;
    let (mut values, mut comments) = (Vec::new(), Vec::new());
    while at < sql.len() {
        let end = at + made.step(sql, at);
        match std::mem::take(&mut made.last) {
            Token::Value => values.push(at..end),
            Token::Comment => comments.push(at..end),
            Token::Other => {}
        }
        at = end;
    }
    Normalised {
        values,
        comments,
        ..made.done()
    }
}

/// What a token is that has a place of its own.
#[derive(Default)]
enum Token {
    #[default]
    Other,
    Value,
    Comment,
}

#[derive(Default)]
struct Making {
    /// What was taken in last.
    last: Token,
    out: String,
    /// Literals and parameters so far.
    values: u32,
    /// Where the last value of a list stands, while nothing but a comma came after it.
    list: Option<usize>,
    comma: bool,
    /// A list was folded already.
    folded: bool,
    blank: bool,
    ended: bool,
    several: bool,
    cut: bool,
    parameters: u32,
}

impl Making {
    /// Takes one token in and says how long it is.
    fn step(&mut self, sql: &str, at: usize) -> usize {
        let rest = &sql[at..];
        let bytes = rest.as_bytes();
        let second = bytes.get(1).copied().unwrap_or(0);
        match bytes[0] {
            b if b.is_ascii_whitespace() => {
                self.blank = true;
                1
            }
            b'-' if second == b'-' => {
                (self.blank, self.last) = (true, Token::Comment);
                sql::line_comment(bytes)
            }
            b'/' if second == b'*' => {
                (self.blank, self.last) = (true, Token::Comment);
                let length = sql::block_comment(bytes);
                self.cut |= length.is_none();
                length.unwrap_or(bytes.len())
            }
            b'\'' => self.string(rest, 0, false),
            b'e' | b'E' if second == b'\'' => self.string(rest, 1, true),
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if second == b'\'' => {
                self.string(rest, 1, false)
            }
            b'u' | b'U' if rest[1..].starts_with("&'") => self.string(rest, 2, false),
            b'"' => {
                let length = sql::quoted(bytes, false);
                self.cut |= length.is_none();
                let length = length.unwrap_or(bytes.len());
                self.word(&rest[..length]);
                length
            }
            b'$' if second.is_ascii_digit() => {
                let digits = digits(&bytes[1..]);
                let number = rest[1..=digits].parse().unwrap_or(u32::MAX);
                self.parameters = self.parameters.max(number);
                self.value();
                1 + digits
            }
            b'$' => match sql::dollar_quoted(bytes) {
                Some(string) => {
                    self.cut |= string.length.is_none();
                    self.value();
                    string.length.unwrap_or(bytes.len())
                }
                None => {
                    self.mark('$');
                    1
                }
            },
            b'0'..=b'9' => self.number(bytes),
            b'.' if second.is_ascii_digit() => self.number(bytes),
            b';' => {
                self.ended = true;
                (self.list, self.comma, self.folded) = (None, false, false);
                1
            }
            b if sql::begins_word(b) => {
                let length = sql::word(bytes);
                self.word(&rest[..length]);
                length
            }
            b => {
                self.mark(b as char);
                1
            }
        }
    }

    fn string(&mut self, rest: &str, prefix: usize, escapes: bool) -> usize {
        let length = sql::quoted(&rest.as_bytes()[prefix..], escapes);
        self.cut |= length.is_none();
        self.value();
        length.map_or(rest.len(), |length| prefix + length)
    }

    fn number(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(b) = bytes.get(at) {
            let exponent = matches!(bytes.get(at.wrapping_sub(1)), Some(b'e' | b'E'));
            let sign = matches!(b, b'+' | b'-')
                && exponent
                && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
                && !bytes.starts_with(b"0x");
            if !(b.is_ascii_alphanumeric() || *b == b'.' || *b == b'_' || sign) {
                break;
            }
            at += 1;
        }
        self.value();
        at
    }

    fn begin(&mut self) {
        if self.ended && !self.out.is_empty() {
            self.several = true;
            self.out.push(';');
        }
        if self.blank && !self.out.is_empty() {
            self.out.push(' ');
        }
        (self.blank, self.ended) = (false, false);
    }

    fn word(&mut self, word: &str) {
        self.begin();
        self.out.push_str(word);
        (self.list, self.comma, self.folded) = (None, false, false);
    }

    fn mark(&mut self, mark: char) {
        self.begin();
        self.out.push(mark);
        self.comma = mark == ',' && self.list.is_some();
        if !self.comma {
            (self.list, self.folded) = (None, false);
        }
    }

    /// A literal or a parameter; of a list of them the first stands for all.
    fn value(&mut self) {
        self.last = Token::Value;
        if let (Some(end), true) = (self.list, self.comma) {
            self.out.truncate(end);
            if !self.folded {
                self.out.push_str(", ...");
            }
            (self.folded, self.comma, self.blank) = (true, false, false);
            self.list = Some(self.out.len());
            return;
        }
        self.begin();
        self.values += 1;
        let _ = write!(self.out, "${}", self.values);
        (self.list, self.comma, self.folded) = (Some(self.out.len()), false, false);
    }

    fn done(self) -> Normalised {
        let Self {
            mut out,
            several,
            cut,
            parameters,
            ..
        } = self;
        // FNV-1a: the same on every machine and in every version of this program.
        let hash = out.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x100_0000_01b3)
        });
        if out.len() > MOST_TEXT {
            let ends = (0..=MOST_TEXT).rev();
            let end = ends.into_iter().find(|at| out.is_char_boundary(*at));
            out.truncate(end.unwrap_or(0));
            out.push('…');
        }
        Normalised {
            id: format!("{hash:016x}"),
            text: out,
            cut,
            several,
            parameters,
            values: Vec::new(),
            comments: Vec::new(),
        }
    }
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> String {
        normalise(sql).text
    }

    #[test]
    fn literals_comments_and_blanks_go() {
        assert_eq!(
            text(
                "SELECT  a1,\n\t'it''s', -2.5e-3 + .5 -- why\nFROM t1 /* a /* b */ c */ WHERE x=1;"
            ),
            "SELECT a1, $1, -$2 + $3 FROM t1 WHERE x=$4"
        );
        assert_eq!(
            text("ALTER ROLE joe PASSWORD 'secret'"),
            "ALTER ROLE joe PASSWORD $1"
        );
        assert_eq!(text(r"SELECT E'\'x' || 'a\' || b"), "SELECT $1 || $2 || b");
        assert_eq!(
            text("SELECT U&'d' , X'1F', n'x', 0x1f, 1_000"),
            "SELECT $1, ..."
        );
        assert_eq!(
            text(r#"SELECT "a'b" FROM "x y""#),
            r#"SELECT "a'b" FROM "x y""#
        );
        assert_eq!(text("DO $x$ SELECT '$y$' $x$"), "DO $1");
        assert_eq!(text("SELECT $$a$$, b$c$d"), "SELECT $1, b$c$d");
    }

    #[test]
    fn the_same_statement_with_other_values_is_the_same() {
        let one = normalise("select * from t where a in (1, 2,3) and b = 'x'");
        let other = normalise("SELECT *  FROM t WHERE a IN ($1,$2, $3, $4) AND b = $5");
        assert_eq!(one.id, other.id);
        assert_eq!(one.text, "select * from t where a in ($1, ...) and b = $2");
        assert_eq!((one.parameters, other.parameters), (0, 5));
        assert_eq!((one.values.len(), other.values.len()), (4, 5));
        assert_ne!(one.id, normalise("select * from t where a in (1)").id);
        assert_eq!(
            text("insert into t values (1, 'a'), (2, 'b')"),
            "insert into t values ($1, ...), ($2, ...)"
        );
    }

    #[test]
    fn what_the_server_cut_and_what_is_several_is_told() {
        assert!(normalise("SELECT 'abc").cut);
        assert!(normalise("SELECT 1 /* ab").cut);
        assert!(normalise("SELECT $a$ b").cut);
        assert!(!normalise("SELECT 1").cut);
        assert!(!normalise("SELECT 1; -- that is all").several);
        let two = normalise("SELECT 1; DROP TABLE t;");
        assert!(
            two.several && two.text == "SELECT $1; DROP TABLE t",
            "{two:?}"
        );
        assert!(!normalise("SELECT '; DROP TABLE t'").several);
        let long = normalise(&format!("SELECT {}", "ä".repeat(900)));
        assert!(long.text.len() <= MOST_TEXT + 3 && long.text.ends_with('…'));
    }

    #[test]
    fn values_and_comments_have_their_places() {
        let sql = "SELECT /* a */ 'x' -- b\n, $2 FROM t";
        let made = normalise(sql);
        let texts = |spans: &[Range<usize>]| -> Vec<String> {
            spans
                .iter()
                .map(|span| sql[span.clone()].to_owned())
                .collect()
        };
        assert_eq!(texts(&made.values), ["'x'", "$2"]);
        assert_eq!(texts(&made.comments), ["/* a */", "-- b"]);
    }

    #[test]
    fn no_text_stops_it() {
        for sql in [
            "", "$", "$1", "E'\\", "U&", "u", "'", "\"", "$$", "$9$x$9$", "é'", "/*", "1e", ".",
        ] {
            normalise(sql);
        }
    }
}
