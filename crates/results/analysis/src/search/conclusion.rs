//! The search over steps in their order: noisy bisection.
//!
//! The ends are compared until they are known to differ; then each block goes where it is expected to
//! tell most, until one set of causes has the probability that was asked for. [`look`] is a function of
//! what was measured so far, so that a search can be told again from its record.

use serde::{Deserialize, Deserializer, Serialize};

use super::choose::choose;
use super::levels::Levels;
use super::noise::Observation;
use super::posterior::{Hypothesis, Posterior};
use super::range::{Range, Rules};
use crate::stats::simulate::{normal, rng};

/// A block that is expected to tell less than this, in nats, is not worth its time where each cause is
/// sure.
const LEAST_GAIN: f64 = 0.005;
/// How likely the causes must be the only ones, then.
const FEW_OTHERS: f64 = 0.88;

/// A figure with its 95 % interval, as a share: −0.05 is 5 % less.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The figure.
    pub estimate: f64,
    /// The low end; `null` where there is none.
    #[serde(deserialize_with = "or_none_below")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub low: f64,
    /// The high end; likewise.
    #[serde(deserialize_with = "or_none_above")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
}

/// JSON has no infinity: an open end is written as `null`, and read as what it was.
fn or_none_below<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Option::deserialize(from).map(|end| end.unwrap_or(f64::NEG_INFINITY))
}

fn or_none_above<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Option::deserialize(from).map(|end| end.unwrap_or(f64::INFINITY))
}

impl Interval {
    /// From a logarithm and its variance.
    pub fn of_log(log: f64, variance: f64) -> Self {
        let reach = 1.96 * variance.max(0.0).sqrt();
        Self {
            estimate: log.exp_m1(),
            low: (log - reach).exp_m1(),
            high: (log + reach).exp_m1(),
        }
    }

    /// Whether all of it is less than this, whichever way.
    pub fn within(&self, bound: f64) -> bool {
        self.low > -bound && self.high < bound
    }

    /// Whether a value lies within.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// How a search stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// One set of causes has the probability that was asked for, or each of them has and no further
    /// block would tell anything about others.
    Found,
    /// The ends do not differ, or not by what matters.
    NoDifference,
    /// Neither.
    Open,
}

/// A step that brought a part of the change, or several that can't be told apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The first step that it can be.
    pub first: usize,
    /// The last.
    pub last: usize,
    /// How likely one of them is a cause.
    pub probability: f64,
    /// What it changed.
    pub effect: Interval,
    /// The same as a share of the whole difference; 1 is all of it.
    pub share: Interval,
}

/// Steps that are no cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stretch {
    /// The first of them.
    pub first: usize,
    /// The last.
    pub last: usize,
    /// What they changed together.
    pub effect: Interval,
}

/// What is known so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conclusion {
    /// How the search stands.
    pub outcome: Outcome,
    /// The difference between the ends.
    pub total: Interval,
    /// The likeliest causes, in order.
    pub causes: Vec<Cause>,
    /// How likely these are the causes, and no other.
    pub probability: f64,
    /// What all other steps together changed.
    pub rest: Interval,
    /// The same of each stretch of steps between the causes.
    pub others: Vec<Stretch>,
    /// Blocks measured.
    pub blocks: usize,
}

/// What to do next, and what is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Positions to be compared, low and high; `None` where the search is over.
    pub next: Option<(usize, usize)>,
    /// What is known.
    pub conclusion: Conclusion,
}

