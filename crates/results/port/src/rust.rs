//! Rust sources: `std::arch`, `target_feature`, inline assembly, and the `cfg` around each.
//!
//! A `cfg` becomes the condition that the preprocessor's would be (`target_arch = "x86_64"` that of
//! `__x86_64__`), so that the same rules decide what is compiled on a processor. `cfg!` and
//! `if is_x86_feature_detected!` choose at run time: what they guard is compiled everywhere.

mod cfg;

use tree_sitter::Node;

use crate::context::Context;
use crate::detect::{assembly, intrinsics};
use crate::facts::{Facts, Include, When};
use crate::guards::cond::Cond;
use crate::guards::known::{Processor, speaks_of_processor};
use crate::syntax::{self, Language, Unparsed, line_of};
use crate::x86;

/// Nodes inside one another that are followed.
const DEEPEST: usize = 300;

const X86: When = When::ForProcessor(None);

/// What a Rust file tells by itself.
///
/// # Errors
/// Why it has no tree.
pub fn facts(bytes: &[u8]) -> Result<Facts, Unparsed> {
    let text = syntax::clean(bytes)?;
    let tree = syntax::parse(&text, Language::Rust)?;
    let mut walk = Walk {
        context: Context::new(&text),
        choices: Vec::new(),
    };
    let root = tree.root_node();
    let inner = walk.inner_conditions(root);
    walk.under(inner, root, |walk| walk.children(root, 0));
    let mut facts = walk.context.facts;
    facts.lines = syntax::lines(&text);
    Ok(facts)
}

/// The walk over a file.
struct Walk<'t> {
    context: Context<'t>,
    /// Texts of the `if` and `match` around, which a build script chooses flags by.
    choices: Vec<String>,
}

impl<'t> Walk<'t> {
    /// Walks under a condition, if there is one.
    fn under(
        &mut self,
        cond: Option<(Cond, String)>,
        node: Node<'t>,
        then: impl FnOnce(&mut Self),
    ) {
        let Some((cond, text)) = cond else {
            then(self);
            return;
        };
        self.context.guards.begin(cond, &text, line_of(node));
        then(self);
        self.context.guards.end();
    }

    /// The children of a node, each under the attributes before it.
    fn children(&mut self, node: Node<'t>, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        let mut attributes: Vec<Node<'t>> = Vec::new();
        for child in children {
            match child.kind() {
                "attribute_item" => attributes.push(child),
                "line_comment" | "block_comment" | "inner_attribute_item" => {}
                "," | ";" | "{" | "}" => {}
                _ => {
                    let attributes = std::mem::take(&mut attributes);
                    let conditions = attributes.iter().filter_map(|a| self.condition(*a));
                    let conditions = cfg::all(conditions.collect());
                    self.under(conditions, child, |walk| {
                        for attribute in attributes {
                            walk.attribute(attribute);
                        }
                        walk.node(child, depth + 1);
                    });
                }
            }
        }
    }

    /// `#![cfg(…)]` at the start of a file, module or block.
    fn inner_conditions(&self, node: Node<'t>) -> Option<(Cond, String)> {
        let mut cursor = node.walk();
        let inner = node
            .children(&mut cursor)
            .filter(|child| child.kind() == "inner_attribute_item");
        cfg::all(inner.filter_map(|a| self.condition(a)).collect())
    }

    /// The condition of `#[cfg(…)]`.
    fn condition(&self, attribute: Node<'t>) -> Option<(Cond, String)> {
        let words = self.context.words(attribute);
        let inner = words.trim_start_matches(['#', '!']).trim();
        let inner = inner.strip_prefix('[')?.strip_suffix(']')?.trim();
        let predicate = inner.strip_prefix("cfg")?.trim();
        let predicate = predicate.strip_prefix('(')?.strip_suffix(')')?;
        Some((cfg::read(predicate), shortened(words)))
    }

    /// `#[target_feature(enable = "avx2")]`.
    fn attribute(&mut self, attribute: Node<'t>) {
        let words = self.context.words(attribute);
        let inner = words.trim_start_matches(['#', '[', ' ']);
        // `unsafe(target_feature(…))` is no attribute; `cfg_attr` brings its own condition.
        if !inner.starts_with("target_feature") {
            return;
        }
        let features = words.split('"').skip(1).step_by(2);
        if features.flat_map(|f| f.split(',')).any(x86::is_feature) {
            self.context.found_once("x86-target", attribute, X86);
        } else if words.contains("neon") || words.contains("sve") {
            self.context.facts.paths.insert(Processor::Aarch64);
        }
    }

