//! Writes YAML: block style, every text from outside as a double-quoted scalar, which is the string that
//! JSON has. Nothing is put together from pieces of text.

use std::fmt::Write as _;

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// A text, in quotes unless it is a plain word.
    Text(String),
    /// A text in which Ansible expands no template: by its tag `!unsafe`, where it could hold one.
    Literal(String),
    /// A number.
    Number(u64),
    /// `true` or `false`.
    Flag(bool),
    /// Keys, which are ours, in their order.
    Map(Vec<(String, Node)>),
    /// A sequence.
    List(Vec<Node>),
}

/// A mapping of the keys that are given.
pub(super) fn map<const N: usize>(pairs: [(&str, Node); N]) -> Node {
    let pairs = pairs.into_iter();
    Node::Map(pairs.map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A sequence.
pub(super) fn list(items: impl IntoIterator<Item = Node>) -> Node {
    Node::List(items.into_iter().collect())
}

/// A sequence of texts.
pub(super) fn texts<T: Into<String>>(items: impl IntoIterator<Item = T>) -> Node {
    list(items.into_iter().map(|item| Node::Text(item.into())))
}

/// A text.
pub(super) fn text(text: impl Into<String>) -> Node {
    Node::Text(text.into())
}

impl Node {
    /// The same with further keys; of a mapping only.
    pub(super) fn and<const N: usize>(mut self, pairs: [(&str, Node); N]) -> Self {
        if let Node::Map(own) = &mut self {
            own.extend(
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value)),
            );
        }
        self
    }
}

/// A document, with a comment before it.
pub(super) fn document(comment: &str, node: &Node) -> String {
    let mut out = String::new();
    for line in comment.lines() {
        let _ = writeln!(
            out,
            "{}",
            format!("# {}", pgassay_text::lines(line)).trim_end()
        );
    }
    out.push_str("---\n");
    block(node, 0, &mut out);
    out
}

/// Writes a mapping or a sequence from the beginning of a line on; others on the line.
fn block(node: &Node, indent: usize, out: &mut String) {
    let margin = " ".repeat(indent);
    match node {
        Node::Map(pairs) if !pairs.is_empty() => {
            for (n, (key, value)) in pairs.iter().enumerate() {
                if n > 0 {
                    out.push_str(&margin);
                }
                let _ = write!(out, "{}:", scalar(key));
                below(value, indent + 2, out);
            }
        }
        Node::List(items) if !items.is_empty() => {
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push_str(&margin);
                }
                out.push_str("- ");
                block(item, indent + 2, out);
            }
        }
        other => {
            let _ = writeln!(out, "{}", inline(other));
        }
    }
}

/// A value behind its key.
fn below(value: &Node, indent: usize, out: &mut String) {
    let is_block = match value {
        Node::Map(pairs) => !pairs.is_empty(),
        Node::List(items) => !items.is_empty(),
        _ => false,
    };
    match is_block {
        true => {
            let _ = write!(out, "\n{}", " ".repeat(indent));
            block(value, indent, out);
        }
        false => {
            out.push(' ');
            block(value, indent, out);
        }
    }
}

fn inline(node: &Node) -> String {
    match node {
        Node::Text(text) => scalar(text),
        // Every template begins with a brace.
        Node::Literal(text) if text.contains('{') => format!("!unsafe {}", quoted(text)),
        Node::Literal(text) => scalar(text),
        Node::Number(number) => number.to_string(),
        Node::Flag(flag) => flag.to_string(),
        Node::Map(_) => "{}".to_owned(),
        Node::List(_) => "[]".to_owned(),
    }
}

/// Words that YAML 1.1 takes for something else than a text.
const NO_TEXT: &[&str] = &["true", "false", "yes", "no", "on", "off", "y", "n", "null"];

/// A text as a scalar: as it stands where nobody takes it for anything else, else in quotes.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let letter = |c: char| c.is_ascii_alphabetic();
    let word = text.starts_with(letter) && text.chars().all(plain);
    match word && !NO_TEXT.contains(&text.to_ascii_lowercase().as_str()) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// A text in double quotes. What YAML does not let stand there, other control characters, is an escape that
/// JSON and YAML both have.
fn quoted(text: &str) -> String {
    pgassay_text::json(&serde_json::Value::from(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_outside_stay_texts() {
        for (text, written) in [
            ("assay", "assay"),
            ("batch/v1", "batch/v1"),
            ("on", "\"on\""),
            ("No", "\"No\""),
            ("", "\"\""),
            ("1", "\"1\""),
            ("a: b", "\"a: b\""),
            ("--set", "\"--set\""),
            ("a # b", "\"a # b\""),
            ("{{ x }}", "\"{{ x }}\""),
            ("a\nb\"c\\", "\"a\\nb\\\"c\\\\\""),
            ("\u{85}\u{2028}é", "\"\\u0085\\u2028é\""),
        ] {
            assert_eq!(scalar(text), written, "{text:?}");
        }
    }

    #[test]
    fn no_text_of_the_user_is_a_template() {
        let shown = |text: &str| inline(&Node::Literal(text.to_owned()));
        assert_eq!(shown("host=/run dbname=x"), "\"host=/run dbname=x\"");
        assert_eq!(
            shown("{{ lookup('pipe', 'id') }}"),
            "!unsafe \"{{ lookup('pipe', 'id') }}\""
        );
        assert_eq!(shown("{% x %}"), "!unsafe \"{% x %}\"");
    }

    #[test]
    fn blocks_are_indented_below_their_keys() {
        let node = map([
            ("a", list([map([("b", text("c")), ("d", Node::Number(1))])])),
            ("e", map([("f", texts(["g", "h i"])), ("k", map([]))])),
            ("l", list([list([text("m")]), text("o")])),
        ]);
        assert_eq!(
            document("two\n  lines", &node),
            "# two\n#   lines\n---\n\
             a:\n  - b: c\n    d: 1\n\
             e:\n  f:\n    - g\n    - \"h i\"\n  k: {}\n\
             l:\n  - - m\n  - o\n"
        );
    }
}
