//! The search over differences that have no order: settings.
//!
//! Put into any order they are a history: position p has B's value of the first p, A's of the others. So
//! the search of [`super::range`] finds each difference that changes something beside those before it:
//! group tests, as in delta debugging (Zeller and Hildebrandt, 2002), with noise. What it finds is then
//! measured alone. If that shows something else, it interacts with some before it, and a second search,
//! with this one changed first, finds with which.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::conclusion::{Cause, Conclusion, Interval, Outcome, look};
use super::noise::{self, Block, Observation, observations};
use super::range::{Range, Rules};

/// Which differences have B's value.
pub type Set = BTreeSet<usize>;

/// Interleaved pairs of two sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetBlock {
    /// The one nearer to A.
    pub low: Set,
    /// The other.
    pub high: Set,
    /// The metric in both, pair by pair.
    pub pairs: Vec<(f64, f64)>,
}

/// Blocks of a difference alone: at least, at most.
const ALONE: (usize, usize) = (3, 12);
/// How exact the effect alone should be, as a share of its effect beside the others.
const EXACT: f64 = 0.15;
/// Standard errors beyond which two effects differ.
const DIFFER: f64 = 2.6;
/// What the effect alone is never held to differ by, as a share: a tenth of a large effect is no
/// interaction worth the name.
const ALIKE: f64 = 0.15;

/// Whether a cause is one by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Alone {
    /// Not measured yet, or not exactly enough.
    NotTold,
    /// It does the same alone.
    Same,
    /// Its effect depends on these, or on what can't be told where none is named.
    With(Vec<usize>),
    /// The server does not start with it alone.
    Refused,
}

/// A cause among differences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetCause {
    /// The differences that can't be told apart; one, but where the servers between refuse to start.
    pub differences: Vec<usize>,
    /// As it was found, beside those before it.
    pub cause: Cause,
    /// Its effect alone, where that was measured.
    pub effect_alone: Option<Interval>,
    /// Whether it is a cause by itself.
    pub alone: Alone,
}

/// What to do next, and what is known.
#[derive(Debug, Clone, PartialEq)]
pub struct SetLook {
    /// Sets to be compared; `None` where the search is over.
    pub next: Option<(Set, Set)>,
    /// What the search over the order says.
    pub conclusion: Conclusion,
    /// Its causes.
    pub causes: Vec<SetCause>,
}

/// Looks at what was measured of `count` differences; the server does not start with the `refused`
/// sets.
pub fn look_at_sets(count: usize, refused: &[Set], blocks: &[SetBlock], rules: &Rules) -> SetLook {
    let seen = Seen::of(blocks, refused);
    let all: Vec<usize> = (0..count).collect();
    let first = seen.along(&Set::new(), &all, rules);
    let mut causes: Vec<SetCause> = first
        .conclusion
        .causes
        .iter()
        .map(|cause| SetCause {
            differences: (cause.first - 1..cause.last).collect(),
            cause: cause.clone(),
            effect_alone: None,
            alone: Alone::NotTold,
        })
        .collect();
    let mut next = first.next;
    if first.conclusion.outcome == Outcome::Found {
        let others = first.conclusion.causes.clone();
        for cause in &mut causes {
            let step = seen.alone(cause, &others, rules);
            if step.is_some() {
                next = step;
                break;
            }
        }
    }
    SetLook {
        next,
        conclusion: first.conclusion,
        causes,
    }
}

/// What was measured, by sets.
struct Seen<'a> {
    sets: Vec<&'a Set>,
    all: Vec<Observation>,
    refused: &'a [Set],
}

/// A search along one order.
struct Along {
    next: Option<(Set, Set)>,
    conclusion: Conclusion,
}

impl<'a> Seen<'a> {
    fn of(blocks: &'a [SetBlock], refused: &'a [Set]) -> Self {
        let mut sets: Vec<&Set> = blocks.iter().flat_map(|b| [&b.low, &b.high]).collect();
        sets.sort_unstable();
        sets.dedup();
        let numbered: Vec<Block> = blocks
            .iter()
            .map(|block| {
                let place = |set: &Set| sets.binary_search(&set).unwrap_or(0);
                Block::of_pairs(place(&block.low), place(&block.high), &block.pairs)
            })
            .collect();
        Self {
            all: observations(&numbered),
            sets,
            refused,
        }
    }

    /// The search where the differences of `order` are changed one after the other, on top of `base`.
    fn along(&self, base: &Set, order: &[usize], rules: &Rules) -> Along {
        let at = |position: usize| -> Set {
            base.iter()
                .copied()
                .chain(order[..position].iter().copied())
                .collect()
        };
        let positions: Vec<Set> = (0..=order.len()).map(at).collect();
        let place = |set: usize| positions.iter().position(|p| p == self.sets[set]);
        let seen: Vec<Observation> = self
            .all
            .iter()
            .filter_map(|o| {
                Some(Observation {
                    low: place(o.low)?,
                    high: place(o.high)?,
                    ..*o
                })
            })
            .collect();
        let mut range = Range::new(order.len());
        range.built = (0..=order.len()).collect();
        range.unbuildable = (0..=order.len())
            .filter(|p| self.refused.contains(&positions[*p]))
            .collect();
        let now = look(&range, &seen, rules);
        Along {
            next: now
                .next
                .map(|(low, high)| (positions[low].clone(), positions[high].clone())),
            conclusion: now.conclusion,
        }
    }

