//! Wide loads and stores at addresses that are computed in bytes.

use tree_sitter::Node;

use crate::context::Context;
use crate::facts::When;
use crate::syntax::{bare, called};
use crate::types::{Base, base};

/// `*(uint32 *) (p + 3)`.
pub fn dereferenced(context: &mut Context<'_>, node: Node<'_>) {
    let star = context.text.get(node.start_byte()) == Some(&b'*');
    if let Some(argument) = node.child_by_field_name("argument").filter(|_| star) {
        access(context, node, argument);
    }
}

/// `((uint32 *) (p + 3))[i]`.
pub fn subscripted(context: &mut Context<'_>, node: Node<'_>) {
    if let Some(argument) = node
        .child_by_field_name("argument")
        .filter(|a| a.kind() == "parenthesized_expression")
    {
        access(context, node, argument);
    }
}

fn access(context: &mut Context<'_>, node: Node<'_>, pointer: Node<'_>) {
    let cast = bare(pointer);
    if cast.kind() != "cast_expression" {
        return;
    }
    let Some((kind, value)) = cast
        .child_by_field_name("type")
        .zip(cast.child_by_field_name("value"))
    else {
        return;
    };
    let kind = context.words(kind);
    let Some(name) = kind.trim_end().strip_suffix('*') else {
        return;
    };
    let Base::Wide(width) = base(name.trim()) else {
        return;
    };
    if !is_odd(context, bare(value), width) {
        return;
    }
    // Who aligns the address in the same function knows.
    let function = context
        .around
        .iter()
        .rev()
        .find(|n| n.kind() == "function_definition");
    let aligns = function
        .is_some_and(|f| f.byte_range().len() < 100_000 && context.words(*f).contains("ALIGN"));
    if !aligns {
        context.found_once("unaligned", node, When::Always);
    }
}

/// Whether an address is computed in bytes, and not by a multiple of `width`.
fn is_odd(context: &Context<'_>, value: Node<'_>, width: u8) -> bool {
    let bytes = |node: Node<'_>| context.scope.of(node, context.text).points_to_bytes();
    let multiple = |node: Node<'_>| {
        let words = context.words(bare(node));
        let number = crate::guards::cond::number(words);
        // sizeof, MAXALIGN and header sizes are multiples as a rule.
        number.is_some_and(|n| n % i64::from(width) == 0)
            // An index times a stride.
            || words.contains('*')
            || ["sizeof", "ALIGN", "HDRSZ", "Size", "SIZE"]
                .iter()
                .any(|part| words.contains(part))
    };
    match value.kind() {
        "binary_expression" => {
            let (Some(left), Some(right)) = (
                value.child_by_field_name("left"),
                value.child_by_field_name("right"),
            ) else {
                return false;
            };
            bytes(left) && !multiple(right) || bytes(right) && !multiple(left)
        }
        "pointer_expression" if context.text.get(value.start_byte()) == Some(&b'&') => {
            let element = value.child_by_field_name("argument").map(bare);
            element
                .filter(|e| e.kind() == "subscript_expression")
                .is_some_and(|element| {
                    let array = element.child_by_field_name("argument");
                    let index = element
                        .child_by_field_name("index")
                        .or_else(|| element.named_child(1));
                    array.is_some_and(bytes)
                        && !index.is_some_and(|index| {
                            multiple(index) || context.words(index).contains('*')
                        })
                })
        }
        "update_expression" => bytes(value),
        // A short header is of one byte, so what follows it is aligned to nothing.
        "call_expression" => called(value, context.text) == Some("VARDATA_ANY"),
        _ => false,
    }
}
