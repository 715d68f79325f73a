//! Passwords in arguments: what is shown of such an argument instead, in the process list and in
//! messages.
//!
//! This looks at single arguments before anybody knows what they mean, so that no command, spelling
//! or mistake in either is left out. What looks like a password and is none is hidden too.

use std::ffi::OsString;
use std::ops::Range;

use pgassay_pgwire::Conninfo;

/// Stands for a password, of whatever length.
const HIDDEN: &[u8] = b"***";

/// Replacements for messages: what an argument holds, and what is shown of it.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// The passwords in these arguments.
    pub fn of<'a>(arguments: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut found = Vec::new();
        for argument in arguments {
            let at = user_passwords(argument);
            // With what stands around it: "a" alone is found in every word.
            let in_uri = at
                .iter()
                .map(|range| (range.start - 1, range, range.end + 1));
            let by_keyword = keyword_passwords(argument);
            let certain = by_keyword.iter().filter(|found| found.certain);
            let in_pairs = certain.map(|found| (found.keyword, &found.value, found.value.end));
            for (start, secret, end) in in_uri.chain(in_pairs) {
                let text = |range| String::from_utf8_lossy(&argument[range]).into_owned();
                let shown = text(start..secret.start) + "***" + &text(secret.end..end);
                found.push((text(start..end), shown));
            }
        }
        // The longest first: a shorter one may be a part of it.
        found.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        Self(found)
    }

    /// A message without them.
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (secret, shown) in &self.0 {
            text = text.replace(secret, shown);
        }
        text
    }
}

/// The command line as it was typed, for a run's record: a connection string with a password stands
/// without it, any other word with stars in its place.
pub fn recorded(arguments: &[OsString]) -> Vec<String> {
    let word = |argument: &OsString| {
        let typed = argument.to_string_lossy().into_owned();
        let mut bytes = typed.clone().into_bytes();
        overwrite(&mut bytes);
        if bytes == typed.as_bytes() {
            return typed;
        }
        match Conninfo::parse(&typed) {
            Ok(conninfo) if Conninfo::looks_like(&typed) => conninfo.redacted(),
            _ => String::from_utf8_lossy(&bytes).trim_end().to_owned(),
        }
    };
    let typed = arguments.iter().skip(1).map(word);
    std::iter::once("pgassay".to_owned()).chain(typed).collect()
}

/// An argument as it may be shown, also where it is no message.
pub fn shown(argument: &str) -> String {
    let mut bytes = argument.as_bytes().to_vec();
    overwrite(&mut bytes);
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

/// Overwrites the passwords in an argument, in its place: what follows moves up, and blanks fill it.
pub fn overwrite(argument: &mut [u8]) {
    let mut hidden: Vec<Range<usize>> = user_passwords(argument).into_iter().collect();
    hidden.extend(keyword_passwords(argument).into_iter().map(|p| p.value));
    // Of those that begin alike the longest first.
    hidden.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    if hidden.is_empty() {
        return;
    }
    let mut shown = Vec::with_capacity(argument.len());
    let mut done = 0;
    for range in hidden {
        if range.start >= done {
            shown.extend_from_slice(&argument[done..range.start]);
            shown.extend_from_slice(&HIDDEN[..HIDDEN.len().min(range.len())]);
        }
        done = done.max(range.end);
    }
    shown.extend_from_slice(&argument[done..]);
    shown.resize(argument.len(), b' ');
    argument.copy_from_slice(&shown);
}

/// What stands between `user:` and each `@` behind it, the longest last: with a scheme before it,
/// with a wrong one or none.
fn user_passwords(text: &[u8]) -> Vec<Range<usize>> {
    let colon = |from: usize| Some(from + text.get(from..)?.iter().position(|b| *b == b':')?);
    // What follows is a command, which may name a user at a host.
    let command = b"exec:";
    let first = if text.starts_with(command) {
        command.len()
    } else {
        0
    };
    let Some(mut at) = colon(first) else {
        return Vec::new();
    };
    if text.get(at + 1) == Some(&b'/') {
        let Some(next) = colon(at + 1) else {
            return Vec::new();
        };
        at = next;
    }
    let start = at + 1;
    let ends = (start + 1..text.len()).filter(|end| text[*end] == b'@');
    ends.map(|end| start..end).collect()
}

/// A value that follows a keyword for passwords.
struct Pair {
    /// Where the keyword begins.
    keyword: usize,
    value: Range<usize>,
    /// The keyword means a password, and does not only hold the word, as `password_encryption`.
    certain: bool,
}

fn keyword_passwords(text: &[u8]) -> Vec<Pair> {
    let mut found: Vec<Pair> = Vec::new();
    for equals in (0..text.len()).filter(|at| text[*at] == b'=') {
        if found.last().is_some_and(|last| equals < last.value.end) {
            continue;
        }
        let before = text[..equals].trim_ascii_end();
        let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'%');
        let keyword = before.iter().rposition(|b| !word(b)).map_or(0, |at| at + 1);
        let name = decoded(&before[keyword..]).to_ascii_lowercase();
        let certain = ["password", "pasword", "passwd", "pass", "pwd", "secret"]
            .iter()
            .any(|end| name.ends_with(end));
        let meant = ["pass", "pasw", "pwd", "secret"]
            .iter()
            .any(|part| name.contains(part))
            && !name.ends_with("passfile");
        if !certain && !meant {
            continue;
        }
        let in_uri = keyword > 0 && matches!(text[keyword - 1], b'?' | b'&');
        let end = match in_uri {
            true => (equals + 1..text.len())
                .find(|at| text[*at] == b'&')
                .unwrap_or(text.len()),
            false => end_of_value(text, equals + 1),
        };
        let start = match in_uri {
            true => equals + 1,
            false => end - text[equals + 1..end].trim_ascii_start().len(),
        };
        if start < end {
            found.push(Pair {
                keyword,
                value: start..end,
                certain,
            });
        }
    }
    found
}

