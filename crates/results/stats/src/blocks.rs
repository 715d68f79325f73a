//! Pairs of one launch whose neighbours are correlated.
//!
//! The order within a pair is drawn, which makes noise that both servers share harmless. What only
//! one of them does for some seconds (a background process, a cache that fills) is not undone by the
//! order, so that neighbouring pairs are then not independent observations. They are blocked: several
//! count as one.

use pgassay_model::warning::Warning;

use super::caveat::Caveat;
use super::estimate::{FEWEST, LEVEL, is_autocorrelated};
use super::launches::include_t_interval;
use super::noise_floor::NoiseFloor;
use super::order::{Walsh, sorted_finite};
use super::paired::{Comparison, EQUIVALENCE_LEVEL, Unit, compare, compare_logs, log_ratios};
use super::verdict::{DEFAULT_DELTA, Direction, Rule, StatsError, Verdict};

/// The blocks whose t interval is included where no autocorrelation is seen.
const BLOCKS: usize = 8;

/// Like [`super::compare`], for pairs in the order in which they were measured.
///
/// If the ranks of neighbouring pairs are correlated, blocks of 2, 4, 8 … pairs stand for one
/// observation each, by their pseudo-median, until blocks are not correlated, and then twice as many;
/// with fewer than 12 blocks the verdict is inconclusive. Correlation that is too weak to be seen can
/// still matter to a mean: so from 24 pairs on the intervals include the t interval of 8 blocks.
///
/// # Errors
/// As [`super::compare`].
pub fn compare_in_order(pairs: &[(f64, f64)], rule: Rule) -> Result<Comparison, StatsError> {
    let mut warnings = Vec::new();
    let logs = log_ratios(pairs, &mut warnings);
    let blocks_of = |length: usize| -> Vec<f64> {
        match length {
            1 => logs.clone(),
            _ => logs.chunks_exact(length).map(centre).collect(),
        }
    };
    let mut length = 1;
    while is_autocorrelated(&blocks_of(length)) {
        length *= 2;
    }
    if length > 1 {
        // Neighbouring blocks as long as the correlation lasts still share some of it.
        length *= 2;
    }
    let blocks = blocks_of(length);
    let enough = length == 1 || blocks.len() >= 2 * FEWEST;
    let observed = if enough { &blocks } else { &logs };
    let mut comparison = compare_logs(observed, rule, Unit::Pair, (LEVEL, EQUIVALENCE_LEVEL))?;
    comparison.pairs = logs.len();
    if logs.len() >= 3 * BLOCKS {
        let bounds = |block: usize| block * logs.len() / BLOCKS;
        let blocks = (0..BLOCKS).map(|block| centre(&logs[bounds(block)..bounds(block + 1)]));
        include_t_interval(&mut comparison, &blocks.collect::<Vec<f64>>());
    }
    if !enough {
        comparison.verdict = Verdict::Inconclusive;
        comparison.warn(Caveat::AutocorrelatedPairs);
    } else if length > 1 {
        let text = format!(
            "neighbouring pairs are correlated: blocks of {length} count as one observation"
        );
        comparison.warn(Warning::new("pairs-blocked", text));
    }
    for warning in warnings {
        comparison.warn(warning);
    }
    Ok(comparison)
}

fn centre(block: &[f64]) -> f64 {
    Walsh(&sorted_finite(block).0).median()
}

impl NoiseFloor {
    /// From pairs in which both arms are the same, in the order in which they were measured. Two or
    /// more pairs give a figure; its warnings say what it is worth.
    pub fn from_pairs(pairs: &[(f64, f64)]) -> Result<Self, StatsError> {
        let rule = Rule::new(DEFAULT_DELTA, Direction::HigherIsBetter)?;
        let spread = compare(pairs, rule)?.spread;
        let same = compare_in_order(pairs, rule)?;
        let reach = same.ratio.low.ln().abs().max(same.ratio.high.ln().abs());
        Ok(Self {
            pairs: same.pairs,
            pair_spread: spread.ok_or(StatsError::NoPairs)?,
            floor: reach.exp_m1(),
            ratio: same.ratio,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::paired::compare;
    use super::super::simulate::{self, Noise};
    use super::super::verdict::Direction;
    use super::*;

    fn rule(delta: f64) -> Rule {
        Rule::new(delta, Direction::HigherIsBetter).expect("a rule")
    }

    #[test]
    fn correlated_pairs_are_blocked() {
        let mut rng = simulate::rng(11);
        let runs = 400;
        let (mut alone, mut together) = (0, 0);
        let differs = |v: Verdict| u32::from(matches!(v, Verdict::Faster | Verdict::Slower));
        for _ in 0..runs {
            let pairs = simulate::wandering_servers(120, (0.02, 0.03), 0.0, &mut rng);
            alone += differs(compare(&pairs, rule(0.0)).expect("pairs").verdict);
            let got = compare_in_order(&pairs, rule(0.0)).expect("pairs");
            together += differs(got.verdict);
            assert_eq!(got.pairs, 120);
        }
        assert!(alone * 4 > runs, "only {alone} of {runs}: then why?");
        assert!(together * 12 <= runs, "{together} of {runs}");
        // independent pairs lose little by it
        let found = (0..runs).filter(|_| {
            let pairs = Noise::Independent.pairs(60, 0.03, 0.03, &mut rng);
            let got = compare_in_order(&pairs, rule(0.0)).expect("pairs");
            got.verdict == Verdict::Faster
        });
        assert!(found.count() as u32 * 20 > runs * 19);
        let few = simulate::wandering_servers(40, (0.0001, 0.3), 0.0, &mut rng);
        let got = compare_in_order(&few, rule(0.0)).expect("pairs");
        assert_eq!(got.verdict, Verdict::Inconclusive);
        let warnings = &got.ratio.warnings;
        assert!(warnings.iter().any(|w| *w == Caveat::AutocorrelatedPairs));
    }
}
