//! Plain char whose sign is assumed.
//!
//! A condition is not looked at by its form: it is evaluated for every byte from 0x80 on, once as a
//! signed and once as an unsigned char. So `c >= '0' && c <= '9'` is no finding, and `c < ' '` is one.

use tree_sitter::Node;

use crate::context::Context;
use crate::facts::When;
use crate::guards::cond::{Compare, number};
use crate::syntax::{bare, called};
use crate::types::{Base, Ty};

/// Nodes of a condition that are looked at.
const MOST_NODES: usize = 64;
/// Other parts of a condition whose outcomes are tried out.
const MOST_OTHERS: usize = 6;

/// A boolean expression over one char.
#[derive(Debug)]
enum Logic {
    All(Box<Logic>, Box<Logic>),
    Any(Box<Logic>, Box<Logic>),
    Not(Box<Logic>),
    /// The char of this number against a constant.
    Char(usize, Compare, Constant),
    /// What of a byte from 0x80 on is known.
    Known(bool),
    /// Anything else.
    Other(usize),
}

/// A constant, as it is where char is signed and where it is not.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Where char is signed.
    pub signed: i64,
    /// Where it is not.
    pub unsigned: i64,
}

/// A char of a condition.
#[derive(Debug)]
struct Plain {
    /// Its text.
    key: String,
    /// What must be so for it to be a char.
    when: When,
    /// A comparison says more than that it holds a small number.
    telling: bool,
}

/// A condition as it is read.
#[derive(Debug, Default)]
struct Reading {
    /// Its chars.
    chars: Vec<Plain>,
    /// A comparison with a negative number.
    negative: bool,
    others: usize,
    nodes: usize,
}

/// Whether an expression is a plain char, and what must be so for that.
fn plain(ty: &Ty) -> Option<When> {
    match &ty.base {
        Base::Char if ty.pointers == 0 => Some(When::Always),
        Base::Field(name) if ty.pointers <= 0 => Some(When::CharField(name.clone(), -ty.pointers)),
        _ => None,
    }
}

fn is_logic(node: Node<'_>) -> bool {
    match node.kind() {
        "binary_expression" => node.child_by_field_name("operator").is_some_and(|sign| {
            matches!(sign.kind(), "&&" | "||") || Compare::of(sign.kind()).is_some()
        }),
        "unary_expression" => node.child(0).is_some_and(|sign| sign.kind() == "!"),
        _ => false,
    }
}

/// A condition; only the whole is looked at, not its parts.
pub fn condition(context: &mut Context<'_>, node: Node<'_>) {
    if !is_logic(node) {
        return;
    }
    let outer = context
        .around
        .iter()
        .rev()
        .find(|around| around.kind() != "parenthesized_expression");
    if outer.is_some_and(|outer| is_logic(*outer)) {
        return;
    }
    let mut reading = Reading::default();
    let logic = read(context, node, &mut reading);
    for (n, char) in reading.chars.iter().enumerate() {
        if char.telling && differs(&logic, n, reading.others) {
            let rule = if reading.negative {
                "char-negative"
            } else {
                "char-sign"
            };
            context.found_once(rule, node, char.when.clone());
            return;
        }
    }
    order(context, node);
}

fn read(context: &Context<'_>, node: Node<'_>, reading: &mut Reading) -> Logic {
    let node = bare(node);
    reading.nodes += 1;
    let sides = || {
        Some((
            node.child_by_field_name("left")?,
            node.child_by_field_name("right")?,
        ))
    };
    if reading.nodes < MOST_NODES && is_logic(node) {
        if node.kind() == "unary_expression" {
            if let Some(inner) = node.child_by_field_name("argument") {
                return Logic::Not(Box::new(read(context, inner, reading)));
            }
        } else if let Some((left, right)) = sides() {
            let sign = node
                .child_by_field_name("operator")
                .map_or("", |sign| sign.kind());
            let Some(compare) = Compare::of(sign) else {
                let (left, right) = (read(context, left, reading), read(context, right, reading));
                let (left, right) = (Box::new(left), Box::new(right));
                return if sign == "&&" {
                    Logic::All(left, right)
                } else {
                    Logic::Any(left, right)
                };
            };
            let found = char_against(context, left, right, compare, reading)
                .or_else(|| char_against(context, right, left, compare.mirrored(), reading));
            if let Some(found) = found {
                return found;
            }
        }
    }
    match called(node, context.text) {
        Some("isdigit" | "isxdigit" | "isascii") => return Logic::Known(false),
        Some("IS_HIGHBIT_SET") => return Logic::Known(true),
        _ => {}
    }
    reading.others += 1;
    Logic::Other(reading.others - 1)
}

