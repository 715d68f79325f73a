//! Rows that came where the planner expected others, by far; and what such an estimate rests on, since that decides
//! what mends it.

use crate::detect::common::conditions::{Compared, compared, index_named};
use crate::detect::common::counts;
use crate::detect::common::hits::{Hit, Part, joined, with_plans};
use crate::detect::{Detector, run};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, Severity, StepKind};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_model::observed::plans::{Clause, Expr, JoinType, Node, NodeType, Plan, Relationship};
use pgassay_text::quote::quote_ident;

pub const DETECTORS: &[Detector] = &[run("rows-misestimated", misestimated)];

/// So many times as many rows, or as few, are far off.
const FAR: f64 = 10.0;
/// Fewer rows than these, expected and come, are no matter.
const FEW_ROWS: f64 = 100.0;

fn is_far(expected: f64, came: f64) -> bool {
    let (less, more) = (came.min(expected).max(1.0), came.max(expected));
    more >= FEW_ROWS && more >= FAR * less
}

/// Rows that came of a node where the planner expected others, by far. One that was left before its end is judged by
/// what is left of its table: that much more could have come at most.
pub fn came(plan: &Plan, node: &Node) -> Option<f64> {
    let came = node.actual_rows?;
    let came = match came < node.rows && may_stop(&plan.root, node) {
        true => came + unread(plan, node)?,
        false => came,
    };
    is_far(node.rows, came).then_some(came)
}

/// Rows of its table that a scan of all of it had not reached when it was left.
fn unread(plan: &Plan, node: &Node) -> Option<f64> {
    let mut bounds = node.any_of(&[Clause::IndexCond, Clause::RecheckCond]);
    let (read, given) = counts::executed(node)?;
    let rows = plan.relations.get(node.relation.as_ref()?)?.rows?;
    let left = (rows - read).max(0.0);
    let is_whole = bounds.next().is_none() && node.work?.loops == 1.0;
    (is_whole && given + left < node.rows).then_some(left)
}

/// The node of a plan that ran whose rows are furthest from what was expected, of those that are not so by what lies
/// below them.
fn furthest(plan: &Plan) -> Option<(&Node, f64)> {
    let far = |node: &Node| {
        let known = !of_recursion(node) && !finds_candidates(plan, node) && !is_floor(node);
        let came = came(plan, node).filter(|_| known)?;
        let (less, more) = (came.min(node.rows).max(1.0), came.max(node.rows));
        Some((came, more / less))
    };
    let ran = plan.root.all().into_iter().filter_map(|(_, node)| {
        let (came, times) = far(node)?;
        let mut below = node.all().into_iter().skip(1);
        let begins = !below.any(|(_, node)| far(node).is_some());
        begins.then_some((node, came, times))
    });
    let furthest = ran.max_by(|a, b| a.2.total_cmp(&b.2));
    furthest.map(|(node, came, _)| (node, came))
}

/// Whether the plan would be the same with the rows that came: a scan that has no other way, below nothing that goes by their
/// number.
fn decides_nothing(plan: &Plan, node: &Node, came: f64) -> bool {
    let mut above = counts::path(&plan.root, node).unwrap_or_default();
    above.pop();
    let hands_on = |above: &Node| {
        let sums = above.sums();
        let gathers = matches!(
            above.kind,
            NodeType::Gather | NodeType::GatherMerge | NodeType::Result
        );
        let reads = above
            .relationship
            .as_ref()
            .is_none_or(|of| *of == Relationship::Outer);
        (sums || gathers || above.writes()) && reads
    };
    let reads = node
        .relationship
        .as_ref()
        .is_none_or(|of| *of == Relationship::Outer);
    if !reads || !above.into_iter().all(hands_on) {
        return false;
    }
    let Some(facts) = node.relation.as_ref().and_then(|t| plan.relations.get(t)) else {
        return false;
    };
    match node.kind {
        // Fewer rows might have gone by an index.
        NodeType::SeqScan => {
            let compared = conditions(node);
            let mut indexes = facts.indexes.iter().filter(|index| index.valid);
            let serves = |name: &String| compared.iter().any(|c| c.columns().contains(name));
            came > node.rows || !indexes.any(|i| i.first.as_ref().is_none_or(serves))
        }
        // Who goes by an index for many does so for few.
        NodeType::IndexScan | NodeType::IndexOnlyScan => came < node.rows,
        _ => false,
    }
}

/// Whether it is the one row that the planner expects of each part at least, be there none.
fn is_floor(node: &Node) -> bool {
    matches!(node.kind, NodeType::Append | NodeType::MergeAppend)
        && node.rows <= node.nodes.len() as f64
}

