//! What a search goes over, and what decides how it goes and when it ends.

use std::collections::BTreeSet;

use super::posterior::Prior;

/// Steps from a good position, 0, to a bad one. Step k leads from position k − 1 to k.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// How many; the bad position's number.
    pub steps: usize,
    /// Positions that can't be measured.
    pub unbuildable: BTreeSet<usize>,
    /// Positions that cost nothing more to be had.
    pub built: BTreeSet<usize>,
}

impl Range {
    /// A range of which only the ends are there.
    pub fn new(steps: usize) -> Self {
        Self {
            steps,
            unbuildable: BTreeSet::new(),
            built: BTreeSet::from([0, steps]),
        }
    }

    /// The position in the middle between two, or the nearest to it that can be measured.
    pub fn middle(&self, low: usize, high: usize) -> Option<usize> {
        let off = |p: &usize| (2 * p).abs_diff(low + high);
        (low + 1..high)
            .filter(|p| !self.unbuildable.contains(p))
            .min_by_key(off)
    }
}

/// What decides how a search goes and when it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Probability at which a set of causes is named.
    pub sure: f64,
    /// Standard deviation of the luck that a build has by the placement of its code, as a share.
    pub luck: f64,
    /// Least difference that matters, as a share.
    pub matter: f64,
    /// What making a position measurable costs, in blocks.
    pub build_cost: f64,
    /// Blocks of the ends before anything is concluded.
    pub first: usize,
    /// Blocks of the ends after which they are taken not to differ.
    pub most_first: usize,
    /// Blocks of the whole search.
    pub most: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            sure: 0.95,
            luck: 0.003,
            matter: 0.01,
            build_cost: 3.0,
            first: 4,
            most_first: 48,
            most: 400,
        }
    }
}

impl Rules {
    pub(super) fn prior(&self) -> Prior {
        Prior {
            luck: self.luck,
            matter: self.matter,
        }
    }
}