/// Looks at what was measured.
pub fn look(range: &Range, seen: &[Observation], rules: &Rules) -> Look {
    let ends = (0, range.steps);
    let of_ends = seen.iter().filter(|o| (o.low, o.high) == ends).count();
    let posterior = Posterior::of(range.steps, seen, &rules.prior());
    let Some(posterior) = posterior else {
        return Look {
            next: (of_ends < rules.most_first && seen.len() < rules.most).then_some(ends),
            conclusion: nothing(seen.len()),
        };
    };
    let mut conclusion = conclude(range, &posterior, seen, rules);
    let mut next = if seen.len() >= rules.most {
        None
    } else if of_ends < rules.first {
        Some(ends)
    } else {
        let none: f64 = posterior
            .sets
            .iter()
            .filter(|s| s.segments.is_empty())
            .map(|s| s.probability)
            .sum();
        let within = conclusion.total.within(rules.matter);
        let long = 2 * of_ends >= rules.most_first;
        if (within && long) || (none > 1.0 - rules.sure && of_ends >= rules.most_first) {
            conclusion.outcome = Outcome::NoDifference;
            None
        } else if none > 0.02 {
            Some(ends)
        } else if is_sure(range, &posterior, rules) {
            conclusion.outcome = Outcome::Found;
            None
        } else {
            let best = choose(range, &posterior, seen, rules);
            let told_out = best.is_none_or(|c| c.gain < LEAST_GAIN);
            if told_out && is_sure_of_each(range, &posterior, rules) {
                conclusion.outcome = Outcome::Found;
                None
            } else {
                best.map(|c| (c.low, c.high))
            }
        }
    };
    if conclusion.outcome == Outcome::Found && next.is_none() && seen.len() < rules.most {
        next = unbounded(&conclusion, seen);
    }
    Look { next, conclusion }
}

/// Steps beside the causes, all that lie between two of them, of which no comparison says what they change.
fn unbounded(conclusion: &Conclusion, seen: &[Observation]) -> Option<(usize, usize)> {
    let ends = |stretch: &&Stretch| {
        let pair = (stretch.first - 1, stretch.last);
        stretch.effect.high.is_infinite() && seen.iter().all(|o| (o.low, o.high) != pair)
    };
    let stretch = conclusion.others.iter().find(ends)?;
    Some((stretch.first - 1, stretch.last))
}

/// Whether the likeliest set is as likely as was asked for, and can't be narrowed down.
fn is_sure(range: &Range, posterior: &Posterior, rules: &Rules) -> bool {
    let best = &posterior.sets[0];
    best.probability >= rules.sure && is_narrow(range, posterior)
}

/// Whether each of its causes is that likely by itself, and that there are others is unlikely: what is
/// left open then is only whether the luck of a build is one more small cause.
fn is_sure_of_each(range: &Range, posterior: &Posterior, rules: &Rules) -> bool {
    let best = &posterior.sets[0];
    let each = |s: &usize| posterior.changed(*s) >= rules.sure;
    best.probability >= FEW_OTHERS && best.segments.iter().all(each) && is_narrow(range, posterior)
}

fn is_narrow(range: &Range, posterior: &Posterior) -> bool {
    let best = &posterior.sets[0];
    let narrow = |s: &usize| {
        let (low, high) = (posterior.points[*s], posterior.points[s + 1]);
        range.middle(low, high).is_none()
    };
    !best.segments.is_empty() && best.segments.iter().all(narrow)
}

/// What is known before anything was.
pub fn nothing(blocks: usize) -> Conclusion {
    let unknown = Interval {
        estimate: 0.0,
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    };
    Conclusion {
        outcome: Outcome::Open,
        total: unknown,
        causes: Vec::new(),
        probability: 0.0,
        rest: unknown,
        others: Vec::new(),
        blocks,
    }
}

