//! What a search over commits or patches writes down and prints: the steps, what was measured at which
//! position, what follows.
//!
//! Position 0 is what the first step starts from, position n is after step n. By counts a position is
//! counted once for all comparisons with it; by time two positions are compared in blocks.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::conclusion::{Conclusion, Interval, Look, Outcome, Stretch, forecast, look, nothing};
use super::noise::{self, Block, Observation, observations};
use super::range::{Range, Rules};
use crate::counts::{Count, FunctionCount};
use crate::metrics::MetricId;
use crate::stats::Direction;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/bisect-steps/1";

/// Rounds that a position is counted at a time; the seed of a round is the same at all positions.
pub const ROUNDS: usize = 2;
/// Two rounds of the same code differ by this much or more, as ln: timers and hash tables.
const COUNTING: f64 = 2e-4;
/// Blocks of each step where all are measured by time, at least.
const BLOCKS_OF_EACH: usize = 3;
/// Functions shown of a cause.
const SHOWN: usize = 8;

/// A step: a commit or a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The commit.
    pub id: String,
    /// The first line of its message, or the patch's subject.
    pub title: String,
    /// Whether it merges another branch.
    pub merge: bool,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Instructions per transaction; fewer are better.
    Instructions,
    /// A metric of interleaved slices.
    Time,
}

/// What was counted at a position.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedAt {
    /// Round by round.
    pub rounds: Vec<Count>,
    /// Instructions of each function itself per transaction, of the last round.
    pub functions: BTreeMap<String, f64>,
}

/// Interleaved pairs of two positions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepBlock {
    /// The position nearer to the good end.
    pub low: usize,
    /// The other.
    pub high: usize,
    /// The metric at both, pair by pair.
    pub pairs: Vec<(f64, f64)>,
}

/// What a search was expected to take, once its ends were measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Positions to be built, both ends included.
    pub builds: f64,
    /// Seconds in all, those before the forecast included.
    pub seconds: f64,
}

/// A search along one chain of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Searched {
    /// The merge whose branch this is; none for the range that was asked for.
    pub of_merge: Option<String>,
    /// What the first step starts from.
    pub good: Step,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What was compared; none before that is known.
    pub by: Option<Measure>,
    /// The least difference that matters, as a share.
    pub delta: f64,
    /// What a build costs, in blocks.
    pub build_cost: f64,
    /// Positions that can't be had, with the first error.
    pub unbuildable: BTreeMap<usize, String>,
    /// What was counted, by position.
    pub counted: BTreeMap<usize, CountedAt>,
    /// The comparisons of counts that the search asked for.
    pub asked: Vec<(usize, usize)>,
    /// What was measured by time.
    pub blocks: Vec<StepBlock>,
    /// What was expected.
    pub forecast: Option<Cost>,
    /// What follows.
    pub conclusion: Conclusion,
    /// What each step did by itself, where all were measured.
    pub each: Vec<Stretch>,
    /// Whether the search went to its end.
    pub complete: bool,
    /// Positions that were built, both ends included.
    pub builds: usize,
    /// Seconds that it took.
    pub seconds: f64,
}

/// A search over commits or patches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Traced {
    /// [`SCHEMA`].
    pub schema: String,
    /// The repository or source, as named.
    pub source: String,
    /// `commits` or `patches`.
    pub kind: String,
    /// The repository that holds the steps.
    pub repository: String,
    /// How all were built, as typed.
    pub variant: String,
    /// Settings of all servers.
    pub settings: Vec<String>,
    /// Whether what a merge brought is left as one step.
    pub first_parent: bool,
    /// Whether every step was to be measured by itself.
    pub each: bool,
    /// The workload.
    pub workload: String,
    /// Clients, by time.
    pub clients: u32,
    /// What is compared by time.
    pub metric: MetricId,
    /// Pairs of a block.
    pub pairs: u32,
    /// The seed of counted rounds.
    pub seed: u64,
    /// What a reader should know of the range and of how it was measured.
    pub notes: Vec<String>,
    /// The range that was asked for, then those of merges in it.
    pub searches: Vec<Searched>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Count a position once more.
    Count(usize),
    /// Compare two positions by time.
    Compare(usize, usize),
    /// Nothing.
    Done,
}

