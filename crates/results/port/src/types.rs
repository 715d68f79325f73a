//! Types of variables, as far as rules ask for them: plain char, other bytes, wider scalars.

use std::collections::BTreeMap;

use tree_sitter::Node;

use crate::syntax::{bare, text_of};

/// What a type is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// `char`, whose sign is the processor's.
    Char,
    /// A byte whose sign is said.
    Byte,
    /// A scalar of so many bytes.
    Wide(u8),
    /// Anything else.
    Other,
    /// That of a field of this name, which other files may declare.
    Field(String),
}

/// A type: what it is made of, behind so many pointers or arrays. Negative where a field's own
/// pointers are to be followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ty {
    /// What it is made of.
    pub base: Base,
    /// Pointers and arrays.
    pub pointers: i8,
}

impl Ty {
    fn new(base: Base, pointers: i8) -> Self {
        Self { base, pointers }
    }

    fn pointed(mut self, by: i8) -> Self {
        self.pointers = self.pointers.saturating_add(by);
        self
    }

    /// A plain char itself.
    pub fn is_char(&self) -> bool {
        self.base == Base::Char && self.pointers == 0
    }

    /// A pointer to bytes, or an array of them.
    pub fn points_to_bytes(&self) -> bool {
        matches!(self.base, Base::Char | Base::Byte) && self.pointers == 1
    }
}

/// The scalars that C and PostgreSQL name.
pub fn base(name: &str) -> Base {
    let words: Vec<&str> = name
        .split_whitespace()
        .filter(|w| !["const", "volatile", "register", "static"].contains(w))
        .collect();
    match words.as_slice() {
        ["char"] => Base::Char,
        ["unsigned" | "signed", "char"]
        | [
            "uint8" | "int8" | "bits8" | "uint8_t" | "int8_t" | "bool" | "_Bool" | "u_char"
            | "uchar" | "pg_wchar8" | "byte" | "Byte" | "u8",
        ] => Base::Byte,
        [
            "short" | "int16" | "uint16" | "int16_t" | "uint16_t" | "bits16" | "u_short"
            | "OffsetNumber",
        ]
        | [_, "short"]
        | ["short", "int"] => Base::Wide(2),
        [
            "int" | "unsigned" | "float" | "int32" | "uint32" | "int32_t" | "uint32_t" | "bits32"
            | "Oid" | "float4" | "BlockNumber" | "TransactionId" | "u_int" | "uint" | "pg_wchar",
        ]
        | ["unsigned" | "signed", "int"] => Base::Wide(4),
        [
            "long" | "double" | "int64" | "uint64" | "int64_t" | "uint64_t" | "Datum" | "float8"
            | "Size" | "size_t" | "ssize_t" | "uintptr_t" | "intptr_t" | "XLogRecPtr"
            | "TimestampTz",
        ]
        | ["long", "long" | "int"]
        | ["unsigned", "long"]
        | ["unsigned", "long", "long"]
        | ["long", "long", "int"]
        | ["unsigned", "long", "int"] => Base::Wide(8),
        _ => Base::Other,
    }
}

/// The variables that are known at a place of a file.
#[derive(Debug, Default)]
pub struct Scope {
    file: BTreeMap<String, Ty>,
    /// The function's parameters, then a map for each block around.
    blocks: Vec<BTreeMap<String, Ty>>,
}

/// Declarators inside one another that are followed.
const DEEPEST: usize = 24;

/// What a declarator declares: the name, and pointers and arrays around it. None for functions.
pub fn declared<'t>(mut node: Node<'_>, text: &'t [u8]) -> Option<(&'t str, i8)> {
    let mut pointers = 0;
    for _ in 0..DEEPEST {
        match node.kind() {
            "identifier" | "field_identifier" => return Some((text_of(node, text), pointers)),
            "pointer_declarator" | "array_declarator" => {
                pointers += 1;
                node = node.child_by_field_name("declarator")?;
            }
            "reference_declarator" | "parenthesized_declarator" | "attributed_declarator" => {
                node = node.named_child(0)?
            }
            "init_declarator" => node = node.child_by_field_name("declarator")?,
            _ => return None,
        }
    }
    None
}

