//! Rows of a plan's nodes as the server's counters tell them, or an execution that was looked at: what scans read, and
//! what their filters leave. What the planner expects is no count.

use crate::detect::common::hits::weighty;
use crate::evidence::RunEvidence;
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::{Node, NodeType, Operation, Plan};

/// Fewer scans or calls are chance.
const FEW: f64 = 10.0;
/// Nodes that hand on the rows of their input.
const PASSING: &[NodeType] = &[
    NodeType::Gather,
    NodeType::GatherMerge,
    NodeType::IncrementalSort,
    NodeType::Limit,
    NodeType::Materialize,
    NodeType::Result,
    NodeType::Sort,
    NodeType::SubqueryScan,
];
/// Nodes that scan a table each time that they are asked anew.
const SCANS: &[NodeType] = &[
    NodeType::BitmapHeapScan,
    NodeType::IndexOnlyScan,
    NodeType::IndexScan,
    NodeType::SeqScan,
];

/// The counters of a table that only this statement's plan reads, and at one place.
fn own<'a>(
    run: &RunEvidence<'a>,
    statement: &StatementTime,
    plan: &Plan,
    node: &Node,
) -> Option<&'a Grown> {
    let name = node.relation.as_deref()?;
    let reads = |plan: &Plan| {
        let all = plan.root.all().into_iter();
        all.filter(|(_, n)| n.relation.as_deref() == Some(name) && !n.writes())
            .count()
    };
    let mut others = weighty(run).filter(|other| other.id != statement.id);
    if reads(plan) != 1 || others.any(|other| other.plan.as_ref().is_some_and(|p| reads(p) > 0)) {
        return None;
    }
    run.table(name)
}

/// Scans of a table in the measured time.
fn scans(table: &Grown) -> Option<f64> {
    let scans = table.scans();
    (scans >= FEW).then_some(scans)
}

/// Calls of a statement, where they are enough for an average.
pub fn calls(statement: &StatementTime) -> Option<f64> {
    let counters = statement.counters.as_ref()?;
    Some(counters.calls).filter(|calls| *calls >= FEW)
}

/// Rows that a node reads of its table each time, and those of them that it gives, in an execution that was looked
/// at.
pub fn executed(node: &Node) -> Option<(f64, f64)> {
    let given = node.actual_rows?;
    Some((given + node.work?.removed, given))
}

/// Rows that a node gave over all its executions, where it was executed.
pub fn gave(node: &Node) -> Option<f64> {
    let times = node.work.map_or(1.0, |work| work.loops);
    node.actual_rows.map(|rows| rows * times)
}

/// Rows that a node reads of its table for each call of the statement.
pub fn read_a_call(
    run: &RunEvidence,
    statement: &StatementTime,
    plan: &Plan,
    node: &Node,
) -> Option<f64> {
    // An index alone gives rows that its table does not count.
    let counts = SCANS.contains(&node.kind) && node.kind != NodeType::IndexOnlyScan;
    let table = own(run, statement, plan, node).filter(|_| counts)?;
    Some(table.rows_read() / calls(statement)?)
}

/// Rows that a node hands on each time that it is executed, what its filter threw away left out.
pub fn kept(run: &RunEvidence, statement: &StatementTime, plan: &Plan, node: &Node) -> Option<f64> {
    let executed = plan.executed.as_ref();
    counted(run, statement, plan, node).or_else(|| executed.and(node.actual_rows))
}

/// The same by counters: those of the statement, where all above only hands on, or the scans that a nested loop
/// begins for each of them.
fn counted(run: &RunEvidence, statement: &StatementTime, plan: &Plan, node: &Node) -> Option<f64> {
    let mut path = path(&plan.root, node)?;
    path.pop();
    while let Some(above) = path.last() {
        if above.kind == NodeType::NestedLoop {
            let inner = above.nodes.get(1)?;
            // One that executes the other side for each row, and not what is below that.
            let is_outer = path_contains(above.nodes.first()?, node);
            let loops = is_outer && SCANS.contains(&inner.kind);
            let each = scans(own(run, statement, plan, inner).filter(|_| loops)?)?;
            return Some(each / scans(own(run, statement, plan, node)?)?);
        }
        if !PASSING.contains(&above.kind) || above.filter().is_some() {
            return None;
        }
        path.pop();
    }
    let counters = statement.counters.as_ref()?;
    counters.rows.filter(|_| counters.calls >= FEW)
}

