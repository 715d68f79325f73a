//! Work that is thrown away late in a plan: thousands of rows are read, joined, grouped or numbered, and a
//! join or a filter above leaves a few of them.
//!
//! A scan that throws its rows away itself is another matter (`sequential-scan`, `rows-discarded`): here the
//! condition stands where no index of one table can serve it.

use pgassay_model::observed::plans::{Node, Plan, RelationFacts};

use super::conditions::{aliases, compared, conjuncts, disjuncts};
use super::hits::{Hit, Left, Part, joined, with_plans};
use super::plans::{FEW_ROWS, MINOR, SELECTIVE, by_index, counted, read_by_scans, remedy};
use super::{Detector, run};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::observed::statements::StatementTime;

pub(super) const DETECTORS: &[Detector] = &[run("late-filter", late)];

/// Nodes that hand on the rows of their input.
const PASSING: &[&str] = &[
    "Gather",
    "Gather Merge",
    "Hash",
    "Incremental Sort",
    "Materialize",
    "Memoize",
    "Sort",
    "Subquery Scan",
];

/// Where the rows are thrown away.
struct Thrown<'p> {
    /// Rows that went in, and the part of the plan that made them.
    entering: f64,
    cost: f64,
    /// Rows that the remedy would have to read.
    needed: f64,
    /// What the scans below read.
    tables: Vec<&'p str>,
    saw: String,
    steps: Vec<(StepKind, String)>,
}

fn late(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let nodes = plan.root.all().into_iter();
        let hits = nodes.filter_map(|at| hit(evidence, &run, statement, plan, at));
        hits.max_by(|a, b| a.part.time.total_cmp(&b.part.time))
    });
    joined(&run, hits)
}

fn hit<'s>(
    evidence: &Evidence,
    run: &RunEvidence,
    statement: &'s StatementTime,
    plan: &Plan,
    (parent, node): (Option<&Node>, &Node),
) -> Option<Hit<'s>> {
    // Under a limit it may stop early; an anti-join, and one that keeps what has no match, must see all rows.
    let may_stop = parent.is_some_and(|parent| parent.kind == "Limit");
    let kind = node.join.as_deref().unwrap_or("Inner");
    if may_stop || matches!(kind, "Anti" | "Right Anti" | "Full") {
        return None;
    }
    let leaving = counted(statement, plan, (parent, node)).unwrap_or(node.rows);
    let thrown = match node.kind.as_str() {
        "Subquery Scan" => by_filter(node, leaving),
        "Hash Join" | "Merge Join" | "Nested Loop" => {
            by_join_filter(node, leaving).or_else(|| by_join(plan, node, leaving))
        }
        _ => None,
    }?;
    let times = plan.root.times(node).unwrap_or(1.0);
    let cost = times * thrown.cost;
    let part = (cost / plan.root.cost.max(cost)).min(1.0);
    let part = part.max(by_execution(plan, node).unwrap_or(0.0));
    if thrown.entering < FEW_ROWS || part < MINOR {
        return None;
    }
    let mut seen = Vec::new();
    let mut read = false;
    for table in &thrown.tables {
        let Some((scans, each)) = read_by_scans(run, table) else {
            continue;
        };
        let rows = plan.relations.get(*table).and_then(|facts| facts.rows);
        read |= rows.is_some_and(|rows| each >= 0.3 * rows);
        seen.push(format!(
            "{scans:.0} sequential scans of {table} in the measured time, {each:.0} rows each"
        ));
    }
    if let Some(rows) = statement.counters.as_ref().and_then(|c| c.rows) {
        seen.push(format!("a call gives {rows:.1} rows"));
    }
    Some(Hit {
        statement,
        part: Part::of_work(evidence, statement, part),
        left: by_index(thrown.entering, thrown.needed).map(|left| Left {
            rests_on: format!(
                "{:.0} rows go in for about {leaving:.0} that come out",
                thrown.entering
            ),
            ..left
        }),
        saw: thrown.saw,
        // The planner's figures alone may be wrong.
        confidence: match read {
            true => Confidence::High,
            false => Confidence::Medium,
        },
        evidence: seen,
        steps: thrown.steps,
    })
}

