//! Rows of a plan's nodes as the server's counters tell them, or an execution that was looked at: what scans read, and
//! what their filters leave. What the planner expects is no count.

use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::{Node, Plan};

use super::hits::weighty;
use crate::bottlenecks::evidence::RunEvidence;
use crate::observed::statements::StatementTime;

/// Fewer scans or calls are chance.
const FEW: f64 = 10.0;
/// Nodes that hand on the rows of their input.
const PASSING: &[&str] = &[
    "Gather",
    "Gather Merge",
    "Incremental Sort",
    "Limit",
    "Materialize",
    "Result",
    "Sort",
    "Subquery Scan",
];
/// Nodes that scan a table each time that they are asked anew.
const SCANS: &[&str] = &[
    "Bitmap Heap Scan",
    "Index Only Scan",
    "Index Scan",
    "Seq Scan",
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
        all.filter(|(_, n)| n.relation.as_deref() == Some(name) && n.kind != "ModifyTable")
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
pub(super) fn calls(statement: &StatementTime) -> Option<f64> {
    let counters = statement.counters.as_ref()?;
    Some(counters.calls).filter(|calls| *calls >= FEW)
}

/// Rows that a node reads of its table each time, and those of them that it gives, in an execution that was looked
/// at.
pub(super) fn executed(node: &Node) -> Option<(f64, f64)> {
    let given = node.actual_rows?;
    Some((given + node.work?.removed, given))
}

/// Rows that a node gave over all its executions, where it was executed.
pub(super) fn gave(node: &Node) -> Option<f64> {
    let times = node.work.map_or(1.0, |work| work.loops);
    node.actual_rows.map(|rows| rows * times)
}

/// Rows that a node reads of its table for each call of the statement.
pub(super) fn read_a_call(
    run: &RunEvidence,
    statement: &StatementTime,
    plan: &Plan,
    node: &Node,
) -> Option<f64> {
    // An index alone gives rows that its table does not count.
    let counts = SCANS.contains(&node.kind.as_str()) && node.kind != "Index Only Scan";
    let table = own(run, statement, plan, node).filter(|_| counts)?;
    Some(table.rows_read() / calls(statement)?)
}

/// Rows that a node hands on each time that it is executed, what its filter threw away left out.
pub(super) fn kept(
    run: &RunEvidence,
    statement: &StatementTime,
    plan: &Plan,
    node: &Node,
) -> Option<f64> {
    let executed = plan.executed.as_ref();
    counted(run, statement, plan, node).or_else(|| executed.and(node.actual_rows))
}

/// The same by counters: those of the statement, where all above only hands on, or the scans that a nested loop
/// begins for each of them.
fn counted(run: &RunEvidence, statement: &StatementTime, plan: &Plan, node: &Node) -> Option<f64> {
    let mut path = path(&plan.root, node)?;
    path.pop();
    while let Some(above) = path.last() {
        if above.kind == "Nested Loop" {
            let inner = above.nodes.get(1)?;
            // One that executes the other side for each row, and not what is below that.
            let is_outer = path_contains(above.nodes.first()?, node);
            let loops = is_outer && SCANS.contains(&inner.kind.as_str());
            let each = scans(own(run, statement, plan, inner).filter(|_| loops)?)?;
            return Some(each / scans(own(run, statement, plan, node)?)?);
        }
        if !PASSING.contains(&above.kind.as_str()) || above.conditions.contains_key("Filter") {
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
pub(super) fn path<'p>(root: &'p Node, wanted: &Node) -> Option<Vec<&'p Node>> {
    if std::ptr::eq(root, wanted) {
        return Some(vec![root]);
    }
    root.nodes.iter().find_map(|child| {
        let mut below = path(child, wanted)?;
        below.insert(0, root);
        Some(below)
    })
}