fn char_against(
    context: &Context<'_>,
    left: Node<'_>,
    right: Node<'_>,
    compare: Compare,
    reading: &mut Reading,
) -> Option<Logic> {
    let when = plain(&context.scope.of(left, context.text))?;
    let constant = constant(right, context.text, 0)?;
    // A variable compared with a small number holds a number.
    let small = bare(right).kind() == "number_literal" && (1..16).contains(&constant.signed)
        || constant.signed == 0 && matches!(compare, Compare::More | Compare::AtMost);
    let telling = !small || of_text(left);
    reading.negative |= constant.signed < 0 && constant.unsigned < 0
        || constant.signed == 0 && matches!(compare, Compare::Less | Compare::AtLeast);
    let mut key: String = context
        .words(bare(left))
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    if key.contains("++") || key.contains("--") || key.contains('(') {
        // Another value each time.
        key.push_str(&format!("@{}", left.start_byte()));
    }
    let known = reading.chars.iter().position(|char| char.key == key);
    let n = known.unwrap_or_else(|| {
        reading.chars.push(Plain {
            key,
            when,
            telling: false,
        });
        reading.chars.len() - 1
    });
    reading.chars[n].telling |= telling;
    Some(Logic::Char(n, compare, constant))
}

/// The value of a constant expression.
pub fn constant(node: Node<'_>, text: &[u8], depth: u32) -> Option<Constant> {
    let node = bare(node);
    let words = crate::syntax::text_of(node, text);
    let same = |value: i64| {
        Some(Constant {
            signed: value,
            unsigned: value,
        })
    };
    match node.kind() {
        "number_literal" => same(number(words)?),
        "char_literal" => {
            let value = character(words)?;
            Some(Constant {
                signed: i64::from(value as i8),
                unsigned: i64::from(value),
            })
        }
        "identifier" if words == "EOF" => same(-1),
        "unary_expression" if depth < 4 && words.starts_with('-') => {
            let inner = constant(node.child_by_field_name("argument")?, text, depth + 1)?;
            Some(Constant {
                signed: -inner.signed,
                unsigned: -inner.unsigned,
            })
        }
        "cast_expression" if depth < 4 => {
            let inner = constant(node.child_by_field_name("value")?, text, depth + 1)?;
            let kind = crate::syntax::text_of(node.child_by_field_name("type")?, text);
            match kind.trim() {
                "char" => Some(Constant {
                    signed: i64::from(inner.signed as i8),
                    unsigned: i64::from(inner.unsigned as u8),
                }),
                "unsigned char" | "uint8" | "uint8_t" => same(i64::from(inner.signed as u8)),
                "signed char" | "int8" | "int8_t" => same(i64::from(inner.signed as i8)),
                _ => Some(inner),
            }
        }
        _ => None,
    }
}

/// The byte of a character constant.
fn character(words: &str) -> Option<u8> {
    let inner = words.strip_prefix('\'')?.strip_suffix('\'')?;
    let Some(escape) = inner.strip_prefix('\\') else {
        let mut bytes = inner.bytes();
        return bytes.next().filter(|_| bytes.next().is_none());
    };
    match escape.as_bytes() {
        [b'n'] => Some(b'\n'),
        [b't'] => Some(b'\t'),
        [b'r'] => Some(b'\r'),
        [b'a'] => Some(7),
        [b'b'] => Some(8),
        [b'f'] => Some(12),
        [b'v'] => Some(11),
        [b'e'] => Some(27),
        [b'x', hex @ ..] => u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok(),
        [b'0'..=b'7', ..] => u8::from_str_radix(escape, 8).ok(),
        [one] => Some(*one),
        _ => None,
    }
}

/// Whether the outcome differs for some byte from 0x80 on, whatever the other parts come out as.
fn differs(logic: &Logic, char: usize, others: usize) -> bool {
    let tried = others.min(MOST_OTHERS);
    (0x80..=0xFF_i64).any(|byte| {
        (0..1_u32 << tried).any(|outcomes| {
            let signed = holds(logic, char, byte - 0x100, true, outcomes);
            let unsigned = holds(logic, char, byte, false, outcomes);
            signed != unsigned
        })
    })
}

