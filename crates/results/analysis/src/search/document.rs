//! What a search writes down and prints: the question, what was measured, what follows.

use pgassay_model::confinement::ConfinementPlan;
use serde::{Deserialize, Serialize};

use super::conclusion::{Conclusion, Forecast, Interval, Outcome};
use super::differences::{Set, SetBlock, SetCause, look_at_sets};
use super::range::Rules;
use crate::metrics::MetricId;
use crate::stats::Direction;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/bisect/1";

/// What kind of thing differs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// A setting of the server.
    #[default]
    Setting,
    /// The server that is launched: a version, a build, an installation.
    Server,
    /// A variable of its environment.
    Environment,
    /// The CPUs that it is kept on.
    Cpus,
    /// The command that it is started through.
    Wrap,
}

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// What kind of thing.
    #[serde(default)]
    pub kind: DifferenceKind,
    /// Its name.
    pub name: String,
    /// A's value; `null` for a setting's default, and where A has none of it.
    pub a: Option<String>,
    /// B's.
    pub b: Option<String>,
}

/// A set of differences with which the server did not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// Those that had B's value, by their place in `differences`.
    pub set: Set,
    /// What the server said.
    pub why: String,
}

/// A search for what makes the difference between two servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bisected {
    /// [`SCHEMA`].
    pub schema: String,
    /// The server's target, as typed; A's, where they differ in it.
    pub target: String,
    /// Settings that both had, `name=value`.
    pub common: Vec<String>,
    /// What both were given of the machine.
    #[serde(flatten)]
    pub confinement: ConfinementPlan,
    /// The database of which the servers held a copy, without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// What differs, in the order of the search. Positions count them from 1, sets from 0.
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

    /// What differs, in one word: `setting` where nothing else does.
    pub fn noun(&self) -> &'static str {
        let settings = |d: &Difference| d.kind == DifferenceKind::Setting;
        match self.differences.iter().all(settings) {
            true => "setting",
            false => "attribute",
        }
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