/// The part of an execution that went to a node and what is below it, without the lesser of its inputs, which stays.
fn by_execution(plan: &Plan, node: &Node) -> Option<f64> {
    plan.executed.as_ref()?;
    let ms = |node: &Node| -> f64 {
        let all = node.all().into_iter();
        all.filter_map(|(_, node)| Some(node.work?.ms)).sum()
    };
    let stays = match node.nodes.as_slice() {
        [one, other] => ms(one).min(ms(other)),
        _ => 0.0,
    };
    let whole = ms(&plan.root);
    (whole > 0.0).then(|| (ms(node) - stays) / whole)
}

/// What a node reads, through nodes that only hand on.
pub(super) fn source(node: &Node) -> &Node {
    let filtered = node.conditions.contains_key("Filter");
    match node.nodes.first() {
        Some(input) if PASSING.contains(&node.kind.as_str()) && !filtered => source(input),
        _ => node,
    }
}

/// The tables that a part of a plan reads.
fn tables(node: &Node) -> Vec<&str> {
    let all = node.all().into_iter();
    let mut names: Vec<&str> = all.filter_map(|(_, n)| n.relation.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Rows that a part of a plan reads, however few come out of it.
pub(super) fn read(node: &Node) -> f64 {
    let rows = node.all().into_iter().map(|(_, n)| n.rows);
    rows.fold(0.0, f64::max)
}

/// A filter over what was numbered or grouped: `WHERE row_number = 1`.
fn by_filter(node: &Node, leaving: f64) -> Option<Thrown<'_>> {
    let filter = node.conditions.get("Filter")?;
    let input = source(node.nodes.first()?);
    let what = match input.kind.as_str() {
        "WindowAgg" => "numbered by a window function",
        "Aggregate" | "Group" => "grouped",
        _ => return None,
    };
    let entering = read(input);
    (leaving <= SELECTIVE * entering).then(|| Thrown {
        entering,
        cost: node.cost,
        needed: leaving,
        tables: tables(input),
        saw: format!(
            "{entering:.0} rows are {what} for about {leaving:.0} that {filter} leaves."
        ),
        steps: vec![(
            StepKind::Advice,
            format!(
                "put the condition below: what limits the rows into the subquery itself, or one row for each key by \
                 LATERAL (SELECT … ORDER BY … LIMIT 1) over an index, or DISTINCT ON, in the place of {filter}"
            ),
        )],
    })
}

/// A condition over both sides of a join, looked at when the join is done.
fn by_join_filter(node: &Node, leaving: f64) -> Option<Thrown<'_>> {
    let filter = node.conditions.get("Join Filter")?;
    let (outer, inner) = (node.nodes.first()?, node.nodes.get(1)?);
    let loops = node.kind == "Nested Loop";
    // A loop compares each row with each; a hash or a merge brings together what is equal.
    let entering = match loops {
        true => outer.rows.max(1.0) * inner.rows.max(1.0),
        false => outer.rows.max(inner.rows),
    };
    // Where one side is small, it is the equality that leaves few.
    let smaller = outer.rows.min(inner.rows);
    let by_filter = loops || leaving <= SELECTIVE * smaller;
    if leaving > SELECTIVE * entering || !by_filter {
        return None;
    }
    let ways = disjuncts(filter);
    let over_both = ways.len() > 1 && aliases(filter).len() > 1;
    let steps = match over_both {
        true => vec![(
            StepKind::Advice,
            format!(
                "write it as a UNION of {} statements, one for each alternative of {filter}, so that each begins with \
                 the index of its own table: an OR over columns of several tables serves none",
                ways.len()
            ),
        )],
        false => vec![(
            StepKind::Advice,
            format!(
                "give the join a condition that leads by an index, or an equality that can be hashed: {filter} is \
                 looked at for each pair of rows"
            ),
        )],
    };
    Some(Thrown {
        entering,
        cost: node.cost,
        needed: leaving * 2.0,
        tables: tables(node),
        saw: match loops {
            true => format!(
                "{:.0} rows are each compared with {:.0} for about {leaving:.0} pairs that {filter} leaves.",
                outer.rows, inner.rows
            ),
            false => format!(
                "{:.0} and {:.0} rows are joined whole, and {filter} leaves about {leaving:.0}.",
                outer.rows, inner.rows
            ),
        },
        steps,
    })
}