    /// Finds out whether a cause is one by itself; what has to be measured for it next.
    fn alone(&self, cause: &mut SetCause, all: &[Cause], rules: &Rules) -> Option<(Set, Set)> {
        let own: Set = cause.differences.iter().copied().collect();
        if cause.cause.first == 1 {
            // Nothing was changed before it: it was alone.
            cause.alone = Alone::Same;
            cause.effect_alone = Some(cause.cause.effect);
            return None;
        }
        if self.refused.contains(&own) {
            cause.alone = Alone::Refused;
            return None;
        }
        let (effect, effect_error) = log_of(&cause.cause.effect);
        let (blocks, alone, error) = self.mean(&Set::new(), &own);
        let exact = blocks >= ALONE.0 && error <= EXACT * effect.abs();
        if !exact && blocks < ALONE.1 {
            return Some((Set::new(), own));
        }
        cause.effect_alone = Some(Interval::of_log(alone, error.powi(2)));
        let apart = (alone - effect).abs();
        if apart <= (DIFFER * error.hypot(effect_error)).max(ALIKE * effect.abs()) {
            cause.alone = Alone::Same;
            return None;
        }
        // On top of it, those that were changed before it when it was found.
        let before: Vec<usize> = (0..cause.cause.first - 1).collect();
        let along = self.along(&own, &before, rules);
        if along.next.is_some() {
            return along.next;
        }
        let mut with = Vec::new();
        for partner in &along.conclusion.causes {
            let own_effect = all
                .iter()
                .find(|c| c.first <= partner.last && partner.first <= c.last)
                .map_or((0.0, 0.0), |c| log_of(&c.effect));
            let beside = log_of(&partner.effect);
            let apart = (beside.0 - own_effect.0).abs();
            if apart > (DIFFER * beside.1.hypot(own_effect.1)).max(ALIKE * effect.abs()) {
                with.extend(partner.first - 1..partner.last);
            }
        }
        cause.alone = Alone::With(with);
        None
    }

    /// How often two sets were compared, with the mean and its standard error.
    fn mean(&self, low: &Set, high: &Set) -> (usize, f64, f64) {
        let place = |set: &Set| self.sets.binary_search(&set);
        match (place(low), place(high)) {
            (Ok(low), Ok(high)) => {
                let (blocks, mean, variance) = noise::mean(&self.all, (low, high));
                (blocks, mean, variance.sqrt())
            }
            _ => (0, f64::NAN, f64::NAN),
        }
    }
}

/// An effect as a logarithm with its standard error.
fn log_of(effect: &Interval) -> (f64, f64) {
    let error = (effect.high.ln_1p() - effect.low.ln_1p()) / (2.0 * 1.96);
    (effect.estimate.ln_1p(), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::simulate::{Rng, normal, rng};

    /// Searches among `count` differences where a set has this ln of speed.
    fn search(
        count: usize,
        level: &dyn Fn(&Set) -> Option<f64>,
        rng: &mut Rng,
    ) -> (SetLook, usize) {
        let rules = Rules {
            luck: 0.0,
            matter: 0.02,
            most: 120,
            ..Rules::default()
        };
        let (mut refused, mut blocks) = (Vec::new(), Vec::new());
        loop {
            let now = look_at_sets(count, &refused, &blocks, &rules);
            let Some((low, high)) = now.next.clone() else {
                return (now, blocks.len());
            };
            if let Some(set) = [&low, &high].into_iter().find(|s| level(s).is_none()) {
                refused.push(set.clone());
                continue;
            }
            let difference = level(&high).unwrap() - level(&low).unwrap() + 0.004 * normal(rng);
            let pairs = (0..30)
                .map(|_| (1000.0, 1000.0 * (difference + 0.06 * normal(rng)).exp()))
                .collect();
            blocks.push(SetBlock { low, high, pairs });
        }
    }

    #[test]
    fn two_of_forty_are_found_and_stand_by_themselves() {
        let mut rng = rng(3);
        let level = |set: &Set| {
            let effect = |d: usize, by: f64| if set.contains(&d) { by } else { 0.0 };
            Some(effect(11, -0.15) + effect(30, -0.08))
        };
        let (end, blocks) = search(40, &level, &mut rng);
        let found: Vec<_> = end
            .causes
            .iter()
            .map(|c| (c.differences.clone(), &c.alone))
            .collect();
        assert_eq!(found, [(vec![11], &Alone::Same), (vec![30], &Alone::Same)]);
        assert!(end.conclusion.rest.holds(0.0));
        assert!(blocks <= 45, "{blocks}");
    }

    #[test]
    fn what_matters_only_together_is_said_as_such() {
        let mut rng = rng(4);
        let level = |set: &Set| {
            let both = set.contains(&2) && set.contains(&9);
            Some(if both { -0.2 } else { 0.0 })
        };
        let (end, _) = search(12, &level, &mut rng);
        assert_eq!(end.causes.len(), 1);
        assert_eq!(end.causes[0].differences, [9]);
        assert_eq!(end.causes[0].alone, Alone::With(vec![2]));
        assert!(end.causes[0].effect_alone.unwrap().holds(0.0));
    }

    /// Servers with 5 but without 6 do not start.
    #[test]
    fn sets_that_do_not_start_are_passed_over() {
        let mut rng = rng(5);
        let level = |set: &Set| {
            let starts = !set.contains(&5) || set.contains(&6);
            starts.then_some(if set.contains(&5) { -0.3 } else { 0.0 })
        };
        let (end, _) = search(10, &level, &mut rng);
        assert_eq!(end.causes[0].differences, [5, 6]);
    }

    #[test]
    fn equal_speed_is_no_search() {
        let (end, _) = search(7, &|_| Some(0.0), &mut rng(6));
        assert_eq!(end.conclusion.outcome, Outcome::NoDifference);
        assert!(end.causes.is_empty());
    }
}
