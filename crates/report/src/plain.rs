//! Text for a terminal without Unicode and for a shell. Foreign text is made safe by
//! `pgassay_text`: names of CPUs, settings and messages of servers go through `clean` before they
//! reach a terminal or a page.

pub use pgassay_text::line as clean;

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

/// The same with no break between a figure and its per cent sign.
pub fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
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
    fn ascii_keeps_the_sense() {
        assert_eq!(ascii("5 µs ±2% 1–3 …"), "5 us +-2% 1-3 ...");
        assert_eq!(ascii("日本"), "??");
    }

    /// Tried: lines ended between 95 and its sign.
    #[test]
    fn a_figure_keeps_its_sign() {
        assert_eq!(unbroken("at 95 % of 2"), "at 95\u{a0}% of 2");
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