/// A join whose one side is made of thousands of rows, and whose other wants a few of them.
fn by_join<'p>(plan: &'p Plan, node: &'p Node, leaving: f64) -> Option<Thrown<'p>> {
    // A loop asks its inner side for what it wants.
    if node.kind == "Nested Loop" {
        return None;
    }
    let (outer, inner) = (node.nodes.first()?, node.nodes.get(1)?);
    let (large, small, first) = match read(outer) >= read(inner) {
        true => (outer, inner, true),
        false => (inner, outer, false),
    };
    let base = source(large);
    if leaving > SELECTIVE * base.rows || small.rows > SELECTIVE * base.rows {
        return None;
    }
    let entering = read(base);
    let key = key(node, first);
    // Of a table, or of what groups one.
    let table = match tables(base).as_slice() {
        [table] => Some(*table),
        _ => None,
    };
    let facts = table.and_then(|table| Some((table, plan.relations.get(table)?)));
    let grouped = match base.kind.as_str() {
        "Aggregate" | "Group" => "grouped",
        "WindowAgg" => "gone through by a window function",
        "Seq Scan" if !base.conditions.contains_key("Filter") => {
            let (table, facts) = facts?;
            // Of a scan that workers share the planner gives the rows of one.
            let entering = facts.rows.unwrap_or(entering);
            let column = key.and_then(|key| compared(&format!("{key} = $1"), facts));
            let step = remedy(table, key?, column.as_ref(), facts);
            return Some(Thrown {
                entering,
                cost: large.cost,
                needed: leaving,
                tables: vec![table],
                saw: format!(
                    "{table} is read whole, {entering:.0} rows, for about {leaving:.0} that a join with {:.0} rows leaves.",
                    small.rows
                ),
                steps: vec![step],
            });
        }
        _ => return None,
    };
    let mut steps = vec![(
        StepKind::Advice,
        format!(
            "have only the wanted rows {grouped}: JOIN LATERAL (SELECT … WHERE {} = …), or a scalar subquery, in the \
             place of the view or subquery that covers all of them; a constant is pushed below a GROUP BY, a join's \
             condition is not",
            key.unwrap_or("key")
        ),
    )];
    steps.extend(
        facts
            .zip(key)
            .and_then(|((table, facts), key)| missing_index(table, key, facts)),
    );
    let of = match table {
        Some(table) => format!(" of {table}"),
        None => String::new(),
    };
    Some(Thrown {
        entering,
        cost: large.cost,
        needed: leaving * entering / base.rows.max(1.0),
        tables: tables(base),
        saw: format!(
            "{entering:.0} rows{of} are {grouped} into {:.0}, of which a join leaves about {leaving:.0}.",
            base.rows
        ),
        steps,
    })
}

/// What the join compares of its first input, or of its second.
fn key(node: &Node, first: bool) -> Option<&str> {
    let condition = node.conditions.get("Hash Cond");
    let condition = condition.or_else(|| node.conditions.get("Merge Cond"))?;
    let (left, right) = conjuncts(condition).first()?.split_once(" = ")?;
    Some(if first { left } else { right })
}

