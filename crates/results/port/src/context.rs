//! Where the walk over a file stands, and what was found so far.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use crate::facts::{Candidate, Facts, When};
use crate::guards::Guards;
use crate::syntax::{excerpt, line_of, text_of};
use crate::types::Scope;

/// The walk's state.
#[derive(Debug)]
pub struct Context<'t> {
    /// The cleaned text.
    pub text: &'t [u8],
    /// It is C++.
    pub cpp: bool,
    /// Constants of the file that are negative numbers of a byte.
    pub negatives: BTreeSet<String>,
    /// What the file tells.
    pub facts: Facts,
    /// The conditions around.
    pub guards: Guards,
    /// The variables that are known.
    pub scope: Scope,
    /// The function or macro around.
    pub within: Option<String>,
    /// Nodes around, outermost first.
    pub around: Vec<Node<'t>>,
    /// The body of a macro is walked: its line in the file.
    pub macro_line: Option<u32>,
    /// Conditions and macro bodies that may still be parsed by themselves.
    pub snippets: usize,
    /// Candidates that further places join, by rule, function and the line of the condition.
    joined: BTreeMap<(&'static str, Option<String>, u32), usize>,
}

/// Conditions and macro bodies of one file that are parsed by themselves. SQLite in one file has 8,000.
const MOST_SNIPPETS: usize = 40_000;
/// Candidates of one file that are kept; one with more is generated.
pub const MOST: usize = 2_000;

impl<'t> Context<'t> {
    /// At the start of a text.
    pub fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            cpp: false,
            negatives: BTreeSet::new(),
            facts: Facts::default(),
            guards: Guards::default(),
            scope: Scope::default(),
            within: None,
            around: Vec::new(),
            macro_line: None,
            snippets: MOST_SNIPPETS,
            joined: BTreeMap::new(),
        }
    }

    /// A node's text.
    pub fn words(&self, node: Node<'_>) -> &'t str {
        text_of(node, self.text)
    }

    /// A node's line in the file.
    pub fn line(&self, node: Node<'_>) -> u32 {
        self.macro_line.unwrap_or_else(|| line_of(node))
    }

    /// The node directly around the one at hand.
    pub fn parent(&self) -> Option<Node<'t>> {
        self.around.last().copied()
    }

    /// Whether the walk is inside a function's body.
    pub fn in_function(&self) -> bool {
        self.around
            .iter()
            .rev()
            .any(|node| node.kind() == "function_definition")
    }

    /// Takes note of a place.
    pub fn found(&mut self, rule: &'static str, node: Node<'_>, when: When) {
        let code = excerpt(node, self.text);
        self.found_as(rule, node, code, when);
    }

    /// Takes note of a place with words of one's own.
    pub fn found_as(&mut self, rule: &'static str, node: Node<'_>, code: String, when: When) {
        if self.facts.candidates.len() >= MOST {
            return;
        }
        self.facts.candidates.push(Candidate {
            rule,
            line: self.line(node),
            within: self.within.clone(),
            code,
            more: 0,
            region: self.guards.region().cloned(),
            when,
        });
    }

    /// The same; further places of the rule in this function and condition are only counted.
    pub fn found_once(&mut self, rule: &'static str, node: Node<'_>, when: When) {
        let region = self.guards.region().map_or(0, |region| region.line);
        let key = (rule, self.within.clone(), region);
        if let Some(first) = self
            .joined
            .get(&key)
            .and_then(|at| self.facts.candidates.get_mut(*at))
        {
            first.more += 1;
            return;
        }
        self.joined.insert(key, self.facts.candidates.len());
        self.found(rule, node, when);
    }
}
