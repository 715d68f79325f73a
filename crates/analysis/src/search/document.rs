//! What a search writes down and prints: the question, what was measured, what follows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::differences::{Set, SetBlock, SetCause, look_at_sets};
use super::range::{Conclusion, Forecast, Interval, Outcome, Rules};
use crate::metrics::MetricId;
use crate::stats::Direction;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/bisect/1";

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Difference {
    /// Its name.
    pub name: String,
    /// A's value; `null` for the server's default.
    pub a: Option<String>,
    /// B's.
    pub b: Option<String>,
}

/// A set of differences with which the server did not start.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Refused {
    /// Those that had B's value, by their place in `differences`.
    pub set: Set,
    /// What the server said.
    pub why: String,
}

/// A search for the settings that make a difference.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Bisected {
    /// [`SCHEMA`].
    pub schema: String,
    /// The server's target, as typed.
    pub target: String,
    /// Settings that both had, `name=value`.
    pub common: Vec<String>,
    /// The settings that differ, in the order of the search. Positions count them from 1, sets from 0.
    pub differences: Vec<Difference>,
    /// The workload.
    pub workload: String,
    /// Clients.
    pub clients: u32,
    /// What was compared.
    pub metric: MetricId,
    /// The least difference that matters, as a share.
    pub delta: f64,
    /// Pairs of a block.
    pub pairs: u32,
    /// What was measured.
    pub blocks: Vec<SetBlock>,
    /// Sets that did not start.
    pub refused: Vec<Refused>,
    /// What was expected once the ends were known to differ.
    pub forecast: Option<Forecast>,
    /// What follows.
    pub conclusion: Conclusion,
    /// The causes.
    pub causes: Vec<SetCause>,
    /// Whether the search went to its end.
    pub complete: bool,
    /// Seconds that measuring took.
    pub seconds: f64,
}

impl Bisected {
    /// The rules of this search.
    pub fn rules(&self) -> Rules {
        Rules {
            // One program, so no luck of builds; nor anything to build.
            luck: 0.0,
            build_cost: 0.0,
            matter: self.delta,
            most: 300,
            ..Rules::default()
        }
    }

    /// Concludes anew from what was measured; the sets to be compared next.
    pub fn look(&mut self) -> Option<(Set, Set)> {
        let refused: Vec<Set> = self.refused.iter().map(|r| r.set.clone()).collect();
        let now = look_at_sets(
            self.differences.len(),
            &refused,
            &self.blocks,
            &self.rules(),
        );
        self.conclusion = now.conclusion;
        self.causes = now.causes;
        self.complete = now.next.is_none();
        now.next
    }

    /// Whether B is worse, where that is known.
    pub fn is_worse(&self) -> Option<bool> {
        let Interval { low, high, .. } = self.conclusion.total;
        let lower = high < 0.0;
        let shown = lower || low > 0.0;
        (shown && self.conclusion.outcome != Outcome::NoDifference)
            .then_some(lower == (self.metric.better == Direction::HigherIsBetter))
    }
}
