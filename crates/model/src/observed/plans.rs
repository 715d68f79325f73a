//! Plans of statements, as EXPLAIN gives them without executing anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::declared::{DeclaredFacts, ViewFacts};

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
    /// What the source of those of them in PL/pgSQL does that costs more than it looks, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loops: BTreeMap<String, LoopFacts>,
    /// Functions in FROM that say nothing of how many rows they give, each as `ALTER FUNCTION` names it: the
    /// planner takes them to give [`DEFAULT_ROWS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unsaid_rows: BTreeMap<String, String>,
    /// Functions in SQL that a SET clause keeps from being inlined.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set_clauses: BTreeMap<String, SetClause>,
    /// What the definitions of those functions say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, Definition>,
    /// Those of them that are VOLATILE, each as `ALTER FUNCTION` names it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volatile: BTreeMap<String, String>,
    /// Foreign servers that are asked for estimates at each planning (`use_remote_estimate`), where it scans foreign tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_estimates: Vec<String>,
    /// Views that the statement names, as far as something keeps the planner from looking into them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub views: BTreeMap<String, ViewFacts>,
    /// Plans that the statement would have under other settings, as far as they cost less.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
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

/// Rows of a set-returning function that says nothing of them (CREATE FUNCTION, `ROWS`).
pub const DEFAULT_ROWS: f64 = 1000.0;

/// What the source of a function in PL/pgSQL does that costs more than it looks. Nothing else of the source is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoopFacts {
    /// Whether it executes statements that it puts together (EXECUTE).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executes: bool,
    /// Materialized views that it refreshes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refreshes: Vec<String>,
    /// Tables that it locks (LOCK TABLE).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// Aggregates that it computes by a query: `sum`, `count`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<String>,
    /// Tables that it changes, and how: `update cart`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// Whether it goes through the columns of a table by the catalogue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub walks_columns: bool,
    /// Whether it tries for an advisory lock without waiting for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tries: bool,
    /// Variables that, in a loop, are put together by concatenation with themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concatenated: Vec<String>,
    /// Errors that blocks in a loop catch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caught: Vec<String>,
    /// Texts that a loop goes through by the number of a character: `substr(t, i, 1)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub characters: Vec<String>,
    /// Documents that a loop goes through by the number of an element: `doc -> i`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<String>,
    /// Errors that its blocks catch, within loops or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catches: Vec<String>,
    /// Types of those variables that are documents (`json`, `jsonb`), which are put together otherwise than text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
    /// Statements that a loop executes, each once a round, by their verb.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looped: Vec<String>,
    /// Whether it compares what it counts with zero only: `SELECT count(*) INTO n …; IF n > 0`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_for_existence: bool,
    /// Parameters that leave a condition out where they are NULL: `p IS NULL OR column = p`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<String>,
}

/// A function in SQL or PL/pgSQL, as far as its definition tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Definition {
    /// As `ALTER FUNCTION` names it.
    pub signature: String,
    /// What keeps a function in SQL from being inlined: `VOLATILE`, `STRICT`, `SECURITY DEFINER`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<String>,
    /// Whether it gives a set of rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set: bool,
    /// Its COST.
    pub cost: f64,
    /// Its parameters with their types.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

impl LoopFacts {
    /// Whether it does nothing of this.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The SET clause of a function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetClause {
    /// The function, as `ALTER FUNCTION` names it.
    pub signature: String,
    /// The settings that it sets, by name.
    pub settings: Vec<String>,
}

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