/// Of a round of a recursion the planner has no statistics, and expects ten times the rows of its first part.
fn of_recursion(node: &Node) -> bool {
    node.all()
        .iter()
        .any(|(_, n)| n.kind == NodeType::WorkTableScan)
}

/// Whether it is an index that finds what may match, and the table's rows are compared then: what is expected are matches.
fn finds_candidates(plan: &Plan, node: &Node) -> bool {
    let Some(name) = node
        .index
        .as_deref()
        .filter(|_| node.kind == NodeType::BitmapIndexScan)
    else {
        return false;
    };
    let relations = plan.relations.values();
    let mut indexes = relations.filter_map(|facts| index_named(facts, name));
    indexes.any(|index| !matches!(index.method.as_str(), "" | "btree" | "hash"))
}

/// Whether what is above a node may leave it before it has given all its rows.
fn may_stop(root: &Node, node: &Node) -> bool {
    let mut above = counts::path(root, node).unwrap_or_default();
    above.pop();
    above.iter().any(|above| {
        let half = matches!(above.join, Some(JoinType::Semi | JoinType::Anti));
        let sub = matches!(
            above.relationship,
            Some(Relationship::SubPlan | Relationship::InitPlan)
        );
        half || sub || matches!(above.kind, NodeType::Limit | NodeType::MergeJoin)
    })
}

/// A scan that drives a loop, which began so many scans of the other side as rows came.
fn driving<'p>(
    run: &RunEvidence,
    statement: &StatementTime,
    plan: &'p Plan,
) -> Option<(&'p Node, f64)> {
    let outer = plan.root.all().into_iter().filter_map(|(parent, node)| {
        let parent = parent.filter(|parent| parent.kind == NodeType::NestedLoop)?;
        let is_outer = parent
            .nodes
            .first()
            .is_some_and(|first| std::ptr::eq(first, node));
        let came =
            counts::kept(run, statement, plan, node).filter(|_| is_outer && !of_recursion(node))?;
        is_far(node.rows, came).then_some((node, came))
    });
    outer.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn misestimated(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let mut drives = false;
    let mut relations: Vec<String> = Vec::new();
    let hits: Vec<Hit> = with_plans(&run, |statement, plan| {
        if let Some((node, came)) = furthest(plan) {
            if decides_nothing(plan, node, came) {
                return None;
            }
            let saw = format!(
                "The planner expected {:.0} rows where {came:.0} came ({}, as it ran).",
                node.rows,
                named(node)
            );
            relations.extend(node.relation.clone());
            return Some(hit(statement, plan, node, saw));
        }
        if let Some((node, came)) = driving(&run, statement, plan) {
            drives = true;
            relations.extend(node.relation.clone());
            let saw = format!(
                "The planner expects {:.0} rows where {came:.0} come ({}), and reads the other side of a nested loop for \
                 each of them.",
                node.rows,
                named(node)
            );
            return Some(hit(statement, plan, node, saw));
        }
        let counters = statement.counters.as_ref()?;
        let rows = counters.rows?;
        let expected = plan.root.rows;
        let writes = plan.root.writes();
        // Of few calls the average is chance.
        if writes || counters.calls < 10.0 || !is_far(expected, rows) {
            return None;
        }
        let saw = format!("The planner expects {expected:.0} rows where {rows:.0} come.");
        Some(Hit {
            confidence: Confidence::Medium,
            ..hit(statement, plan, &plan.root, saw)
        })
    });
    joined(&run, hits).map(|seen| {
        seen.of_relations(relations).severity(match drives {
            true => Severity::Medium,
            false => Severity::Low,
        })
    })
}

fn named(node: &Node) -> String {
    match &node.relation {
        Some(relation) => format!("{} on {relation}", node.kind),
        None => node.kind.to_string(),
    }
}

fn hit<'s>(statement: &'s StatementTime, plan: &Plan, node: &Node, saw: String) -> Hit<'s> {
    // A bitmap's index scan does not name its table.
    let above = counts::path(&plan.root, node).unwrap_or_default();
    let heap = above.iter().find(|n| n.kind == NodeType::BitmapHeapScan);
    let of_index = heap
        .filter(|_| node.kind == NodeType::BitmapIndexScan)
        .map(|heap| Node {
            relation: heap.relation.clone(),
            alias: heap.alias.clone(),
            ..node.clone()
        });
    let node = of_index.as_ref().unwrap_or(node);
    Hit {
        statement,
        part: Part::UNKNOWN,
        left: None,
        saw,
        confidence: Confidence::High,
        evidence: Vec::new(),
        steps: remedies(plan, node),
    }
}