fn path_contains(root: &Node, wanted: &Node) -> bool {
    root.all()
        .iter()
        .any(|(_, node)| std::ptr::eq(*node, wanted))
}

/// The nodes from the top down to one.
pub fn path<'p>(root: &'p Node, wanted: &Node) -> Option<Vec<&'p Node>> {
    if std::ptr::eq(root, wanted) {
        return Some(vec![root]);
    }
    root.nodes.iter().find_map(|child| {
        let mut below = path(child, wanted)?;
        below.insert(0, root);
        Some(below)
    })
}

/// Whether a statement that changes rows found none when it was executed, and finds some otherwise: with other values it does
/// what this execution did not.
pub fn changed_nothing(run: &RunEvidence, statement: &StatementTime, plan: &Plan) -> bool {
    let root = &plan.root;
    let none = |input: &Node| input.actual_rows == Some(0.0);
    if !root.writes() || root.nodes.is_empty() || !root.nodes.iter().all(none) {
        return false;
    }
    let counters = statement.counters.as_ref();
    if let Some(rows) = counters.and_then(|counters| counters.rows) {
        return rows >= 0.5;
    }
    let written = match root.operation {
        Some(Operation::Insert) => "n_tup_ins",
        Some(Operation::Update) => "n_tup_upd",
        Some(Operation::Delete) => "n_tup_del",
        _ => return false,
    };
    let table = root.relation.as_deref().and_then(|name| run.table(name));
    table.is_some_and(|table| table.by(written) > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::statement as seen;
    use crate::detect::tests::made::{found_on_full_cpus, one};
    use pgassay_evidence::observed::statements::Counters;
    use pgassay_model::observed::plans::{Execution, Work};

    /// A DELETE of a row that was gone already was shown for what takes the time of those that find one.
    #[test]
    fn an_execution_that_found_no_row_does_not_stand_for_those_that_do() {
        let ran = |kind: &str, came: f64, nodes: Vec<Node>| Node {
            kind: kind.into(),
            relation: Some("public.t".into()),
            rows: 1.0,
            actual_rows: Some(came),
            work: Some(Work {
                loops: 1.0,
                ms: 1.0,
                ..Work::default()
            }),
            nodes,
            ..Node::default()
        };
        let named = |found: f64, rows: Option<f64>, deleted: f64| {
            let root = Node {
                operation: Some("Delete".into()),
                ..ran("ModifyTable", 0.0, vec![ran("Index Scan", found, vec![])])
            };
            let plan = Plan {
                root,
                executed: Some(Execution {
                    ms: 2.0,
                    ..Execution::default()
                }),
                ..Plan::default()
            };
            let findings = found_on_full_cpus(|observed| {
                let mut all = seen("DELETE FROM t WHERE id = $1", Some(plan));
                all.statements[0].cpu_share = 0.9;
                all.statements[0].counters = rows.map(|rows| Counters {
                    calls: 100.0,
                    rows: Some(rows),
                    ..Counters::default()
                });
                observed.statements = Some(all);
                let growth = observed.growth.get_or_insert_default();
                growth.tables = vec![Grown {
                    name: "public.t".into(),
                    grown: [("n_tup_del".to_owned(), deleted)].into(),
                    ..Grown::default()
                }];
            });
            let full = one(&findings, "cpu-saturated").evidence.join("; ");
            full.contains("busiest nodes")
        };
        assert!(named(1.0, Some(1.0), 100.0));
        assert!(!named(0.0, Some(0.9), 100.0));
        assert!(!named(0.0, None, 100.0));
        // It never finds one: that is what it does.
        assert!(named(0.0, Some(0.0), 100.0));
        assert!(named(0.0, None, 0.0));
    }
}
