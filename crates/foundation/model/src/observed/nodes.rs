//! What the nodes of a plan do for one another.

use super::plans::{Node, Plan};

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

impl Node {
    /// Milliseconds of an execution that it and its inputs took.
    fn own_ms(&self) -> f64 {
        let all = self.all().into_iter();
        all.filter_map(|(_, node)| Some(node.work?.ms)).sum()
    }

    /// Whether it takes rows from parallel workers.
    pub fn gathers(&self) -> bool {
        matches!(self.kind.as_str(), "Gather" | "Gather Merge")
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
                let gathered = match node.kind.as_str() {
                    _ if node.gathers() => true,
                    "Nested Loop" if at > 0 => false,
                    _ => gathered && child.relationship.as_deref() != Some("SubPlan"),
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
            let each = match (self.kind.as_str(), child.relationship.as_deref()) {
                (_, Some("SubPlan")) if self.hashes(child) => 1.0,
                (_, Some("SubPlan")) => {
                    self.rows
                        .max(1.0)
                        .max(match self.nodes[0].relationship.as_deref() {
                            Some("Outer") => outer,
                            _ => 1.0,
                        })
                }
                ("Nested Loop", _) if at == 1 => outer,
                _ => 1.0,
            };
            Some(each * child.times(wanted)?)
        })
    }

    /// Whether it puts the rows of a subplan into a hash table once.
    pub fn hashes(&self, child: &Node) -> bool {
        let mut conditions = self.conditions.values();
        conditions.any(|text| self.calls(text, child, "hashed "))
    }

    /// Whether a condition of its own names a subplan of its own, by a name with this before it. Where literals were taken
    /// away the number is gone with them, and only a single subplan is sure to be meant.
    pub fn calls(&self, condition: &str, child: &Node, before: &str) -> bool {
        let Some(name) = &child.subplan else {
            return false;
        };
        let called = format!("{before}{name}");
        let by_number = condition.match_indices(&called).any(|(at, _)| {
            let behind = condition[at + called.len()..].chars().next();
            !behind.is_some_and(|c| c.is_ascii_digit())
        });
        let mut others = self.nodes.iter().filter(|n| n.subplan.is_some());
        let only = others.next().is_some() && others.next().is_none();
        by_number || only && condition.contains(&format!("{before}SubPlan $"))
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
            conditions: [("Filter".to_owned(), condition.to_owned())].into(),
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
