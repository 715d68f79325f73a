//! Where the tokens of an SQL text end, by the rules of PostgreSQL's lexer (manual, "Lexical Structure").
//!
//! Each function is given a text that begins with the token and says how many bytes it has. What is made of a token
//! is its caller's business: a text without literals ([`crate::normalise`]), the pieces of a script, the tables that a
//! statement writes to.

/// A byte that may begin a word; those of other alphabets may.
pub fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// A word: a key word or a name without quotes.
pub fn word(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|b| begins_word(**b) || b.is_ascii_digit() || **b == b'$')
        .count()
}

/// A comment from `--` up to the line's end, which is not part of it.
pub fn line_comment(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|b| matches!(b, b'\n' | b'\r'));
    end.unwrap_or(bytes.len())
}

/// A comment from `/*` to its `*/`, others within it included; none where it does not end.
pub fn block_comment(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (1_u32, 2);
    while depth > 0 {
        match bytes.get(at..at + 2)? {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    Some(at)
}

/// Blanks and comments up to the first token; all of the text where it has none, or a comment does not end.
pub fn before_token(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        at += match rest {
            [b, ..] if b.is_ascii_whitespace() => 1,
            [b'-', b'-', ..] => line_comment(rest),
            [b'/', b'*', ..] => block_comment(rest).unwrap_or(rest.len()),
            _ => return at,
        };
    }
}

/// A string or a name, from its quote to the last one: doubled, the quote stands for itself, and so does one behind a
/// backslash where there are `escapes`. None where it does not end.
pub fn quoted(bytes: &[u8], escapes: bool) -> Option<usize> {
    let quote = *bytes.first()?;
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if escapes => at += 2,
            b if b == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            b if b == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// A string in dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DollarQuoted {
    /// Bytes of `$tag$`.
    pub tag: usize,
    /// Bytes of the whole; none where it does not end.
    pub length: Option<usize>,
}

/// `$$text$$` or `$tag$text$tag$`; none where no such string begins.
pub fn dollar_quoted(bytes: &[u8]) -> Option<DollarQuoted> {
    let name = bytes.get(1..)?;
    let length = name
        .iter()
        .take_while(|b| begins_word(**b) || b.is_ascii_digit())
        .count();
    let digit = name.first().is_some_and(u8::is_ascii_digit);
    if digit || name.get(length) != Some(&b'$') {
        return None;
    }
    let tag = length + 2;
    let ends = bytes[tag..].windows(tag);
    let end = ends.into_iter().position(|end| end == &bytes[..tag]);
    Some(DollarQuoted {
        tag,
        length: end.map(|end| tag + end + tag),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_end_where_postgresql_ends_them() {
        for (text, expected) in [
            ("/* a /* b */ c */ d", Some(17)),
            ("/*/ */", Some(6)),
            ("/* a /* b */", None),
            ("/*", None),
        ] {
            assert_eq!(block_comment(text.as_bytes()), expected, "{text}");
        }
        for (text, escapes, expected) in [
            ("'a' 'b'", false, Some(3)),
            ("'a''b' c", false, Some(6)),
            (r"'a\' b'", false, Some(4)),
            (r"'a\' b'", true, Some(7)),
            (r"'a\\' b'", true, Some(5)),
            (r#""a'""b""#, false, Some(7)),
            ("'a", false, None),
            (r"'a\'", true, None),
            (r"'a\", true, None),
            ("", false, None),
        ] {
            assert_eq!(quoted(text.as_bytes(), escapes), expected, "{text}");
        }
        assert_eq!(line_comment(b"-- a\r\nb"), 4);
        assert_eq!(line_comment(b"-- a"), 4);
        assert_eq!(word("straße_1$x-y".as_bytes()), 11);
    }

    #[test]
    fn dollars_begin_a_string_only_with_a_tag_that_is_a_name() {
        let whole = |tag, length| Some(DollarQuoted { tag, length });
        for (text, expected) in [
            ("$$a$$ b", whole(2, Some(5))),
            ("$x$ $$ $y$ $x$", whole(3, Some(14))),
            ("$é$a$é$", whole(4, Some(9))),
            ("$x$ a", whole(3, None)),
            ("$x$ $x", whole(3, None)),
            ("$$$", whole(2, None)),
            ("$1$a$1$", None),
            ("$1", None),
            ("$a b$", None),
            ("$", None),
        ] {
            assert_eq!(dollar_quoted(text.as_bytes()), expected, "{text}");
        }
    }
}
