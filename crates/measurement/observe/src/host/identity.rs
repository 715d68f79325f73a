//! Which machine this is, for telling collections of one machine from those of two.
//!
//! The operating system's own id is confidential (machine-id(5)): what is recorded is derived from it
//! and from the host's name, since clones of an image share the id, and neither can be had back from it.

use pgassay_model::reading::Reading;
use ring::hmac;

use super::reader::Reader;

/// Its name among the facts.
pub(super) const SOURCE: &str = "identity of the machine";

/// What the derivation is for: another program's differs.
const PURPOSE: &[u8] = b"pgassay: identity of the machine, 1";
/// Bytes of it that are kept.
const KEPT: usize = 16;

/// The identity, or why there is none: containers have no id of their own.
pub(super) fn of(reader: &Reader, name: &[u8]) -> Reading {
    let id = match reader.read("/etc/machine-id") {
        Reading::Text(id) => id,
        missing @ Reading::Unavailable(_) => return missing,
    };
    let id = id.trim();
    if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Reading::Unavailable("/etc/machine-id holds no id".to_owned());
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, id.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(PURPOSE);
    context.update(name);
    let derived = context.sign();
    let digits = derived.as_ref().iter().take(KEPT);
    Reading::Text(digits.map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_root(name: &str, id: Option<&str>, host: &str) -> Reading {
        let root = std::env::temp_dir().join(format!(
            "pgassay-test-identity-{name}-{}",
            std::process::id()
        ));
        std::fs::create_dir_all(root.join("etc")).unwrap();
        if let Some(id) = id {
            std::fs::write(root.join("etc/machine-id"), id).unwrap();
        }
        let found = of(&Reader::new(&root), host.as_bytes());
        std::fs::remove_dir_all(&root).unwrap();
        found
    }

    #[test]
    fn machines_are_told_apart_without_being_named() {
        let id = "0123456789abcdef0123456789abcdef\n";
        let identity = of_root("a", Some(id), "db1");
        let text = identity.text().unwrap();
        assert_eq!(text.len(), 32);
        assert!(!text.contains("0123456789") && !text.contains("db1"));
        assert_eq!(identity, of_root("b", Some(id), "db1"));
        // A clone has the same id and another name.
        assert_ne!(identity, of_root("c", Some(id), "db2"));
        assert_eq!(SOURCE, pgassay_analysis::host::IDENTITY);
    }

    #[test]
    fn what_has_no_id_has_no_identity() {
        for (name, id) in [("d", None), ("e", Some("")), ("f", Some("uninitialized\n"))] {
            assert_eq!(of_root(name, id, "db1").text(), None, "{id:?}");
        }
    }
}
