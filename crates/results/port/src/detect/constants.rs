//! Page and cache-line sizes written as numbers.

use tree_sitter::Node;

use crate::context::Context;
use crate::facts::When;
use crate::guards::cond::number;
use crate::syntax::called;

/// Functions whose arguments are of whole pages.
const OF_PAGES: &[&str] = &[
    "mmap",
    "munmap",
    "mprotect",
    "madvise",
    "msync",
    "mincore",
    "mlock",
    "munlock",
    "mremap",
    "remap_file_pages",
];
/// Functions that align to what they are given.
const ALIGNING: &[&str] = &["posix_memalign", "aligned_alloc", "memalign"];

/// A call.
pub fn call(context: &mut Context<'_>, node: Node<'_>) {
    let Some(name) = called(node, context.text) else {
        return;
    };
    let Some(arguments) = node.child_by_field_name("arguments") else {
        return;
    };
    let mut cursor = arguments.walk();
    let numbers: Vec<i64> = arguments
        .named_children(&mut cursor)
        .take(8)
        .flat_map(|argument| numbers(argument, context.text))
        .collect();
    let page = numbers
        .iter()
        .any(|n| [4096, 4095, 0xFFF, !0xFFF].contains(n));
    context.facts.maps_pages |= OF_PAGES.contains(&name) || ALIGNING.contains(&name);
    if OF_PAGES.contains(&name) && page {
        context.found("page-size", node, When::Always);
    }
    if ALIGNING.contains(&name) && numbers.iter().any(|n| *n == 64 || *n == 32) {
        context.found("cache-line-size", node, When::Always);
    }
}

/// The numbers in an argument's own arithmetic.
fn numbers(node: Node<'_>, text: &[u8]) -> Vec<i64> {
    let mut found = Vec::new();
    let mut waiting = vec![node];
    for _ in 0..32 {
        let Some(node) = waiting.pop() else {
            break;
        };
        match node.kind() {
            "number_literal" => found.extend(number(crate::syntax::text_of(node, text))),
            "binary_expression"
            | "parenthesized_expression"
            | "unary_expression"
            | "cast_expression" => {
                let mut cursor = node.walk();
                waiting.extend(node.named_children(&mut cursor));
            }
            _ => {}
        }
    }
    found
}

/// `#define CACHE_LINE_SIZE 64`.
pub fn macro_value(context: &mut Context<'_>, node: Node<'_>) {
    let (Some(name), Some(value)) = (
        node.child_by_field_name("name"),
        node.child_by_field_name("value"),
    ) else {
        return;
    };
    let value = context.words(value);
    let value = value
        .split("/*")
        .next()
        .unwrap_or(value)
        .trim()
        .trim_matches(['(', ')']);
    let Some(value) = number(value.trim()) else {
        return;
    };
    let lower = context.words(name).to_ascii_lowercase();
    let joined = lower.replace('_', "");
    let line = ["cacheline", "cachelinesize", "l1line"]
        .iter()
        .any(|part| joined.contains(part));
    if line && (value == 32 || value == 64) {
        context.found("cache-line-size", node, When::Always);
    }
    let page = [
        "pagesize",
        "pageshift",
        "pagemask",
        "ospage",
        "hwpage",
        "mempage",
    ]
    .iter()
    .any(|part| joined.contains(part));
    let of_file = [
        "xlog", "wal", "blk", "disk", "block", "heap", "index", "log", "btree", "bt", "hash", "lsm",
    ]
    .iter()
    .any(|part| lower.split('_').any(|word| word == *part));
    if page && !of_file && [4096, 4095, 12].contains(&value) {
        context.found("page-size", node, When::MapsPages);
    }
}

/// `__attribute__((aligned(64)))`, `alignas(64)`.
pub fn aligned(context: &mut Context<'_>, node: Node<'_>) {
    let words: String = context
        .words(node)
        .chars()
        .take(120)
        .filter(|c| !c.is_whitespace())
        .collect();
    let to_line = [
        "aligned(64)",
        "aligned__(64)",
        "alignas(64)",
        "_Alignas(64)",
    ]
    .iter()
    .any(|form| words.contains(form));
    let inner = node.kind() == "attribute_specifier"
        && node
            .named_child(0)
            .is_some_and(|child| child.kind() == "attribute");
    if to_line && !inner {
        context.found_once("cache-line-size", node, When::Always);
    }
}
