//! What is recorded of scattered reads.

use serde::{Deserialize, Serialize};

use crate::explain::Explained;
use crate::point::Point;
use crate::reading::Reading;

/// What is read, and in which ways, which the points number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScatteredPlan {
    /// Rows of the table, one a block.
    pub rows: u64,
    /// Blocks of the table.
    pub blocks: u64,
    /// The server's block size, in bytes.
    pub block_size_bytes: u64,
    /// The kernel's page size, in bytes.
    pub page_size_bytes: u64,
    /// The ways of reading.
    pub variants: Vec<ScatteredVariant>,
    /// How the table was taken out of the page cache before a cold execution.
    pub eviction: String,
    /// All of the page cache is dropped, not the table's part alone.
    #[serde(default)]
    pub drop_caches: bool,
    /// It goes on until the device's rate stands still.
    #[serde(default)]
    pub until_stable: bool,
    /// What of somebody's own database is read, in place of a table that pgassay makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnReads>,
}

/// A relation or a query of somebody's own database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnReads {
    /// The relation as typed; none where a query is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// The query as typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The relations that are read, with their schemas.
    pub relations: Vec<String>,
    /// Their files are taken out of the page cache before each execution, and the server's shared
    /// buffers are empty where it is one that pgassay launched. Else they are read as they are found.
    pub evicted: bool,
    /// The part of the relation that is read, where it is too large to be read in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
}

/// A part of a relation: stretches of equal length, evenly spread over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// How many.
    pub stretches: u64,
    /// Blocks from the beginning of one to that of the next.
    pub apart: u64,
    /// Blocks of each.
    pub length: u64,
}

/// One way of reading the table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScatteredVariant {
    /// Stable name: `bitmap`.
    pub id: String,
    /// What is special about it, in few words.
    pub title: String,
    /// The query; `$v` stands for the value, 0 to 9, whose rows are read, and `$relation` for the name of
    /// the relation of somebody's own. A query of somebody's own stands here as it was typed.
    pub sql: String,
    /// Settings of the session.
    pub settings: Vec<(String, String)>,
    /// Settings for which the server is started again.
    pub server_settings: Vec<(String, String)>,
    /// Read-ahead of the device in KiB, where it is set for this variant.
    pub read_ahead_kb: Option<u64>,
    /// The node that must be in the plan; none leaves the choice to the planner.
    pub expected_node: Option<String>,
    /// Which of the table's blocks it reads.
    pub pattern: Pattern,
}

/// Which blocks a variant reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Every tenth.
    #[default]
    EveryTenth,
    /// A random tenth.
    RandomTenth,
    /// All.
    All,
    /// Those that a query needs, which nobody knows beforehand.
    Unknown,
}

/// What only an execution of a scattered read tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionRecord {
    /// The value whose rows were read.
    pub value: u32,
    /// The table was taken out of the page cache before.
    pub cold: bool,
    /// What EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) said.
    pub explain: Reading,
    /// Blocks that hold the rows.
    pub wanted_blocks: u64,
    /// The kernel's pages that hold these blocks.
    pub wanted_pages: u64,
    /// Pages of the table in the page cache before.
    pub cached_before: Residency,
    /// The same afterwards.
    pub cached_after: Residency,
    /// Bytes that devices read for the server's processes, followed while it
    /// ran: parallel workers end with the statement.
    pub processes_bytes: Reading,
}

impl Sample {
    /// What is read, in words.
    pub fn words(&self) -> String {
        format!(
            "of which a sample is read: {} stretches of {} blocks, spread over all of it",
            self.stretches, self.length
        )
    }
}

impl ExecutionRecord {
    /// What EXPLAIN said, read.
    pub fn explained(&self) -> Option<Explained> {
        Explained::parse(self.explain.text()?)
    }
}

impl ScatteredPlan {
    /// One point a way of reading.
    pub fn points(&self) -> Vec<Point> {
        let points = (0..self.variants.len() as u32).map(|variant| Point {
            clients: 1,
            threads: 1,
            variant,
        });
        points.collect()
    }

    /// Variants that need the same server and device have the same number.
    pub(crate) fn groups(&self) -> Vec<u32> {
        let mut known = Vec::new();
        let group = |variant: &ScatteredVariant| {
            let needs = (variant.server_settings.clone(), variant.read_ahead_kb);
            let place = known.iter().position(|known| *known == needs);
            place.unwrap_or_else(|| {
                known.push(needs);
                known.len() - 1
            }) as u32
        };
        self.variants.iter().map(group).collect()
    }
}

/// How much of the table is in the page cache, in pages of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// It could be seen.
    Pages {
        /// All pages of the table's main fork that are there.
        all: u64,
        /// Those among them that hold a wanted block.
        wanted: u64,
    },
    /// It could not.
    Unavailable(String),
}

impl Residency {
    /// All pages and the wanted ones among them.
    pub fn pages(&self) -> Option<(u64, u64)> {
        match self {
            Self::Pages { all, wanted } => Some((*all, *wanted)),
            Self::Unavailable(_) => None,
        }
    }
}
