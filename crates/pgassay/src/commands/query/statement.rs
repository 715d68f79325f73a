//! What a question in SQL is made of, as far as all engines agree on it.

use pgassay_model::Failure;
use pgassay_records::TABLES;
use pgassay_text::sql;

/// Words with which a question begins.
const BEGINS: [&str; 3] = ["select", "with", "values"];

/// A token, as far as it matters.
enum Token<'a> {
    /// A blank or a comment.
    Blank,
    /// A word or a quoted name, without its quotes.
    Word(&'a str),
    /// The end of a statement.
    Semicolon,
    Other,
}

fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, Failure> {
    let bytes = text.as_bytes();
    let unended = |what: &str| {
        Failure::usage(format!("the question has {what} that does not end"))
            .with_remedy("close it, and look at the quotes that your shell takes away")
    };
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let part = |from: usize, to: usize| text.get(at + from..at + to).unwrap_or_default();
        let (length, token) = match rest {
            [b'-', b'-', ..] => (sql::line_comment(rest), Token::Blank),
            [b'/', b'*', ..] => {
                let length = sql::block_comment(rest).ok_or_else(|| unended("a comment"))?;
                (length, Token::Blank)
            }
            [b'\'', ..] => {
                let length = sql::quoted(rest, false).ok_or_else(|| unended("a text in quotes"))?;
                (length, Token::Other)
            }
            [b'"', ..] => {
                let length = sql::quoted(rest, false).ok_or_else(|| unended("a name in quotes"))?;
                (length, Token::Word(part(1, length - 1)))
            }
            [b';', ..] => (1, Token::Semicolon),
            [b'$', ..] => {
                return Err(Failure::usage("the question has a $ outside of quotes")
                    .with_remedy("write texts as 'text', and values themselves for parameters"));
            }
            [b'e' | b'E', b'\'', ..] => {
                return Err(
                    Failure::usage("the question has a text that begins with E'")
                        .with_remedy("write it as 'text', with quotes doubled"),
                );
            }
            [byte, ..] if sql::begins_word(*byte) => {
                let length = sql::word(rest);
                (length, Token::Word(part(0, length)))
            }
            [byte, ..] if byte.is_ascii_whitespace() => (1, Token::Blank),
            _ => (1, Token::Other),
        };
        tokens.push((at, token));
        at += length;
    }
    Ok(tokens)
}

/// The one question that a text holds, without what stands behind it.
///
/// # Errors
/// Where it holds none, or several, or a statement that is none.
pub(super) fn single(text: &str) -> Result<String, Failure> {
    if text.contains('\0') {
        return Err(Failure::usage("the question has a byte 0 in it").with_remedy("leave it out"));
    }
    let tokens = tokens(text)?;
    let meant = |token: &Token| !matches!(token, Token::Blank);
    let mut there = tokens.iter().filter(|(_, token)| meant(token));
    let begins = match there.find(|(at, _)| text.as_bytes()[*at] != b'(') {
        Some((_, Token::Word(word))) => BEGINS.iter().any(|known| word.eq_ignore_ascii_case(known)),
        _ => false,
    };
    if !begins {
        return Err(
            Failure::usage("a question begins with SELECT, WITH or VALUES")
                .with_remedy("tables are read only: ask them with a SELECT"),
        );
    }
    let end = tokens
        .iter()
        .position(|(_, token)| matches!(token, Token::Semicolon));
    let Some(end) = end else {
        return Ok(text.trim_end().to_owned());
    };
    let behind = &tokens[end..];
    if behind
        .iter()
        .any(|(_, token)| meant(token) && !matches!(token, Token::Semicolon))
    {
        return Err(
            Failure::usage("the question has several statements").with_remedy("ask one at a time")
        );
    }
    Ok(text[..behind[0].0].to_owned())
}

/// The tables that a question may name: all whose names are words of it.
pub(super) fn tables(text: &str) -> Vec<&'static str> {
    let tokens = tokens(text).unwrap_or_default();
    let named = |table: &str| {
        let mut words = tokens.iter().filter_map(|(_, token)| match token {
            Token::Word(word) => Some(*word),
            _ => None,
        });
        words.any(|word| word.eq_ignore_ascii_case(table))
    };
    let names = TABLES.iter().map(|table| table.name);
    names.filter(|name| named(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_and_no_statement_is_taken() {
        for (text, taken) in [
            ("SELECT 1", "SELECT 1"),
            (
                "-- what?\nselect ';' AS a; -- done\n;",
                "-- what?\nselect ';' AS a",
            ),
            (
                "/* a; /* b */ */ WITH a AS (SELECT 1) SELECT * FROM a \n",
                "/* a; /* b */ */ WITH a AS (SELECT 1) SELECT * FROM a",
            ),
            ("(SELECT 1) UNION (SELECT 2)", "(SELECT 1) UNION (SELECT 2)"),
            ("values (1)", "values (1)"),
        ] {
            assert_eq!(single(text).unwrap(), taken);
        }
        for (text, said) in [
            ("", "begins with"),
            ("-- nothing", "begins with"),
            (".shell rm", "begins with"),
            ("DROP TABLE runs", "begins with"),
            ("'SELECT'", "begins with"),
            ("SELECT 1; SELECT 2", "several"),
            ("SELECT 1; .shell rm", "several"),
            ("SELECT 'a", "does not end"),
            ("SELECT 1 /* a", "does not end"),
            ("SELECT \"a", "does not end"),
            ("SELECT 1\0", "byte 0"),
            ("SELECT $$'$$; COPY runs TO 'x' --'", "a $"),
            ("SELECT E'\\''; COPY runs TO 'x' --'", "E'"),
        ] {
            let message = single(text).unwrap_err().message;
            assert!(message.contains(said), "{text}: {message}");
        }
    }

    #[test]
    fn tables_are_found_by_name() {
        let sql =
            "SELECT 'lines', runs.run -- pairs\nFROM RUNS JOIN \"points\" p ON p.run = runs.run";
        assert_eq!(tables(sql), ["points", "runs"]);
    }
}
