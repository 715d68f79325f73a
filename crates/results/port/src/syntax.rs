//! Parsing C, C++ and Rust by tree-sitter's grammars, within limits that hostile files can't exceed.
//!
//! What does not parse in full still gives a tree: errors stay local. So a file is read that lacks
//! its headers, belongs to another system, or has macros in place of statements.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// The longest file that is parsed, in bytes. The longest of PostgreSQL has 1 MB, generated ones 4 MB.
pub const MOST_BYTES: usize = 16 << 20;

/// Steps that any file may take, in calls of tree-sitter's progress function.
const STEPS: usize = 20_000;
/// Bytes for each further step. Ordinary sources take a step for a few hundred bytes.
const BYTES_FOR_A_STEP: usize = 8;

/// Which grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
    /// A header: whichever fits better.
    Header,
    /// Rust.
    Rust,
}

impl Language {
    /// By a file's name; none where it is of another language.
    pub fn of(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension {
            "c" => Self::C,
            "h" => Self::Header,
            "rs" => Self::Rust,
            "cc" | "cpp" | "cxx" | "c++" | "C" | "hh" | "hpp" | "hxx" | "h++" | "H" | "ipp"
            | "tcc" | "tpp" | "inl" => Self::Cpp,
            _ => return None,
        })
    }
}

/// Why a file has no tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unparsed {
    /// Longer than [`MOST_BYTES`].
    TooLong,
    /// It holds zero bytes.
    Binary,
    /// It took more steps than a file of this length may.
    TooHard,
}

impl Unparsed {
    /// In words.
    pub fn why(self) -> &'static str {
        match self {
            Self::TooLong => "longer than 16 MiB",
            Self::Binary => "not text: it holds zero bytes",
            Self::TooHard => "took too many steps to parse: hardly C, C++ or Rust",
        }
    }
}

/// The text as it is parsed: what is not ASCII is masked, so that offsets stay and no encoding matters.
///
/// # Errors
/// Where it is too long, or no text.
pub fn clean(bytes: &[u8]) -> Result<Vec<u8>, Unparsed> {
    if bytes.len() > MOST_BYTES {
        return Err(Unparsed::TooLong);
    }
    if bytes.contains(&0) {
        return Err(Unparsed::Binary);
    }
    Ok(bytes
        .iter()
        .map(|b| if b.is_ascii() { *b } else { b'?' })
        .collect())
}

/// Parses a cleaned text.
///
/// # Errors
/// Where it takes too many steps.
pub fn parse(text: &[u8], language: Language) -> Result<Tree, Unparsed> {
    match language {
        Language::C => by(text, &tree_sitter_c::LANGUAGE.into()),
        Language::Cpp => by(text, &tree_sitter_cpp::LANGUAGE.into()),
        Language::Rust => by(text, &tree_sitter_rust::LANGUAGE.into()),
        Language::Header => {
            let c = by(text, &tree_sitter_c::LANGUAGE.into());
            let errors = |tree: &Tree| error_bytes(tree.root_node());
            let wrong = c.as_ref().map_or(usize::MAX, errors);
            // Macros without semicolons cost C headers a few bytes each.
            if wrong * 50 < text.len() || !mentions_cpp(text) {
                return c;
            }
            match by(text, &tree_sitter_cpp::LANGUAGE.into()) {
                Ok(cpp) if errors(&cpp) < wrong => Ok(cpp),
                _ => c,
            }
        }
    }
}

/// How many lines a text has.
pub fn lines(text: &[u8]) -> u32 {
    let lines = text.iter().filter(|b| **b == b'\n').count()
        + usize::from(text.last().is_some_and(|b| *b != b'\n'));
    u32::try_from(lines).unwrap_or(u32::MAX)
}

/// Whether a tree is by the grammar of C++.
pub fn is_cpp(tree: &Tree) -> bool {
    *tree.language() == tree_sitter_cpp::LANGUAGE.into()
}

fn mentions_cpp(text: &[u8]) -> bool {
    let words: [&[u8]; 4] = [b"namespace", b"class ", b"template", b"operator"];
    words
        .iter()
        .any(|word| text.windows(word.len()).any(|at| at == *word))
}

fn by(text: &[u8], language: &tree_sitter::Language) -> Result<Tree, Unparsed> {
    let mut parser = Parser::new();
    parser
        .set_language(language)
        .map_err(|_| Unparsed::TooHard)?;
    let mut left = STEPS + text.len() / BYTES_FOR_A_STEP;
    let mut count = |_: &tree_sitter::ParseState| {
        left = left.saturating_sub(1);
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut count);
    let mut read = |at: usize, _| text.get(at..).unwrap_or_default();
    parser
        .parse_with_options(&mut read, None, Some(options))
        .ok_or(Unparsed::TooHard)
}

/// Bytes that the grammar could not place.
pub fn error_bytes(root: Node<'_>) -> usize {
    let mut cursor = root.walk();
    let mut bytes = 0;
    loop {
        let node = cursor.node();
        if node.is_error() {
            bytes += node.byte_range().len();
        } else if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return bytes;
            }
        }
    }
}

/// The text of a node.
pub fn text_of<'t>(node: Node<'_>, text: &'t [u8]) -> &'t str {
    text.get(node.byte_range())
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .unwrap_or_default()
}

/// The line on which a node begins, from 1.
pub fn line_of(node: Node<'_>) -> u32 {
    u32::try_from(node.start_position().row + 1).unwrap_or(u32::MAX)
}

/// Parentheses taken off, as far as they are followed.
pub fn bare(mut node: Node<'_>) -> Node<'_> {
    for _ in 0..16 {
        match node.kind() {
            "parenthesized_expression" => match node.named_child(0) {
                Some(inner) => node = inner,
                None => break,
            },
            _ => break,
        }
    }
    node
}

/// The name of the function that a call calls.
pub fn called<'t>(call: Node<'_>, text: &'t [u8]) -> Option<&'t str> {
    let function = bare(call.child_by_field_name("function")?);
    match function.kind() {
        "identifier" | "qualified_identifier" => Some(text_of(function, text)),
        "field_expression" => Some(text_of(function.child_by_field_name("field")?, text)),
        _ => None,
    }
}

/// The first line of a node, shortened.
pub fn excerpt(node: Node<'_>, text: &[u8]) -> String {
    let words = text_of(node, text);
    let end = (0..=words.len().min(400))
        .rev()
        .find(|at| words.is_char_boundary(*at));
    let words = words[..end.unwrap_or(0)].split_whitespace();
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 90 {
            let end = (0..=88)
                .rev()
                .find(|at| line.is_char_boundary(*at))
                .unwrap_or(0);
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}