    fn node(&mut self, node: Node<'t>, depth: usize) {
        match node.kind() {
            "function_item" => {
                let name = node.child_by_field_name("name");
                let name = name.map(|name| self.context.words(name).to_owned());
                let around = std::mem::replace(&mut self.context.within, name);
                self.inner(node, depth);
                self.context.within = around;
                return;
            }
            "mod_item" => {
                self.module(node);
                self.inner(node, depth);
                return;
            }
            "use_declaration" => {
                self.imported(node);
                return;
            }
            "scoped_identifier" | "scoped_type_identifier" => {
                self.imported(node);
                self.named(node.child_by_field_name("name"));
                return;
            }
            "identifier" | "type_identifier" => self.named(Some(node)),
            "macro_invocation" if self.invoked(node) => return,
            "string_literal" => self.flag(node),
            "if_expression" | "match_expression" => {
                let condition = node
                    .child_by_field_name("condition")
                    .or_else(|| node.child_by_field_name("value"));
                let words = condition.map_or("", |c| self.context.words(c));
                self.choices.push(words.to_ascii_lowercase());
                self.children(node, depth);
                self.choices.pop();
                return;
            }
            "match_arm" => {
                let pattern = node.child_by_field_name("pattern");
                let words = pattern.map_or("", |p| self.context.words(p));
                self.choices.push(words.to_ascii_lowercase());
                self.children(node, depth);
                self.choices.pop();
                return;
            }
            _ => {}
        }
        self.inner(node, depth);
    }

    /// What is in a node, under the attributes that it begins with.
    fn inner(&mut self, node: Node<'t>, depth: usize) {
        let conditions = match node.kind() {
            "block" | "declaration_list" => self.inner_conditions(node),
            _ => None,
        };
        self.under(conditions, node, |walk| walk.children(node, depth));
    }

    /// `mod avx2;` is `avx2.rs` or `avx2/mod.rs`, and compiled under the same condition.
    fn module(&mut self, node: Node<'t>) {
        let Some(name) = node.child_by_field_name("name") else {
            return;
        };
        if node.child_by_field_name("body").is_some() {
            return;
        }
        let name = self.context.words(name);
        for path in [format!("{name}.rs"), format!("{name}/mod.rs")] {
            self.context.facts.includes.push(Include {
                path,
                quoted: false,
                line: line_of(node),
                region: self.context.guards.region().cloned(),
            });
        }
    }

    /// A path into `std::arch` or `core::arch`.
    fn imported(&mut self, node: Node<'t>) {
        let words = self.context.words(node);
        let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let words: Vec<&str> = words.filter(|w| !w.is_empty()).collect();
        let Some(arch) = words.iter().position(|word| *word == "arch") else {
            return;
        };
        if !words[..arch]
            .iter()
            .any(|word| matches!(*word, "std" | "core"))
        {
            return;
        }
        let named = |name: &str| words[arch..].contains(&name);
        if named("x86_64") || named("x86") {
            self.context.found_once("x86-intrinsic", node, X86);
        }
        if named("aarch64") {
            self.context.facts.paths.insert(Processor::Aarch64);
        }
        if named("powerpc64") {
            self.context.facts.paths.insert(Processor::Ppc64le);
        }
        if named("riscv64") {
            self.context.facts.paths.insert(Processor::Riscv64);
        }
        if named("s390x") {
            self.context.facts.paths.insert(Processor::S390x);
        }
    }

    fn named(&mut self, node: Option<Node<'t>>) {
        let Some(node) = node else {
            return;
        };
        let name = self.context.words(node);
        if let Some(rule) = intrinsics::rule_of(name) {
            self.context.found_once(rule, node, X86);
        } else if name == "count_ones" {
            self.context.facts.builtin_popcount = true;
        }
    }