fn conclude(
    range: &Range,
    posterior: &Posterior,
    seen: &[Observation],
    rules: &Rules,
) -> Conclusion {
    let best: &Hypothesis = &posterior.sets[0];
    let levels = Levels::of(posterior, seen, rules);
    let all: Vec<usize> = (0..posterior.points.len() - 1).collect();
    let total = levels.across(&all);
    let others: Vec<usize> = all
        .iter()
        .copied()
        .filter(|s| !best.segments.contains(s))
        .collect();
    let rest = match others.as_slice() {
        [] => (0.0, 0.0),
        some => levels.across(some),
    };
    let causes = best.segments.iter().enumerate().map(|(i, s)| {
        let (effect, variance) = (best.effects[i], best.covariance[(i, i)]);
        Cause {
            first: posterior.points[*s] + 1,
            last: posterior.points[s + 1].min(range.steps),
            probability: posterior.changed(*s).min(1.0),
            effect: Interval::of_log(effect, variance),
            share: share((effect, variance), total),
        }
    });
    Conclusion {
        outcome: Outcome::Open,
        total: Interval::of_log(total.0, total.1),
        causes: causes.collect(),
        probability: best.probability,
        rest: Interval::of_log(rest.0, rest.1),
        others: stretches(&others, posterior, &levels),
        blocks: seen.len(),
    }
}

/// What each run of neighbouring segments changed.
fn stretches(segments: &[usize], posterior: &Posterior, levels: &Levels) -> Vec<Stretch> {
    segments
        .chunk_by(|a, b| a + 1 == *b)
        .map(|stretch| {
            let (effect, variance) = levels.across(stretch);
            Stretch {
                first: posterior.points[stretch[0]] + 1,
                last: posterior.points[stretch[stretch.len() - 1] + 1],
                effect: Interval::of_log(effect, variance),
            }
        })
        .collect()
}

/// A quotient with its interval, by the delta method.
fn share((part, part_variance): (f64, f64), (whole, whole_variance): (f64, f64)) -> Interval {
    let estimate = part / whole;
    let variance = (part_variance + estimate.powi(2) * whole_variance) / whole.powi(2);
    let reach = 1.96 * variance.sqrt();
    Interval {
        estimate,
        low: estimate - reach,
        high: estimate + reach,
    }
}

/// What a search is expected to take from the ends on, by searching for made-up causes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// Blocks in all, at the median.
    pub blocks: f64,
    /// Blocks that 9 of 10 searches need no more than.
    pub most_blocks: f64,
    /// Positions to be built beyond those that are, at the median.
    pub builds: f64,
}

/// Searches of a forecast.
const SEARCHES: usize = 11;

