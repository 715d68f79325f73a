//! Names and texts as SQL takes them (manual, "Lexical Structure").

/// An identifier in quotes, whatever it is.
pub fn quoted_ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An identifier as people write it: in quotes only where its letters need them. Key words are not known, so it is
/// for names behind a schema, and for what is read by people.
pub fn quote_ident(name: &str) -> String {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = !name.starts_with(|c: char| c.is_ascii_digit());
    match begins && !name.is_empty() && name.chars().all(fine) {
        true => name.to_owned(),
        false => quoted_ident(name),
    }
}

/// A text as a literal, whatever standard_conforming_strings is.
pub fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match doubled.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_end_at_their_quote() {
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\'b"), "E'a\\\\''b'");
    }

    #[test]
    fn names_are_quoted_where_they_need_it() {
        for (name, written) in [
            ("orders_2", "orders_2"),
            ("2orders", "\"2orders\""),
            ("Orders", "\"Orders\""),
            ("", "\"\""),
            ("a\"b", "\"a\"\"b\""),
        ] {
            assert_eq!(quote_ident(name), written);
        }
        assert_eq!(quoted_ident("orders"), "\"orders\"");
    }
}