impl Searched {
    /// A search that begins.
    pub fn new(good: Step, steps: Vec<Step>) -> Self {
        Self {
            of_merge: None,
            good,
            steps,
            by: None,
            delta: 0.0,
            build_cost: 0.0,
            unbuildable: BTreeMap::new(),
            counted: BTreeMap::new(),
            asked: Vec::new(),
            blocks: Vec::new(),
            forecast: None,
            conclusion: nothing(0),
            each: Vec::new(),
            complete: false,
            builds: 0,
            seconds: 0.0,
        }
    }

    /// The step or the good end at a position.
    pub fn at(&self, position: usize) -> &Step {
        match position {
            0 => &self.good,
            n => self.steps.get(n - 1).unwrap_or(&self.good),
        }
    }

    /// The rules of this search.
    fn rules(&self) -> Rules {
        match self.by {
            // What each build differs by from its neighbours for nothing: the compiler lays code out
            // anew. One comparison shows the ends.
            Some(Measure::Instructions) => Rules {
                luck: self.delta / 5.0,
                matter: self.delta,
                build_cost: 3.0,
                first: 1,
                most_first: 2,
                most: 100,
                ..Rules::default()
            },
            _ => Rules {
                matter: self.delta,
                build_cost: self.build_cost,
                ..Rules::default()
            },
        }
    }

    fn range(&self) -> Range {
        let mut range = Range::new(self.steps.len());
        range.unbuildable = self.unbuildable.keys().copied().collect();
        range.built.extend(self.counted.keys());
        range
            .built
            .extend(self.blocks.iter().flat_map(|b| [b.low, b.high]));
        range
    }

    /// ln of the change in instructions between two counted positions in some rounds.
    fn counted_change(&self, low: usize, high: usize, from: usize) -> Option<[f64; ROUNDS]> {
        let of = |position: usize, round: usize| {
            let counted = self.counted.get(&position)?.rounds.get(round)?;
            Some(counted.per_transaction().ln())
        };
        let mut all = [0.0; ROUNDS];
        for (n, slot) in all.iter_mut().enumerate() {
            *slot = of(high, from + n)? - of(low, from + n)?;
        }
        Some(all)
    }

    /// What comparisons of counts say. The variance is that of two rounds, pooled over all of them.
    fn of_counts(&self, pairs: &[(usize, usize)]) -> Vec<Observation> {
        let mut met: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let changes: Vec<(usize, usize, [f64; ROUNDS])> = pairs
            .iter()
            .filter_map(|pair| {
                let before = met.entry(*pair).or_insert(0);
                let rounds = self.counted_change(pair.0, pair.1, *before * ROUNDS)?;
                *before += 1;
                Some((pair.0, pair.1, rounds))
            })
            .collect();
        let mean = |rounds: &[f64; ROUNDS]| rounds.iter().sum::<f64>() / ROUNDS as f64;
        let spread: f64 = changes
            .iter()
            .map(|(_, _, rounds)| {
                let centre = mean(rounds);
                rounds.iter().map(|r| (r - centre).powi(2)).sum::<f64>()
            })
            .sum();
        let freedom = (changes.len() * (ROUNDS - 1)).max(1) as f64;
        let variance = (spread / freedom).max(COUNTING.powi(2)) / ROUNDS as f64;
        changes
            .iter()
            .map(|(low, high, rounds)| Observation {
                low: *low,
                high: *high,
                effect: mean(rounds),
                variance,
            })
            .collect()
    }

    /// What blocks say.
    fn of_blocks(&self) -> Vec<Observation> {
        let blocks: Vec<Block> = self
            .blocks
            .iter()
            .map(|block| Block::of_pairs(block.low, block.high, &block.pairs))
            .collect();
        observations(&blocks)
    }

    /// The difference in instructions between the ends, as a share with its interval, once both are
    /// counted.
    pub fn counted_ends(&self) -> Option<Interval> {
        let ends = self.of_counts(&[(0, self.steps.len())]);
        ends.first().map(|o| Interval::of_log(o.effect, o.variance))
    }

    /// Concludes anew from what was measured; what to do next. `every` has each step measured.
    pub fn look(&mut self, every: bool) -> Next {
        let next = match (self.by, every) {
            (None, _) => Next::Count(0),
            (Some(by), true) => self.look_at_each(by),
            (Some(Measure::Instructions), false) => self.look_at_counts(),
            (Some(Measure::Time), false) => {
                let seen = self.of_blocks();
                let Look { next, conclusion } = look(&self.range(), &seen, &self.rules());
                self.conclusion = conclusion;
                next.map_or(Next::Done, |(low, high)| Next::Compare(low, high))
            }
        };
        self.complete = next == Next::Done;
        next
    }

