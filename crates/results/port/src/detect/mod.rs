//! What each rule is recognised by: a file for each subject, asked of every node of a tree.

pub mod assembly;
mod chars;
mod constants;
pub mod intrinsics;
mod locks;
pub mod memory;
mod narrowing;
mod unaligned;

use tree_sitter::Node;

use crate::context::Context;

/// Asks all detectors of a node, whose place `context` knows.
pub fn ask(context: &mut Context<'_>, memory: &mut memory::Memory, node: Node<'_>) {
    match node.kind() {
        "identifier" | "type_identifier" => intrinsics::name(context, node),
        "preproc_include" => {
            intrinsics::include(context, node);
            memory.included(context, node);
        }
        "field_expression" => memory.named(context, node),
        "attribute" | "attribute_specifier" => {
            intrinsics::attribute(context, node);
            constants::aligned(context, node);
        }
        "alignas_qualifier" | "alignas_specifier" => constants::aligned(context, node),
        "gnu_asm_expression" => assembly::asm(context, node),
        "binary_expression" => {
            chars::condition(context, node);
            chars::hash(context, node);
        }
        "unary_expression" => chars::condition(context, node),
        "assignment_expression" => {
            chars::hash_assigned(context, node);
            memory.assigned(context, node);
        }
        "update_expression" => memory.updated(context, node),
        "pointer_expression" => unaligned::dereferenced(context, node),
        "subscript_expression" => unaligned::subscripted(context, node),
        "call_expression" => {
            constants::call(context, node);
            memory.called(context, node);
        }
        "while_statement" | "do_statement" | "for_statement" => memory.looped(context, node),
        "declaration" => memory.declared(context, node),
        "field_declaration" => {
            memory.declared(context, node);
            narrowing::member(context, node);
        }
        "compound_literal_expression" | "new_expression" => narrowing::literal(context, node),
        "field_initializer" => narrowing::constructor(context, node),
        "enum_specifier" => narrowing::enumeration(context, node),
        "enumerator" => narrowing::named_constant(context, node),
        "struct_specifier" | "class_specifier" | "union_specifier" => {
            narrowing::members(context, node);
        }
        "init_declarator" => {
            narrowing::named_constant(context, node);
            narrowing::declared_with_braces(context, node);
            memory.initialised(context, node);
        }
        "preproc_def" => {
            constants::macro_value(context, node);
            narrowing::macro_constant(context, node);
        }
        _ => {}
    }
}
