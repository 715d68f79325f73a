//! What is recorded of one statement in several ways.

use serde::{Deserialize, Serialize};

use crate::observed::stacks::SymbolTable;
use crate::plan::{DriverConfig, Plan, Stage};
use crate::point::Point;
use crate::stage::StageId;

/// One way of having a statement executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// select-only in the simple protocol.
    Simple,
    /// select-only, prepared.
    Prepared,
    /// select-only, prepared, with 50 queries in flight.
    Pipelined,
    /// query-loop.
    QueryLoop,
    /// plpgsql-loop.
    PlpgsqlLoop,
}

/// All ways in the order of reports.
pub const WAYS: &[Way] = &[
    Way::Simple,
    Way::Prepared,
    Way::Pipelined,
    Way::QueryLoop,
    Way::PlpgsqlLoop,
];

/// Queries in flight in [`Way::Pipelined`]: the server finds the next one waiting.
pub const IN_FLIGHT: u64 = 50;

impl Way {
    /// Its name in reports.
    pub fn title(self) -> &'static str {
        match self {
            Self::Simple => "select-only, simple",
            Self::Prepared => "select-only, prepared",
            Self::Pipelined => "select-only, 50 in flight",
            Self::QueryLoop => "query-loop",
            Self::PlpgsqlLoop => "plpgsql-loop",
        }
    }
}

/// So many rounds, each with every one of [`WAYS`] once.
pub fn stage(seed: u64, rounds: u32, window_ms: u64, instructions: bool) -> Stage {
    let points = (0..WAYS.len() as u32).map(|variant| Point {
        clients: 1,
        threads: 1,
        variant,
    });
    Stage {
        id: StageId::QueryCost,
        driver: DriverConfig::QueryWays { instructions },
        plan: Plan {
            points: points.collect(),
            trials: rounds,
            window_ms,
            seed,
            ..Plan::default()
        },
    }
}

/// `facts/query-cost.json`: what is known of the ways beside their trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QueryCostRecord {
    /// Names of the functions that were hit.
    pub symbols: SymbolTable,
    /// What callgrind counted, where it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountedWay>,
    /// Why nothing was counted, where it was to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
    /// Why there are no samples, where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// Instructions of one way in user mode, a longer session less a shorter one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CountedWay {
    /// Which way.
    pub way: Way,
    /// Queries that the counts are of.
    pub queries: u64,
    /// Instructions of the session's process.
    pub instructions: u64,
    /// Of these, in the executor and what it called, sending or keeping of rows left out.
    pub executor: u64,
}