/// What the estimate of a node's rows rests on, that of the first below it that does not only hand on.
fn remedies(plan: &Plan, node: &Node) -> Vec<(StepKind, String)> {
    let advice = |text: &str| vec![(StepKind::Advice, text.to_owned())];
    let below = node.all().into_iter().map(|(_, node)| node);
    if let Some(function) = below.clone().find(|n| n.kind == NodeType::FunctionScan) {
        let name = function.alias.as_deref().unwrap_or("the function");
        return vec![(
            StepKind::Advice,
            format!(
                "say how many rows the function behind {name} gives: ALTER FUNCTION … ROWS n, or a support function; the \
                 planner takes {:.0}, and no statistics reach it",
                function.rows
            ),
        )];
    }
    let mut ctes = below.clone().filter(|n| n.kind == NodeType::CteScan);
    if ctes.next().is_some() {
        return advice(
            "have the condition reach the tables: WITH … AS NOT MATERIALIZED, or the condition within the CTE; nobody keeps \
             statistics of what a CTE gives, and ANALYZE and CREATE STATISTICS do not reach it",
        );
    }
    if !node.group_key.is_empty() {
        let of_columns = node
            .group_key
            .iter()
            .all(|key| matches!(key, Expr::Column(_)));
        return match (of_columns, node.group_key.len()) {
            (true, 1) => advice(
                "the number of groups goes by the number of distinct values: ANALYZE, or ALTER TABLE … ALTER COLUMN … SET \
                 (n_distinct = …) where that stays wrong; under a condition it is a guess, which no statistics mend",
            ),
            (true, _) => advice(
                "the number of groups goes by the number of distinct values together: CREATE STATISTICS … (ndistinct) ON these \
                 columns, then ANALYZE",
            ),
            (false, _) => advice(
                "the number of groups of an expression is a guess: CREATE STATISTICS … ON (the expression), from 14 on, then \
                 ANALYZE",
            ),
        };
    }
    let joins = [Clause::HashCond, Clause::MergeCond, Clause::JoinFilter];
    if let Some(condition) = node.any_of(&joins).next() {
        return vec![(
            StepKind::Advice,
            format!(
                "the rows of both sides are as expected, and not what {condition} leaves of them: ANALYZE both tables; of an \
                 expression, or of columns that depend on each other, the planner knows nothing: join by columns as they are"
            ),
        )];
    }
    let scan = below.clone().find(|n| n.relation.is_some());
    match scan {
        Some(scan) => of_scan(plan, scan),
        None => Vec::new(),
    }
}

fn of_scan(plan: &Plan, scan: &Node) -> Vec<(StepKind, String)> {
    let (Some(table), conditions) = (scan.relation.as_deref(), conditions(scan)) else {
        return Vec::new();
    };
    let facts = plan.relations.get(table);
    let columns = columns(plan, scan);
    let analyze = format!("ANALYZE {table};");
    let ranges = conditions.iter().filter(|part| {
        ["<", ">", "<=", ">="]
            .iter()
            .any(|operator| part.operands(operator).is_some())
    });
    if columns.len() > 1 {
        let name = table.rsplit('.').next().unwrap_or(table).trim_matches('"');
        let name = format!("{name}_together");
        return vec![(
            StepKind::Sql,
            format!(
                "CREATE STATISTICS {} (dependencies, mcv) ON {} FROM {table}; {analyze}   -- columns that \
                 depend on each other",
                quote_ident(&name),
                columns.join(", ")
            ),
        )];
    }
    if columns.is_empty() && ranges.count() > 1 {
        return vec![(
            StepKind::Advice,
            format!(
                "the conditions on {table} are ranges, whose parts are taken for independent: no statistics say otherwise; see \
                 whether the plan would be another with the rows that come"
            ),
        )];
    }
    if columns.is_empty() && !conditions.is_empty() && facts.is_some() {
        return vec![(
            StepKind::Advice,
            format!(
                "the condition on {table} compares no column as it is, and its estimate is a guess: compare the column itself, or \
                 CREATE STATISTICS … ON (the expression) FROM {table}, from 14 on, then ANALYZE"
            ),
        )];
    }
    vec![(
        StepKind::Sql,
        format!(
            "{analyze}   -- then, for a column whose values are skewed, a higher statistics target"
        ),
    )]
}

/// Conditions of a scan, each by itself.
fn conditions(scan: &Node) -> Vec<&Expr> {
    scan.any_of(&[Clause::IndexCond, Clause::RecheckCond, Clause::Filter])
        .flat_map(Expr::conjuncts)
        .collect()
}

