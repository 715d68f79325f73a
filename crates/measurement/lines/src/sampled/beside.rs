//! Counted and sampled, side by side.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Hits, Sampled};

/// Rows that are told.
const ROWS: usize = 40;
/// Fewer samples from other caches than this say nothing of a line's rank.
const ENOUGH: u64 = 5;
/// Fewer lines that both have make no rank correlation.
const FEWEST: usize = 4;

/// The counted account beside what was sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Beside {
    /// What was sampled.
    pub sampled: Sampled,
    /// `line` where both are of one server; `kind of memory` where they are not, as lines have no common addresses then.
    pub by: String,
    /// What all sessions share and both have, the most sampled first.
    pub both: Vec<Pair>,
    /// What is taken by the counted transactions, and was not found in another cache by any sample.
    pub only_counted: Vec<Pair>,
    /// What samples found in another cache, and no counted transaction takes.
    pub only_sampled: Vec<Pair>,
    /// Agreement of the two orders; none with fewer than four lines of at least five such samples.
    pub rank: Option<Rank>,
}

/// A line, or a kind of memory, in both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// What it is.
    pub name: String,
    /// Counted: stores and atomics, a transaction.
    pub takes: f64,
    /// Sampled.
    pub hits: Hits,
    /// The share of the samples that found a shared line in another cache, 0 to 1.
    pub share: f64,
}

/// How far two orders agree.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rank {
    /// Of how many.
    pub of: usize,
    /// Spearman's rank correlation: 1 for the same order, 0 for none in common, -1 for the reverse.
    pub spearman: f64,
}

/// What was counted of a line, or of a kind of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// A line's address, or the name of a kind of memory: what it is found by.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Whether it is the session's own.
    pub own: bool,
    /// Stores and atomics, a transaction.
    pub takes: f64,
}

impl Beside {
    /// Holds lines side by side: both of one server since its start.
    pub fn lines(counted: impl Iterator<Item = Counted>, sampled: Sampled) -> Self {
        let lines = sampled.lines.iter();
        let found =
            lines.map(|line| (line.address.clone(), line.name.clone(), line.own, line.hits));
        let found: Vec<_> = found.collect();
        Self::of("line", counted, found, sampled)
    }

    /// Holds kinds of memory side by side: of servers that need not be the same.
    pub fn groups(counted: impl Iterator<Item = Counted>, sampled: Sampled) -> Self {
        let groups = sampled.groups.iter();
        let found = groups.map(|group| {
            (
                group.name.clone(),
                group.name.clone(),
                group.own,
                group.hits,
            )
        });
        let found: Vec<_> = found.collect();
        Self::of("kind of memory", counted, found, sampled)
    }

    fn of(
        by: &str,
        counted: impl Iterator<Item = Counted>,
        found: Vec<(String, String, bool, Hits)>,
        sampled: Sampled,
    ) -> Self {
        let mut pairs: BTreeMap<String, (String, f64, Hits)> = BTreeMap::new();
        let mut own = BTreeSet::new();
        for one in counted {
            match one.own {
                true => _ = own.insert(one.key),
                false => _ = pairs.insert(one.key, (one.name, one.takes, Hits::default())),
            }
        }
        for (key, name, of_a_session, hits) in found {
            // A kind of memory has a part that all share beside that of each session.
            let is_own = of_a_session || (own.contains(&key) && !pairs.contains_key(&key));
            if !is_own {
                let pair = pairs.entry(key);
                pair.or_insert_with(|| (name, 0.0, Hits::default())).2 = hits;
            }
        }
        let all: u64 = pairs.values().map(|(_, _, hits)| hits.transfers()).sum();
        let mut pairs: Vec<Pair> = pairs
            .into_values()
            .map(|(name, takes, hits)| Pair {
                name,
                takes,
                hits,
                share: hits.transfers() as f64 / all.max(1) as f64,
            })
            .collect();
        pairs.sort_by(|a, b| {
            let by_hits = b.hits.transfers().cmp(&a.hits.transfers());
            by_hits.then(b.takes.total_cmp(&a.takes))
        });
        let told = |which: &dyn Fn(&Pair) -> bool| -> Vec<Pair> {
            pairs
                .iter()
                .filter(|p| which(p))
                .take(ROWS)
                .cloned()
                .collect()
        };
        let found = |pair: &Pair| pair.hits.transfers() > 0;
        Self {
            by: by.to_owned(),
            both: told(&|pair| pair.takes > 0.0 && found(pair)),
            only_counted: told(&|pair| pair.takes > 0.0 && !found(pair)),
            only_sampled: told(&|pair| pair.takes == 0.0 && found(pair)),
            rank: rank(&pairs),
            sampled,
        }
    }
}

/// Of those that both have and that were sampled often enough.
fn rank(pairs: &[Pair]) -> Option<Rank> {
    let enough = |pair: &&Pair| pair.takes > 0.0 && pair.hits.transfers() >= ENOUGH;
    let both: Vec<&Pair> = pairs.iter().filter(enough).collect();
    if both.len() < FEWEST {
        return None;
    }
    let counted: Vec<f64> = both.iter().map(|pair| pair.takes).collect();
    let sampled: Vec<f64> = both.iter().map(|p| p.hits.transfers() as f64).collect();
    Some(Rank {
        of: both.len(),
        spearman: correlation(&ranks(&counted), &ranks(&sampled))?,
    })
}

/// Each value's rank; equal values have the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    values
        .iter()
        .map(|value| {
            let less = values.iter().filter(|other| *other < value).count();
            let equal = values.iter().filter(|other| *other == value).count();
            less as f64 + (equal as f64 + 1.0) / 2.0
        })
        .collect()
}

/// Pearson's; none where one of the two does not vary.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let product = |x: &[f64], mx: f64, y: &[f64], my: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
    };
    let spread = (product(a, mean_a, a, mean_a) * product(b, mean_b, b, mean_b)).sqrt();
    (spread > 0.0).then(|| product(a, mean_a, b, mean_b) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(takes: f64, hitm: u64) -> Pair {
        Pair {
            name: String::new(),
            takes,
            hits: Hits {
                hitm_local: hitm,
                ..Hits::default()
            },
            share: 0.0,
        }
    }

    #[test]
    fn orders_agree_or_do_not() {
        let of = |pairs: &[(f64, u64)]| {
            let pairs: Vec<Pair> = pairs.iter().map(|(t, h)| pair(*t, *h)).collect();
            rank(&pairs)
        };
        let same = of(&[
            (4.0, 900),
            (2.0, 500),
            (1.0, 30),
            (0.5, 20),
            (0.0, 7),
            (9.0, 4),
        ]);
        assert_eq!(same.map(|rank| (rank.of, rank.spearman)), Some((4, 1.0)));
        let reverse = of(&[(1.0, 900), (2.0, 500), (3.0, 30), (4.0, 20)]).unwrap();
        assert!((reverse.spearman + 1.0).abs() < 1e-12);
        // Ties share their rank: 1, 2.5, 2.5, 4 against 1, 2, 3, 4 (0.9487 by R's cor.test).
        let ties = of(&[(1.0, 10), (2.0, 20), (2.0, 30), (3.0, 40)]).unwrap();
        assert!(
            (ties.spearman - 0.948_683).abs() < 1e-6,
            "{}",
            ties.spearman
        );
        assert_eq!(of(&[(1.0, 10), (1.0, 20), (1.0, 30), (1.0, 40)]), None);
        assert_eq!(of(&[(1.0, 10), (2.0, 20), (3.0, 30)]), None);
    }
}
