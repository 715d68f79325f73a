//! What relies on the strong order of x86: plain loads and stores on shared flags.
//!
//! One file at a time, and by names: who holds which lock is not followed beyond it.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use crate::context::Context;
use crate::facts::{Candidate, When};
use crate::syntax::{bare, called, excerpt};
use crate::types::{self, Base};

use super::locks::{Locks, last_name};

/// Calls that give shared memory.
const SHARED: &[&str] = &[
    "ShmemInitStruct",
    "ShmemAlloc",
    "GetNamedDSMSegment",
    "shm_toc_lookup",
    "shm_toc_allocate",
    "shmat",
];

/// Calls that a waiting loop consists of.
const WAITING: &[&str] = &[
    "usleep",
    "pg_usleep",
    "sleep",
    "nanosleep",
    "sched_yield",
    "pthread_yield",
    "cpu_relax",
    "_mm_pause",
    "__builtin_ia32_pause",
    "spin_delay",
    "SPIN_DELAY",
    "pg_spin_delay",
    "CHECK_FOR_INTERRUPTS",
];

/// A pointer and a field behind it.
type Field = (String, String);

/// What is known of a file's use of memory.
#[derive(Debug, Default)]
pub struct Memory {
    /// Home-made locks.
    locks: Locks,
    /// volatile scalars of files and structs.
    volatiles: BTreeMap<String, Candidate>,
    /// Names that are written plainly.
    written: BTreeSet<String>,
    /// Variables that point to shared memory.
    shared: BTreeSet<String>,
    /// By function: the fields that it stores to through a pointer, with the first place.
    stores: BTreeMap<String, (BTreeSet<Field>, Option<Candidate>)>,
    /// By function: the fields that it names through a pointer.
    named: BTreeMap<String, BTreeSet<Field>>,
    /// The file has threads.
    threads: bool,
    /// The file has threads or shared memory.
    shares: bool,
    /// Functions that lock, or use atomics or barriers, and those that set shared memory up.
    ordered: BTreeSet<String>,
    /// Who calls whom.
    calls: BTreeSet<(String, String)>,
}

/// Names of one kind that are kept for a file.
const MOST: usize = 20_000;
/// Functions of a file whose stores to shared memory are held against what others read.
const MOST_WRITERS: usize = 1_000;

fn orders(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [
        "lock",
        "atomic",
        "barrier",
        "mutex",
        "latch",
        "__sync_",
        "semaphore",
        "critical",
        "fence",
    ]
    .iter()
    .any(|part| lower.contains(part))
}

/// The variable at the root of `a->b.c[d]`.
fn root_name<'t>(node: Node<'_>, context: &Context<'t>) -> Option<&'t str> {
    let mut node = bare(node);
    for _ in 0..16 {
        match node.kind() {
            "identifier" => return Some(context.words(node)),
            "field_expression" | "subscript_expression" | "pointer_expression" => {
                node = bare(node.child_by_field_name("argument")?);
            }
            _ => return None,
        }
    }
    None
}

/// The pointer and the field of `a->b`.
fn through_pointer(context: &Context<'_>, node: Node<'_>) -> Option<Field> {
    let pointer = node.child_by_field_name("argument")?;
    let field = node.child_by_field_name("field")?;
    let arrow = node
        .child_by_field_name("operator")
        .is_some_and(|sign| sign.kind() == "->");
    (arrow && pointer.kind() == "identifier").then(|| {
        (
            context.words(pointer).to_owned(),
            context.words(field).to_owned(),
        )
    })
}

fn candidate(rule: &'static str, context: &Context<'_>, node: Node<'_>) -> Candidate {
    Candidate {
        rule,
        line: context.line(node),
        within: context.within.clone(),
        code: excerpt(node, context.text),
        more: 0,
        region: context.guards.region().cloned(),
        when: When::Always,
    }
}

impl Memory {
    /// `a = b`.
    pub fn assigned(&mut self, context: &Context<'_>, node: Node<'_>) {
        let Some((left, right)) = node
            .child_by_field_name("left")
            .zip(node.child_by_field_name("right"))
        else {
            return;
        };
        self.points_to(context, left, right);
        self.stored(context, node, left);
        let place = || candidate("spinlock-release", context, node);
        let plain = node
            .child_by_field_name("operator")
            .is_some_and(|sign| sign.kind() == "=");
        if plain {
            self.locks.assigned(context, (left, right), place);
        }
    }

    /// `a++`.
    pub fn updated(&mut self, context: &Context<'_>, node: Node<'_>) {
        if let Some(argument) = node.child_by_field_name("argument") {
            self.stored(context, node, argument);
        }
    }

    /// `T *a = b`.
    pub fn initialised(&mut self, context: &Context<'_>, node: Node<'_>) {
        if let Some((left, right)) = node
            .child_by_field_name("declarator")
            .zip(node.child_by_field_name("value"))
        {
            let mut name = left;
            while let Some(inner) = name.child_by_field_name("declarator") {
                name = inner;
            }
            self.points_to(context, name, right);
        }
    }