/// A node of a plan. Conditions are without literals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// `Seq Scan`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What a node that writes does: `Insert`, `Update`, `Delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// `schema.name` of what it scans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// By which name the statement knows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The index that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// `Filter`, `Index Cond`, `Join Filter` …, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
    /// What a sort sorts by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sort_key: Vec<String>,
    /// What an aggregate groups by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_key: Vec<String>,
    /// How it stands to its parent: `SubPlan`, `InitPlan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relationship: Option<String>,
    /// How expressions name a subplan: `SubPlan 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subplan: Option<String>,
    /// What a join keeps: `Inner`, `Left`, `Semi`, `Anti`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// Whether nothing of the side that an outer join may fill with NULLs is used above it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unused: bool,
    /// Subplans of an append that were not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subplans_removed: Option<f64>,
    /// The common table expression that it scans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cte: Option<String>,
    /// The common table expression that it computes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computes: Option<String>,
    /// The function whose rows it scans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What an INSERT does where the row is there: `UPDATE`, `NOTHING`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    /// Rows that the planner expects.
    pub rows: f64,
    /// Rows that came each time, where it ran and was looked at (EXPLAIN ANALYZE, `auto_explain.log_analyze`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_rows: Option<f64>,
    /// What it did in an execution that was looked at; none where it was not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Bytes of a row.
    pub width: f64,
    /// Total cost, in the planner's units.
    pub cost: f64,
    /// Its inputs and subplans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
}

/// What a node did in an execution. What its inputs did is theirs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Work {
    /// How often it was executed, workers counted apart.
    pub loops: f64,
    /// Rows that its conditions took away, each time.
    pub removed: f64,
    /// Milliseconds of all times, without its inputs'.
    pub ms: f64,
    /// Blocks that it looked up, of all times.
    pub blocks: f64,
    /// Blocks of temporary files that it wrote, of all times.
    pub temporary_blocks: f64,
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
    /// Whether it is the partition of all rows that no other one takes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default_partition: bool,
    /// Its CHECK constraints that call functions in interpreted languages, by name, with their expression without
    /// literals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, String>,
    /// Its columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Those of them that hold text: an index on one serves a comparison as `text`, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// Their types, as SQL names them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, String>,
    /// Columns with a statistics target of their own (ALTER TABLE … SET STATISTICS), with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, u32>,
    /// Its storage parameters (CREATE TABLE … WITH), by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Of a foreign table the foreign-data wrapper: `postgres_fdw`, `file_fdw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapper: Option<String>,
    /// Rules on it, by what they rewrite (`Insert`, `Update`, `Delete`), with their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, u32>,
    /// Its indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexFacts>,
    /// Its triggers that are switched on, those of constraints aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<TriggerFacts>,
    /// Foreign keys that refer to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub referenced_by: Vec<ReferenceFacts>,
    /// Its row-level security policies, by name, with their condition without literals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    /// Where it has such policies: operators on its columns in conditions of the plan that are not leakproof,
    /// so that they must not see a row before the policies do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaky: Vec<LeakyFacts>,
    /// How it is declared, where that is unusual.
    #[serde(default, skip_serializing_if = "DeclaredFacts::is_usual")]
    pub declared: DeclaredFacts,
}

/// An operator on a column that is not leakproof.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeakyFacts {
    /// The column.
    pub column: String,
    /// The operator.
    pub operator: String,
    /// The function behind it, as `ALTER FUNCTION` names it.
    pub function: String,
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
    /// Whether it is called before the row is written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before: bool,
    /// What calls it: `Insert`, `Update`, `Delete`.
    pub events: Vec<String>,
    /// What its function does that costs more than it looks, where it is in PL/pgSQL.
    #[serde(default, skip_serializing_if = "LoopFacts::is_nothing")]
    pub body: LoopFacts,
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
    /// Its expressions, without literals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expressions: Vec<String>,
    /// The operator class of its first column: `text_ops`, `jsonb_path_ops`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operator_class: String,
    /// Whether queries may use it.
    pub valid: bool,
    /// Whether it covers some rows only.
    pub partial: bool,
    /// Which rows these are, without literals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// Whether it enforces a constraint.
    #[serde(default)]
    pub constraint: bool,
    /// Whether that constraint may be checked at the end of a transaction: then it proves nothing to the planner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferrable: bool,
    /// What it is on, as CREATE INDEX has it, without literals: `USING btree (lower(mail)) WHERE …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// How often it was read since its counters began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scans: Option<f64>,
}
