//! How tables and views are declared, as far as it differs from what CREATE TABLE and CREATE VIEW make of themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a relation that a plan names is declared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeclaredFacts {
    /// Columns whose number of distinct values was fixed (ALTER TABLE … ALTER COLUMN … SET (n_distinct)), with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distinct: BTreeMap<String, f64>,
    /// Its wide columns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wide: BTreeMap<String, WideColumn>,
    /// The tablespace, where costs are set for it (ALTER TABLESPACE … SET), with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tablespace: Option<(String, BTreeMap<String, String>)>,
    /// Of a foreign table its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ForeignServer>,
    /// How far the values of the columns that its BRIN indexes begin with follow the order of its rows, -1 to 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub correlations: BTreeMap<String, f64>,
    /// Columns with a collation that is not the database's, with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collations: BTreeMap<String, String>,
    /// Columns whose default calls a function in an interpreted language, with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, String>,
    /// Generated columns that are kept (STORED), with what they are computed by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub generated: BTreeMap<String, String>,
    /// Columns of a domain whose constraints call a function in an interpreted language, with the domain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub domains: BTreeMap<String, String>,
    /// The table that it inherits from, without being a partition, and of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherits: Option<(String, u32)>,
    /// Whether it has CHECK constraints.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked: bool,
}

impl DeclaredFacts {
    /// Whether nothing of it is unusual.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// A column whose values are wide on average.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WideColumn {
    /// Bytes on average.
    pub bytes: f64,
    /// Its type, with its length: `character(400)`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How it is stored: `plain`, `main`, `external`, `extended`.
    pub storage: String,
}

/// A foreign server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForeignServer {
    /// Its name.
    pub name: String,
    /// Options of it and of the foreign table that say how it is asked: `fetch_size`, `batch_size`, `keep_connections`, `extensions`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Where it leads to, as a text that is the same for servers that lead to the same place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// What keeps the planner from looking into a view that a statement names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ViewFacts {
    /// Whether it is a security barrier.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub barrier: bool,
    /// What its query ends with: `LIMIT`, `OFFSET`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<String>,
    /// VOLATILE functions in its select list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<String>,
    /// Columns that are of another type in a table that it reads: column, its type, table, the type there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<(String, String, String, String)>,
    /// Tables that it reads, itself or by other views.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
}

impl ViewFacts {
    /// Whether something of it keeps conditions outside.
    pub fn is_fenced(&self) -> bool {
        self.barrier
            || !self.ends.is_empty()
            || !self.volatile.is_empty()
            || !self.differs.is_empty()
    }
}
