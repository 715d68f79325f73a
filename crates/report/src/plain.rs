//! Foreign text made harmless: names of CPUs, settings and messages of servers
//! go through here before they reach a terminal or a page.

/// The text on one line, without what could move a cursor or turn the reading
/// direction: control characters become a space or `�`.
pub fn clean(text: &str) -> String {
    text.trim()
        .chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() || is_direction(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Unicode's explicit direction marks and line separators (UAX #9, section 2).
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// For terminals without Unicode: each sign by its nearest ASCII form.
pub fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'µ' | 'μ' => out.push('u'),
            '–' | '—' | '−' | '·' => out.push('-'),
            '±' => out.push_str("+-"),
            '×' => out.push('x'),
            '…' => out.push_str("..."),
            '≥' => out.push_str(">="),
            '≤' => out.push_str("<="),
            '‘' | '’' => out.push('\''),
            '“' | '”' => out.push('"'),
            '\u{a0}' | '\u{202f}' => out.push(' '),
            c if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

/// A command line that a shell reads back as the same words.
pub fn shell(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    quoted.join(" ")
}

fn shell_word(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    // `1..64*2` is not safe: a shell may expand the asterisk
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(
            clean("a\u{1b}[31mb\nc\u{202e}d "),
            "a\u{fffd}[31mb c\u{fffd}d"
        );
    }

    #[test]
    fn ascii_keeps_the_sense() {
        assert_eq!(ascii("5 µs ±2% 1–3 …"), "5 us +-2% 1-3 ...");
        assert_eq!(ascii("日本"), "??");
    }

    #[test]
    fn a_shell_reads_the_words_back() {
        let words = ["pgassay", "--clients", "1..64*2", "it's", "", "a=b"];
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        assert_eq!(
            shell(&words),
            r"pgassay --clients '1..64*2' 'it'\''s' '' a=b"
        );
    }
}