    fn points_to(&mut self, context: &Context<'_>, left: Node<'_>, right: Node<'_>) {
        let mut right = bare(right);
        if right.kind() == "cast_expression" {
            match right.child_by_field_name("value") {
                Some(value) => right = bare(value),
                None => return,
            }
        }
        let shared = right.kind() == "call_expression"
            && called(right, context.text).is_some_and(|name| SHARED.contains(&name));
        if shared && let Some(name) = last_name(left, context) {
            self.shared.insert(name.to_owned());
            // Who sets it up is alone with it.
            self.ordered.extend(context.within.clone());
        }
    }

    fn stored(&mut self, context: &Context<'_>, node: Node<'_>, left: Node<'_>) {
        if self.stores.len() > MOST || self.written.len() > MOST {
            return;
        }
        let left = bare(left);
        if let Some(name) = last_name(left, context) {
            self.written.insert(name.to_owned());
        }
        let Some(function) = &context.within else {
            return;
        };
        if let Some(field) = through_pointer(context, left) {
            let stores = self.stores.entry(function.clone()).or_default();
            stores.0.insert(field);
            stores
                .1
                .get_or_insert_with(|| candidate("shared-plain", context, node));
        }
    }

    /// `a->b`, read or written.
    pub fn named(&mut self, context: &Context<'_>, node: Node<'_>) {
        if let Some(function) = &context.within
            && self.named.len() < MOST
            && let Some(field) = through_pointer(context, node)
        {
            self.named
                .entry(function.clone())
                .or_default()
                .insert(field);
        }
    }

    /// An `#include`: whether anything is shared at all.
    pub fn included(&mut self, context: &Context<'_>, node: Node<'_>) {
        let Some(path) = node.child_by_field_name("path") else {
            return;
        };
        let path = context.words(path).trim_matches(['<', '>', '"']);
        let everywhere = context
            .guards
            .region()
            .is_none_or(|region| region.around.is_none());
        self.threads |= everywhere && ["pthread.h", "thread", "threads.h", "mutex"].contains(&path);
        let shared = [
            "shmem.h",
            "dsm.h",
            "dsa.h",
            "spin.h",
            "lwlock.h",
            "shm.h",
            "shm_toc.h",
        ];
        let last = path.rsplit('/').next().unwrap_or(path);
        self.shares |= self.threads || shared.contains(&last);
    }

    /// A call.
    pub fn called(&mut self, context: &Context<'_>, node: Node<'_>) {
        let Some(name) = called(node, context.text) else {
            return;
        };
        if let Some(function) = &context.within
            && self.calls.len() < MOST
        {
            if orders(name) {
                self.ordered.insert(function.clone());
            }
            self.calls.insert((function.clone(), name.to_owned()));
        }
        self.locks.called(context, node, name);
    }

    /// `volatile int flag;` of a file or a struct.
    pub fn declared(&mut self, context: &Context<'_>, node: Node<'_>) {
        if context.in_function() || self.volatiles.len() > MOST {
            return;
        }
        let mut cursor = node.walk();
        let volatile = node
            .children(&mut cursor)
            .any(|child| child.kind() == "type_qualifier" && context.words(child) == "volatile");
        let words = context.words(node);
        if !volatile || words.len() > 300 {
            return;
        }
        let kind = node
            .child_by_field_name("type")
            .map(|kind| context.words(kind))
            .unwrap_or_default();
        let scalar =
            !matches!(types::base(kind), Base::Other) || matches!(kind, "bool" | "boolean");
        let external = words.trim_start().starts_with("extern");
        if !scalar || external {
            return;
        }
        for (name, ty) in types::declarations(node, context.text) {
            // The pointer's target is volatile, not the variable.
            let shared = match node.kind() {
                "field_declaration" => self.shares,
                _ => self.threads,
            };
            if ty.pointers == 0 && shared {
                let mut place = candidate("volatile-sync", context, node);
                place.within = place.within.or_else(|| Some(name.to_owned()));
                self.volatiles.insert(name.to_owned(), place);
            }
        }
    }

    /// A loop that does nothing but wait.
    pub fn looped(&mut self, context: &mut Context<'_>, node: Node<'_>) {
        let Some((condition, body)) = node
            .child_by_field_name("condition")
            .zip(node.child_by_field_name("body"))
        else {
            return;
        };
        if node.kind() == "for_statement" && node.child_by_field_name("update").is_some() {
            return;
        }
        if context.words(body).len() > 200
            || context.words(condition).len() > 200
            || !only_waits(context, body)
        {
            return;
        }
        if let Some(loaded) = plain_load(context, condition)
            && !self.is_signal_flag(context, loaded)
            && !barrier_follows(context, node)
        {
            context.found("busy-wait", node, When::Always);
        }
    }

