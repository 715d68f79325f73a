//! Texts replaced by hashes.

use serde_json::Value;

use crate::template::Seen;
use crate::write::{Draft, Source, Values};

/// Replaces each text of the drafts' values, and of the literals in their statements, by a hash of the same length; equal texts stay equal. Numbers,
/// and texts that are dates, times, addresses of machines or truth values, stay.
pub fn drafts(drafts: &mut [Draft], salt: u64) {
    for draft in drafts {
        for step in &mut draft.steps {
            step.replace_texts(|text| hashed(text, salt));
        }
        match &mut draft.values {
            Values::Rows(rows) => replace(rows, salt),
            Values::Drawn(sources) => {
                for source in sources {
                    let Source::Rows { rows, .. } = source else {
                        continue;
                    };
                    replace(rows, salt);
                }
            }
        }
    }
}

/// Replaces each text of a row by the same hash.
pub fn row(row: &mut [Seen], salt: u64) {
    for value in row {
        if let Seen::Text(text) = value {
            *text = hashed(text, salt);
        }
    }
}

fn replace(rows: &mut [Vec<Seen>], salt: u64) {
    for one in rows {
        row(one, salt);
    }
}

/// Something else of the same length, drawn by the text and the salt, that the same type takes: letters, but figures for figures
/// where there is nothing else, and the punctuation of arrays and JSON.
fn hashed(text: &str, salt: u64) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut drawn = Drawn::new(text, salt);
    if is_uuid(text) {
        return each(text, |c| drawn.of(c, HEX));
    }
    if text.chars().all(is_figure) {
        // A telephone number, an account, a card.
        return each(text, |c| drawn.of(c, FIGURES));
    }
    if let Ok(json @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
        return of_json(json, salt).to_string();
    }
    if is_list(text) {
        return of_list(text, salt);
    }
    text.chars().map(|_| drawn.next(LETTERS)).collect()
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const FIGURES: &str = "123456789";
const HEX: &str = "0123456789abcdef";

/// Letters by a text and a salt.
struct Drawn(u64);

impl Drawn {
    fn new(text: &str, salt: u64) -> Self {
        Self(
            text.bytes()
                .fold(salt ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
                }),
        )
    }

    fn next(&mut self, letters: &str) -> char {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = (self.0 >> 33) as usize % letters.len();
        char::from(letters.as_bytes()[at])
    }

    /// Another letter or figure for one; punctuation stays.
    fn of(&mut self, c: char, letters: &str) -> char {
        match c.is_ascii_alphanumeric() {
            true => self.next(letters),
            false => c,
        }
    }
}

fn each(text: &str, by: impl FnMut(char) -> char) -> String {
    text.chars().map(by).collect()
}

fn is_figure(c: char) -> bool {
    c.is_ascii_digit() || " -:.+/TZ()".contains(c)
}

/// What stays: numbers, dates, times and addresses of machines, which their types would not take otherwise, and truth values.
fn is_plain(text: &str) -> bool {
    let has_figures = text.contains(|c: char| c.is_ascii_digit());
    // A number has neither a plus sign nor noughts before it; a telephone number has.
    let bare = text.strip_prefix('-').unwrap_or(text);
    let led = bare.len() > 1 && bare.starts_with('0') && bare.bytes().all(|b| b.is_ascii_digit());
    if has_figures && !led && !text.starts_with('+') && text.parse::<f64>().is_ok() {
        return true;
    }
    if !text.chars().all(is_figure) || !has_figures {
        return matches!(text, "" | "t" | "f" | "true" | "false");
    }
    let parts: Vec<&str> = text
        .split(['-', ':', '.', '/', ' ', 'T', '+', 'Z'])
        .collect();
    let is_date = parts.len() >= 3
        && parts[0].len() == 4
        && matches!(text.as_bytes().get(4), Some(b'-' | b'/' | b'.'))
        && parts
            .iter()
            .take(3)
            .skip(1)
            .all(|part| (1..=2).contains(&part.len()));
    let is_time = text.contains(':') && parts[0].len() <= 2;
    let is_address = parts.len() >= 4
        && text.matches('.').count() == 3
        && parts.iter().take(4).all(|part| part.parse::<u8>().is_ok());
    is_date || is_time || is_address
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

/// JSON with other texts and names; a name is the same as the text that a statement asks for it by.
fn of_json(json: Value, salt: u64) -> Value {
    match json {
        Value::String(text) => Value::String(hashed(&text, salt)),
        Value::Array(values) => values.into_iter().map(|one| of_json(one, salt)).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (hashed(&name, salt), of_json(value, salt)))
            .collect(),
        other => other,
    }
}

