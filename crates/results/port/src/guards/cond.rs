//! Conditions of the preprocessor, and what they come out as where that is known.

use tree_sitter::Node;

use super::known::speaks_of_processor;
use super::truth::Truth;

/// A condition, as `#if` and its relatives have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cond {
    /// `defined(NAME)`.
    Defined(String),
    /// A macro's value.
    Value(String),
    /// A number.
    Number(i64),
    /// `!`.
    Not(Box<Cond>),
    /// `&&`; of none: always.
    All(Vec<Cond>),
    /// `||`.
    Any(Vec<Cond>),
    /// A comparison.
    Compare(Compare, Box<Cond>, Box<Cond>),
    /// What is not understood.
    Unknown,
}

/// An operator that compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// `==`.
    Equal,
    /// `!=`.
    Unequal,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    More,
    /// `>=`.
    AtLeast,
}

impl Compare {
    /// By its sign.
    pub fn of(sign: &str) -> Option<Self> {
        Some(match sign {
            "==" => Self::Equal,
            "!=" => Self::Unequal,
            "<" => Self::Less,
            "<=" => Self::AtMost,
            ">" => Self::More,
            ">=" => Self::AtLeast,
            _ => return None,
        })
    }

    /// Whether it holds between two numbers.
    pub fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Unequal => a != b,
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::More => a > b,
            Self::AtLeast => a >= b,
        }
    }

    /// The same with its sides exchanged.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::AtMost => Self::AtLeast,
            Self::More => Self::Less,
            Self::AtLeast => Self::AtMost,
            same => same,
        }
    }
}

/// A value named for another processor, as `XXH_AVX512` in `XXH_VECTOR == XXH_AVX512`: no macro that
/// chooses among processors has it here.
fn of_another_processor(cond: &Cond, defined: &dyn Fn(&str) -> Truth) -> bool {
    match cond {
        Cond::Value(name) => speaks_of_processor(name) && defined(name) == Truth::No,
        _ => false,
    }
}

/// Nesting of a condition that is followed.
const DEEPEST: u32 = 48;

impl Cond {
    /// The condition of an expression's node.
    pub fn read(node: Node<'_>, text: &[u8]) -> Self {
        Self::at(node, text, 0)
    }

    fn at(node: Node<'_>, text: &[u8], depth: u32) -> Self {
        if depth > DEEPEST {
            return Self::Unknown;
        }
        let words = |node: Node<'_>| node.utf8_text(text).unwrap_or_default().to_owned();
        let inner = |node: Node<'_>| {
            node.named_child(0)
                .map_or(Self::Unknown, |inner| Self::at(inner, text, depth + 1))
        };
        match node.kind() {
            "identifier" | "type_identifier" => Self::Value(words(node)),
            "number_literal" => number(&words(node)).map_or(Self::Unknown, Self::Number),
            "preproc_defined" => node
                .named_child(0)
                .map_or(Self::Unknown, |name| Self::Defined(words(name))),
            "parenthesized_expression" => inner(node),
            "unary_expression" => match node.child(0).map(|sign| sign.kind()) {
                Some("!") => Self::Not(Box::new(inner(node))),
                _ => Self::Unknown,
            },
            "binary_expression" => {
                let side = |n: &str| {
                    node.child_by_field_name(n)
                        .map_or(Self::Unknown, |side| Self::at(side, text, depth + 1))
                };
                let sign = node
                    .child_by_field_name("operator")
                    .map_or("", |sign| sign.kind());
                match sign {
                    "&&" => Self::All(vec![side("left"), side("right")]),
                    "||" => Self::Any(vec![side("left"), side("right")]),
                    sign => match Compare::of(sign) {
                        Some(compare) => {
                            Self::Compare(compare, Box::new(side("left")), Box::new(side("right")))
                        }
                        None => Self::Unknown,
                    },
                }
            }
            _ => Self::Unknown,
        }
    }

    /// What it comes out as, where `defined` says which macros there are.
    pub fn truth(&self, defined: &dyn Fn(&str) -> Truth) -> Truth {
        match self {
            Self::Defined(name) => defined(name),
            // Defined, it may still be 0; undefined, it is.
            Self::Value(name) => defined(name).min(Truth::Unknown).max(match defined(name) {
                Truth::Yes if name.starts_with("__") => Truth::Yes,
                _ => Truth::No,
            }),
            Self::Number(number) => Truth::of(*number != 0),
            Self::Not(inner) => inner.truth(defined).negated(),
            Self::All(all) => all
                .iter()
                .map(|one| one.truth(defined))
                .min()
                .unwrap_or(Truth::Yes),
            Self::Any(any) => any
                .iter()
                .map(|one| one.truth(defined))
                .max()
                .unwrap_or(Truth::No),
            Self::Compare(compare, a, b) => match (a.value(defined), b.value(defined)) {
                (Some(a), Some(b)) => Truth::of(compare.holds(a, b)),
                _ if of_another_processor(a, defined) != of_another_processor(b, defined) => {
                    match compare {
                        Compare::Equal => Truth::No,
                        Compare::Unequal => Truth::Yes,
                        _ => Truth::Unknown,
                    }
                }
                _ => Truth::Unknown,
            },
            Self::Unknown => Truth::Unknown,
        }
    }

    fn value(&self, defined: &dyn Fn(&str) -> Truth) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Value(name) if defined(name) == Truth::No => Some(0),
            _ => None,
        }
    }

    /// Whether a name in it fulfils `is`.
    pub fn names(&self, is: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Defined(name) | Self::Value(name) => is(name),
            Self::Not(inner) => inner.names(is),
            Self::All(all) | Self::Any(all) => all.iter().any(|one| one.names(is)),
            Self::Compare(_, a, b) => a.names(is) || b.names(is),
            Self::Number(_) | Self::Unknown => false,
        }
    }
}

/// An integer as C writes it, in any base, with suffixes.
pub fn number(text: &str) -> Option<i64> {
    let text = text
        .trim_end_matches(['u', 'U', 'l', 'L', 'z', 'Z'])
        .replace('\'', "");
    let lower = text.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok();
    }
    if let Some(binary) = lower.strip_prefix("0b") {
        return i64::from_str_radix(binary, 2).ok();
    }
    match lower.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => i64::from_str_radix(octal, 8).ok(),
        _ => lower.parse().ok(),
    }
}
