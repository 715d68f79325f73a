//! Plans of statements, as EXPLAIN gives them without executing anything.

use std::collections::BTreeMap;

pub use pgassay_plan::{Clause, Expr, JoinType, Node, NodeType, Operation, Relationship, Work};
use serde::{Deserialize, Serialize};

/// What came of asking for a statement's plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanRecord {
    /// The statement, by its `id`.
    pub statement: String,
    /// The plan, or why there is none.
    pub plan: Result<Plan, String>,
}

/// A plan, and what the catalogues say of what it names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The topmost node.
    pub root: Node,
    /// Whether the server logged it when the statement ran (auto_explain); else it was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logged: bool,
    /// What came of executing it once with values that the load sends; the nodes have what each of them did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<Execution>,
    /// Why it was not executed, where values were known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_executed: Option<String>,
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
    /// Those of them that are VOLATILE, each as `ALTER FUNCTION` names it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volatile: BTreeMap<String, String>,
    /// Plans that the statement would have under other settings, as far as they cost less.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
}

impl Plan {
    /// The part of all that the plan does that a node and its inputs account for, 0 to 1: of the time, where it was
    /// executed, else of the cost.
    pub fn part(&self, node: &Node) -> f64 {
        if self.executed.is_some() {
            let total = self.root.own_ms().max(f64::MIN_POSITIVE);
            return (node.own_ms() / total).min(1.0);
        }
        let cost = self.root.times(node).unwrap_or(1.0) * node.cost;
        (cost / self.root.cost.max(cost).max(f64::MIN_POSITIVE)).min(1.0)
    }
}

/// An execution under EXPLAIN ANALYZE.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Execution {
    /// Milliseconds.
    pub ms: f64,
    /// What its triggers took, those of constraints among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<TriggerRun>,
    /// The statements within its functions and triggers that took most of the time, where the server told of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<InnerStatement>,
}

/// A statement that ran within functions of another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InnerStatement {
    /// Its text without literals.
    pub text: String,
    /// How often it ran.
    pub calls: u32,
    /// Milliseconds of all times; what runs within it is among them.
    pub ms: f64,
    /// The topmost node of its plan as it ran once; of the one that took most of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Node>,
}

/// What a trigger took in an execution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriggerRun {
    /// Its name; none for one of a constraint that only that names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The constraint that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// The table on which it is, without its schema.
    pub relation: String,
    /// Milliseconds, of all calls.
    pub ms: f64,
    /// Calls.
    pub calls: f64,
}

/// What is added to the cost of a node that a setting forbids, up to 17 (costsize.c, `disable_cost`).
pub const DISABLE_COST: f64 = 1e10;

/// A plan that a statement would have under another setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alternative {
    /// The setting.
    pub setting: String,
    /// Its value when the statement's own plan was made, as `SHOW` has it.
    pub value: String,
    /// The value that was tried.
    pub tried: String,
    /// Whether that is the one that the server comes with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// The topmost node of the plan under it.
    pub root: Node,
    /// Milliseconds of an execution of the statement's own plan and of this one, where both were executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_ms: Option<(f64, f64)>,
}

/// What the catalogues say of a relation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Those of them that hold text: an index on one serves a comparison as `text`, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// Their types, as SQL names them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, String>,
    /// Its storage parameters (CREATE TABLE … WITH), by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Its wide columns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wide: BTreeMap<String, WideColumn>,
    /// Its indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexFacts>,
    /// Its triggers that are switched on, those of constraints aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<TriggerFacts>,
    /// Foreign keys that refer to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub referenced_by: Vec<ReferenceFacts>,
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

/// What the catalogues say of a trigger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriggerFacts {
    /// Its name.
    pub name: String,
    /// The function that it calls.
    pub function: String,
    /// What that is written in.
    pub language: String,
    /// Whether it is called for each row, and not once a statement.
    pub for_each_row: bool,
    /// What calls it.
    pub events: Vec<Operation>,
}

/// What the catalogues say of a foreign key, seen from the table that it refers to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReferenceFacts {
    /// The table that refers.
    pub table: String,
    /// Its columns that do, as SQL lists them.
    pub columns: String,
    /// Whether a valid index of all rows begins with them.
    pub indexed: bool,
    /// Rows of that table, as the planner takes them; none where it was never analysed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<f64>,
}

/// What the catalogues say of an index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IndexFacts {
    /// Its name.
    pub name: String,
    /// Its access method: `btree`, `gist`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// Its first column; none where that is an expression.
    pub first: Option<String>,
    /// Its columns in order, those of expressions left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Whether queries may use it.
    pub valid: bool,
    /// Whether it covers some rows only.
    pub partial: bool,
    /// Whether it enforces a constraint.
    #[serde(default)]
    pub constraint: bool,
    /// How often it was read since its counters began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scans: Option<f64>,
}