fn holds(logic: &Logic, char: usize, value: i64, signed: bool, outcomes: u32) -> bool {
    let of = |logic: &Logic| holds(logic, char, value, signed, outcomes);
    match logic {
        Logic::All(a, b) => of(a) && of(b),
        Logic::Any(a, b) => of(a) || of(b),
        Logic::Not(inner) => !of(inner),
        Logic::Known(holds) => *holds,
        Logic::Char(n, compare, constant) if *n == char => compare.holds(
            value,
            if signed {
                constant.signed
            } else {
                constant.unsigned
            },
        ),
        // Of the other chars nothing is said: each comparison is one of the other parts.
        Logic::Char(n, ..) => outcomes >> (n % MOST_OTHERS) & 1 == 1,
        Logic::Other(n) => outcomes >> (n % MOST_OTHERS) & 1 == 1,
    }
}

/// `a[i] < b[i]` of two plain chars.
fn order(context: &mut Context<'_>, node: Node<'_>) {
    let mut waiting = vec![node];
    for _ in 0..MOST_NODES {
        let Some(node) = waiting.pop().map(bare) else {
            return;
        };
        let sides = node
            .child_by_field_name("left")
            .zip(node.child_by_field_name("right"));
        let sign = node
            .child_by_field_name("operator")
            .map_or("", |sign| sign.kind());
        if let Some((left, right)) = sides.filter(|_| matches!(sign, "&&" | "||")) {
            waiting.extend([left, right]);
        }
        let Some((left, right)) = sides.filter(|_| matches!(sign, "<" | ">" | "<=" | ">=")) else {
            continue;
        };
        let is = |side: Node<'_>| plain(&context.scope.of(side, context.text));
        let text = of_text(left) || of_text(right);
        if let Some((left, right)) = is(left).zip(is(right)).filter(|_| text) {
            context.found_once("char-order", node, both(left, right));
            return;
        }
    }
}

fn both(a: When, b: When) -> When {
    let fields = [a, b].into_iter().filter_map(|when| match when {
        When::CharField(name, pointers) => Some((name, pointers)),
        _ => None,
    });
    let fields: Vec<(String, i8)> = fields.collect();
    if fields.is_empty() {
        When::Always
    } else {
        When::CharFields(fields)
    }
}

/// An element of a text; a variable may well hold a small number.
fn of_text(node: Node<'_>) -> bool {
    matches!(
        bare(node).kind(),
        "pointer_expression" | "subscript_expression"
    )
}

/// `h * 31 + *p`, `(n << 8) | *p`.
pub fn hash(context: &mut Context<'_>, node: Node<'_>) {
    let sign = node
        .child_by_field_name("operator")
        .map_or("", |sign| sign.kind());
    if !matches!(sign, "+" | "^" | "|") {
        return;
    }
    let Some((left, right)) = node
        .child_by_field_name("left")
        .zip(node.child_by_field_name("right"))
    else {
        return;
    };
    // `n * 8 + *p - '0'` is about digits.
    let digits = context.parent().is_some_and(|parent| {
        let right = parent.child_by_field_name("right");
        right.is_some_and(|right| {
            right.kind() == "char_literal" && right.start_byte() > node.start_byte()
        })
    });
    if digits {
        return;
    }
    for (byte, number) in [(right, left), (left, right)] {
        let number = bare(number);
        let mixes = number.kind() == "binary_expression"
            && number
                .child_by_field_name("operator")
                .is_some_and(|sign| matches!(sign.kind(), "*" | "<<" | "^"));
        let tens = number
            .child_by_field_name("right")
            .is_some_and(|right| context.words(right).starts_with("10"))
            || context.words(number).starts_with("10");
        if mixes
            && !tens
            && of_text(byte)
            && let Some(when) = plain(&context.scope.of(byte, context.text))
        {
            context.found_once("char-hash", node, when);
            return;
        }
    }
}

/// `h ^= *p`, where `h` is wider than a byte.
pub fn hash_assigned(context: &mut Context<'_>, node: Node<'_>) {
    let sign = node
        .child_by_field_name("operator")
        .map_or("", |sign| sign.kind());
    if !matches!(sign, "^=" | "+=") {
        return;
    }
    let Some((left, right)) = node
        .child_by_field_name("left")
        .zip(node.child_by_field_name("right"))
    else {
        return;
    };
    let wide = context.scope.of(left, context.text);
    if !(matches!(wide.base, Base::Wide(_)) && wide.pointers == 0) {
        return;
    }
    // Of a variable alone: an element that is added up may well be a count.
    let byte = bare(right);
    let of_text = matches!(byte.kind(), "pointer_expression" | "subscript_expression");
    if of_text && let Some(when) = plain(&context.scope.of(byte, context.text)) {
        context.found_once("char-hash", node, when);
    }
}
