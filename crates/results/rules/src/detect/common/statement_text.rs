//! What the text of a statement says without its plan.

/// The word that a statement begins with, in capitals.
pub fn verb(text: &str) -> String {
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic());
    words
        .find(|word| !word.is_empty())
        .unwrap_or_default()
        .to_ascii_uppercase()
}
