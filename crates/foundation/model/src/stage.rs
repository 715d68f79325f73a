//! The stages that runs have, and how their work is spoken of.

use serde::{Deserialize, Serialize};

/// The stages that runs have.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StageId {
    /// What clients do over the wire.
    #[default]
    Load,
    /// The transactions that write, after an assay's first load.
    WriteLoad,
    /// The client alone, against a peer that answers at once.
    Ceiling,
    /// Primitives inside the server.
    Primitives,
    /// Threads on kernels, without a server.
    Kernels,
    /// One statement in several ways.
    QueryCost,
    /// PGIO's workload.
    Pgio,
    /// Reads of scattered blocks.
    ScatteredRead,
}

impl StageId {
    /// How its work is spoken of.
    pub fn work(self) -> Work {
        let (units, unit, rate, who) = match self {
            Self::Load | Self::WriteLoad | Self::Ceiling => {
                ("transactions", "transaction", "tps", "client")
            }
            Self::Primitives | Self::Pgio => ("operations", "operation", "operations/s", "session"),
            Self::Kernels => ("operations", "operation", "operations/s", "thread"),
            Self::QueryCost | Self::ScatteredRead => ("queries", "query", "queries/s", "session"),
        };
        Work {
            units,
            unit,
            rate,
            who,
        }
    }

    /// Whether its trials count among those that a run promises: the others are beside its load, and
    /// not sure to be had.
    pub fn is_promised(self) -> bool {
        !matches!(self, Self::Ceiling | Self::QueryCost)
    }
}

/// How the work of a stage is spoken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// What is counted: `transactions`.
    pub units: &'static str,
    /// One of them: `transaction`.
    pub unit: &'static str,
    /// The same by the second: `tps`.
    pub rate: &'static str,
    /// Who does it: `client`.
    pub who: &'static str,
}