/// An array, a row or a range, as PostgreSQL writes it.
fn is_list(text: &str) -> bool {
    let ends = (text.chars().next(), text.chars().next_back());
    match ends {
        (Some('{'), Some('}')) => true,
        (Some('[' | '('), Some(']' | ')')) => text.contains(','),
        _ => false,
    }
}

/// A list with other words.
fn of_list(text: &str, salt: u64) -> String {
    let (mut out, mut word, mut quoted) = (String::with_capacity(text.len()), String::new(), false);
    let mut chars = text.chars();
    let flush = |word: &mut String, out: &mut String, quoted: bool| {
        match word.as_str() {
            "NULL" if !quoted => out.push_str(word),
            _ if quoted => {
                let escaped = hashed(word, salt)
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"");
                out.push_str(&escaped);
            }
            _ => out.push_str(&hashed(word, salt)),
        }
        word.clear();
    };
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.extend(chars.next()),
            '"' => {
                flush(&mut word, &mut out, quoted);
                quoted = !quoted;
                out.push(c);
            }
            ',' | '{' | '}' | '[' | ']' | '(' | ')' if !quoted => {
                flush(&mut word, &mut out, false);
                out.push(c);
            }
            _ => word.push(c),
        }
    }
    flush(&mut word, &mut out, false);
    out
}

#[cfg(test)]
mod tests {
    use super::{drafts, hashed};
    use crate::template::Template;
    use crate::write::Draft;

    #[test]
    fn literals_in_statements_go_too() {
        let step = Template::of_parameters(
            "SELECT 'secret' FROM t WHERE a = $1 AND d = '2026-11-23'",
            1,
        )
        .unwrap();
        let mut draft = [Draft {
            steps: vec![step],
            ..Draft::default()
        }];
        drafts(&mut draft, 7);
        let text = draft[0].steps[0].text(|_| "p1".to_owned());
        assert!(
            !text.contains("secret") && text.contains(":p1 AND d = '2026-11-23'"),
            "{text}"
        );
    }

    #[test]
    fn texts_go_and_dates_stay() {
        assert_eq!(
            hashed("2026-11-23 10:00:00+01", 1),
            "2026-11-23 10:00:00+01"
        );
        let one = hashed("Müller", 1);
        assert_eq!((one.chars().count(), &one), (6, &hashed("Müller", 1)));
        assert_ne!(one, hashed("Meier!", 1));
        assert_ne!(one, hashed("Müller", 2));
        for stays in [
            "42",
            "-1.5e3",
            "2026-11-23",
            "10:15:00",
            "2026/1/3 7:05",
            "192.168.0.17",
            "10.0.0.0/8",
            "t",
            "false",
            "",
        ] {
            assert_eq!(hashed(stays, 1), stays);
        }
    }

    #[test]
    fn what_stands_for_a_text_is_of_its_form() {
        for figures in [
            "+49 170 1234567",
            "+491701234567",
            "01701234567",
            "4111-1111-1111-1111",
            "(030) 901-0",
            "2026-1234-99",
        ] {
            let other = hashed(figures, 1);
            let form = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
            assert_eq!(form(&other), form(figures));
            assert_ne!(other, figures);
        }
        assert_eq!(hashed("-0.5", 1), "-0.5");
        assert_eq!(hashed("4711", 1), "4711");
        let quoted = hashed(r#"{"{\"a\": \"b\"}",NULL,"NULL"}"#, 1);
        assert!(
            quoted.starts_with(r#"{"{\""#) && quoted.contains(",NULL,\""),
            "{quoted}"
        );
        let uuid = "550e8400-e29b-41d4-a716-446655440000";
        let other = hashed(uuid, 1);
        assert!(super::is_uuid(&other) && other != uuid, "{other}");
        assert_eq!(other, hashed(uuid, 1));
        let json = "{\"name\": \"Ada \\\"L\\\"\", \"born\": 1815, \"dead\": true, \"of\": [null, \"x\\u00e9y\"]}";
        let other = hashed(json, 1);
        let value: serde_json::Value = serde_json::from_str(&other).unwrap();
        assert!(!other.contains("Ada") && !other.contains("name"), "{other}");
        assert_eq!(value.as_object().unwrap().len(), 4);
        assert!(other.contains("1815") && other.contains("true"), "{other}");
        assert!(
            other.contains(&format!("\"{}\"", hashed("name", 1))),
            "{other}"
        );
        let list = hashed("{anna,\"b \\\"c\",NULL,{7,2026-01-02}}", 1);
        let expected = [hashed("anna", 1), hashed("b \"c", 1)];
        let expected = format!(
            "{{{},\"{}\",NULL,{{7,2026-01-02}}}}",
            expected[0], expected[1]
        );
        assert_eq!(list, expected);
        let range = "[2026-01-01,2026-02-01)";
        assert_eq!(hashed(range, 1), range);
        assert_eq!(hashed("(Ada", 1).matches('(').count(), 0);
    }
}