    /// A macro; true where nothing in it is to be walked.
    fn invoked(&mut self, node: Node<'t>) -> bool {
        let Some(name) = node.child_by_field_name("macro") else {
            return false;
        };
        let name = self.context.words(name);
        let name = name.rsplit("::").next().unwrap_or(name);
        match name {
            "is_x86_feature_detected" => {
                self.context.found_once("x86-cpuid", node, X86);
                true
            }
            "is_aarch64_feature_detected" => {
                self.context.facts.paths.insert(Processor::Aarch64);
                true
            }
            "asm" | "global_asm" | "naked_asm" => {
                assembly::template_of(&mut self.context, node);
                true
            }
            "compile_error" => {
                let of_processor = self
                    .context
                    .guards
                    .region()
                    .is_some_and(|region| region.names(&speaks_of_processor));
                if of_processor {
                    self.context.found("unknown-processor", node, When::Always);
                }
                true
            }
            "cfg" => true,
            "cfg_if" => {
                self.cfg_if(node);
                true
            }
            _ => false,
        }
    }

    /// `cfg_if! { if #[cfg(…)] {…} else {…} }`: each branch is parsed by itself.
    fn cfg_if(&mut self, node: Node<'t>) {
        let mut cursor = node.walk();
        let Some(tokens) = node
            .named_children(&mut cursor)
            .find(|child| child.kind() == "token_tree")
        else {
            return;
        };
        let mut cursor = tokens.walk();
        let trees = tokens.named_children(&mut cursor);
        let trees: Vec<Node<'t>> = trees.filter(|child| child.kind() == "token_tree").collect();
        let (mut condition, mut open) = (None, false);
        for tree in trees {
            let words = self.context.words(tree);
            if let Some(inner) = words.strip_prefix('[').and_then(|w| w.strip_suffix(']')) {
                let predicate = inner.trim().strip_prefix("cfg").unwrap_or_default().trim();
                let predicate = predicate
                    .strip_prefix('(')
                    .and_then(|p| p.strip_suffix(')'));
                let cond = predicate.map_or(Cond::Unknown, cfg::read);
                condition = Some((cond, format!("#[{}]", shortened(inner))));
            } else if words.starts_with('{') {
                let (guards, line) = (&mut self.context.guards, line_of(tree));
                match (condition.take(), open) {
                    (Some((cond, text)), false) => guards.begin(cond, &text, line),
                    (Some((cond, text)), true) => guards.branch(Some(cond), &text, line),
                    (None, _) => guards.branch(None, "", line),
                }
                open = true;
                self.branch(tree);
            }
        }
        if open {
            self.context.guards.end();
        }
    }

    /// Items in braces that the grammar has as tokens only.
    fn branch(&mut self, tokens: Node<'t>) {
        if self.context.snippets == 0 {
            return;
        }
        self.context.snippets -= 1;
        let words = self.context.words(tokens);
        let body = words.trim_start_matches('{').trim_end_matches('}');
        let Ok(tree) = syntax::parse(body.as_bytes(), Language::Rust) else {
            return;
        };
        let mut inner = Walk {
            context: Context::new(body.as_bytes()),
            choices: self.choices.clone(),
        };
        inner.context.within = self.context.within.clone();
        inner.context.snippets = self.context.snippets;
        inner.context.guards = std::mem::take(&mut self.context.guards);
        inner.children(tree.root_node(), 0);
        let inner = inner.context;
        self.context.snippets = inner.snippets;
        self.context.guards = inner.guards;
        let (ours, mut theirs) = (&mut self.context.facts, inner.facts);
        for candidate in &mut theirs.candidates {
            candidate.line += line_of(tokens) - 1;
        }
        ours.candidates.append(&mut theirs.candidates);
        ours.includes.append(&mut theirs.includes);
        ours.paths.append(&mut theirs.paths);
        ours.builtin_popcount |= theirs.builtin_popcount;
    }

    /// A compiler flag of x86 that a build script passes on: `.flag("-mavx2")`.
    fn flag(&mut self, node: Node<'t>) {
        let words = self.context.words(node).trim_matches('"');
        if !words.starts_with("-m") || x86::flag(words).is_none() {
            return;
        }
        // cc's flag_if_supported and is_flag_supported ask the compiler.
        let start = node.start_byte().saturating_sub(120);
        let before = &self.context.text[start..node.start_byte()];
        let before = String::from_utf8_lossy(before);
        let call = before.rsplit('.').next().unwrap_or_default();
        let by_processor = |choice: &String| {
            let names = choice.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            names.into_iter().any(speaks_of_processor) || choice.contains("target")
        };
        if call.contains("supported") || self.choices.iter().any(by_processor) {
            return;
        }
        if call.contains("flag") {
            self.context.found_once("build-flag", node, X86);
        }
    }
}

fn shortened(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    words.join(" ").chars().take(100).collect()
}
