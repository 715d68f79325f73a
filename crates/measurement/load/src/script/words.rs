//! The words of a backslash command.

/// A word of a backslash command and the byte at which it begins.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub text: &'a str,
    pub offset: usize,
}

/// The words between two bytes; a backslash before the end of a line goes on with the next line.
pub(super) fn words(text: &str, start: usize, end: usize) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let mut at = start;
    while at < end {
        if is_gap(bytes, at, end) {
            at += 1;
            continue;
        }
        let first = at;
        while at < end && !is_gap(bytes, at, end) {
            at += 1;
        }
        found.push(Word {
            text: &text[first..at],
            offset: first,
        });
    }
    found
}

fn is_gap(bytes: &[u8], at: usize, end: usize) -> bool {
    match bytes[at] {
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => true,
        b'\\' => matches!(&bytes[at + 1..end], [b'\n', ..] | [b'\r', b'\n', ..]),
        _ => false,
    }
}

/// The integer with which a text begins, as C's `atoi` reads it; 0 where there is none.
pub(crate) fn leading_int(text: &str) -> i64 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    digits
        .bytes()
        .take_while(u8::is_ascii_digit)
        .fold(0i64, |sum, digit| {
            sum.saturating_mul(10)
                .saturating_add(i64::from(digit - b'0'))
        })
        * sign
}
