//! Nodes of plans, and what they do for one another.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Clause, Expr, JoinType, NodeType, Operation, Relationship};

/// A node of a plan. Conditions are without literals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("$comment" = "open: any property of EXPLAIN")))]
pub struct Node {
    /// What the executor runs.
    #[serde(rename = "type")]
    pub kind: NodeType,
    /// What a node that writes does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// `schema.name` of what it scans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// By which name the statement knows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The index that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Its expressions, by the property that holds each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<Clause, Expr>,
    /// What a sort sorts by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sort_key: Vec<Expr>,
    /// What an aggregate groups by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_key: Vec<Expr>,
    /// What it is to the node above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relationship: Option<Relationship>,
    /// How expressions name a subplan: `SubPlan 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subplan: Option<String>,
    /// Which rows a join keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinType>,
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
    /// Properties that no field above names, as EXPLAIN prints them and without literals.
    #[serde(flatten)]
    pub other: Map<String, Value>,
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

impl Node {
    /// Milliseconds of an execution that it and its inputs took.
    pub fn own_ms(&self) -> f64 {
        let all = self.all().into_iter();
        all.filter_map(|(_, node)| Some(node.work?.ms)).sum()
    }

    /// Whether it takes rows from parallel workers.
    pub fn gathers(&self) -> bool {
        matches!(self.kind, NodeType::Gather | NodeType::GatherMerge)
    }

    /// Whether a node below gives each parallel worker a part of its rows (a partial plan): it stands below a Gather, and is
    /// no inner side that each of them executes for its own rows.
    pub fn is_partial(&self, wanted: &Node) -> bool {
        fn below(node: &Node, wanted: &Node, gathered: bool) -> Option<bool> {
            if std::ptr::eq(node, wanted) {
                return Some(gathered);
            }
            let mut nodes = node.nodes.iter().enumerate();
            nodes.find_map(|(at, child)| {
                let gathered = match node.kind {
                    _ if node.gathers() => true,
                    NodeType::NestedLoop if at > 0 => false,
                    _ => gathered && !child.is_subplan(),
                };
                below(child, wanted, gathered)
            })
        }
        below(self, wanted, false).unwrap_or(false)
    }

    /// How often a node below this one is executed, as the planner expects: once for each row of what
    /// drives it, in the inner side of a nested loop and in a subplan. None where it is not below.
    pub fn times(&self, wanted: &Node) -> Option<f64> {
        if std::ptr::eq(self, wanted) {
            return Some(1.0);
        }
        let outer = self.nodes.first().map_or(1.0, |outer| outer.rows.max(1.0));
        self.nodes.iter().enumerate().find_map(|(at, child)| {
            let driven = self.nodes[0].relationship == Some(Relationship::Outer);
            let each = match self.kind {
                _ if child.is_subplan() && self.hashes(child) => 1.0,
                _ if child.is_subplan() => self.rows.max(1.0).max(if driven { outer } else { 1.0 }),
                NodeType::NestedLoop if at == 1 => outer,
                _ => 1.0,
            };
            Some(each * child.times(wanted)?)
        })
    }

    /// The condition by which it skips rows.
    pub fn filter(&self) -> Option<&Expr> {
        self.conditions.get(&Clause::Filter)
    }

    /// Its conditions of these kinds, in this order.
    pub fn any_of(&self, clauses: &[Clause]) -> impl Iterator<Item = &Expr> {
        clauses
            .iter()
            .filter_map(|clause| self.conditions.get(clause))
    }

    /// Its expressions without the select list.
    pub fn tests(&self) -> impl Iterator<Item = &Expr> {
        let all = self.conditions.iter();
        all.filter_map(|(clause, expr)| (*clause != Clause::Output).then_some(expr))
    }

    /// Whether it aggregates all rows to one.
    pub fn sums(&self) -> bool {
        self.kind == NodeType::Aggregate && self.group_key.is_empty()
    }

    /// Whether it inserts, updates or deletes.
    pub fn writes(&self) -> bool {
        self.kind == NodeType::ModifyTable
    }

