//! `\draw name … from value …`: rows of values that were seen together, of which one is drawn each time.
//! `in order` at the end takes one row after the other: clients take turns, each transaction takes the next row.
//!
//! Not pgbench's: with it a script carries the parameters of real statements, texts among them, as they
//! occurred side by side. A value is a number, `'text'` with quotes doubled, `E'text'` with `\n`, `\r`,
//! `\t`, `\\` and `\'`, or NULL. Rows follow one another; a backslash at the end of a line goes on.

use super::expr::Slot;
use super::{Mistake, valid_name};

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Its text, as a parameter is sent; none for NULL.
    pub text: Option<Box<str>>,
    /// How it stands in the text of a statement.
    pub literal: Box<str>,
}

impl Drawn {
    /// Reads a value as it stands among those of `\draw`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(written: &str) -> Result<Self, String> {
        let wrong = |_| format!("`{written}` is no value of \\draw");
        match tokens(written, 0, written.len()).map_err(wrong)?.as_slice() {
            [one] if one.text.len() == written.len() => value(one).map_err(wrong),
            _ => Err(format!("`{written}` is no value of \\draw")),
        }
    }
}

/// Which variables, and the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The variables of a row.
    pub slots: Vec<Slot>,
    /// Their names.
    pub names: Vec<String>,
    /// Row after row.
    values: Vec<Drawn>,
    /// Whether rows are taken one after the other, and not at random.
    pub in_order: bool,
}

impl Draw {
    /// How many rows there are, at least one.
    pub fn rows(&self) -> usize {
        self.values.len() / self.slots.len()
    }

    /// A row's values, in the order of the variables.
    pub fn row(&self, row: usize) -> &[Drawn] {
        let width = self.slots.len();
        &self.values[row * width..(row + 1) * width]
    }
}

/// A token and the byte at which it begins.
pub(super) struct Token<'a> {
    pub offset: usize,
    pub text: &'a str,
}

/// Reads what follows `\draw`, from byte `start` to `end` of the script.
pub(super) fn parse(
    text: &str,
    start: usize,
    end: usize,
    mut slot: impl FnMut(&str) -> Slot,
) -> Result<Draw, Mistake> {
    let tokens = tokens(text, start, end)?;
    let from = tokens.iter().position(|token| token.text == "from");
    let from = from.ok_or_else(|| {
        Mistake::new(end, "missing \"from\"").hint("\\draw NAME … from VALUE …, row after row")
    })?;
    let (names, values) = (&tokens[..from], &tokens[from + 1..]);
    let (values, in_order) = match values {
        [values @ .., a, b] if (a.text, b.text) == ("in", "order") => (values, true),
        values => (values, false),
    };
    if let Some(file) = values.first().filter(|token| token.text == "file") {
        let what = "the rows of a file are not read here";
        return Err(Mistake::new(file.offset, what).hint("write the rows into the script"));
    }
    if names.is_empty() {
        return Err(Mistake::new(tokens[from].offset, "missing variable name"));
    }
    let mut slots = Vec::with_capacity(names.len());
    for name in names {
        if !valid_name(name.text) {
            let what = format!("invalid variable name: \"{}\"", name.text);
            return Err(Mistake::new(name.offset, what));
        }
        slots.push(slot(name.text));
    }
    if values.is_empty() || values.len() % names.len() != 0 {
        let what = format!(
            "{} values are no whole rows of {}",
            values.len(),
            names.len()
        );
        return Err(Mistake::new(end, what));
    }
    let values: Result<Vec<Drawn>, Mistake> = values.iter().map(value).collect();
    Ok(Draw {
        slots,
        names: names.iter().map(|name| name.text.to_owned()).collect(),
        values: values?,
        in_order,
    })
}

/// A value by its token.
fn value(token: &Token<'_>) -> Result<Drawn, Mistake> {
    let written = token.text;
    let (text, escaped) = match written.as_bytes() {
        [b'\'', ..] => (written[1..written.len() - 1].replace("''", "'"), false),
        [b'E', b'\'', ..] => (unescaped(&written[2..written.len() - 1]), true),
        _ if written.eq_ignore_ascii_case("null") => {
            return Ok(Drawn {
                text: None,
                literal: "NULL".into(),
            });
        }
        _ if is_number(written) => {
            return Ok(Drawn {
                text: Some(written.into()),
                // `x -:a` would begin a comment.
                literal: match written.starts_with('-') {
                    true => format!("({written})").into(),
                    false => written.into(),
                },
            });
        }
        _ => {
            let what = format!("`{written}` is no value");
            return Err(
                Mistake::new(token.offset, what).hint("a number, 'text' in quotes, or NULL")
            );
        }
    };
    if text.contains('\0') {
        return Err(Mistake::new(token.offset, "a value has a zero byte"));
    }
    // With standard_conforming_strings off a backslash is an escape: such a text is always written
    // with E.
    let literal = match escaped || text.contains('\\') {
        true => format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
        false => written.to_owned(),
    };
    Ok(Drawn {
        text: Some(text.into()),
        literal: literal.into(),
    })
}

