//! Headers that a processor's branch includes and the tree lacks.

use std::collections::BTreeSet;

use super::{Resolver, for_a_processor, stem};
use crate::facts::{Facts, Include};
use crate::guards::known::{speaks_of_processor, speaks_of_x86};
use crate::guards::truth::Truth;
use crate::porting::Finding;
use crate::rules::{Effect, rule};
use crate::syntax::Language;

/// The files of a tree, by all ends of their paths.
#[derive(Debug, Default)]
pub struct Tree<'a> {
    ends: BTreeSet<&'a str>,
    /// Of those that name x86: without the words that name a processor.
    of_x86: BTreeSet<String>,
}

/// Directories of a path that are told apart; below, only the last name is.
const DEEPEST: usize = 12;

impl<'a> Tree<'a> {
    /// The tree of these paths.
    pub fn new(paths: impl Iterator<Item = &'a str>) -> Self {
        let mut tree = Self::default();
        for path in paths {
            let starts = path.match_indices('/').map(|(at, _)| at + 1);
            let starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
            let deepest = starts.len().saturating_sub(DEEPEST);
            for start in starts.into_iter().skip(deepest) {
                let end = &path[start..];
                tree.ends.insert(end);
                if is_for_x86(end) {
                    tree.of_x86.insert(stem(end));
                }
            }
        }
        tree
    }

    /// Whether an include may name one of the files: directories that are searched are not known.
    fn has(&self, path: &str) -> bool {
        self.ends.contains(plain(path).as_str())
    }
}

/// A path without the directories that it goes up.
fn plain(path: &str) -> String {
    let parts = path.split('/');
    let parts = parts.skip_while(|part| matches!(*part, "." | ".."));
    parts.collect::<Vec<_>>().join("/")
}

fn is_for_x86(path: &str) -> bool {
    path.split(['/', '.', '-']).any(speaks_of_x86)
}

impl Resolver<'_> {
    /// The includes of a file that this processor compiles and the tree lacks, where x86's is there.
    pub(super) fn missing_headers(&self, file: usize, path: &str, facts: &Facts) -> Vec<Finding> {
        let mut missing = Vec::new();
        for include in &facts.includes {
            if !include.quoted
                || Language::of(include.last()).is_none()
                || !self.is_of_processor(include)
                || self.tree.has(&include.path)
                || !self.x86_has_its_own(file, include, facts)
            {
                continue;
            }
            let truth = self.truth(file, include.region.as_deref());
            let effect = match truth {
                Truth::No => continue,
                Truth::Yes => rule("missing-header").effect,
                Truth::Unknown => Effect::Check,
            };
            let open = include
                .region
                .as_deref()
                .filter(|_| truth == Truth::Unknown);
            missing.push(Finding {
                rule: "missing-header",
                effect,
                path: path.to_owned(),
                line: Some(include.line),
                within: None,
                code: format!("#include \"{}\"", include.path),
                more: 0,
                condition: open
                    .and_then(|region| region.open_condition(&|n, l| self.defined(file, n, l)))
                    .map(str::to_owned),
            });
        }
        missing
    }

    /// Its path or a condition around it names a processor; whether it is there is not asked first.
    fn is_of_processor(&self, include: &Include) -> bool {
        let mut region = include.region.as_deref();
        while let Some(one) = region {
            if one.text.contains("__has_include") {
                return false;
            }
            region = one.around.as_deref();
        }
        let named = |region: &crate::guards::Region| region.names(&speaks_of_processor);
        include.region.as_deref().is_some_and(named)
            || for_a_processor(&include.path) && !is_for_x86(&include.path)
    }

    /// The tree has x86's header in its place: by another branch of the file, or by its name.
    fn x86_has_its_own(&self, file: usize, include: &Include, facts: &Facts) -> bool {
        let by_branch = facts.includes.iter().any(|other| {
            let region = other.region.as_deref();
            other.quoted
                && region.is_some_and(|region| region.names(&speaks_of_x86))
                && self.truth(file, region) == Truth::No
                && self.tree.has(&other.path)
        });
        by_branch
            || for_a_processor(&include.path)
                && self.tree.of_x86.contains(&stem(&plain(&include.path)))
    }
}
