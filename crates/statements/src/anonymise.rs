//! Texts replaced by hashes.

use crate::template::Seen;
use crate::write::{Draft, Source, Values};

/// Replaces each text of the drafts' values, and of the literals in their statements, by a hash of the same length; equal texts stay equal. Numbers,
/// and texts that are dates, times or UUIDs, stay.
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

/// Letters of the same number, drawn by the text and the salt.
fn hashed(text: &str, salt: u64) -> String {
    let figures = |c: char| c.is_ascii_digit() || " -:.+/TZ".contains(c);
    if text.chars().all(figures) && text.chars().any(|c| c.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut state = text
        .bytes()
        .fold(salt ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    text.chars()
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + ((state >> 33) % 26) as u8)
        })
        .collect()
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
    }
}
