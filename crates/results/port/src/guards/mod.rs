//! The preprocessor's conditions around each line: `#ifdef __SSE4_2__ … #elif … #else`.
//!
//! Directives are taken from the tree as tokens, in the order in which they stand. So they are
//! understood where they cut a statement in two and the grammar sees an error around them.

pub mod cond;
pub mod known;
pub mod truth;

use std::sync::Arc;

use cond::Cond;
use truth::Truth;

/// Lines between two directives, in the branch of a condition.
#[derive(Debug)]
pub struct Region {
    /// What must hold, other than what the regions around ask for: the branch's own condition, and
    /// that none before it held.
    pub cond: Cond,
    /// The region around it.
    pub around: Option<Arc<Region>>,
    /// The condition's text as it stands, for messages.
    pub text: String,
    /// Line of the directive, from 1.
    pub line: u32,
}

impl Region {
    /// Whether it is compiled, where `defined(name, line)` says which macros there are at a line.
    pub fn truth(&self, defined: &dyn Fn(&str, u32) -> Truth) -> Truth {
        let mut truth = Truth::Yes;
        let mut region = Some(self);
        while let Some(one) = region {
            truth = truth.min(one.cond.truth(&|name| defined(name, one.line)));
            if truth == Truth::No {
                break;
            }
            region = one.around.as_deref();
        }
        truth
    }

    /// The innermost condition of which nothing is known, for messages.
    pub fn open_condition(&self, defined: &dyn Fn(&str, u32) -> Truth) -> Option<&str> {
        let mut region = Some(self);
        while let Some(one) = region {
            if one.cond.truth(&|name| defined(name, one.line)) == Truth::Unknown {
                return Some(&one.text);
            }
            region = one.around.as_deref();
        }
        None
    }

    /// Whether a condition around names something that fulfils `is`.
    pub fn names(&self, is: &dyn Fn(&str) -> bool) -> bool {
        let mut region = Some(self);
        while let Some(one) = region {
            if one.cond.names(is) {
                return true;
            }
            region = one.around.as_deref();
        }
        false
    }
}

/// Branches of one condition that are followed.
const MOST_BRANCHES: usize = 64;

/// Regions nested in one another that are followed.
const DEEPEST: usize = 200;

/// Follows the directives of a file.
#[derive(Debug, Default)]
pub struct Guards {
    open: Vec<Chain>,
    /// Openings beyond what is followed.
    beyond: usize,
    /// An `#endif` or `#else` without its `#if`, or one that is missing at the end.
    unbalanced: bool,
}

/// An `#if` with what came after it.
#[derive(Debug)]
struct Chain {
    region: Arc<Region>,
    /// The conditions of the branches before.
    before: Vec<Cond>,
    around: Option<Arc<Region>>,
    text: String,
}

impl Guards {
    /// The region of what comes next.
    pub fn region(&self) -> Option<&Arc<Region>> {
        self.open.last().map(|chain| &chain.region)
    }

    /// Whether directives did not match.
    pub fn unbalanced(&self) -> bool {
        self.unbalanced || !self.open.is_empty()
    }

    /// `#if`, `#ifdef`, `#ifndef`.
    pub fn begin(&mut self, cond: Cond, text: &str, line: u32) {
        if self.open.len() >= DEEPEST {
            self.beyond += 1;
            return;
        }
        let around = self.region().cloned();
        self.open.push(Chain {
            region: Arc::new(Region {
                cond: cond.clone(),
                around: around.clone(),
                text: text.to_owned(),
                line,
            }),
            before: vec![cond],
            around,
            text: text.to_owned(),
        });
    }

    /// `#elif` with its condition, `#else` without.
    pub fn branch(&mut self, cond: Option<Cond>, text: &str, line: u32) {
        if self.beyond > 0 {
            return;
        }
        let Some(chain) = self.open.last_mut() else {
            self.unbalanced = true;
            return;
        };
        // Of a long chain nothing is known: each branch would name all before it.
        let long = chain.before.len() > MOST_BRANCHES;
        let mut all: Vec<Cond> = chain
            .before
            .iter()
            .map(|c| Cond::Not(Box::new(c.clone())))
            .collect();
        let text = match &cond {
            Some(cond) => {
                if !long {
                    chain.before.push(cond.clone());
                }
                text.to_owned()
            }
            None => format!("else of {}", chain.text),
        };
        all.extend(cond);
        if long {
            all = vec![Cond::Unknown];
        }
        chain.region = Arc::new(Region {
            cond: Cond::All(all),
            around: chain.around.clone(),
            text,
            line,
        });
    }

    /// `#endif`.
    pub fn end(&mut self) {
        if self.beyond > 0 {
            self.beyond -= 1;
        } else if self.open.pop().is_none() {
            self.unbalanced = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(guards: &Guards) -> Truth {
        let defined = |name: &str, _| known::defined(name, known::Processor::Aarch64);
        guards
            .region()
            .map_or(Truth::Yes, |region| region.truth(&defined))
    }

    fn is(name: &str) -> Cond {
        Cond::Defined(name.to_owned())
    }

    #[test]
    fn branches_exclude_what_came_before() {
        let mut guards = Guards::default();
        guards.begin(is("__x86_64__"), "", 1);
        assert_eq!(truth(&guards), Truth::No);
        guards.branch(Some(is("__aarch64__")), "", 2);
        assert_eq!(truth(&guards), Truth::Yes);
        guards.branch(None, "", 3);
        assert_eq!(truth(&guards), Truth::No);
        guards.end();
        guards.begin(is("HAVE_THIS"), "", 4);
        assert_eq!(truth(&guards), Truth::Unknown);
        guards.begin(is("__SSE2__"), "", 5);
        assert_eq!(truth(&guards), Truth::No);
        guards.end();
        guards.end();
        assert!(!guards.unbalanced());
        guards.end();
        assert!(guards.unbalanced());
    }
}
