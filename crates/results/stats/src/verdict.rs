//! What is said of a comparison, and the rule that was set before it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether more of a quantity is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Such as transactions per second.
    HigherIsBetter,
    /// Such as a latency, CPU time or instructions per operation.
    LowerIsBetter,
}

/// What a comparison says about B, seen from A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The 95 % interval excludes "no difference", on the good side.
    Faster,
    /// The 95 % interval excludes "no difference", on the bad side.
    Slower,
    /// The 90 % interval lies within ±δ. Takes precedence over the two above.
    Equivalent,
    /// Neither was shown; not the same as equivalent.
    Inconclusive,
    /// The arms differ beyond the plan: no figure would answer the question.
    NotComparable,
}

impl Verdict {
    /// The verdict with the arms exchanged.
    pub fn swapped(self) -> Self {
        match self {
            Self::Faster => Self::Slower,
            Self::Slower => Self::Faster,
            same => same,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
            Self::NotComparable => "not comparable",
        })
    }
}

/// An input on which no comparison can be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// δ is negative or not a number.
    #[error("the smallest difference that matters (delta) must be 0 or more, not {0}")]
    BadDelta(f64),
    /// Nothing was measured on one or both sides.
    #[error("there is nothing to compare: no complete pair of finite values")]
    NoPairs,
    /// A sequential plan without looks, or with looks that do not ascend.
    #[error(
        "the looks of a sequential comparison must be ascending numbers of pairs, the first 6 or more"
    )]
    BadLooks,
}

/// What decides between the verdicts; set before anything is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rule {
    /// The smallest relative difference that matters, 0.01 for 1 %.
    pub delta: f64,
    /// Whether more is better.
    pub direction: Direction,
}

/// δ where none is given.
pub const DEFAULT_DELTA: f64 = 0.01;

impl Rule {
    /// A rule with its δ checked. δ of 0 is allowed: then nothing is equivalent.
    pub fn new(delta: f64, direction: Direction) -> Result<Self, StatsError> {
        if delta.is_finite() && delta >= 0.0 {
            Ok(Self { delta, direction })
        } else {
            Err(StatsError::BadDelta(delta))
        }
    }

    /// The verdict from the intervals of the log-ratio of B to A: `wide` decides
    /// a difference, `narrow` equivalence. The margin is ln(1 + δ) to both sides,
    /// so that exchanging the arms exchanges the verdict and nothing else.
    pub fn decide(&self, wide: (f64, f64), narrow: (f64, f64)) -> Verdict {
        let margin = self.delta.ln_1p();
        let better = match self.direction {
            Direction::HigherIsBetter => 1.0,
            Direction::LowerIsBetter => -1.0,
        };
        if -margin < narrow.0 && narrow.1 < margin {
            Verdict::Equivalent
        } else if wide.0 * better > 0.0 && wide.1 * better > 0.0 {
            Verdict::Faster
        } else if wide.0 * better < 0.0 && wide.1 * better < 0.0 {
            Verdict::Slower
        } else {
            Verdict::Inconclusive
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_verdicts() {
        let up = Rule::new(0.01, Direction::HigherIsBetter).expect("a rule");
        let down = Rule::new(0.01, Direction::LowerIsBetter).expect("a rule");
        for (wide, narrow, higher, lower) in [
            (
                (0.02, 0.05),
                (0.025, 0.045),
                Verdict::Faster,
                Verdict::Slower,
            ),
            (
                (-0.05, -0.02),
                (-0.045, -0.025),
                Verdict::Slower,
                Verdict::Faster,
            ),
            (
                (-0.02, 0.05),
                (-0.01, 0.04),
                Verdict::Inconclusive,
                Verdict::Inconclusive,
            ),
            // shown, and too small to matter
            (
                (0.001, 0.009),
                (0.002, 0.008),
                Verdict::Equivalent,
                Verdict::Equivalent,
            ),
            // an interval that ends at 0 does not exclude it
            (
                (0.0, 0.05),
                (0.005, 0.045),
                Verdict::Inconclusive,
                Verdict::Inconclusive,
            ),
        ] {
            assert_eq!(up.decide(wide, narrow), higher);
            assert_eq!(down.decide(wide, narrow), lower);
            assert_eq!(higher.swapped(), lower);
        }
    }

    #[test]
    fn delta_is_checked() {
        for bad in [-0.01, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                Rule::new(bad, Direction::HigherIsBetter),
                Err(StatsError::BadDelta(_))
            ));
        }
        let exact = Rule::new(0.0, Direction::HigherIsBetter).expect("0 is allowed");
        assert_eq!(exact.decide((-0.1, 0.1), (0.0, 0.0)), Verdict::Inconclusive);
    }
}
