//! The walk over one file: directives, declarations and functions are followed, detectors asked.

use tree_sitter::Node;

use crate::context::{Context, MOST};
use crate::detect::{self, memory::Memory};
use crate::facts::{Definition, Facts};
use crate::guards::cond::Cond;
use crate::syntax::{self, Language, Unparsed};
use crate::types;

/// Macro bodies longer than this are not looked into.
const LONGEST_MACRO: usize = 16_000;
/// Nodes inside one another that are followed.
const DEEPEST: usize = 2_000;

/// What a file tells by itself.
///
/// # Errors
/// Why it has no tree.
pub fn facts(bytes: &[u8], language: Language) -> Result<Facts, Unparsed> {
    let text = syntax::clean(bytes)?;
    let tree = syntax::parse(&text, language)?;
    let mut context = Context::new(&text);
    context.cpp = syntax::is_cpp(&tree);
    let mut memory = Memory::default();
    walk(&mut context, &mut memory, tree.root_node(), language);
    context.facts.unbalanced = context.guards.unbalanced();
    memory.finish(&mut context);
    let mut facts = context.facts;
    facts.lines = syntax::lines(&text);
    Ok(facts)
}

fn walk<'t>(context: &mut Context<'t>, memory: &mut Memory, root: Node<'t>, language: Language) {
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        enter(context, memory, node, language);
        if context.around.len() < DEEPEST && cursor.goto_first_child() {
            context.around.push(node);
            continue;
        }
        leave(context, node);
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
            context.around.pop();
            leave(context, cursor.node());
        }
    }
}

fn enter<'t>(context: &mut Context<'t>, memory: &mut Memory, node: Node<'t>, language: Language) {
    if !node.is_named() || node.kind() == "preproc_directive" {
        if context.text.get(node.start_byte()) == Some(&b'#') {
            directive(context, node);
        }
        return;
    }
    match node.kind() {
        "function_definition" => {
            let mut declarator = node.child_by_field_name("declarator");
            while let Some(inner) = declarator.and_then(|d| d.child_by_field_name("declarator")) {
                declarator = Some(inner);
            }
            context.within = declarator.map(|name| context.words(name).to_owned());
            context.scope.forget_function();
            context.scope.begin();
        }
        "compound_statement" | "for_statement" => context.scope.begin(),
        "declaration" | "parameter_declaration" => {
            for (name, ty) in types::declarations(node, context.text) {
                context.scope.declare(name, ty);
            }
        }
        "field_declaration" => {
            for (name, ty) in types::declarations(node, context.text) {
                context
                    .facts
                    .fields
                    .entry(name.to_owned())
                    .or_default()
                    .insert(ty);
            }
        }
        "preproc_def" | "preproc_function_def" => definition(context, node, language),
        _ => {}
    }
    detect::ask(context, memory, node);
}

fn leave(context: &mut Context<'_>, node: Node<'_>) {
    match node.kind() {
        "function_definition" => {
            context.within = None;
            context.scope.forget_function();
        }
        "compound_statement" | "for_statement" => context.scope.end(),
        _ => {}
    }
}