/// The columns that conditions of a scan compare, each by itself.
fn columns(plan: &Plan, scan: &Node) -> Vec<String> {
    let facts = scan
        .relation
        .as_ref()
        .and_then(|table| plan.relations.get(table));
    let column = |part: &&Expr| match compared(part, facts?) {
        Some(Compared::Column(column)) if part.disjuncts().len() == 1 => Some(column),
        _ => None,
    };
    let mut columns: Vec<String> = conditions(scan).iter().filter_map(column).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pgassay_model::observed::plans::RelationFacts;

    use super::*;

    fn node(kind: &str, condition: &str, nodes: Vec<Node>) -> Node {
        let condition = condition.split_once(": ").into_iter();
        Node {
            kind: kind.into(),
            relation: kind.contains("Scan on").then(|| "public.t".to_owned()),
            conditions: condition.map(|(k, v)| (k.into(), v.into())).collect(),
            rows: 1000.0,
            nodes,
            ..Node::default()
        }
    }

    fn told(node: &Node) -> String {
        let facts = RelationFacts {
            columns: ["a", "b", "low", "high"].map(str::to_owned).to_vec(),
            ..RelationFacts::default()
        };
        let plan = Plan {
            relations: BTreeMap::from([("public.t".to_owned(), facts)]),
            ..Plan::default()
        };
        remedies(&plan, node).remove(0).1
    }

    /// ANALYZE is told where it is the columns' statistics that are wrong, and nowhere else.
    #[test]
    fn the_remedy_goes_by_what_the_estimate_rests_on() {
        let function = node("Hash Join", "", vec![node("Function Scan", "", vec![])]);
        let text = told(&function);
        assert!(
            text.contains("ROWS n") && text.contains("takes 1000"),
            "{text}"
        );
        let cte = told(&node("CTE Scan", "Filter: (v.a = $1)", vec![]));
        assert!(cte.contains("NOT MATERIALIZED"), "{cte}");
        let range = node(
            "Index Scan on",
            "Index Cond: ((t.low <= $1) AND (t.high >= $2))",
            vec![],
        );
        assert!(!told(&range).contains("ANALYZE"), "{}", told(&range));
        let both = node("Seq Scan on", "Filter: ((t.a = $1) AND (t.b = $2))", vec![]);
        let text = told(&both);
        assert!(
            text.contains("(dependencies, mcv) ON a, b FROM public.t; ANALYZE public.t;"),
            "{text}"
        );
        let one = told(&node("Seq Scan on", "Filter: (t.a = $1)", vec![]));
        assert!(one.starts_with("ANALYZE public.t;"), "{one}");
        let guess = told(&node("Seq Scan on", "Filter: ((t.a % 7) = $1)", vec![]));
        assert!(guess.contains("ON (the expression)"), "{guess}");
        let grouped = Node {
            group_key: vec!["t.a".into(), "t.b".into()],
            ..node("Aggregate", "", vec![])
        };
        assert!(told(&grouped).contains("ndistinct"));
    }

    /// Forty rows of four hundred partitions, of each of which the planner expects one.
    #[test]
    fn the_row_that_is_expected_of_each_partition_is_no_estimate() {
        let append = |parts: usize| Node {
            kind: "Append".into(),
            rows: 400.0,
            nodes: vec![Node::default(); parts],
            ..Node::default()
        };
        assert!(is_floor(&append(400)));
        assert!(!is_floor(&append(20)));
    }

    #[test]
    fn an_estimate_that_decides_nothing_is_none_of_weight() {
        let facts = |first: &str| RelationFacts {
            columns: vec!["a".into(), "b".into()],
            indexes: vec![pgassay_model::observed::plans::IndexFacts {
                name: "public.t_first".into(),
                first: Some(first.into()),
                valid: true,
                ..Default::default()
            }],
            ..RelationFacts::default()
        };
        let decides = |kind: &str, came: f64, first: &str, above: &str| {
            let scan = Node {
                kind: kind.into(),
                relation: Some("public.t".into()),
                ..node("", "Filter: (t.a > $1)", vec![])
            };
            let plan = Plan {
                root: node(above, "", vec![scan]),
                relations: BTreeMap::from([("public.t".to_owned(), facts(first))]),
                ..Plan::default()
            };
            !decides_nothing(&plan, &plan.root.nodes[0], came)
        };
        // Nothing else could have read it, whatever comes.
        assert!(!decides("Seq Scan", 10.0, "b", "Aggregate"));
        assert!(!decides("Seq Scan", 90_000.0, "a", "Gather"));
        assert!(!decides("Index Scan", 10.0, "a", "ModifyTable"));
        // An index might have, or a scan of the whole.
        assert!(decides("Seq Scan", 10.0, "a", "Aggregate"));
        assert!(decides("Index Scan", 90_000.0, "a", "Aggregate"));
        // A join, a sort or a hash goes by the number.
        assert!(decides("Seq Scan", 10.0, "b", "Hash Join"));
        assert!(decides("Seq Scan", 10.0, "b", "Sort"));
    }
}
