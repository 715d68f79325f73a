//! Home-made locks: which variables are taken as locks, and which plain stores release one.
//!
//! A store of 0 into a lock is a release where the function took the lock, or where nothing else in the
//! file releases it. Whoever sets a lock up or takes it down stores the same 0 and releases nothing:
//! such functions are known by their names, by what they allocate, or by what they initialise besides.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use crate::context::Context;
use crate::facts::Candidate;
use crate::syntax::bare;

/// Calls that take what their first argument points to as a lock.
const TAKING: &[&str] = &[
    "__sync_lock_test_and_set",
    "__sync_bool_compare_and_swap",
    "__sync_val_compare_and_swap",
    "__atomic_test_and_set",
    "InterlockedExchange",
    "TAS",
    "tas",
];

/// Calls that release what their first argument points to, with the order that a release needs.
const RELEASING: &[&str] = &[
    "__sync_lock_release",
    "__atomic_store_n",
    "__atomic_store",
    "__atomic_clear",
    "__atomic_exchange_n",
    "atomic_store",
    "atomic_store_explicit",
    "atomic_exchange",
    "atomic_flag_clear",
    "atomic_flag_clear_explicit",
    "S_UNLOCK",
    "SpinLockRelease",
];

/// Beginnings of words in the names of functions that set something up or take it down.
const LIFETIME: &[&str] = &[
    "init",
    "create",
    "creat",
    "setup",
    "startup",
    "alloc",
    "new",
    "make",
    "construct",
    "ctor",
    "reset",
    "zero",
    "prepare",
    "destroy",
    "fini",
    "deinit",
    "uninit",
    "dispose",
    "cleanup",
    "shutdown",
    "terminate",
    "dtor",
    "destruct",
];

/// Parts of the names of functions that give memory or set it to a value.
const FRESH: &[&str] = &[
    "alloc",
    "mmap",
    "shmat",
    "memset",
    "bzero",
    "memsetzero",
    "shmeminitstruct",
    "namedsmsegment",
    "strdup",
    "shm_open",
];

/// Stores and functions kept for a file.
const MOST: usize = 20_000;

/// What a file shows of its locks, by the last part of their names.
#[derive(Debug, Default)]
pub struct Locks {
    /// Those that are taken.
    taken: BTreeSet<String>,
    /// Who takes which, with the offset of the first place.
    takers: BTreeMap<(String, String), usize>,
    /// Those that a call releases.
    released: BTreeSet<String>,
    /// Plain stores of 0: into what, at which offset.
    stores: Vec<(String, usize, Candidate)>,
    /// Functions that allocate or initialise something.
    setting_up: BTreeSet<String>,
}

impl Locks {
    /// Whether a variable of this name is taken as a lock.
    pub fn contains(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// A call.
    pub fn called(&mut self, context: &Context<'_>, node: Node<'_>, name: &str) {
        if self.setting_up.len() > MOST || self.takers.len() > MOST {
            return;
        }
        let lower = name.to_ascii_lowercase();
        if let Some(function) = &context.within
            && (FRESH.iter().any(|part| lower.contains(part)) || sets_up(name))
        {
            self.setting_up.insert(function.clone());
        }
        let (takes, releases) = (TAKING.contains(&name), RELEASING.contains(&name));
        if !takes && !releases {
            return;
        }
        let first = node
            .child_by_field_name("arguments")
            .and_then(|list| list.named_child(0));
        let Some(lock) = first.and_then(|first| last_name(first, context)) else {
            return;
        };
        if releases {
            self.released.insert(lock.to_owned());
            return;
        }
        self.taken.insert(lock.to_owned());
        if let Some(function) = &context.within {
            let place = (function.clone(), lock.to_owned());
            self.takers.entry(place).or_insert(node.start_byte());
        }
    }

    /// `a = b`, which is `place` should it be a release.
    pub fn assigned(
        &mut self,
        context: &Context<'_>,
        (left, right): (Node<'_>, Node<'_>),
        place: impl FnOnce() -> Candidate,
    ) {
        let zero = matches!(
            context.words(bare(right)),
            "0" | "false" | "FALSE" | "0u" | "0U" | "UNLOCKED"
        );
        if zero
            && self.stores.len() < MOST
            && let Some(name) = last_name(left, context)
        {
            if let Some(function) = context.within.as_ref().filter(|_| constructs(context)) {
                self.setting_up.insert(function.clone());
            }
            self.stores
                .push((name.to_owned(), left.start_byte(), place()));
        }
    }

    /// The stores that release a lock. `calls` are who calls whom.
    pub fn releases(&mut self, calls: &BTreeSet<(String, String)>) -> Vec<Candidate> {
        let stores = std::mem::take(&mut self.stores);
        let releases = stores.into_iter().filter(|(lock, at, place)| {
            if !self.taken.contains(lock) {
                return false;
            }
            let Some(function) = &place.within else {
                return !self.released.contains(lock);
            };
            let taken_by = |taker: &String| self.takers.get(&(taker.clone(), lock.clone()));
            if taken_by(function).is_some_and(|taken| taken < at) {
                return true;
            }
            if self.setting_up.contains(function) || sets_up(function) {
                return false;
            }
            let calls_taker = || {
                let called = calls.iter().filter(|(caller, _)| caller == function);
                called
                    .into_iter()
                    .any(|(_, callee)| taken_by(callee).is_some())
            };
            !self.released.contains(lock) || calls_taker()
        });
        releases.map(|(_, _, place)| place).collect()
    }
}

/// Whether the function around is a constructor or destructor of C++, which has no type.
fn constructs(context: &Context<'_>) -> bool {
    let mut around = context.around.iter().rev();
    let function = around.find(|node| node.kind() == "function_definition");
    context.cpp && function.is_some_and(|node| node.child_by_field_name("type").is_none())
}

/// Whether a function is named as one that sets up or takes down: `lock_init`, `CreatePool`.
fn sets_up(name: &str) -> bool {
    words(name.rsplit("::").next().unwrap_or(name))
        .iter()
        .any(|word| {
            LIFETIME
                .iter()
                .any(|start| word == start || start.len() > 3 && word.starts_with(start))
        })
}

/// The words of a name in lower case: of `sleepLock_initAll` sleep, lock, init and all.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = '_';
    for c in name.chars() {
        let begins = !before.is_ascii_alphabetic() || before.is_lowercase() && c.is_uppercase();
        match words.last_mut() {
            Some(word) if !begins => word.push(c.to_ascii_lowercase()),
            _ if c.is_ascii_alphabetic() => words.push(c.to_ascii_lowercase().to_string()),
            _ => {}
        }
        before = c;
    }
    words
}

/// The last part of what is named: `lock` of `state->lock`.
pub fn last_name<'t>(node: Node<'_>, context: &Context<'t>) -> Option<&'t str> {
    let mut node = bare(node);
    for _ in 0..16 {
        match node.kind() {
            "identifier" => return Some(context.words(node)),
            "field_expression" => return Some(context.words(node.child_by_field_name("field")?)),
            "pointer_expression" => node = bare(node.child_by_field_name("argument")?),
            _ => return None,
        }
    }
    None
}