    fn is_signal_flag(&self, context: &Context<'_>, node: Node<'_>) -> bool {
        // Flags of signal handlers are declared sig_atomic_t, which is no scalar of ours.
        let name = last_name(node, context).unwrap_or_default();
        node.kind() == "identifier"
            && !self.volatiles.contains_key(name)
            && context.scope.of(node, context.text).base == Base::Other
    }

    /// What the file as a whole shows.
    pub fn finish(mut self, context: &mut Context<'_>) {
        let mut found = self.locks.releases(&self.calls);
        for (name, place) in std::mem::take(&mut self.volatiles) {
            if self.written.contains(&name) && !self.locks.contains(&name) {
                found.push(place);
            }
        }
        let mut callers: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
        for (caller, callee) in &self.calls {
            callers.entry(callee).or_default().push(caller);
        }
        // Held by all that call it.
        let held = callers.into_iter().filter(|(callee, callers)| {
            callers
                .iter()
                .all(|caller| self.ordered.contains(*caller) || caller == callee)
        });
        let held: BTreeSet<&String> = held.map(|(callee, _)| callee).collect();
        let unordered =
            |function: &String| !self.ordered.contains(function) && !held.contains(function);
        // Data and the flag that announces it: one function writes two fields, another reads them.
        for (function, (fields, place)) in self.stores.iter().take(MOST_WRITERS) {
            let of_shared = |field: &&Field| self.shared.contains(&field.0);
            let fields: BTreeSet<_> = fields.iter().filter(of_shared).collect();
            if fields.len() < 2 || !unordered(function) {
                continue;
            }
            let read = self.named.iter().any(|(other, named)| {
                let stores = self.stores.get(other).map(|stores| &stores.0);
                let only_read = |field: &&Field| {
                    fields.contains(*field) && stores.is_none_or(|stores| !stores.contains(*field))
                };
                other != function && unordered(other) && named.iter().filter(only_read).count() >= 2
            });
            found.extend(place.clone().filter(|_| read));
        }
        context.facts.candidates.append(&mut found);
    }
}

/// Whether the statement after a loop is a barrier, which orders what is read from there on.
fn barrier_follows(context: &Context<'_>, node: Node<'_>) -> bool {
    let mut next = node.next_named_sibling();
    while let Some(comment) = next.filter(|next| next.kind() == "comment") {
        next = comment.next_named_sibling();
    }
    let call = next
        .filter(|next| next.kind() == "expression_statement")
        .and_then(|statement| statement.named_child(0));
    let name = call
        .filter(|call| call.kind() == "call_expression")
        .and_then(|call| called(call, context.text));
    name.is_some_and(|name| {
        let lower = name.to_ascii_lowercase();
        lower.contains("barrier") || lower.contains("fence") || lower.contains("synchronize")
    })
}

/// Whether a body is empty or only passes time.
fn only_waits(context: &Context<'_>, body: Node<'_>) -> bool {
    let mut cursor = body.walk();
    let statements: Vec<Node<'_>> = match body.kind() {
        "compound_statement" => body
            .named_children(&mut cursor)
            .filter(|child| child.kind() != "comment")
            .take(5)
            .collect(),
        _ => vec![body],
    };
    statements.len() < 4
        && statements.into_iter().all(|statement| {
            if statement.kind() != "expression_statement" {
                return false;
            }
            match statement.named_child(0).map(bare) {
                None => true,
                Some(call) if call.kind() == "call_expression" => {
                    called(call, context.text).is_some_and(|name| WAITING.contains(&name))
                }
                Some(other) => other.kind() == "gnu_asm_expression",
            }
        })
}

/// The variable that a condition reads, if it does nothing but read variables that others may write.
fn plain_load<'a>(context: &Context<'_>, condition: Node<'a>) -> Option<Node<'a>> {
    let mut waiting = vec![condition];
    let mut loaded = None;
    for _ in 0..32 {
        let Some(node) = waiting.pop().map(bare) else {
            return loaded;
        };
        match node.kind() {
            "identifier" => {
                let name = context.words(node);
                let constant = name.chars().all(|c| !c.is_ascii_lowercase());
                if context.scope.is_local(name) {
                    return None;
                }
                if !constant && !matches!(name, "true" | "false") {
                    loaded = Some(node);
                }
            }
            "field_expression" => {
                let root = root_name(node, context)?;
                // A local struct is nobody else's; a pointer may be to anything.
                let by_pointer = context.words(node).contains("->");
                if context.scope.is_local(root) && !by_pointer {
                    return None;
                }
                loaded = Some(node);
            }
            "number_literal" | "true" | "false" | "null" | "char_literal" => {}
            "unary_expression" | "binary_expression" | "cast_expression" => {
                let mut cursor = node.walk();
                waiting.extend(
                    node.named_children(&mut cursor)
                        .filter(|child| child.kind() != "type_descriptor"),
                );
            }
            _ => return None,
        }
    }
    None
}
