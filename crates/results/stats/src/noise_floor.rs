//! What identical arms show: the differences that this machine makes by itself.

use super::estimate::Estimate;
use serde::{Deserialize, Serialize};

/// The noise floor from pairs of one and the same arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoiseFloor {
    /// A/A pairs that it rests on.
    pub pairs: usize,
    /// Standard deviation of one pair's log-ratio, 0.04 for 4 %.
    pub pair_spread: f64,
    /// The relative difference up to which the A/A interval reaches, 0.012 for
    /// 1.2 %: what is smaller cannot be told from nothing with so many pairs.
    pub floor: f64,
    /// Second arm divided by first; should hold 1.
    pub ratio: Estimate,
}

impl NoiseFloor {
    /// Whether the identical arms were told apart at 95 %.
    pub fn shifted(&self) -> bool {
        self.ratio.n >= super::FEWEST && !self.ratio.holds(1.0)
    }

    /// The log-ratio by which identical arms differ at least: the end of their 95 % interval that is nearer to 0, or 0 if it contains 0.
    pub fn least_difference(&self) -> f64 {
        match self.shifted() {
            true => self.ratio.low.ln().abs().min(self.ratio.high.ln().abs()),
            false => 0.0,
        }
    }

    /// The log-ratio that the floor would be at with another number of pairs.
    pub fn scaled_to(&self, pairs: usize) -> f64 {
        self.floor.ln_1p() * (self.pairs as f64 / pairs.max(1) as f64).sqrt()
    }
}