/// A token that begins a directive; what follows on its line is the condition.
fn directive(context: &mut Context<'_>, node: Node<'_>) {
    let word = context.words(node).trim_start_matches('#').trim();
    if !matches!(
        word,
        "if" | "ifdef" | "ifndef" | "elif" | "elifdef" | "elifndef" | "else" | "endif" | "error"
    ) {
        return;
    }
    let line = context.line(node);
    let rest = logical_line(context.text, node.end_byte());
    let named = || {
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .find(|w| !w.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let shown = format!(
        "#{word} {}",
        rest.split("/*")
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    );
    let shown: String = shown.chars().take(100).collect();
    match word {
        "if" => {
            let cond = expression(context, &rest);
            context.guards.begin(cond, &shown, line);
        }
        "ifdef" => context.guards.begin(Cond::Defined(named()), &shown, line),
        "ifndef" => context
            .guards
            .begin(Cond::Not(Box::new(Cond::Defined(named()))), &shown, line),
        "elif" => {
            let cond = expression(context, &rest);
            context.guards.branch(Some(cond), &shown, line);
        }
        "elifdef" => context
            .guards
            .branch(Some(Cond::Defined(named())), &shown, line),
        "elifndef" => context.guards.branch(
            Some(Cond::Not(Box::new(Cond::Defined(named())))),
            &shown,
            line,
        ),
        "else" => context.guards.branch(None, &shown, line),
        "endif" => context.guards.end(),
        _ => {
            let of_processor = context
                .guards
                .region()
                .is_some_and(|region| region.names(&crate::guards::known::speaks_of_processor));
            if of_processor {
                context.found_as("unknown-processor", node, shown, crate::facts::When::Always);
            }
        }
    }
}

/// The rest of a line, with the lines that a backslash joins to it.
fn logical_line(text: &[u8], from: usize) -> String {
    const LONGEST: usize = 4_000;
    let rest = &text[from.min(text.len())..];
    let rest = &rest[..rest.len().min(LONGEST)];
    let mut line = String::new();
    for part in rest.split(|b| *b == b'\n') {
        let part = String::from_utf8_lossy(part);
        let part = part.trim_end_matches('\r');
        match part.strip_suffix('\\') {
            Some(joined) => {
                line.push_str(joined);
                line.push(' ');
            }
            None => {
                line.push_str(part);
                break;
            }
        }
    }
    line
}

/// The condition of `#if`: parsed by itself, because what is around may not have parsed.
fn expression(context: &mut Context<'_>, text: &str) -> Cond {
    if context.snippets == 0 {
        return Cond::Unknown;
    }
    context.snippets -= 1;
    let source = format!("#if {text}\n#endif\n");
    let Ok(tree) = syntax::parse(source.as_bytes(), Language::C) else {
        return Cond::Unknown;
    };
    let directive = tree.root_node().named_child(0);
    match directive.and_then(|d| d.child_by_field_name("condition")) {
        Some(condition) if !condition.has_error() => Cond::read(condition, source.as_bytes()),
        _ => Cond::Unknown,
    }
}

/// A `#define`: that it is there, and what is in its body.
fn definition<'t>(context: &mut Context<'t>, node: Node<'t>, language: Language) {
    let Some(name) = node.child_by_field_name("name") else {
        return;
    };
    let name = context.words(name).to_owned();
    let definition = Definition {
        line: context.line(node),
        region: context.guards.region().cloned(),
    };
    let guards_itself = context.guards.region().is_some_and(|region| {
        let itself = Cond::Not(Box::new(Cond::Defined(name.clone())));
        region.around.is_none() && region.cond == itself && definition.line <= region.line + 3
    });
    if guards_itself && node.child_by_field_name("value").is_none() {
        context.facts.own_guard.get_or_insert_with(|| name.clone());
    }
    context
        .facts
        .definitions
        .entry(name.clone())
        .or_default()
        .push(definition);
    let Some(value) = node.child_by_field_name("value") else {
        return;
    };
    let body = context.words(value);
    if context.macro_line.is_some() || body.len() > LONGEST_MACRO || !body.contains(['(', '_']) {
        return;
    }
    if context.snippets == 0 || context.facts.candidates.len() >= MOST {
        return;
    }
    context.snippets -= 1;
    let body = body.replace("\\\n", " \n");
    let source = format!("void {name}_(void) {{ {body}\n; }}\n");
    let Ok(tree) = syntax::parse(source.as_bytes(), language) else {
        return;
    };
    let mut inner = Context::new(source.as_bytes());
    inner.cpp = context.cpp;
    inner.macro_line = Some(context.line(node));
    let mut memory = Memory::default();
    walk(&mut inner, &mut memory, tree.root_node(), language);
    let facts = inner.facts;
    context.facts.paths.extend(facts.paths);
    context.facts.builtin_popcount |= facts.builtin_popcount;
    for mut candidate in facts.candidates {
        candidate.within = Some(name.clone());
        candidate.region = context.guards.region().cloned();
        context.facts.candidates.push(candidate);
    }
}
