//! What changed from one profile to another: the shares of functions and classes.

use std::collections::BTreeMap;

use pgassay_readings::profile::Profile;
use serde::{Deserialize, Serialize};

use super::{Class, summary};

/// A share before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change<T> {
    /// What changed.
    pub of: T,
    /// Share in the first profile, 0 to 1.
    pub before: f64,
    /// Share in the second.
    pub after: f64,
}

impl<T> Change<T> {
    /// Growth of the share; negative where it shrank.
    pub fn growth(&self) -> f64 {
        self.after - self.before
    }
}

/// The difference of two profiles, the largest changes first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// By class.
    pub classes: Vec<Change<Class>>,
    /// By function, own samples.
    pub functions: Vec<Change<String>>,
}

/// Compares the shares of two profiles. Shares, not times: where throughput
/// differs a share that stands still hides a cost that grew or shrank with it.
pub fn difference(before: &Profile, after: &Profile) -> Difference {
    let (a, b) = (summary::summarise(before), summary::summarise(after));
    let classes = a
        .classes
        .iter()
        .map(|c| (c.class, (c.share, 0.0)))
        .chain(b.classes.iter().map(|c| (c.class, (0.0, c.share))));
    let functions = a
        .functions
        .iter()
        .map(|f| (f.symbol.clone(), (f.own_share, 0.0)))
        .chain(
            b.functions
                .iter()
                .map(|f| (f.symbol.clone(), (0.0, f.own_share))),
        );
    Difference {
        classes: joined(classes),
        functions: joined(functions),
    }
}

fn joined<T: Ord + Clone>(shares: impl Iterator<Item = (T, (f64, f64))>) -> Vec<Change<T>> {
    let mut sums: BTreeMap<T, (f64, f64)> = BTreeMap::new();
    for (of, (before, after)) in shares {
        let sum = sums.entry(of).or_default();
        sum.0 += before;
        sum.1 += after;
    }
    let mut changes: Vec<Change<T>> = sums
        .into_iter()
        .map(|(of, (before, after))| Change { of, before, after })
        .collect();
    changes.sort_by(|a, b| b.growth().abs().total_cmp(&a.growth().abs()));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_change_comes_first() {
        let before =
            Profile::parse("32.10% postgres [.] s_lock\n 7.77% postgres [.] GetSnapshotData\n");
        let after =
            Profile::parse("13.75% postgres [.] GetSnapshotData\n 2.00% postgres [.] palloc\n");
        let difference = difference(&before.unwrap(), &after.unwrap());
        assert_eq!(difference.functions[0].of, "s_lock");
        assert!((difference.functions[0].growth() + 0.321).abs() < 1e-9);
        assert_eq!(difference.functions[1].of, "GetSnapshotData");
        assert!((difference.functions[1].growth() - 0.0598).abs() < 1e-9);
        assert_eq!(difference.classes[0].of, Class::Spinlock);
    }
}
