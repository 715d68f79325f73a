//! Functions by name: what each name, or pattern of names, stands for.

use std::collections::HashMap;

/// Names made ready for look-ups. A whole name decides before a pattern with `*`, an earlier
/// entry before a later one.
pub(super) struct Names<T> {
    exact: HashMap<&'static str, T>,
    patterns: Vec<(T, Vec<&'static str>)>,
}

impl<T: Copy> Names<T> {
    /// Takes lists of names, separated by blanks.
    pub(super) fn new(lists: &[(T, &'static str)]) -> Self {
        let mut exact = HashMap::new();
        let mut patterns = Vec::new();
        for (meaning, names) in lists {
            for name in names.split_ascii_whitespace() {
                if name.contains('*') {
                    patterns.push((*meaning, name.split('*').collect()));
                } else {
                    exact.entry(name).or_insert(*meaning);
                }
            }
        }
        Self { exact, patterns }
    }

    /// What a function's name stands for, where it is known.
    pub(super) fn find(&self, symbol: &str) -> Option<T> {
        self.exact.get(symbol).copied().or_else(|| {
            let mut patterns = self.patterns.iter();
            let found = patterns.find(|(_, parts)| fits(parts, symbol));
            found.map(|(meaning, _)| *meaning)
        })
    }
}

/// Whether a name has these parts in this order, the first and the last at its ends.
fn fits(parts: &[&str], symbol: &str) -> bool {
    let [first, middle @ .., last] = parts else {
        return false;
    };
    let Some(mut rest) = symbol.strip_prefix(first) else {
        return false;
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
