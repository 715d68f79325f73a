//! Plans of statements, as EXPLAIN gives them without executing anything.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of asking for a statement's plan.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The statement, by its `id`.
    pub statement: String,
    /// The plan, or why there is none.
    pub plan: Result<Plan, String>,
}

/// A plan, and what the catalogues say of what it names.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Plan {
    /// The topmost node.
    pub root: Node,
    /// Milliseconds that planning took this once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_ms: Option<f64>,
    /// `work_mem` in bytes where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_mem_bytes: Option<f64>,
    /// Of the relations that it reads, by `schema.name` as SQL quotes it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub relations: BTreeMap<String, RelationFacts>,
    /// Functions in its conditions that are written in a procedural language, with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, String>,
}

/// A node of a plan. Conditions are without literals.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Node {
    /// `Seq Scan`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `schema.name` of what it scans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// The index that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// `Filter`, `Index Cond`, `Join Filter` …, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
    /// What a sort sorts by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sort_key: Vec<String>,
    /// How it stands to its parent: `SubPlan`, `InitPlan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relationship: Option<String>,
    /// Subplans of an append that were not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subplans_removed: Option<f64>,
    /// Rows that the planner expects.
    pub rows: f64,
    /// Bytes of a row.
    pub width: f64,
    /// Total cost, in the planner's units.
    pub cost: f64,
    /// Its inputs and subplans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
}

/// What the catalogues say of a relation.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RelationFacts {
    /// Rows, as the planner takes them; none where it was never analysed.
    pub rows: Option<f64>,
    /// Pages.
    pub pages: Option<f64>,
    /// The partitioned table that it is a part of, and of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_of: Option<(String, u32)>,
    /// The columns by which that table is partitioned, where they are columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_key: Vec<String>,
    /// Its columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Its indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexFacts>,
}

/// What the catalogues say of an index.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct IndexFacts {
    /// Its name.
    pub name: String,
    /// Its first column; none where that is an expression.
    pub first: Option<String>,
    /// Whether queries may use it.
    pub valid: bool,
    /// Whether it covers some rows only.
    pub partial: bool,
}

impl Node {
    /// It and all below it, with its parent, from the top.
    pub fn all(&self) -> Vec<(Option<&Node>, &Node)> {
        let mut found = Vec::new();
        let mut left = vec![(None, self)];
        while let Some((parent, node)) = left.pop() {
            found.push((parent, node));
            left.extend(node.nodes.iter().rev().map(|child| (Some(node), child)));
        }
        found
    }
}
