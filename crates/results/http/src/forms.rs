//! Tokens of forms: each form of a page carries one, which fits its address and its fields alone.

use std::fmt;
use std::io;

use ring::hmac;

use crate::key::Key;

/// The name of the field that holds it.
const FIELD: &str = "token";

/// Makes tokens, and knows its own. Each start of a server has others.
#[derive(Clone)]
pub struct Forms(hmac::Key);

impl Forms {
    pub(crate) fn random() -> io::Result<Self> {
        let key = Key::random()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.digits().as_bytes());
        Ok(Self(key))
    }

    /// The hidden field that a form to this address of the site needs, beside these fields, as name and value.
    pub fn token<'a>(
        &self,
        to: &str,
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> (&'static str, String) {
        let tag = hmac::sign(&self.0, &message(to, fields));
        let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
        (FIELD, digits.collect())
    }

    /// The fields that came without their token; none where that is not theirs.
    pub(crate) fn checked(
        &self,
        to: &str,
        mut fields: Vec<(String, String)>,
    ) -> Option<Vec<(String, String)>> {
        let at = fields.iter().position(|(name, _)| name == FIELD)?;
        let (_, token) = fields.remove(at);
        let own = fields.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        // How long it takes says nothing about where they differ.
        hmac::verify(&self.0, &message(to, own), &bytes(&token)?).ok()?;
        Some(fields)
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forms")
    }
}

/// All that a token stands for, each part behind its length.
fn message<'a>(to: &str, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut message = Vec::new();
    let mut add = |part: &str| {
        message.extend_from_slice(&(part.len() as u64).to_be_bytes());
        message.extend_from_slice(part.as_bytes());
    };
    add(to);
    for (name, value) in fields {
        add(name);
        add(value);
    }
    message
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_its_own_form_only() {
        let forms = Forms::random().unwrap();
        let sent = |token: &str, fields: &[(&str, &str)]| {
            let token = (FIELD, token);
            let all = fields.iter().chain([&token]);
            all.map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect::<Vec<_>>()
        };
        let fields = [("what", "repeat"), ("run", "a")];
        let (_, token) = forms.token("/start", fields);
        let own = sent(&token, &fields);
        assert_eq!(
            forms.checked("/start", own.clone()),
            Some(own[..2].to_vec())
        );
        assert_eq!(forms.checked("/stop", own), None);
        for other in [
            &[("what", "repeat"), ("run", "b")][..],
            &[("what", "repeatrun"), ("", "a")],
            &[("what", "repeat"), ("run", "a"), ("run", "b")],
            &[],
        ] {
            assert_eq!(forms.checked("/start", sent(&token, other)), None);
        }
        for wrong in [
            "",
            "0",
            "é",
            &token[2..],
            &"0".repeat(64),
            &format!("{token}00"),
        ] {
            assert_eq!(forms.checked("/start", sent(wrong, &fields)), None);
        }
        let without = vec![("run".to_owned(), "a".to_owned())];
        assert_eq!(forms.checked("/start", without), None);
        // Of another start.
        let (_, token) = Forms::random().unwrap().token("/start", fields);
        assert_eq!(forms.checked("/start", sent(&token, &fields)), None);
        assert_eq!(format!("{forms:?}"), "Forms");
    }
}
