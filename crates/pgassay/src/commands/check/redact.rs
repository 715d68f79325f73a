//! Takes what may be a secret out of facts that are given away.
//!
//! Settings that may hold one are never read (`questions.rs`); what is left are
//! options of mounts and of the kernel's command line.

use pgassay_model::facts::Facts;
use pgassay_model::reading::Reading;

/// Names whose value is not for others.
const SECRET: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "pass",
    "key",
];

/// Replaces the values of `NAME=VALUE` whose name tells of a secret.
pub fn facts(facts: &mut Facts) {
    for reading in facts.host.values_mut().chain(facts.process.values_mut()) {
        if let Reading::Text(text) = reading
            && text.contains('=')
        {
            *text = redacted(text);
        }
    }
    for directory in &mut facts.directories {
        directory.options = redacted(&directory.options);
    }
}

fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive([' ', ',', '\n', '\t', ';']) {
        let secret = word.split_once('=').is_some_and(|(name, _)| {
            let name = name.to_ascii_lowercase();
            SECRET.iter().any(|s| name.contains(s))
        });
        match word.split_once('=') {
            Some((name, value)) if secret => {
                let end = value
                    .find([' ', ',', '\n', '\t', ';'])
                    .unwrap_or(value.len());
                out.push_str(name);
                out.push_str("=***");
                out.push_str(&value[end..]);
            }
            _ => out.push_str(word),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secrets_go_and_the_rest_stays() {
        let cases = [
            (
                "36 1 0:40 / /data rw - cifs //h/d rw,username=u,password=hunter2,vers=3",
                "36 1 0:40 / /data rw - cifs //h/d rw,username=u,password=***,vers=3",
            ),
            (
                "root=/dev/vda rd.luks.key=/k quiet\n",
                "root=/dev/vda rd.luks.key=*** quiet\n",
            ),
            ("MemTotal: 1 kB", "MemTotal: 1 kB"),
            ("password=", "password=***"),
        ];
        for (text, expected) in cases {
            assert_eq!(redacted(text), expected);
        }
    }
}
