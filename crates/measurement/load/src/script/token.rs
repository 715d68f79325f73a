//! The tokens of an expression.

use std::fmt;

use super::Mistake;
use super::value::underflows;

/// A token and the byte of the script at which it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spanned<'a> {
    pub token: Token<'a>,
    pub offset: usize,
    /// One past its last byte.
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Int(i64),
    /// 9223372036854775808, which only a minus sign makes an integer
    IntLimit,
    Double(f64),
    Bool(bool),
    Null,
    Variable(&'a str),
    Name(&'a str),
    And,
    Or,
    Not,
    Is,
    IsNull,
    NotNull,
    Case,
    When,
    Then,
    Else,
    End,
    LeftParen,
    RightParen,
    Comma,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Bar,
    Hash,
    Ampersand,
    ShiftLeft,
    ShiftRight,
    Tilde,
}

const KEYWORDS: &[(&str, Token<'static>)] = &[
    ("and", Token::And),
    ("or", Token::Or),
    ("not", Token::Not),
    ("is", Token::Is),
    ("isnull", Token::IsNull),
    ("notnull", Token::NotNull),
    ("case", Token::Case),
    ("when", Token::When),
    ("then", Token::Then),
    ("else", Token::Else),
    ("end", Token::End),
    ("null", Token::Null),
    ("true", Token::Bool(true)),
    ("false", Token::Bool(false)),
];

/// Longer symbols before their prefixes.
const SYMBOLS: &[(&str, Token<'static>)] = &[
    ("<<", Token::ShiftLeft),
    (">>", Token::ShiftRight),
    ("<=", Token::LessEqual),
    (">=", Token::GreaterEqual),
    ("<>", Token::NotEqual),
    ("!=", Token::NotEqual),
    ("<", Token::Less),
    (">", Token::Greater),
    ("=", Token::Equal),
    ("(", Token::LeftParen),
    (")", Token::RightParen),
    (",", Token::Comma),
    ("+", Token::Plus),
    ("-", Token::Minus),
    ("*", Token::Star),
    ("/", Token::Slash),
    ("%", Token::Percent),
    ("|", Token::Bar),
    ("#", Token::Hash),
    ("&", Token::Ampersand),
    ("~", Token::Tilde),
];

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Int(i) => write!(f, "{i}"),
            Token::IntLimit => write!(f, "9223372036854775808 (beyond the largest integer)"),
            Token::Double(d) => write!(f, "{d}"),
            Token::Variable(name) => write!(f, ":{name}"),
            Token::Name(name) => write!(f, "\"{name}\""),
            other => {
                let text = KEYWORDS
                    .iter()
                    .chain(SYMBOLS)
                    .find(|(_, token)| token == other);
                write!(f, "\"{}\"", text.map_or("?", |(text, _)| text))
            }
        }
    }
}

pub(super) fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

pub(super) fn is_name_byte(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit()
}

/// The tokens of an expression, up to where the text is no token.
pub(super) struct Tokens<'a> {
    pub found: Vec<Spanned<'a>>,
    /// Why there are no more, where that is not the end.
    pub mistake: Option<Mistake>,
}

/// Splits `text[start..end]` into tokens.
pub(super) fn tokens(text: &str, start: usize, end: usize) -> Tokens<'_> {
    let mut found = Vec::new();
    let mistake = collect(text, start, end, &mut found).err();
    Tokens { found, mistake }
}

fn collect<'a>(
    text: &'a str,
    start: usize,
    end: usize,
    found: &mut Vec<Spanned<'a>>,
) -> Result<(), Mistake> {
    let bytes = &text.as_bytes()[..end];
    let run = |from: usize, accept: fn(u8) -> bool| {
        bytes[from..]
            .iter()
            .position(|b| !accept(*b))
            .map_or(end, |n| from + n)
    };
    let mut at = start;
    while at < end {
        let byte = bytes[at];
        let offset = at;
        let token = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            b'\\' if matches!(bytes.get(at + 1..), Some([b'\n', ..] | [b'\r', b'\n', ..])) => {
                at += 1;
                continue;
            }
            b':' if bytes.get(at + 1).copied().is_some_and(is_name_byte) => {
                at = run(at + 1, is_name_byte);
                Token::Variable(&text[offset + 1..at])
            }
            b'0'..=b'9' | b'.' if number_length(&bytes[at..]) > 0 => {
                at += number_length(&bytes[at..]);
                let digits = &text[offset..at];
                let overflows = |what| Mistake::new(offset, what).detail(digits).caret(at - 1);
                number(digits).map_err(overflows)?
            }
            _ if is_name_start(byte) => {
                at = run(at, is_name_byte);
                let word = &text[offset..at];
                KEYWORDS
                    .iter()
                    .find(|(keyword, _)| keyword.eq_ignore_ascii_case(word))
                    .map_or(Token::Name(word), |(_, token)| *token)
            }
            _ => {
                let rest = &bytes[at..];
                let Some((symbol, token)) = SYMBOLS
                    .iter()
                    .find(|(symbol, _)| rest.starts_with(symbol.as_bytes()))
                else {
                    let character = text[at..].chars().next().unwrap_or('?');
                    return Err(Mistake::new(at, "unexpected character")
                        .detail(character)
                        .caret(at));
                };
                at += symbol.len();
                *token
            }
        };
        found.push(Spanned {
            token,
            offset,
            end: at,
        });
    }
    Ok(())
}

/// The bytes of the number at the start: digits, a fraction, an exponent that is complete.
fn number_length(bytes: &[u8]) -> usize {
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let whole = digits(0);
    let mut length = whole;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(length + 1);
        if whole + fraction > 0 {
            length += 1 + fraction;
        }
    }
    if length == 0 {
        return 0;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = if length + 1 + sign <= bytes.len() {
            digits(length + 1 + sign)
        } else {
            0
        };
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

fn number(text: &str) -> Result<Token<'static>, &'static str> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text == "9223372036854775808" {
            return Ok(Token::IntLimit);
        }
        return text
            .parse()
            .map(Token::Int)
            .map_err(|_| "bigint constant overflow");
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && !underflows(text, value) => Ok(Token::Double(value)),
        _ => Err("double constant overflow"),
    }
}