/// The index that the remedy needs, where there is none.
fn missing_index(table: &str, key: &str, facts: &RelationFacts) -> Option<(StepKind, String)> {
    let name = key.rsplit('.').next()?.trim_matches('"');
    let column = facts.columns.iter().find(|column| *column == name)?;
    let mut indexes = facts.indexes.iter();
    let served = indexes.any(|i| i.valid && !i.partial && i.first.as_ref() == Some(column));
    let step = format!("CREATE INDEX CONCURRENTLY ON {table} ({column});");
    (!served).then_some((StepKind::Sql, step))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::made::{found_with, one};
    use crate::Finding;
    use crate::finding::Confidence;
    use pgassay_evidence::observed::statements::{StatementAnalysis, StatementTime};
    use pgassay_model::observed::growth::{Grown, GrowthRecord};
    use pgassay_model::observed::plans::{Execution, IndexFacts, Node, Plan, RelationFacts, Work};

    use super::by_execution;

    /// A statement with this plan over `public.ledger` of 100000 rows and `public.account` of 5000.
    fn found(root: Node, indexed: bool) -> Vec<Finding> {
        let facts = |rows: f64, columns: &[&str], first: &str| RelationFacts {
            rows: Some(rows),
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            indexes: vec![IndexFacts {
                name: format!("by_{first}"),
                first: Some(first.to_owned()),
                valid: true,
                ..IndexFacts::default()
            }],
            ..RelationFacts::default()
        };
        let first = if indexed { "account_id" } else { "id" };
        let plan = Plan {
            root,
            relations: BTreeMap::from([
                (
                    "public.ledger".to_owned(),
                    facts(100_000.0, &["id", "account_id", "at"], first),
                ),
                (
                    "public.account".to_owned(),
                    facts(5_000.0, &["id", "no"], "id"),
                ),
            ]),
            ..Plan::default()
        };
        let scans = [("seq_scan", 370.0), ("seq_tup_read", 37e6)];
        found_with(vec![], move |observed| {
            observed.statements = Some(StatementAnalysis {
                statements: vec![StatementTime {
                    sightings: 90,
                    share: 0.95,
                    cpu_share: 0.95,
                    running: 1.0,
                    plan: Some(plan),
                    ..StatementTime::default()
                }],
                ..StatementAnalysis::default()
            });
            observed.growth = Some(GrowthRecord {
                tables: vec![Grown {
                    name: "public.ledger".into(),
                    grown: scans.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
                    ..Grown::default()
                }],
                ..GrowthRecord::default()
            });
        })
    }

    fn node(kind: &str, (rows, cost): (f64, f64), condition: &str, nodes: Vec<Node>) -> Node {
        let condition = condition.split_once(": ");
        Node {
            kind: kind.into(),
            rows,
            cost,
            conditions: condition
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
            nodes,
            ..Node::default()
        }
    }

    fn scan(table: &str, kind: &str, rows: f64, cost: f64) -> Node {
        Node {
            relation: Some(format!("public.{table}")),
            ..node(kind, (rows, cost), "", vec![])
        }
    }

    fn grouped(groups: f64, wanted: f64) -> Node {
        let ledger = scan("ledger", "Seq Scan", 100_000.0, 1736.0);
        let sums = node("Aggregate", (groups, 2548.0), "", vec![ledger]);
        let account = scan("account", "Index Scan", wanted, 2.5);
        let hash = node("Hash", (wanted, 2.5), "", vec![account]);
        node(
            "Hash Join",
            (wanted, 2614.0),
            "Hash Cond: (ledger.account_id = a.id)",
            vec![sums, hash],
        )
    }

    #[test]
    fn a_view_that_groups_a_whole_table_for_one_group_is_told_of_lateral() {
        let findings = found(grouped(5000.0, 1.0), true);
        let late = one(&findings, "late-filter");
        assert_eq!(late.confidence, Confidence::High);
        assert!(
            late.saw.contains("100000 rows of public.ledger"),
            "{}",
            late.saw
        );
        let steps: Vec<&str> = late.remedy.iter().map(|s| s.text.as_str()).collect();
        assert!(
            steps[0].contains("LATERAL") && steps[0].contains("ledger.account_id"),
            "{steps:?}"
        );
        assert!(
            steps.iter().all(|s| !s.contains("CREATE INDEX")),
            "{steps:?}"
        );
        let steps = &found(grouped(5000.0, 1.0), false);
        let steps = &one(steps, "late-filter").remedy;
        assert_eq!(
            steps[1].text,
            "CREATE INDEX CONCURRENTLY ON public.ledger (account_id);"
        );
        // Who wants many of the groups must make them.
        let many = found(grouped(5000.0, 4000.0), true);
        assert!(many.iter().all(|f| f.id != "late-filter"), "{many:#?}");
    }

    #[test]
    fn an_or_over_two_tables_is_told_of_union() {
        let of = |leaving: f64, filter: &str| {
            let ledger = scan("ledger", "Seq Scan", 100_000.0, 983.0);
            let account = scan("account", "Seq Scan", 5_000.0, 223.0);
            let hash = node("Hash", (5_000.0, 223.0), "", vec![account]);
            let mut join = node(
                "Hash Join",
                (leaving, 1513.0),
                "Hash Cond: (l.account_id = a.id)",
                vec![ledger, hash],
            );
            join.conditions.insert("Join Filter".into(), filter.into());
            join
        };
        let or = "((l.at = $1) OR (a.no = $2))";
        let findings = found(of(6.0, or), true);
        let late = one(&findings, "late-filter");
        assert!(
            late.remedy[0].text.contains("UNION of 2"),
            "{:#?}",
            late.remedy
        );
        let findings = found(of(6.0, "(l.at > a.no)"), true);
        assert!(
            !one(&findings, "late-filter").remedy[0]
                .text
                .contains("UNION")
        );
        let all = found(of(90_000.0, or), true);
        assert!(all.iter().all(|f| f.id != "late-filter"), "{all:#?}");
    }

    /// Workers cost the planner more than they take.
    #[test]
    fn what_an_execution_shows_outweighs_the_planners_cost() {
        let ran = |mut node: Node, ms: f64| {
            node.work = Some(Work {
                loops: 1.0,
                ms,
                ..Work::default()
            });
            node
        };
        let ledger = ran(scan("ledger", "Seq Scan", 100_000.0, 1736.0), 30.0);
        let account = ran(scan("account", "Index Scan", 1.0, 2.5), 1.0);
        let hash = node("Hash", (1.0, 2.5), "", vec![account]);
        let condition = "Hash Cond: (l.account_id = a.id)";
        let join = node("Hash Join", (20.0, 1800.0), condition, vec![ledger, hash]);
        let mut plan = Plan {
            root: node("Gather", (20.0, 3500.0), "", vec![ran(join, 68.0)]),
            ..Plan::default()
        };
        let join = plan.root.nodes[0].clone();
        assert_eq!(by_execution(&plan, &join), None);
        plan.executed = Some(Execution::default());
        assert_eq!(by_execution(&plan, &join), Some(98.0 / 99.0));
    }

    #[test]
    fn a_join_without_an_index_on_its_key_gets_one() {
        let join = |kind: &str| {
            let ledger = scan("ledger", "Seq Scan", 100_000.0, 1736.0);
            let account = scan("account", "Index Scan", 1.0, 2.5);
            let hash = node("Hash", (1.0, 2.5), "", vec![account]);
            let mut join = node(
                "Hash Join",
                (20.0, 1800.0),
                "Hash Cond: (l.account_id = a.id)",
                vec![ledger, hash],
            );
            join.join = Some(kind.into());
            join
        };
        let findings = found(join("Inner"), false);
        assert_eq!(
            one(&findings, "late-filter").remedy[0].text,
            "CREATE INDEX CONCURRENTLY ON public.ledger (account_id);"
        );
        // Those without a match are found by looking at all.
        let anti = found(join("Anti"), false);
        assert!(anti.iter().all(|f| f.id != "late-filter"), "{anti:#?}");
        // Under a limit it stops early.
        let limited = node("Limit", (20.0, 100.0), "", vec![join("Inner")]);
        assert!(found(limited, false).iter().all(|f| f.id != "late-filter"));
    }

    #[test]
    fn rows_that_are_numbered_for_the_first_of_each_are_told_of_another_way() {
        let ledger = scan("ledger", "Seq Scan", 100_000.0, 1736.0);
        let numbered = node(
            "WindowAgg",
            (100_000.0, 9000.0),
            "",
            vec![node("Sort", (100_000.0, 8000.0), "", vec![ledger])],
        );
        let of = |leaving: f64| {
            node(
                "Subquery Scan",
                (leaving, 9500.0),
                "Filter: (s.n = $1)",
                vec![numbered.clone()],
            )
        };
        let findings = found(of(500.0), true);
        assert!(
            one(&findings, "late-filter").remedy[0]
                .text
                .contains("DISTINCT ON")
        );
        assert!(
            found(of(50_000.0), true)
                .iter()
                .all(|f| f.id != "late-filter")
        );
    }
}