    fn look_at_counts(&mut self) -> Next {
        loop {
            let seen = self.of_counts(&self.asked);
            let Look { next, conclusion } = look(&self.range(), &seen, &self.rules());
            self.conclusion = conclusion;
            let Some(pair) = next else {
                return Next::Done;
            };
            let before = self.asked.iter().filter(|asked| **asked == pair).count();
            let needed = (before + 1) * ROUNDS;
            for position in [pair.0, pair.1] {
                let there = self.counted.get(&position).map_or(0, |c| c.rounds.len());
                if there < needed {
                    return Next::Count(position);
                }
            }
            self.asked.push(pair);
        }
    }

    /// Every position that can be built, in order.
    fn buildable(&self) -> Vec<usize> {
        (0..=self.steps.len())
            .filter(|position| !self.unbuildable.contains_key(position))
            .collect()
    }

    fn look_at_each(&mut self, by: Measure) -> Next {
        let positions = self.buildable();
        let neighbours: Vec<(usize, usize)> = positions.windows(2).map(|w| (w[0], w[1])).collect();
        let ends = (0, self.steps.len());
        let (seen, next) = match by {
            Measure::Instructions => {
                let missing = positions.iter().find(|p| !self.counted.contains_key(p));
                let mut pairs = neighbours.clone();
                pairs.push(ends);
                let next = missing.map_or(Next::Done, |p| Next::Count(*p));
                (self.of_counts(&pairs), next)
            }
            Measure::Time => {
                let seen = self.of_blocks();
                let wide = |pair: &(usize, usize)| {
                    let (blocks, _, variance) = noise::mean(&seen, *pair);
                    let known = blocks >= BLOCKS_OF_EACH && 1.96 * variance.sqrt() < self.delta;
                    (!known).then_some((*pair, if blocks == 0 { f64::MAX } else { variance }))
                };
                let widest = neighbours
                    .iter()
                    .filter_map(wide)
                    .max_by(|a, b| a.1.total_cmp(&b.1));
                let next = widest.map_or(Next::Done, |((low, high), _)| Next::Compare(low, high));
                (seen, next)
            }
        };
        self.each = neighbours
            .iter()
            .filter_map(|pair| {
                let (blocks, effect, variance) = noise::mean(&seen, *pair);
                (blocks > 0).then(|| Stretch {
                    first: pair.0 + 1,
                    last: pair.1,
                    effect: Interval::of_log(effect, variance),
                })
            })
            .collect();
        let mut conclusion = nothing(seen.len());
        let of_ends = noise::mean(&seen, ends);
        let whole = match of_ends.0 {
            // By time the ends are not compared: their difference is the sum.
            0 => neighbours.iter().fold((0.0, 0.0), |sum, pair| {
                let (_, effect, variance) = noise::mean(&seen, *pair);
                (sum.0 + effect, sum.1 + variance)
            }),
            _ => (of_ends.1, of_ends.2),
        };
        if self.each.len() == neighbours.len() {
            conclusion.total = Interval::of_log(whole.0, whole.1);
            conclusion.rest = conclusion.total;
        }
        if next == Next::Done {
            let matters = |stretch: &Stretch| !stretch.effect.within(self.delta);
            conclusion.outcome = match self.each.iter().any(matters) {
                true => Outcome::Found,
                false => Outcome::NoDifference,
            };
        }
        self.conclusion = conclusion;
        next
    }

    /// What the search is expected to take from its beginning on: positions to be built, and positions
    /// counted or blocks measured.
    pub fn foretell(&self, every: bool, seed: u64) -> (f64, f64) {
        let by_time = self.by == Some(Measure::Time);
        if every {
            let builds = self.buildable().len() as f64;
            let blocks = (builds - 1.0) * 2.0 * BLOCKS_OF_EACH as f64;
            return (builds, if by_time { blocks } else { builds });
        }
        let seen = match by_time {
            true => self.of_blocks(),
            false => self.of_counts(&[(0, self.steps.len())]),
        };
        let mut range = Range::new(self.steps.len());
        range.unbuildable = self.unbuildable.keys().copied().collect::<BTreeSet<_>>();
        let size = self.conclusion.total.estimate.ln_1p();
        let expected = forecast(&range, size, noise::expected(&seen), &self.rules(), seed);
        let builds = 2.0 + expected.builds;
        (builds, if by_time { expected.blocks } else { builds })
    }

