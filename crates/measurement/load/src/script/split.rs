//! Cuts a script into SQL commands and backslash commands.
//!
//! A semicolon ends an SQL command unless it stands in a string, a quoted name, a comment,
//! parentheses or the body of a function in SQL-standard form (`BEGIN ATOMIC … END`); a backslash
//! outside of those begins a backslash command, which ends the SQL command before it and reaches to
//! the end of its line. `\;` and `\:` stand for the bare character and end nothing.

use pgassay_text::sql;

use super::token::{is_name_byte, is_name_start};

/// A piece of a script, by its bytes in the script's text.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// An SQL command, with its semicolon where it has one.
    Sql {
        /// where its first word begins
        offset: usize,
        /// the text that is sent, before variables are replaced
        text: String,
    },
    /// A backslash command: from its backslash to the end of its line.
    Backslash {
        /// the backslash
        offset: usize,
        /// one past its last byte
        end: usize,
    },
}

/// Cuts `text` into its pieces.
pub(super) fn split(text: &str) -> Vec<Piece> {
    Splitter {
        text,
        bytes: text.as_bytes(),
        at: 0,
        sql: Sql::default(),
        pieces: Vec::new(),
    }
    .run()
}

/// The SQL command being collected.
#[derive(Default)]
struct Sql {
    text: String,
    offset: usize,
    parens: u32,
    /// How many words there were, up to the four that can name CREATE OR REPLACE FUNCTION.
    words: Vec<String>,
    /// Depth of BEGIN and CASE in the body of a function.
    blocks: u32,
}

impl Sql {
    /// Follows CREATE [OR REPLACE] {FUNCTION|PROCEDURE} … BEGIN … END.
    fn word(&mut self, word: &str) {
        if self.words.len() < 4 {
            self.words.push(word.to_ascii_lowercase());
        }
        let first: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let routine = matches!(
            first.as_slice(),
            ["create", "function" | "procedure", ..]
                | ["create", "or", "replace", "function" | "procedure", ..]
        );
        if !routine || self.parens > 0 {
            return;
        }
        if word.eq_ignore_ascii_case("begin")
            || (self.blocks > 0 && word.eq_ignore_ascii_case("case"))
        {
            self.blocks += 1;
        } else if word.eq_ignore_ascii_case("end") {
            self.blocks = self.blocks.saturating_sub(1);
        }
    }
}

struct Splitter<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    sql: Sql,
    pieces: Vec<Piece>,
}

