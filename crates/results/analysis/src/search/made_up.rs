//! Made-up histories with planted causes, to find out how often the search errs. The example
//! `search_rates` and a test draw from here; no figure about a real server ever does.

use rand::RngExt as _;

use super::conclusion::{Conclusion, Forecast, Outcome, forecast, look};
use super::noise::{Block, observations};
use super::range::{Range, Rules};
use crate::stats::simulate::{Rng, normal, rng};

/// What is planted in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// One slowdown of 5 %.
    Five,
    /// One slowdown of 3 %.
    Three,
    /// Slowdowns of 5 % and of 3 %.
    Two,
    /// A slowdown of 5 %, and a speed-up of 3 % elsewhere.
    SpeedUp,
    /// One of 5 % beside a stretch that can't be built, which may hold it.
    Unbuildable,
}

impl Planted {
    /// All kinds.
    pub const ALL: [Planted; 5] = [
        Planted::Five,
        Planted::Three,
        Planted::Two,
        Planted::SpeedUp,
        Planted::Unbuildable,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Planted::Five => "5 %",
            Planted::Three => "3 %",
            Planted::Two => "5 % and 3 %",
            Planted::SpeedUp => "5 %, and 3 % back",
            Planted::Unbuildable => "5 %, unbuildable",
        }
    }
}

/// A history: what each step changes, and how noisy its machine is.
#[derive(Debug, Clone)]
pub struct History {
    /// The range.
    pub range: Range,
    /// The steps that change something, with ln of by how much, ascending.
    pub causes: Vec<(usize, f64)>,
    /// Luck of each position.
    luck: Vec<f64>,
    /// Standard deviation of the log ratio of a pair.
    spread: f64,
    /// Correlation of neighbouring pairs.
    correlation: f64,
    /// Standard deviation of a launch.
    launch: f64,
}

/// Pairs of a block.
const PAIRS: usize = 40;

impl History {
    /// A random one. 12 to 200 steps; pairs spread by 6 to 10 % with a correlation of up to 0.6 between
    /// neighbours, launches by 0.7 %, builds by 0.3 %; 3 pairs in 100 are disturbed.
    pub fn of(planted: Planted, rng: &mut Rng) -> Self {
        let steps = (12.0 * (200.0f64 / 12.0).powf(rng.random::<f64>())) as usize;
        let mut range = Range::new(steps);
        let mut any =
            |from: usize, to: usize| from + (rng.random::<f64>() * (to - from) as f64) as usize;
        let first = any(1, steps + 1);
        let mut causes = vec![(first, 0.95f64.ln())];
        let mut second = any(1, steps + 1);
        while second.abs_diff(first) < 2 {
            second = any(1, steps + 1);
        }
        match planted {
            Planted::Five => {}
            Planted::Three => causes[0].1 = 0.97f64.ln(),
            Planted::Two => causes.push((second, 0.97f64.ln())),
            Planted::SpeedUp => causes.push((second, 1.03f64.ln())),
            Planted::Unbuildable => {
                let length = any(2, 2 + steps / 4);
                let from = any(first.saturating_sub(length), first + 1).max(1);
                range.unbuildable.extend(from..(from + length).min(steps));
            }
        }
        causes.sort_by_key(|c| c.0);
        Self {
            luck: (0..=steps).map(|_| 0.003 * normal(rng)).collect(),
            range,
            causes,
            spread: 0.06 + 0.04 * rng.random::<f64>(),
            correlation: 0.6 * rng.random::<f64>(),
            launch: 0.007,
        }
    }

    /// A block as it might be measured.
    fn measure(&self, low: usize, high: usize, rng: &mut Rng) -> Block {
        let steps = self
            .causes
            .iter()
            .filter(|(at, _)| low < *at && *at <= high);
        let difference: f64 = steps.map(|(_, effect)| effect).sum();
        let level = difference + self.luck[high] - self.luck[low] + self.launch * normal(rng);
        let mut state = normal(rng);
        let ratios = (0..PAIRS).map(|_| {
            state =
                self.correlation * state + (1.0 - self.correlation.powi(2)).sqrt() * normal(rng);
            let disturbed = match rng.random::<f64>() {
                x if x < 0.015 => -0.4,
                x if x < 0.03 => 0.4,
                _ => 0.0,
            };
            level + self.spread * state + disturbed
        });
        Block {
            low,
            high,
            ratios: ratios.collect(),
        }
    }
}

/// How a search of a made-up history went.
#[derive(Debug, Clone)]
pub struct Searched {
    /// What it said.
    pub conclusion: Conclusion,
    /// Whether each cause, and no other, was named.
    pub right: bool,
    /// Positions that it built beyond the ends.
    pub builds: usize,
    /// What was said beforehand, once the ends were known to differ.
    pub forecast: Option<Forecast>,
}

/// Searches a history.
pub fn search(history: &History, rules: &Rules, rng: &mut Rng, forecasts: bool) -> Searched {
    let mut range = history.range.clone();
    let mut blocks: Vec<Block> = Vec::new();
    let mut said = None;
    let end = loop {
        let seen = observations(&blocks);
        let now = look(&range, &seen, rules);
        let Some((low, high)) = now.next else {
            break now.conclusion;
        };
        if (low, high) != (0, range.steps) && said.is_none() && forecasts {
            let variance = seen.iter().map(|o| o.variance).sum::<f64>() / seen.len() as f64;
            let known = Range::new(range.steps);
            let size = now.conclusion.total.estimate.ln_1p();
            said = Some(forecast(
                &known,
                size,
                variance + 0.007f64.powi(2),
                rules,
                1,
            ));
        }
        blocks.push(history.measure(low, high, rng));
        range.built.extend([low, high]);
    };
    let named: Vec<(usize, usize)> = end.causes.iter().map(|c| (c.first, c.last)).collect();
    let right = end.outcome == Outcome::Found
        && named.len() == history.causes.len()
        && named
            .iter()
            .zip(&history.causes)
            .all(|((first, last), (at, _))| first <= at && at <= last);
    Searched {
        right,
        builds: range.built.len() - 2,
        conclusion: end,
        forecast: said,
    }
}

/// Searches one history of a kind, from a seed.
pub fn one(planted: Planted, seed: u64, rules: &Rules, forecasts: bool) -> (History, Searched) {
    let mut rng = rng(seed);
    let history = History::of(planted, &mut rng);
    let searched = search(&history, rules, &mut rng, forecasts);
    (history, searched)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few of those that the example runs forty of each.
    #[test]
    fn planted_causes_are_found() {
        let mut right = 0;
        for (seed, planted) in Planted::ALL.into_iter().enumerate() {
            let (history, searched) = one(planted, 900 + seed as u64, &Rules::default(), false);
            right += usize::from(searched.right);
            if searched.conclusion.outcome == Outcome::Found {
                let causes = &searched.conclusion.causes;
                assert!(causes.iter().all(|cause| cause.probability >= 0.95));
            }
            assert!(searched.builds < history.range.steps, "{planted:?}");
        }
        assert!(right >= 4, "{right} of 5");
    }
}