/// Where the value ends that begins at `from`, with the words after it that are no `keyword=value`:
/// they are the rest of a password without quotes.
fn end_of_value(text: &[u8], from: usize) -> usize {
    let mut end = from;
    loop {
        end = end_of_word(text, end);
        let rest = text[end..].trim_ascii_start();
        let word = rest
            .iter()
            .position(|b| !b.is_ascii_alphanumeric() && *b != b'_')
            .unwrap_or(rest.len());
        let is_pair = word > 0 && rest[word..].trim_ascii_start().starts_with(b"=");
        if rest.is_empty() || is_pair {
            return end;
        }
    }
}

/// Where a word ends that may be in quotes and may have blanks before it.
fn end_of_word(text: &[u8], from: usize) -> usize {
    let mut at = text.len() - text[from..].trim_ascii_start().len();
    let quoted = text.get(at) == Some(&b'\'');
    at += usize::from(quoted);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\'' if quoted => return at + 1,
            byte if !quoted && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// A keyword of a URI without its percent signs.
fn decoded(keyword: &[u8]) -> String {
    let mut bytes = Vec::new();
    let mut rest = keyword;
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|two| str::from_utf8(two).ok());
        let code = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match code {
            Some(code) if *first == b'%' => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_is_overwritten() {
        let cases = [
            ("postgres://u:geheim@h/d", "postgres://u:***@h/d"),
            (
                "-dpostgresql://u:geheim@h:5/d",
                "-dpostgresql://u:***@h:5/d",
            ),
            ("--dbname=postgres://u:p@h", "--dbname=postgres://u:*@h"),
            ("postgress://u:geheim@h", "postgress://u:***@h"),
            ("postgresql:/u:geheim@h", "postgresql:/u:***@h"),
            ("u:geheim@h", "u:***@h"),
            ("postgres://u:ge@heim@h", "postgres://u:***@h"),
            (
                "postgres://h/d?password=geheim&user=u",
                "postgres://h/d?password=***&user=u",
            ),
            (
                "postgres://h/d?p%61ssword=geheim",
                "postgres://h/d?p%61ssword=***",
            ),
            (
                "host=h password=geheim user=u",
                "host=h password=*** user=u",
            ),
            ("password = 'ge\\' heim' user=u", "password = *** user=u"),
            ("password=ge heim user=u", "password=*** user=u"),
            ("-dpassword=geheim", "-dpassword=***"),
            ("host=h pasword=geheim", "host=h pasword=***"),
            (
                "exec:docker exec -i c // postgresql://u:geheim@h/d",
                "exec:docker exec -i c // postgresql://u:***@h/d",
            ),
            ("sslkey=k sslpassword=geheim", "sslkey=k sslpassword=***"),
        ];
        for (typed, expected) in cases {
            assert_eq!(shown(typed), expected);
        }
        for plain in [
            "exec:ssh me@db1 // temp",
            "temp",
            "select-only@9",
            "postgres://h:5432/d",
            "postgres://u@h:5432/d",
            "host=/tmp passfile=/root/.pgpass",
            "password=",
            "",
        ] {
            assert_eq!(shown(plain), plain);
        }
    }

    #[test]
    fn a_command_line_is_recorded_as_typed_but_for_its_passwords() {
        let typed = [
            "/usr/bin/pgassay",
            "run",
            "select-only",
            "postgres://u:geheim@h:5433/d",
            "--set",
            "work_mem=8 MB",
            "--define",
            "my_password=geheim",
        ];
        let line = recorded(&typed.map(OsString::from));
        assert_eq!(line[..3], ["pgassay", "run", "select-only"]);
        assert!(
            line[3].starts_with("host=h port=5433 user=u dbname=d"),
            "{line:?}"
        );
        assert_eq!(
            line[4..],
            ["--set", "work_mem=8 MB", "--define", "my_password=***"]
        );
        assert!(!line.join(" ").contains("geheim"), "{line:?}");
    }

    #[test]
    fn messages_are_shown_without_passwords() {
        let arguments = [
            "postgress://u:a@h/d",
            "host=h password=b",
            "host=h passwd=c",
            "password_encryption=md5",
        ];
        let secrets = Secrets::of(arguments.map(str::as_bytes));
        assert_eq!(
            secrets.hide("a bad target 'postgress://u:a@h/d', or password=b or passwd=c"),
            "a bad target 'postgress://u:***@h/d', or password=*** or passwd=***"
        );
        assert_eq!(
            secrets.hide("password_encryption=md5 is old"),
            "password_encryption=md5 is old"
        );
    }
}
