//! Text for a terminal without Unicode and for a shell. Foreign text is made safe by
//! `pgassay_text`: names of CPUs, settings and messages of servers go through `clean` before they
//! reach a terminal or a page.

pub use pgassay_text::shell;

/// Foreign text made safe, and figures as every format has them.
pub fn clean(text: &str) -> String {
    pgassay_text::percent(&pgassay_text::line(text))
}

/// The same in markdown.
pub fn markdown(text: &str) -> String {
    pgassay_text::percent(&pgassay_text::markdown(text))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_keeps_the_sense() {
        assert_eq!(ascii("5 µs ±2% 1–3 …"), "5 us +-2% 1-3 ...");
        assert_eq!(ascii("日本"), "??");
    }
}
