//! Plans that do more than the result is worth: where each is looked for, and what is written instead.

use crate::detect::common::hits::{Hit, Left, Part, joined, with_plans};
use crate::detect::common::scans::MINOR;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_model::observed::plans::{Node, NodeType, Plan, RelationFacts};

/// Nodes that hand on the rows of their input.
const PASSING: &[NodeType] = &[
    NodeType::Gather,
    NodeType::GatherMerge,
    NodeType::Hash,
    NodeType::IncrementalSort,
    NodeType::Materialize,
    NodeType::Memoize,
    NodeType::Sort,
    NodeType::SubqueryScan,
];

/// The node whose rows one hands on.
pub fn source(node: &Node) -> &Node {
    let filtered = node.filter().is_some();
    match node.nodes.first() {
        Some(input) if PASSING.contains(&node.kind) && !filtered => source(input),
        _ => node,
    }
}

/// A node of a statement's plan, with what is around it.
pub struct At<'a> {
    pub run: &'a RunEvidence<'a>,
    pub statement: &'a StatementTime,
    pub plan: &'a Plan,
    pub parent: Option<&'a Node>,
    pub node: &'a Node,
}

/// What a shape means here.
pub struct Shown {
    /// What it costs, in the planner's units, over the whole plan.
    pub cost: f64,
    /// What the remedy leaves of that; none where only the bound is known.
    pub left: Option<Left>,
    pub saw: String,
    pub steps: Vec<(StepKind, String)>,
    pub seen: Vec<String>,
    pub confidence: Confidence,
}

/// What statements show a shape. The function says what a node means that is topmost of it.
pub fn shape(evidence: &Evidence, look: fn(&At) -> Option<Shown>) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let all = plan.root.all().into_iter();
        let hits = all.filter_map(|(parent, node)| {
            let at = At {
                run: &run,
                statement,
                plan,
                parent,
                node,
            };
            hit(evidence, statement, plan, look(&at)?)
        });
        hits.max_by(|a, b| a.part.time.total_cmp(&b.part.time))
    });
    joined(&run, hits)
}

fn hit<'s>(
    evidence: &Evidence,
    statement: &'s StatementTime,
    plan: &Plan,
    shown: Shown,
) -> Option<Hit<'s>> {
    let part = (shown.cost / plan.root.cost.max(shown.cost).max(f64::MIN_POSITIVE)).min(1.0);
    (part >= MINOR).then(|| Hit {
        statement,
        part: Part::of_work(evidence, statement, part),
        left: shown.left,
        saw: shown.saw,
        confidence: shown.confidence,
        evidence: shown.seen,
        steps: shown.steps,
    })
}

impl At<'_> {
    /// What a node costs over the whole plan.
    pub fn cost(&self, node: &Node) -> f64 {
        self.plan.root.times(node).unwrap_or(1.0) * node.cost
    }

    pub fn facts(&self, node: &Node) -> Option<&RelationFacts> {
        self.plan.relations.get(node.relation.as_ref()?)
    }
}

pub fn advice(text: impl Into<String>) -> (StepKind, String) {
    (StepKind::Advice, text.into())
}

/// Whether a valid index of all rows begins with these columns.
pub fn is_served(facts: &RelationFacts, columns: &[&str]) -> bool {
    let mut whole = facts.indexes.iter().filter(|i| i.valid && !i.partial);
    whole.any(|index| {
        let own = index.columns.iter().map(String::as_str);
        index.columns.len() >= columns.len() && own.zip(columns).all(|(own, name)| own == *name)
    })
}