    /// Whether expressions of the node above call it for each row.
    pub fn is_subplan(&self) -> bool {
        self.relationship == Some(Relationship::SubPlan)
    }

    /// Whether it puts the rows of a subplan into a hash table once.
    pub fn hashes(&self, child: &Node) -> bool {
        let mut conditions = self.conditions.values();
        conditions.any(|of| self.asks(of, child) == Some(true))
    }

    /// Whether an expression of its own asks a subplan of its own, and if so whether that is hashed. Records of old have
    /// `SubPlan $1`, of which only a single subplan is sure to be meant.
    pub fn asks(&self, expr: &Expr, child: &Node) -> Option<bool> {
        let name = child.subplan.as_deref()?;
        let only = || self.nodes.iter().filter(|n| n.subplan.is_some()).count() == 1;
        let is = |asked: &str| asked == name || asked.starts_with("SubPlan $") && only();
        let asked = expr.subplans().into_iter().filter(|(_, asked)| is(asked));
        asked.map(|(hashed, _)| hashed).max()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_loop_drives_is_executed_for_each_of_its_rows() {
        let node = |kind: &str, rows: f64, nodes: Vec<Node>| Node {
            kind: kind.into(),
            rows,
            nodes,
            ..Node::default()
        };
        let mut sub = node("Aggregate", 1.0, vec![node("Seq Scan", 2.0, vec![])]);
        sub.relationship = Some("SubPlan".into());
        let root = node(
            "Nested Loop",
            60.0,
            vec![
                node("Index Scan", 20.0, vec![sub]),
                node("Materialize", 3.0, vec![node("Seq Scan", 3.0, vec![])]),
            ],
        );
        let (driving, inner) = (&root.nodes[0], &root.nodes[1].nodes[0]);
        assert_eq!(root.times(driving), Some(1.0));
        assert_eq!(root.times(inner), Some(20.0));
        assert_eq!(root.times(&driving.nodes[0].nodes[0]), Some(20.0));
        assert_eq!(root.times(&Node::default()), None);
    }

    #[test]
    fn a_hashed_subplan_is_executed_once() {
        let hashing = |condition: &str| Node {
            kind: "Seq Scan".into(),
            rows: 500.0,
            conditions: [(Clause::Filter, condition.into())].into(),
            nodes: vec![Node {
                relationship: Some("SubPlan".into()),
                subplan: Some("SubPlan 1".into()),
                ..Node::default()
            }],
            ..Node::default()
        };
        let times = |condition| {
            let node = hashing(condition);
            node.times(&node.nodes[0])
        };
        assert_eq!(times("(NOT (hashed SubPlan 1))"), Some(1.0));
        assert_eq!(times("(NOT (hashed SubPlan 12))"), Some(500.0));
        assert_eq!(times("(NOT (SubPlan 1))"), Some(500.0));
        // Its number was taken for a literal.
        assert_eq!(times("(NOT (hashed SubPlan $1))"), Some(1.0));
        assert_eq!(times("(NOT (SubPlan $2))"), Some(500.0));
        let mut two = hashing("((hashed SubPlan $1) OR (SubPlan $2))");
        two.nodes.push(two.nodes[0].clone());
        assert!(!two.hashes(&two.nodes[0]));
    }

    #[test]
    fn workers_share_out_what_stands_below_a_gather() {
        let node = |kind: &str, nodes: Vec<Node>| Node {
            kind: kind.into(),
            nodes,
            ..Node::default()
        };
        let hash = node("Hash", vec![node("Seq Scan", vec![])]);
        let join = node("Hash Join", vec![node("Seq Scan", vec![]), hash]);
        let looped = node("Nested Loop", vec![join, node("Index Scan", vec![])]);
        let root = node("Sort", vec![node("Gather", vec![looped])]);
        let looped = &root.nodes[0].nodes[0];
        let join = &looped.nodes[0];
        assert!(root.is_partial(&join.nodes[0]) && root.is_partial(&join.nodes[1].nodes[0]));
        // Each of them looks for its own rows.
        assert!(!root.is_partial(&looped.nodes[1]));
        assert!(!root.is_partial(&root.nodes[0]));
    }
}
