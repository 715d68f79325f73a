//! From the pairs of a block to an effect with its variance.
//!
//! The centre of a block is the pseudo-median of its pairs' log ratios, which some disturbed pairs do
//! not move. Neighbouring pairs are correlated, so the variance of the centre comes from the means of
//! batches, not from the pairs; a block alone has too few batches to tell, so that all blocks of a
//! search lend each other theirs.

use serde::{Deserialize, Serialize};

use crate::stats::Walsh;

/// Batches of a block.
const BATCHES: usize = 5;
/// How many degrees of freedom the variance common to all blocks counts for beside a block's own.
const COMMON: f64 = 8.0;

/// Interleaved pairs of two positions, measured in one launch of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// The position nearer to the good end.
    pub low: usize,
    /// The other.
    pub high: usize,
    /// ln(high / low) of each pair, in the order in which they were measured.
    pub ratios: Vec<f64>,
}

impl Block {
    /// From the metric at both positions, pair by pair.
    pub fn of_pairs(low: usize, high: usize, pairs: &[(f64, f64)]) -> Self {
        Self {
            low,
            high,
            ratios: pairs.iter().map(|(low, high)| (high / low).ln()).collect(),
        }
    }
}

/// What a block says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// The position nearer to the good end.
    pub low: usize,
    /// The other.
    pub high: usize,
    /// ln(high / low).
    pub effect: f64,
    /// The variance of `effect` from the noise within the block.
    pub variance: f64,
}

/// What the blocks say, each with a variance to which all contribute. Blocks of fewer than two finite
/// pairs are left out.
pub fn observations(blocks: &[Block]) -> Vec<Observation> {
    let centres: Vec<(&Block, f64, f64, f64)> = blocks
        .iter()
        .filter_map(|block| {
            let (centre, spread, batches) = centre(&block.ratios)?;
            Some((block, centre, spread, batches))
        })
        .collect();
    // By what a batch of one pair would have, so that blocks of any length can be taken together.
    let scaled = |(block, _, spread, batches): &(&Block, f64, f64, f64)| {
        spread * block.ratios.len() as f64 / batches
    };
    let freedom: f64 = centres.iter().map(|c| c.3 - 1.0).sum();
    let common = centres.iter().map(|c| (c.3 - 1.0) * scaled(c)).sum::<f64>() / freedom.max(1.0);
    centres
        .iter()
        .map(|whole| {
            let (block, centre, _, batches) = whole;
            let own = batches - 1.0;
            let variance = (COMMON * common + own * scaled(whole)) / (COMMON + own);
            Observation {
                low: block.low,
                high: block.high,
                effect: *centre,
                variance: (variance / block.ratios.len() as f64).max(f64::MIN_POSITIVE),
            }
        })
        .collect()
}

/// How often two positions were compared, with the mean effect and its variance. Launches scatter beyond
/// their pairs; that they do is told by their scatter.
pub fn mean(seen: &[Observation], (low, high): (usize, usize)) -> (usize, f64, f64) {
    let of: Vec<&Observation> = seen
        .iter()
        .filter(|o| (o.low, o.high) == (low, high))
        .collect();
    let weight: f64 = of.iter().map(|o| 1.0 / o.variance).sum();
    let mean = of.iter().map(|o| o.effect / o.variance).sum::<f64>() / weight;
    let scatter: f64 = of
        .iter()
        .map(|o| (o.effect - mean).powi(2) / o.variance)
        .sum();
    let beyond = (scatter / (of.len().max(2) - 1) as f64).max(1.0);
    (of.len(), mean, beyond / weight)
}

/// The variance to expect of a further block of a comparison that was repeated: what its pairs say, or what
/// its launches scatter by where that is more.
pub fn expected(seen: &[Observation]) -> f64 {
    let count = seen.len().max(1) as f64;
    let mean = seen.iter().map(|o| o.effect).sum::<f64>() / count;
    let apart: f64 = seen.iter().map(|o| (o.effect - mean).powi(2)).sum();
    let within = seen.iter().map(|o| o.variance).sum::<f64>() / count;
    within.max(apart / (count - 1.0).max(1.0))
}