/// Searches for one made-up cause of this size (a logarithm) at a random step, several times, where a
/// block has this variance.
pub fn forecast(
    range: &Range,
    size: f64,
    block_variance: f64,
    rules: &Rules,
    seed: u64,
) -> Forecast {
    let mut rng = rng(seed);
    let mut blocks = Vec::new();
    let mut builds = Vec::new();
    for search in 0..SEARCHES {
        let steps = range.steps as f64;
        let cause = (steps * (search as f64 + 0.5) / SEARCHES as f64) as usize + 1;
        let luck: Vec<f64> = (0..=range.steps)
            .map(|_| rules.luck * normal(&mut rng))
            .collect();
        let mut range = range.clone();
        let built = range.built.len();
        let mut seen: Vec<Observation> = Vec::new();
        while let Some((low, high)) = look(&range, &seen, rules).next {
            let between = if low < cause && cause <= high {
                size
            } else {
                0.0
            };
            let noise = block_variance.sqrt() * normal(&mut rng);
            seen.push(Observation {
                low,
                high,
                effect: between + luck[high] - luck[low] + noise,
                variance: block_variance,
            });
            range.built.extend([low, high]);
        }
        blocks.push(seen.len() as f64);
        builds.push((range.built.len() - built) as f64);
    }
    blocks.sort_by(f64::total_cmp);
    builds.sort_by(f64::total_cmp);
    Forecast {
        blocks: blocks[SEARCHES / 2],
        most_blocks: blocks[SEARCHES * 9 / 10],
        builds: builds[SEARCHES / 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(range: &mut Range, levels: &dyn Fn(usize) -> f64, rules: &Rules) -> (Look, usize) {
        let mut seen = Vec::new();
        loop {
            let now = look(range, &seen, rules);
            let Some((low, high)) = now.next else {
                return (now, range.built.len());
            };
            range.built.extend([low, high]);
            seen.push(Observation {
                low,
                high,
                effect: levels(high) - levels(low),
                variance: 1e-8,
            });
        }
    }

    /// A search for two of forty settings compared these; no comparison joined what lies beside the causes
    /// to the ends.
    #[test]
    fn what_lies_beside_the_causes_is_bounded_before_the_search_ends() {
        let level = |at: usize| -0.24 * f64::from(at >= 22) - 0.18 * f64::from(at >= 34);
        let of = |(low, high): (usize, usize)| Observation {
            low,
            high,
            effect: level(high) - level(low),
            variance: 1e-4,
        };
        let pairs = [
            (0, 40),
            (0, 40),
            (0, 40),
            (0, 40),
            (0, 20),
            (0, 30),
            (25, 35),
            (22, 32),
            (21, 33),
            (21, 34),
        ];
        let mut seen: Vec<Observation> = pairs.into_iter().map(of).collect();
        let mut range = Range::new(40);
        range.built = (0..=40).collect();
        let rules = Rules {
            luck: 0.0,
            build_cost: 0.0,
            ..Rules::default()
        };
        let first = look(&range, &seen, &rules).conclusion;
        assert!(
            (first.total.estimate.ln_1p() + 0.42).abs() < 0.02,
            "{first:?}"
        );
        while let Some(pair) = look(&range, &seen, &rules).next {
            seen.push(of(pair));
            assert!(seen.len() < 30, "{pair:?}");
        }
        let end = look(&range, &seen, &rules).conclusion;
        assert_eq!(end.outcome, Outcome::Found);
        let found: Vec<(usize, usize)> = end.causes.iter().map(|c| (c.first, c.last)).collect();
        assert_eq!(found, [(22, 22), (34, 34)]);
        for stretch in &end.others {
            assert!(stretch.effect.within(0.05), "{stretch:?}");
        }
        assert!(
            end.rest.within(0.1) && end.causes[0].share.high.is_finite(),
            "{end:?}"
        );
    }

    /// With counts, which hardly vary, the search is a bisection: it builds log₂ of the range.
    #[test]
    fn without_noise_it_is_a_bisection() {
        let rules = Rules {
            first: 1,
            luck: 0.0,
            ..Rules::default()
        };
        for cause in [1, 37, 100] {
            let step = |p: usize| if p >= cause { -0.03 } else { 0.0 };
            let (end, built) = exact(&mut Range::new(100), &step, &rules);
            assert_eq!(end.conclusion.outcome, Outcome::Found);
            let found = &end.conclusion.causes;
            assert_eq!(
                (found.len(), found[0].first, found[0].last),
                (1, cause, cause)
            );
            assert!(found[0].share.holds(1.0));
            assert!(built <= 2 + 9, "{built}");
        }
    }

    #[test]
    fn what_can_t_be_built_is_named_as_one() {
        let mut range = Range::new(20);
        range.unbuildable.extend(8..12);
        let rules = Rules {
            first: 1,
            luck: 0.0,
            ..Rules::default()
        };
        let (end, _) = exact(&mut range, &|p| if p >= 10 { 0.04 } else { 0.0 }, &rules);
        let found = &end.conclusion.causes;
        assert_eq!((found[0].first, found[0].last), (8, 12));
        assert_eq!(end.conclusion.outcome, Outcome::Found);
    }

    /// A search that was killed before its ends were compared is read back.
    #[test]
    fn what_is_not_known_yet_is_read_back() {
        let before = nothing(0);
        let text = serde_json::to_string(&before).unwrap();
        let after: Conclusion = serde_json::from_str(&text).unwrap();
        assert_eq!(after, before);
    }

    #[test]
    fn equal_ends_are_no_search() {
        let (end, built) = exact(&mut Range::new(9), &|_| 0.0, &Rules::default());
        assert_eq!(end.conclusion.outcome, Outcome::NoDifference);
        assert_eq!(built, 2);
        assert!(end.conclusion.causes.is_empty());
    }
}
