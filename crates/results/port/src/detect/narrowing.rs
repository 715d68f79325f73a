//! Negative numbers in braces that initialise a plain char.
//!
//! In C++ they are narrowed where char is unsigned, which is an error (ISO/IEC 14882, [dcl.init.list]);
//! in C the char becomes 255. What a place in braces initialises depends on the type, which another
//! file may declare: `Position` says where it stands, `project` looks the members up.

use tree_sitter::Node;

use super::chars::constant;
use crate::context::Context;
use crate::facts::{Member, Position, Step, When};
use crate::syntax::bare;
use crate::types::declared;

/// Braces inside one another that are followed.
const DEEPEST: usize = 6;
/// Elements of one list that are looked at.
const MOST_ELEMENTS: usize = 512;
/// Class templates whose elements are initialised from braces.
const CONTAINERS: &[&str] = &[
    "array",
    "vector",
    "initializer_list",
    "deque",
    "list",
    "forward_list",
    "set",
    "multiset",
    "unordered_set",
    "optional",
    "atomic",
    "basic_string",
    "valarray",
];

/// The rule: an error in C++, another value in C.
fn rule(context: &Context<'_>) -> &'static str {
    if context.cpp {
        "char-narrowing"
    } else {
        "char-sign"
    }
}

/// A type as it is written: its last name, and the arrays or containers around its elements.
fn element(words: &str) -> (String, u8) {
    let words = words.trim();
    if let Some((name, arguments)) = words.split_once('<') {
        let name = name.rsplit("::").next().unwrap_or(name).trim();
        let first = arguments.trim_end_matches('>').split(',').next();
        if CONTAINERS.contains(&name) {
            let (inner, dimensions) = element(first.unwrap_or_default());
            return (inner, dimensions.saturating_add(1));
        }
        return (name.to_owned(), 0);
    }
    let qualifiers = [
        "const",
        "volatile",
        "struct",
        "class",
        "union",
        "constexpr",
        "typename",
    ];
    let kept: Vec<&str> = words
        .split_whitespace()
        .filter(|word| !qualifiers.contains(word))
        .collect();
    let name = kept.join(" ");
    let name = name.rsplit("::").next().unwrap_or_default();
    match name {
        "string" => ("char".to_owned(), 1),
        name => (name.to_owned(), 0),
    }
}

/// Whether a declarator has a pointer in it: what it points to is not what braces initialise.
fn points(declarator: Node<'_>) -> bool {
    let mut node = Some(declarator);
    for _ in 0..DEEPEST {
        match node {
            Some(inner) if inner.kind() == "pointer_declarator" => return true,
            Some(inner) => node = inner.child_by_field_name("declarator"),
            None => return false,
        }
    }
    false
}

/// `T x = {…}`, `T x{…}` and `T x[] = {…}`; `node` is the declarator with its value.
pub fn declared_with_braces(context: &mut Context<'_>, node: Node<'_>) {
    let fields = node
        .child_by_field_name("declarator")
        .zip(node.child_by_field_name("value"));
    let kind = context
        .parent()
        .and_then(|parent| parent.child_by_field_name("type"));
    if let (Some((declarator, value)), Some(kind)) = (fields, kind) {
        initialised(context, kind, Some(declarator), value);
    }
}

/// `char c{-1};` and `char c = {-1};` of a class.
pub fn member(context: &mut Context<'_>, node: Node<'_>) {
    let kind = node.child_by_field_name("type");
    let value = node.child_by_field_name("default_value");
    if let Some((kind, value)) = kind.zip(value) {
        initialised(context, kind, node.child_by_field_name("declarator"), value);
    }
}

/// `T{…}` as an expression, and `new T[n]{…}`.
pub fn literal(context: &mut Context<'_>, node: Node<'_>) {
    let value = node
        .child_by_field_name("value")
        .or_else(|| node.child_by_field_name("arguments"));
    let Some((kind, value)) = node.child_by_field_name("type").zip(value) else {
        return;
    };
    if value.kind() != "initializer_list" {
        return;
    }
    let words = context.words(kind);
    // `(char[]){-1}` of C.
    let (words, arrays) = match words.split_once('[') {
        Some((words, _)) => (words, 1),
        None => (
            words,
            u8::from(node.child_by_field_name("declarator").is_some()),
        ),
    };
    if words.contains('*') {
        return;
    }
    let (name, dimensions) = element(words);
    let position = Position {
        of: name,
        dimensions: dimensions + arrays,
        steps: Vec::new(),
    };
    list(context, position, value, 0);
}

fn initialised(
    context: &mut Context<'_>,
    kind: Node<'_>,
    declarator: Option<Node<'_>>,
    value: Node<'_>,
) {
    let name = declarator.and_then(|declarator| declared(declarator, context.text));
    let Some((_, arrays)) = name.filter(|_| !declarator.is_some_and(points)) else {
        return;
    };
    // `struct S { … } s = {…};`
    let named = kind
        .child_by_field_name("body")
        .and_then(|_| kind.child_by_field_name("name"));
    let (of, dimensions) = element(context.words(named.unwrap_or(kind)));
    let arrays = u8::try_from(arrays).unwrap_or(u8::MAX);
    let position = Position {
        of,
        dimensions: dimensions.saturating_add(arrays),
        steps: Vec::new(),
    };
    if value.kind() == "initializer_list" {
        list(context, position, value, 0);
    } else if position.is_char() && is_negative(context, value) {
        let code = crate::syntax::excerpt(value, context.text);
        context.found_as("char-sign", value, format!("char = {code}"), When::Always);
    }
}

fn is_negative(context: &Context<'_>, node: Node<'_>) -> bool {
    let node = bare(node);
    if node.kind() == "identifier" {
        return context.negatives.contains(context.words(node));
    }
    constant(node, context.text, 0)
        .is_some_and(|c| c.signed < 0 && c.unsigned < 0 && c.signed >= -128)
}

/// Names that are kept for a file.
const MOST_NAMES: usize = 20_000;

/// Takes note of a constant: `const int NONE = -1;`, `enum { NONE = -1 }`; `node` has its name and value.
pub fn named_constant(context: &mut Context<'_>, node: Node<'_>) {
    let name = node
        .child_by_field_name("name")
        .or_else(|| node.child_by_field_name("declarator"));
    let Some((name, value)) = name.zip(node.child_by_field_name("value")) else {
        return;
    };
    let is_constant = match node.kind() {
        "enumerator" => true,
        _ => context.parent().is_some_and(|declaration| {
            let end = node.start_byte() - declaration.start_byte();
            let before = &context.words(declaration)[..end];
            let mut words = before.split_whitespace();
            // A char holds the converted number.
            words.any(|word| word == "const" || word == "constexpr") && !before.contains("char")
        }),
    };
    let plain = name.kind() == "identifier";
    if is_constant && plain && is_negative(context, value) && context.negatives.len() < MOST_NAMES {
        context.negatives.insert(context.words(name).to_owned());
    }
}

/// The same of `#define NONE (-1)`.
pub fn macro_constant(context: &mut Context<'_>, node: Node<'_>) {
    let Some((name, value)) = node
        .child_by_field_name("name")
        .zip(node.child_by_field_name("value"))
    else {
        return;
    };
    let number = context.words(value).trim_matches([' ', '\t', '(', ')']);
    let number = number
        .strip_prefix('-')
        .and_then(|n| n.trim().parse::<u8>().ok());
    if matches!(number, Some(1..=128)) && context.negatives.len() < MOST_NAMES {
        context.negatives.insert(context.words(name).to_owned());
    }
}

/// Follows the elements of a list to negative numbers.
fn list(context: &mut Context<'_>, position: Position, node: Node<'_>, depth: usize) {
    let mut cursor = node.walk();
    let elements: Vec<Node<'_>> = node
        .named_children(&mut cursor)
        .filter(|child| child.kind() != "comment")
        .take(MOST_ELEMENTS)
        .collect();
    let mut index = 0;
    let mut found = None;
    for element in elements {
        let (step, value) = match element.kind() {
            "initializer_pair" => {
                let Some((designator, value)) = element
                    .child_by_field_name("designator")
                    .zip(element.child_by_field_name("value"))
                else {
                    continue;
                };
                let words = context.words(designator);
                let name = words.trim_start_matches('.').trim();
                match designator.kind() {
                    "field_designator" | "field_identifier" => {
                        (Step::Member(name.to_owned()), value)
                    }
                    _ => (Step::Element(index), value),
                }
            }
            _ => (Step::Element(index), element),
        };
        index += 1;
        let mut inner = position.clone();
        inner.steps.push(step);
        if value.kind() == "initializer_list" {
            if depth < DEEPEST {
                list(context, inner, value, depth + 1);
            }
        } else if is_negative(context, value) && found.is_none() {
            if inner.of == "char" {
                found = Some((value, When::Always)).filter(|_| inner.is_char());
            } else {
                found_at(context, value, When::Initialises(inner));
            }
        }
    }
    // Tables have thousands: the first place stands for its list.
    if let Some((value, when)) = found {
        found_at(context, value, when);
    }
}

fn found_at(context: &mut Context<'_>, value: Node<'_>, when: When) {
    let rule = rule(context);
    let code = format!("char initialised with {}", context.words(value));
    context.found_as(rule, value, code, when);
}

/// `: c{-1}` of a constructor, whose class is around it or named before it.
pub fn constructor(context: &mut Context<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.named_children(&mut cursor).take(4).collect();
    let [name, value] = children.as_slice() else {
        return;
    };
    if value.kind() != "initializer_list" {
        return;
    }
    let qualified = context
        .within
        .as_deref()
        .and_then(|within| within.rsplit_once("::"))
        .map(|(class, _)| class.rsplit("::").next().unwrap_or(class).to_owned());
    let around = || {
        let classes = ["struct_specifier", "class_specifier"];
        let around = context.around.iter().rev();
        let class = around.into_iter().find(|n| classes.contains(&n.kind()))?;
        Some(context.words(class.child_by_field_name("name")?).to_owned())
    };
    let Some(of) = qualified.or_else(around) else {
        return;
    };
    let position = Position {
        of,
        dimensions: 0,
        steps: vec![Step::Member(context.words(*name).to_owned())],
    };
    list(context, position, *value, 0);
}

/// `enum E : char { A = -1 }`.
pub fn enumeration(context: &mut Context<'_>, node: Node<'_>) {
    let base = node.child_by_field_name("base");
    let Some(body) = node.child_by_field_name("body").filter(|_| context.cpp) else {
        return;
    };
    if base.is_none_or(|base| context.words(base) != "char") {
        return;
    }
    let mut cursor = body.walk();
    let values = body
        .named_children(&mut cursor)
        .take(MOST_ELEMENTS)
        .filter_map(|child| child.child_by_field_name("value"));
    let values: Vec<Node<'_>> = values.collect();
    if let Some(value) = values
        .into_iter()
        .find(|value| is_negative(context, *value))
    {
        found_at(context, value, When::Always);
    }
}

/// Takes note of the members of a struct or class, in order.
pub fn members(context: &mut Context<'_>, node: Node<'_>) {
    let Some(body) = node.child_by_field_name("body") else {
        return;
    };
    // `typedef struct {…} S;` has its name behind it.
    let typedef = context
        .parent()
        .filter(|parent| parent.kind() == "type_definition")
        .and_then(|parent| parent.child_by_field_name("declarator"));
    let name = node.child_by_field_name("name");
    let names = [name, typedef].into_iter().flatten();
    let names: Vec<String> = names.map(|name| context.words(name).to_owned()).collect();
    let mut members = Vec::new();
    let mut cursor = body.walk();
    for field in body.named_children(&mut cursor).take(MOST_ELEMENTS) {
        // Functions, comments and types take no place among the members; what a condition or a macro
        // puts there is not known.
        let kind = field.child_by_field_name("type");
        let own = context.words(field);
        let Some(kind) = kind.filter(|_| field.kind() == "field_declaration" && !field.has_error())
        else {
            if field.is_error() || field.has_error() || field.kind().starts_with("preproc_if") {
                members.push(Member::unknown());
            }
            continue;
        };
        if own.trim_start().starts_with("static") {
            continue;
        }
        let (of, dimensions) = element(context.words(kind));
        let mut cursor = field.walk();
        for declarator in field.children_by_field_name("declarator", &mut cursor) {
            members.push(match declared(declarator, context.text) {
                Some((name, arrays)) => Member {
                    name: name.to_owned(),
                    of: if points(declarator) {
                        String::new()
                    } else {
                        of.clone()
                    },
                    dimensions: dimensions.saturating_add(u8::try_from(arrays).unwrap_or(u8::MAX)),
                },
                // A method, or a macro behind the name.
                None if context.cpp => continue,
                None => Member::unknown(),
            });
        }
    }
    for name in names {
        context
            .facts
            .members
            .entry(name)
            .or_insert_with(|| members.clone());
    }
}