/// Whether a text can stand among values without quotes.
pub fn is_number(text: &str) -> bool {
    let digits = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    text.bytes().all(digits) && text.parse::<f64>().is_ok()
}

fn unescaped(inner: &str) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => {}
            },
            '\'' => {
                // Doubled, or the token would have ended.
                chars.next();
                text.push('\'');
            }
            c => text.push(c),
        }
    }
    text
}

/// Words and quoted values; a backslash at the end of a line is blank.
pub(super) fn tokens(text: &str, start: usize, end: usize) -> Result<Vec<Token<'_>>, Mistake> {
    let bytes = &text.as_bytes()[..end];
    let mut found = Vec::new();
    let mut at = start;
    while at < end {
        let begin = at;
        match bytes[at] {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'\\' => {
                at += 1;
                continue;
            }
            b'\'' => at = closed(bytes, at + 1, false).ok_or_else(|| open(begin))?,
            b'E' if bytes.get(at + 1) == Some(&b'\'') => {
                at = closed(bytes, at + 2, true).ok_or_else(|| open(begin))?;
            }
            _ => {
                let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'\\' | b'\'');
                let length = bytes[at..].iter().position(ends);
                at += length.unwrap_or(end - at).max(1);
            }
        }
        found.push(Token {
            offset: begin,
            text: &text[begin..at],
        });
    }
    Ok(found)
}

fn open(offset: usize) -> Mistake {
    Mistake::new(offset, "unterminated quoted value")
}

/// One past the quote that closes what begins at `at`.
fn closed(bytes: &[u8], mut at: usize, escapes: bool) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            b'\\' if escapes => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// A text as a value of `\draw`.
pub fn quoted(text: &str) -> String {
    if !text.contains(['\n', '\r', '\t', '\\']) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut written = String::from("E'");
    for c in text.chars() {
        match c {
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            '\\' => written.push_str("\\\\"),
            '\'' => written.push_str("\\'"),
            c => written.push(c),
        }
    }
    written.push('\'');
    written
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Program};
    use super::*;

    fn drawn(text: &str) -> Draw {
        let mut program = Program::new();
        program.add("s", text, 1).unwrap();
        match &program.scripts()[0].commands[0] {
            Command::Draw(draw) => (**draw).clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_of_numbers_texts_and_null() {
        let draw = drawn(
            "\\draw a b from 1 'it''s' \\\n  -2.5 NULL \\\n  3 E'x\\n\\\\\\'y'\nSELECT :a;\n",
        );
        assert_eq!((draw.slots.len(), draw.rows()), (2, 3));
        let texts = |row: usize| -> Vec<Option<&str>> {
            let values = draw.row(row).iter();
            values.map(|value| value.text.as_deref()).collect()
        };
        assert_eq!(texts(0), [Some("1"), Some("it's")]);
        assert_eq!(texts(1), [Some("-2.5"), None]);
        assert_eq!(texts(2), [Some("3"), Some("x\n\\'y")]);
        assert_eq!(&*draw.row(0)[1].literal, "'it''s'");
        assert_eq!(&*draw.row(1)[0].literal, "(-2.5)");
        assert_eq!(&*draw.row(1)[1].literal, "NULL");
        assert_eq!(&*draw.row(2)[1].literal, "E'x\n\\\\''y'");
    }

    #[test]
    fn rows_are_taken_in_order_where_that_is_said() {
        let draw = drawn("\\draw a from 1 'in' 'order' in order\nSELECT :a;\n");
        assert!(draw.in_order && draw.rows() == 3);
        assert!(!drawn("\\draw a from 1 'in' 'order'\nSELECT :a;\n").in_order);
    }

    #[test]
    fn any_text_comes_back() {
        for text in [
            "",
            "'",
            "''",
            "\\",
            "a\nb\r\tc",
            "\\n",
            "from",
            "é'\\'é",
            "NULL",
            "--",
            ";",
            ":a",
        ] {
            let script = format!("\\draw a from {}\nSELECT :a;", quoted(text));
            assert_eq!(
                drawn(&script).row(0)[0].text.as_deref(),
                Some(text),
                "{script}"
            );
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for wrong in [
            "\\draw",
            "\\draw a",
            "\\draw from 1",
            "\\draw a from",
            "\\draw a b from 1",
            "\\draw 1a from 1",
            "\\draw a from 'x",
            "\\draw a from x",
            "\\draw a from inf",
            "\\draw a from E'x\\",
            "\\draw a from in order",
            "\\draw a from 1 in",
            "\\draw a from 1 order",
            "\\draw a from file x.csv",
        ] {
            let script = format!("{wrong}\nSELECT 1;");
            assert!(Program::new().add("s", &script, 1).is_err(), "{wrong}");
        }
    }
}