/// The names that a declaration declares, with their types.
pub fn declarations<'t>(node: Node<'_>, text: &'t [u8]) -> Vec<(&'t str, Ty)> {
    let Some(kind) = node.child_by_field_name("type") else {
        return Vec::new();
    };
    let mut base = base(text_of(kind, text));
    let mut cursor = node.walk();
    let declarators: Vec<Node<'_>> = node
        .children_by_field_name("declarator", &mut cursor)
        .take(64)
        .collect();
    // A macro before the type (`EXPORT const unsigned char x[]`) is taken for the type.
    if let Some(first) = declarators.first() {
        // What it takes for the type's end may be a declaration of its own, on the same line.
        let start = text[..node.start_byte()]
            .iter()
            .rev()
            .take(120)
            .take_while(|b| !b"\n;{}(,".contains(b))
            .count();
        let before = text
            .get(node.start_byte() - start..first.start_byte())
            .unwrap_or_default();
        let before = std::str::from_utf8(before).unwrap_or_default();
        let signed = before
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| word == "unsigned" || word == "signed");
        if signed && base == Base::Char {
            base = Base::Byte;
        }
        if node.has_error() && base == Base::Char && text_of(kind, text) != "char" {
            base = Base::Other;
        }
    }
    declarators
        .into_iter()
        .filter_map(|declarator| declared(declarator, text))
        .map(|(name, pointers)| (name, Ty::new(base.clone(), pointers)))
        .collect()
}

impl Scope {
    /// A function begins or ends.
    pub fn forget_function(&mut self) {
        self.blocks.clear();
    }

    /// A block begins.
    pub fn begin(&mut self) {
        self.blocks.push(BTreeMap::new());
    }

    /// A block ends.
    pub fn end(&mut self) {
        self.blocks.pop();
    }

    /// Takes note of a declaration.
    pub fn declare(&mut self, name: &str, ty: Ty) {
        let scope = self.blocks.last_mut().unwrap_or(&mut self.file);
        scope.insert(name.to_owned(), ty);
    }

    /// Whether a name is declared in the function itself.
    pub fn is_local(&self, name: &str) -> bool {
        self.blocks.iter().any(|block| block.contains_key(name))
    }

    fn find(&self, name: &str) -> Option<&Ty> {
        let local = self.blocks.iter().rev().find_map(|block| block.get(name));
        local.or_else(|| self.file.get(name))
    }

    /// The type of an expression; `Other` where it is not known.
    pub fn of(&self, node: Node<'_>, text: &[u8]) -> Ty {
        self.at(node, text, 0)
    }

    fn at(&self, node: Node<'_>, text: &[u8], depth: usize) -> Ty {
        let unknown = Ty::new(Base::Other, 0);
        if depth > DEEPEST {
            return unknown;
        }
        let node = bare(node);
        let field = |name: &str| node.child_by_field_name(name);
        let inner = |name: &str| {
            field(name).map_or(Ty::new(Base::Other, 0), |n| self.at(n, text, depth + 1))
        };
        match node.kind() {
            "identifier" => {
                let name = text_of(node, text);
                self.find(name).cloned().unwrap_or(unknown)
            }
            "pointer_expression" => {
                let by = if text.get(node.start_byte()) == Some(&b'*') {
                    -1
                } else {
                    1
                };
                inner("argument").pointed(by)
            }
            "subscript_expression" => inner("argument").pointed(-1),
            "update_expression" => inner("argument"),
            "assignment_expression" => inner("left"),
            "field_expression" => match field("field") {
                Some(name) => Ty::new(Base::Field(text_of(name, text).to_owned()), 0),
                None => unknown,
            },
            "cast_expression" => {
                let Some(kind) = field("type") else {
                    return unknown;
                };
                let words = text_of(kind, text);
                let pointers = words.matches('*').count();
                let name = words.trim_end_matches(|c: char| c == '*' || c.is_whitespace());
                Ty::new(base(name), i8::try_from(pointers).unwrap_or(i8::MAX))
            }
            "binary_expression" => {
                let sign = field("operator").map_or("", |sign| sign.kind());
                let left = inner("left");
                if !matches!(sign, "+" | "-") {
                    return unknown;
                }
                if left.pointers > 0 {
                    return left;
                }
                let right = inner("right");
                if right.pointers > 0 { right } else { unknown }
            }
            _ => unknown,
        }
    }
}
