//! The words of an SQL text, as far as they tell which tables its statements write to.

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
    let ends_here = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii());
    if first.is_alphabetic() || first == '_' || !first.is_ascii() {
        let end = text.find(ends_here).unwrap_or(text.len());
        let (word, after) = text.split_at(end);
        let word = word.to_ascii_lowercase();
        return Some(match (word.as_str(), after.as_bytes()) {
            ("e", [b'\'', ..]) => quoted(after, '\'', true),
            ("u", [b'&', b'"' | b'\'', ..]) => (Token::Unknown, ""),
            _ => (Token::Word(word), after),
        });
    }
    if first == '$'
        && let Some(found) = dollar_quoted(text)
    {
        return Some(found);
    }
    Some(match first {
        '\'' | '"' => quoted(text, first, false),
        _ => (Token::Sign(first), &text[first.len_utf8()..]),
    })
}

fn beyond_comments(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        if text.starts_with("--") {
            text = text.find(['\n', '\r']).map_or("", |end| &text[end..]);
        } else if text.starts_with("/*") {
            text = beyond_block(text);
        } else {
            return text;
        }
    }
}

/// Comments between `/*` and `*/` may hold others.
fn beyond_block(text: &str) -> &str {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return &text[at..];
            }
        } else {
            at += 1;
        }
    }
    ""
}

/// A text that begins with its quote; doubled it stands for itself.
fn quoted(text: &str, quote: char, escapes: bool) -> (Token, &str) {
    let mut value = String::new();
    let mut rest = text[1..].char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if c == '\\' && escapes {
            value.extend(rest.next().map(|(_, c)| c));
        } else if c == '\\' && quote == '\'' && rest.peek().is_some_and(|(_, c)| *c == quote) {
            // Where the string ends depends on standard_conforming_strings.
            return (Token::Unknown, "");
        } else if c != quote {
            value.push(c);
        } else if rest.next_if(|(_, c)| *c == quote).is_some() {
            value.push(quote);
        } else {
            let token = match quote {
                '"' => Token::Quoted(value),
                _ => Token::Text(value),
            };
            return (token, &text[at + 2..]);
        }
    }
    (Token::Unknown, "")
}

/// `$$text$$` or `$tag$text$tag$`.
fn dollar_quoted(text: &str) -> Option<(Token, &str)> {
    let length = text[1..].find('$')? + 2;
    let tag = &text[..length];
    let inner = &tag[1..length - 1];
    let named = |c: char| c.is_alphanumeric() || c == '_' || !c.is_ascii();
    if !inner.chars().all(named) || inner.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let body = &text[length..];
    Some(match body.find(tag) {
        Some(end) => (
            Token::Text(body[..end].to_owned()),
            &body[end + tag.len()..],
        ),
        None => (Token::Unknown, ""),
    })
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