/// The centre of a block, the variance of its batches' centres, and the number of batches.
fn centre(ratios: &[f64]) -> Option<(f64, f64, f64)> {
    let finite: Vec<f64> = ratios.iter().copied().filter(|r| r.is_finite()).collect();
    let median = |part: &[f64]| {
        let mut sorted = part.to_vec();
        sorted.sort_by(f64::total_cmp);
        Walsh(&sorted).median()
    };
    let batches = BATCHES.min(finite.len());
    if batches < 2 {
        return None;
    }
    let bound = |batch: usize| batch * finite.len() / batches;
    let centres: Vec<f64> = (0..batches)
        .map(|batch| median(&finite[bound(batch)..bound(batch + 1)]))
        .collect();
    let mean = centres.iter().sum::<f64>() / batches as f64;
    let squares: f64 = centres.iter().map(|c| (c - mean).powi(2)).sum();
    Some((
        median(&finite),
        squares / (batches as f64 - 1.0),
        batches as f64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::simulate::{normal, rng};

    /// The variance holds for correlated pairs, where that of independent ones would be a third of it.
    #[test]
    fn the_variance_is_that_of_the_centres() {
        let mut rng = rng(5);
        let blocks: Vec<Block> = (0..300)
            .map(|_| {
                let mut state = normal(&mut rng);
                let ratios = (0..60)
                    .map(|_| {
                        state = 0.5 * state + 0.75f64.sqrt() * normal(&mut rng);
                        0.08 * state
                    })
                    .collect();
                Block {
                    low: 0,
                    high: 1,
                    ratios,
                }
            })
            .collect();
        let seen = observations(&blocks);
        let true_variance = seen.iter().map(|o| o.effect.powi(2)).sum::<f64>() / 300.0;
        let said = seen.iter().map(|o| o.variance).sum::<f64>() / 300.0;
        assert!(
            (0.75..1.3).contains(&(said / true_variance)),
            "{said} for {true_variance}"
        );
        assert!(said > 2.0 * 0.08f64.powi(2) / 60.0);
    }

    /// Blocks that scatter by more than their pairs tell are believed.
    #[test]
    fn launches_that_scatter_widen_what_is_expected() {
        let seen = |effect: f64| Observation {
            low: 0,
            high: 2,
            effect,
            variance: 1e-4,
        };
        let calm = [seen(0.1), seen(0.1), seen(0.1)];
        assert!((expected(&calm) - 1e-4).abs() < 1e-12);
        assert!((mean(&calm, (0, 2)).2 - 1e-4 / 3.0).abs() < 1e-12);
        let wild = [seen(0.0), seen(0.1), seen(0.2)];
        assert!((expected(&wild) - 0.01).abs() < 1e-9);
        let (blocks, centre, variance) = mean(&wild, (0, 2));
        assert!(blocks == 3 && (centre - 0.1).abs() < 1e-9);
        assert!((variance - 0.01 / 3.0).abs() < 1e-9);
        assert_eq!(mean(&wild, (0, 1)).0, 0);
    }

    #[test]
    fn disturbed_pairs_do_not_move_the_centre_and_too_few_say_nothing() {
        let mut ratios: Vec<f64> = (0..40).map(|i| 0.03 + 0.001 * f64::from(i % 7)).collect();
        ratios[3] = -2.0;
        ratios[20] = f64::NAN;
        let block = |ratios: &[f64]| Block {
            low: 0,
            high: 4,
            ratios: ratios.to_vec(),
        };
        let seen = observations(&[block(&ratios), block(&[0.1])]);
        assert_eq!(seen.len(), 1);
        assert!((seen[0].effect - 0.033).abs() < 0.002, "{seen:?}");
    }
}
