//! The words of an SQL text, as far as they tell which tables its statements write to.

use pgassay_text::sql;

/// A piece of a statement; comments and white space are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A bare word, in lower case.
    Word(String),
    /// A quoted name.
    Quoted(String),
    /// A string, whatever its quotes.
    Text(String),
    /// Any other character.
    Sign(char),
    /// What this reader does not know: a name with Unicode escapes, or quotes without an end.
    Unknown,
}

impl Token {
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    /// The name that it is as part of a table's name.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Word(name) | Self::Quoted(name) => Some(name),
            _ => None,
        }
    }
}

/// The statements of a text, each as its tokens.
pub(super) fn statements(text: &str) -> Vec<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some((token, after)) = next(rest) {
        tokens.push(token);
        rest = after;
    }
    tokens
        .split(|token| *token == Token::Sign(';'))
        .filter(|statement| !statement.is_empty())
        .map(<[Token]>::to_vec)
        .collect()
}

fn next(text: &str) -> Option<(Token, &str)> {
    let text = beyond_comments(text);
    let first = text.chars().next()?;
    let bytes = text.as_bytes();
    if sql::begins_word(bytes[0]) {
        let (word, after) = text.split_at(sql::word(bytes));
        let word = word.to_ascii_lowercase();
        return Some(match (word.as_str(), after.as_bytes()) {
            ("e", [b'\'', ..]) => quoted(after, true),
            ("u", [b'&', b'"' | b'\'', ..]) => (Token::Unknown, ""),
            _ => (Token::Word(word), after),
        });
    }
    if let ('$', Some(string)) = (first, sql::dollar_quoted(bytes)) {
        let Some(length) = string.length else {
            return Some((Token::Unknown, ""));
        };
        let body = &text[string.tag..length - string.tag];
        return Some((Token::Text(body.to_owned()), &text[length..]));
    }
    Some(match first {
        '\'' | '"' => quoted(text, false),
        _ => (Token::Sign(first), &text[first.len_utf8()..]),
    })
}

fn beyond_comments(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let bytes = text.as_bytes();
        let length = match bytes {
            [b'-', b'-', ..] => sql::line_comment(bytes),
            [b'/', b'*', ..] => sql::block_comment(bytes).unwrap_or(bytes.len()),
            _ => return text,
        };
        text = &text[length..];
    }
}

/// A text that begins with its quote; doubled it stands for itself.
fn quoted(text: &str, escapes: bool) -> (Token, &str) {
    let Some(length) = sql::quoted(text.as_bytes(), escapes) else {
        return (Token::Unknown, "");
    };
    let (token, after) = text.split_at(length);
    let (quote, inner) = (&token[..1], &token[1..length - 1]);
    if quote == "\"" {
        return (Token::Quoted(inner.replace("\"\"", "\"")), after);
    }
    if !escapes && (inner.contains("\\'") || inner.ends_with('\\')) {
        // Where the string ends depends on standard_conforming_strings.
        return (Token::Unknown, "");
    }
    let mut value = String::new();
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        // Behind a backslash, and behind a quote, which is doubled, stands what is meant.
        let meant = match c {
            '\\' if escapes => rest.next(),
            '\'' => rest.next(),
            c => Some(c),
        };
        value.extend(meant);
    }
    (Token::Text(value), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let word = |token: &Token| match token {
            Token::Word(word) => word.clone(),
            Token::Quoted(name) => format!("\"{name}\""),
            Token::Text(text) => format!("'{text}'"),
            Token::Sign(sign) => sign.to_string(),
            Token::Unknown => "?".to_owned(),
        };
        let statements = statements(text);
        statements.iter().flatten().map(word).collect()
    }

    #[test]
    fn quotes_and_comments_hide_nothing() {
        for (text, expected) in [
            ("UPDATE a", "update a"),
            ("'x\n-- ' UPDATE a", "'x\n-- ' update a"),
            ("/* /* */ ' */ UPDATE -- '\n a", "update a"),
            ("'it''s' E'it\\'s' a", "'it's' 'it's' a"),
            ("'back\\' a", "?"),
            ("$$x$$ $t$ $$ $t$ $1 a", "'x' ' $$ ' $ 1 a"),
            ("\"A\"\"b\".c", "\"A\"b\" . c"),
            ("U&\"a\" x", "?"),
            ("'open", "?"),
            ("é", "é"),
        ] {
            assert_eq!(words(text).join(" "), expected, "{text}");
        }
        assert_eq!(statements("; SELECT ';' ; SELECT 2;").len(), 2);
    }
}
