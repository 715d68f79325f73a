//! Foreign text made safe where it is shown, and what is common to all that read SQL ([`sql`])
//! or write it ([`quote`]), our own statements included ([`own`]).
//!
//! Names of databases, roles, scripts, files and processes, and messages of servers are chosen by
//! others. Whatever prints them passes them through here first: [`line()`] and [`lines()`] for a
//! terminal, [`markdown()`] for markdown, [`cell()`] for a spreadsheet, [`json()`] for JSON,
//! [`shell()`] for commands to type. HTML is escaped where it is
//! made, after [`line()`]. Pure: no files, no clock, no environment.

pub mod normalise;
pub mod number;
pub mod own;
pub mod quote;
pub mod sql;
pub mod suggestion;

/// What stands for a character that is not shown.
const HIDDEN: char = '\u{fffd}';

/// The text on one line, without anything that a terminal acts on: line ends and tabs become
/// spaces, other control characters (C0, C1, DEL) and those that turn the reading direction `�`.
pub fn line(text: &str) -> String {
    text.trim()
        .chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_unsafe(c) => HIDDEN,
            c => c,
        })
        .collect()
}

/// The same for text of several lines: its line ends and its indentation stay.
pub fn lines(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if is_unsafe(c) => HIDDEN,
            c => c,
        })
        .collect()
}

/// A text in the room that there is: all of it, or its beginning and `…`, of so many characters at most.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Whether a terminal would act on a character instead of showing it.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || is_direction(c)
}

/// Unicode's marks and controls of the reading direction, and its line separators (UAX #9,
/// section 2).
fn is_direction(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// One line in which nothing is markup to a reader of markdown or of HTML within it.
pub fn markdown(text: &str) -> String {
    let text = line(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A JSON text that means the same, in which what a terminal would act on is an escape.
///
/// serde_json escapes C0 only. The others can stand in strings only, so that each may be replaced
/// wherever it is.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(c),
            // All of them are below U+10000: no pair of escapes is needed.
            c if is_unsafe(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// One line that a spreadsheet takes for text: what would begin a formula gets an apostrophe in
/// front. For names only; a figure may begin with a minus.
pub fn cell(text: &str) -> String {
    let text = line(text);
    match text.chars().next() {
        Some('=' | '+' | '-' | '@') => format!("'{text}"),
        // Spreadsheets take the wide forms for the same.
        Some('＝' | '＋' | '－' | '＠') => format!("'{text}"),
        _ => text,
    }
}

/// The same with per cent signs close to their figures, as English has them: `95%` of `95 %`.
pub fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, part) in text.split('%').enumerate() {
        if n > 0 {
            let figure = out.strip_suffix([' ', '\u{a0}']).unwrap_or_default();
            if figure.ends_with(|c: char| c.is_ascii_digit()) {
                out.truncate(figure.len());
            }
            out.push('%');
        }
        out.push_str(part);
    }
    out
}

/// A command line that a shell reads back as the same words.
pub fn shell<W: AsRef<str>>(words: &[W]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| shell_word(word.as_ref())).collect();
    quoted.join(" ")
}

/// One word of a command line, in quotes where a shell would take it for more.
pub fn shell_word(word: &str) -> String {
    // `1..64*2` needs quotes: a shell may expand the asterisk.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack D17: ESC, BEL, U+009B and U+202E of names reached the terminal.
    #[test]
    fn a_text_that_is_too_long_is_cut() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("abcd fg", 6), "abcd…");
        assert_eq!(cut(&"é".repeat(9), 3), "éé…");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn a_terminal_shows_everything_and_acts_on_nothing() {
        let name = "a\u{1b}[31mb\u{7}\u{9b}2J\u{202e}c\u{7f}\u{200f}\u{2069}\u{61c}\nd ";
        let shown = "a\u{fffd}[31mb\u{fffd}\u{fffd}2J\u{fffd}c\u{fffd}\u{fffd}\u{fffd}\u{fffd}";
        assert_eq!(line(name), format!("{shown} d"));
        assert_eq!(lines(&format!("  x\n{name}")), format!("  x\n{shown}\nd "));
        for c in ('\0'..='\u{ff}').filter(|c| c.is_control() && !"\n\t".contains(*c)) {
            assert_eq!(lines(&c.to_string()), "\u{fffd}", "{:?}", c);
        }
        assert_eq!(lines("Straße 日本 µs"), "Straße 日本 µs");
    }

    /// Attack D17: `<script>` and a link to a script reached markdown as they were.
    #[test]
    fn markdown_holds_no_markup() {
        assert_eq!(
            markdown("<script>[x](javascript:1)|`*_#~\\&"),
            r"&lt;script&gt;\[x\](javascript:1)\|\`\*\_\#\~\\&amp;"
        );
    }

    /// Attack D17: JSON on a terminal held C1, DEL and turns of direction as they were.
    #[test]
    fn json_keeps_its_meaning_and_steers_nothing() {
        let text = "{\n\t\"a\u{9b}2J\": \"b\u{7f}\u{202e}c\u{2028} é日\"}\n";
        assert_eq!(
            json(text),
            "{\n\t\"a\\u009b2J\": \"b\\u007f\\u202ec\\u2028 é日\"}\n"
        );
    }

    /// Tables had `±2%` and sentences `95 %`, at whose blank lines ended.
    #[test]
    fn a_per_cent_sign_is_close_to_its_figure() {
        assert_eq!(percent("95 % of 2, 3\u{a0}% and 4%"), "95% of 2, 3% and 4%");
        let others = "% of time, own %, a % b, 5  %, %";
        assert_eq!(percent(others), others);
    }

    #[test]
    fn a_shell_reads_the_words_back() {
        let words = ["pgassay", "--clients", "1..64*2", "it's", "", "a=b", "~"];
        assert_eq!(
            shell(&words),
            r"pgassay --clients '1..64*2' 'it'\''s' '' a=b '~'"
        );
    }

    /// Attack D17: a script named `=cmd|calc!A0.sql` became a formula.
    #[test]
    fn a_spreadsheet_runs_nothing() {
        assert_eq!(cell("=cmd|calc!A0.sql"), "'=cmd|calc!A0.sql");
        for first in ["+", "-", "@", "\t=", "\r=", " ="] {
            assert!(cell(&format!("{first}1")).starts_with('\''), "{first:?}");
        }
        assert_eq!(cell("select-only"), "select-only");
        assert_eq!(cell("a\u{1b}b"), "a\u{fffd}b");
        assert_eq!(cell(""), "");
    }
}