    /// Whether the bad end is worse, where that is known; `metric` is that of time.
    pub fn is_worse(&self, metric: MetricId) -> Option<bool> {
        let better = match self.by? {
            Measure::Instructions => Direction::LowerIsBetter,
            Measure::Time => metric.better,
        };
        let Interval { low, high, .. } = self.conclusion.total;
        let lower = high < 0.0;
        let shown = lower || low > 0.0;
        (shown && self.conclusion.outcome != Outcome::NoDifference)
            .then_some(lower == (better == Direction::HigherIsBetter))
    }

    /// The functions that differ most across some steps, where both sides were counted.
    pub fn functions(&self, first: usize, last: usize) -> Vec<FunctionCount> {
        match (self.counted.get(&(first - 1)), self.counted.get(&last)) {
            (Some(before), Some(after)) => {
                crate::counts::differing(&before.functions, &after.functions, SHOWN)
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(steps: usize) -> Searched {
        let step = |n: usize| Step {
            id: format!("c{n}"),
            title: format!("change {n}"),
            merge: false,
        };
        let mut new = Searched::new(step(0), (1..=steps).map(step).collect());
        new.by = Some(Measure::Instructions);
        new.delta = 0.005;
        new
    }

    /// Counts of a server that executes `level` times 40,000 instructions; rounds differ by little.
    fn count(search: &mut Searched, position: usize, level: f64) {
        let counted = search.counted.entry(position).or_default();
        for round in 0..ROUNDS {
            let jitter = 1.0 + 1e-4 * ((position * 7 + round * 3) % 5) as f64;
            counted.rounds.push(Count {
                transactions: 1000,
                instructions: (40_000_000.0 * level * jitter) as u64,
                ..Count::default()
            });
        }
    }

    fn run(search: &mut Searched, every: bool, level: &dyn Fn(usize) -> Option<f64>) {
        loop {
            match search.look(every) {
                Next::Count(position) => match level(position) {
                    Some(level) => count(search, position, level),
                    None => {
                        search.unbuildable.insert(position, "error".into());
                    }
                },
                Next::Compare(..) => unreachable!("time"),
                Next::Done => return,
            }
        }
    }

    #[test]
    fn one_per_cent_of_instructions_is_found_by_a_bisection() {
        let mut search = searched(64);
        run(&mut search, false, &|p| {
            Some(if p >= 23 { 1.01 } else { 1.0 })
        });
        assert_eq!(search.conclusion.outcome, Outcome::Found);
        let causes = &search.conclusion.causes;
        assert_eq!((causes.len(), causes[0].first, causes[0].last), (1, 23, 23));
        assert!(causes[0].effect.holds(0.01), "{causes:?}");
        assert!(search.counted.len() <= 11, "{}", search.counted.len());
        assert_eq!(search.is_worse(MetricId::default()), Some(true));
    }

    #[test]
    fn several_causes_a_speed_up_and_a_gap() {
        let mut search = searched(40);
        let level = |p: usize| {
            let mut level = 1.0;
            for (at, by) in [(9, 1.03), (17, 0.98), (31, 1.05)] {
                level *= if p >= at { by } else { 1.0 };
            }
            (!(29..31).contains(&p)).then_some(level)
        };
        run(&mut search, false, &level);
        let found: Vec<_> = search
            .conclusion
            .causes
            .iter()
            .map(|c| (c.first, c.last))
            .collect();
        assert_eq!(found, [(9, 9), (17, 17), (29, 31)]);
    }

    #[test]
    fn equal_ends_are_no_search() {
        let mut search = searched(40);
        run(&mut search, false, &|_| Some(1.0));
        assert_eq!(search.conclusion.outcome, Outcome::NoDifference);
        assert_eq!(search.counted.len(), 2);
    }

    #[test]
    fn of_a_series_each_step_is_told() {
        let mut search = searched(5);
        let levels = [1.0, 1.0, 1.02, 1.02, 1.01, 1.01];
        run(&mut search, true, &|p| (p != 3).then_some(levels[p]));
        let told: Vec<_> = search
            .each
            .iter()
            .map(|e| (e.first, e.last, (1000.0 * e.effect.estimate).round()))
            .collect();
        assert_eq!(
            told,
            [(1, 1, 0.0), (2, 2, 20.0), (3, 4, -10.0), (5, 5, 0.0)]
        );
        assert_eq!(search.conclusion.outcome, Outcome::Found);
    }
}