impl Splitter<'_> {
    fn run(mut self) -> Vec<Piece> {
        while let Some(&byte) = self.bytes.get(self.at) {
            let rest = &self.bytes[self.at..];
            match byte {
                b';' if self.sql.parens == 0 && self.sql.blocks == 0 => {
                    self.keep_or_skip(1);
                    self.finish_sql();
                }
                b'\\' if matches!(rest.get(1), Some(b';' | b':')) => {
                    // Kept as the bare character; after \; a new statement begins.
                    if rest.get(1) == Some(&b';') {
                        self.sql.parens = 0;
                        self.sql.blocks = 0;
                        self.sql.words.clear();
                    }
                    self.at += 1;
                    self.keep(1);
                }
                b'\\' => self.backslash(),
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.keep_or_skip(1),
                b'-' if rest.starts_with(b"--") => {
                    self.keep_or_skip(sql::line_comment(rest));
                }
                b'/' if rest.starts_with(b"/*") => {
                    self.keep(sql::block_comment(rest).unwrap_or(rest.len()));
                }
                b'\'' | b'"' => self.keep(sql::quoted(rest, false).unwrap_or(rest.len())),
                b'$' => self.keep(match sql::dollar_quoted(rest) {
                    Some(string) => string.length.unwrap_or(rest.len()),
                    // A parameter's number takes the letters that follow it; a bare dollar stands alone.
                    None => match rest.get(1).is_some_and(u8::is_ascii_digit) {
                        true => 1 + rest[1..].iter().take_while(|b| is_name_byte(**b)).count(),
                        false => 1,
                    },
                }),
                b'(' => {
                    self.sql.parens += 1;
                    self.keep(1);
                }
                b')' => {
                    self.sql.parens = self.sql.parens.saturating_sub(1);
                    self.keep(1);
                }
                b'0'..=b'9' => {
                    // 1$$ is no quote: a number takes the letters that follow it.
                    let length = rest.iter().take_while(|b| is_name_byte(**b)).count();
                    self.keep(length);
                }
                _ if is_name_start(byte) => self.word(),
                _ => {
                    let length = self.text[self.at..]
                        .chars()
                        .next()
                        .map_or(1, char::len_utf8);
                    self.keep(length);
                }
            }
        }
        self.finish_sql();
        self.pieces
    }

    fn keep(&mut self, length: usize) {
        if self.sql.text.is_empty() {
            self.sql.offset = self.at;
        }
        self.sql
            .text
            .push_str(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    /// White space and line comments before the first word are dropped.
    fn keep_or_skip(&mut self, length: usize) {
        if self.sql.text.is_empty() {
            self.at += length;
        } else {
            self.keep(length);
        }
    }

    fn word(&mut self) {
        let rest = &self.bytes[self.at..];
        let length = sql::word(rest);
        let escape_string =
            length == 1 && matches!(rest[0], b'e' | b'E') && rest.get(1) == Some(&b'\'');
        if escape_string {
            let string = sql::quoted(&rest[1..], true);
            self.keep(string.map_or(rest.len(), |length| 1 + length));
            return;
        }
        let word = &self.text[self.at..self.at + length];
        self.sql.word(word);
        self.keep(length);
    }

    fn finish_sql(&mut self) {
        let sql = std::mem::take(&mut self.sql);
        if !sql.text.is_empty() {
            self.pieces.push(Piece::Sql {
                offset: sql.offset,
                text: sql.text,
            });
        }
    }

    fn backslash(&mut self) {
        self.finish_sql();
        let offset = self.at;
        let mut end = offset;
        while let Some(length) = self.bytes[end..].iter().position(|b| *b == b'\n') {
            let line = &self.bytes[end..end + length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            end += length;
            if !line.ends_with(b"\\") || end + 1 > self.bytes.len() {
                self.at = end;
                self.pieces.push(Piece::Backslash { offset, end });
                return;
            }
            end += 1; // the line goes on
        }
        self.at = self.bytes.len();
        self.pieces.push(Piece::Backslash {
            offset,
            end: self.at,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        split(script)
            .into_iter()
            .map(|piece| match piece {
                Piece::Sql { text, .. } => text,
                Piece::Backslash { offset, end } => script[offset..end].to_owned(),
            })
            .collect()
    }

    #[test]
    fn semicolons_end_commands_only_outside_of_quotes() {
        assert_eq!(
            texts(
                "SELECT ';', \";\", $$;$$, $x$;$$;$x$, E'\\';', (1;2) /* ; /* ; */ ; */; SELECT 2 -- ;\n; "
            ),
            [
                "SELECT ';', \";\", $$;$$, $x$;$$;$x$, E'\\';', (1;2) /* ; /* ; */ ; */;",
                "SELECT 2 -- ;\n;"
            ]
        );
    }

    #[test]
    fn backslash_commands_end_the_sql_before_them_and_may_go_on() {
        assert_eq!(
            texts("-- head\nSELECT 1 \\gset x_\n\\set a 1 +\\\n 2\nSELECT 2\n"),
            ["SELECT 1 ", "\\gset x_", "\\set a 1 +\\\n 2", "SELECT 2\n"]
        );
    }

    #[test]
    fn escaped_semicolons_join_statements() {
        assert_eq!(texts("SELECT 1\\; SELECT 2;"), ["SELECT 1; SELECT 2;"]);
    }

    #[test]
    fn a_function_body_keeps_its_semicolons() {
        let body = "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END";
        assert_eq!(
            texts(&format!("{body}; SELECT 1")),
            [&format!("{body};"), "SELECT 1"]
        );
        assert_eq!(texts("BEGIN; END;"), ["BEGIN;", "END;"]);
    }

    #[test]
    fn what_is_not_closed_reaches_to_the_end() {
        for script in [
            "SELECT 'a;",
            "SELECT /* a;",
            "SELECT $a$ b;",
            "SELECT \"x",
            "SELECT e'\\",
            "\\",
            "$",
        ] {
            assert_eq!(texts(script), [script]);
        }
    }
}
