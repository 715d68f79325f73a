//! Columns of which ANALYZE keeps too few values, by their statistics targets, where the planner's estimates are off by
//! far and its plan is the worse for it.

use super::estimates::came;
use super::hits::Left;
use super::plans::SELECTIVE;
use super::shapes::{At, Shown, advice, is_served};
use super::targets::{columns, larger, of_all, small};
use crate::finding::Confidence;

/// Targets up to this one keep next to nothing of a column.
const NEXT_TO_NOTHING: u32 = 10;
/// So many rows read for each that is wanted are too many.
const TOO_MANY: f64 = 20.0;

/// What a wrong estimate of a scan led to.
struct Led {
    to: String,
    /// What is left of the work with a right one, where that is known.
    left: Option<Left>,
}

fn led(at: &At, came: f64) -> Option<Led> {
    let (node, facts) = (at.node, at.facts(at.node)?);
    let rows = facts.rows?;
    let work = node.work?;
    let read = node.actual_rows? + work.removed;
    let indexed = columns(at.plan, node)
        .iter()
        .any(|column| is_served(facts, &[column]));
    let fewer = came < node.rows;
    let to_left = |to: &str| {
        let left = indexed.then(|| came / read.max(1.0));
        Led {
            to: to.to_owned(),
            left: left.and_then(|left| {
                Left::new(
                    left,
                    format!("{came:.0} of {read:.0} rows are wanted, and an index finds them"),
                )
            }),
        }
    };
    let outer_of_loop = at.parent.is_some_and(|parent| {
        let first = parent.nodes.first();
        parent.kind == "Nested Loop" && first.is_some_and(|first| std::ptr::eq(first, node))
    });
    match node.kind.as_str() {
        // An order that was to end soon.
        "Index Scan" if fewer && read >= TOO_MANY * came.max(1.0) => Some(to_left(
            "it goes through the rows in the order of an index to find them",
        )),
        "Seq Scan" if fewer && indexed && came <= SELECTIVE * rows => Some(to_left(
            "it reads the whole table to find them, with an index on the column at hand",
        )),
        _ if outer_of_loop && !fewer => Some(Led {
            to: "it reads the other side of a nested loop for each of them".to_owned(),
            left: None,
        }),
        _ => None,
    }
}

/// How far the part of a table that was read must be from what was expected, where nothing is known of the column.
const FAR_OFF: f64 = 5.0;

/// Rows that would have come of a scan that a limit ended, if the rest of the table is like what it had read.
fn extrapolated(at: &At) -> Option<f64> {
    let (node, rows) = (at.node, at.facts(at.node)?.rows?);
    let given = node.actual_rows?;
    let read = given + node.work?.removed;
    let bounded = node.conditions.contains_key("Index Cond");
    let whole = rows * given / read.max(1.0);
    (!bounded && read >= 0.1 * rows && node.rows >= FAR_OFF * whole).then_some(whole)
}

/// A scan with an estimate that small targets make wrong, to the harm of the plan.
pub(super) fn targeted(at: &At) -> Option<Shown> {
    let node = at.node;
    let table = node.relation.as_ref()?;
    let small = small(of_all(at.run), at.plan, node);
    let least = small.iter().min_by_key(|small| small.target)?;
    let came = came(at.plan, node).or_else(|| extrapolated(at).filter(|_| least.target == 0))?;
    let led = led(at, came)?;
    Some(Shown {
        // The plan would be another one.
        cost: at.plan.root.cost,
        left: led.left,
        saw: format!(
            "The planner expects {:.0} rows of {table} where {came:.0} come, and {}: {}, so that ANALYZE keeps hardly any of its values.",
            node.rows,
            led.to,
            least.said()
        ),
        steps: larger(table, &small)
            .into_iter()
            .chain(std::iter::once(advice(
                "for a column with many values of very different frequency, a target of its own above the default: ALTER COLUMN … SET STATISTICS 1000",
            )))
            .collect(),
        seen: small.iter().map(|small| format!("{}: {}", small.column, small.said())).collect(),
        confidence: match least.target {
            ..=NEXT_TO_NOTHING => Confidence::High,
            _ => Confidence::Medium,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pgassay_model::observed::plans::{Execution, IndexFacts, Node, Plan, RelationFacts, Work};

    use super::super::database::tests::statement;
    use super::super::tests::made::{found_with_settings, one};
    use crate::finding::Finding;

    /// A plan that goes through nearly all of 80000 tickets in an index's order, for ten of a queue of which the planner
    /// expects so many.
    fn walk(expected: f64, read: f64) -> Plan {
        let index = |first: &str| IndexFacts {
            name: format!("ticket_{first}"),
            first: Some(first.to_owned()),
            columns: vec![first.to_owned()],
            valid: true,
            ..IndexFacts::default()
        };
        let scan = Node {
            kind: "Index Scan".into(),
            relation: Some("public.ticket".into()),
            index: Some("ticket_opened".into()),
            conditions: BTreeMap::from([("Filter".to_owned(), "(ticket.queue = $1)".to_owned())]),
            rows: expected,
            actual_rows: Some(10.0),
            work: Some(Work {
                loops: 1.0,
                removed: read - 10.0,
                ms: 5.0,
                ..Work::default()
            }),
            cost: 2400.0,
            ..Node::default()
        };
        Plan {
            root: Node {
                kind: "Limit".into(),
                rows: 10.0,
                actual_rows: Some(10.0),
                cost: 4.0,
                nodes: vec![scan],
                ..Node::default()
            },
            executed: Some(Execution::default()),
            relations: BTreeMap::from([(
                "public.ticket".to_owned(),
                RelationFacts {
                    rows: Some(80_000.0),
                    columns: ["queue", "opened"].map(str::to_owned).to_vec(),
                    indexes: vec![index("queue"), index("opened")],
                    ..RelationFacts::default()
                },
            )]),
            ..Plan::default()
        }
    }

    type Settings = &'static [(&'static str, &'static str, &'static str)];

    const ONE: Settings = &[("default_statistics_target", "1", "configuration file")];
    const USUAL: Settings = &[("default_statistics_target", "100", "default")];

    fn found(plan: Plan, settings: Settings) -> Vec<Finding> {
        found_with_settings(settings, |observed| {
            observed.statements = Some(statement("SELECT id FROM ticket", Some(plan)));
        })
    }

    fn is_told(plan: Plan, settings: Settings) -> bool {
        let found = found(plan, settings);
        found
            .iter()
            .any(|finding| finding.id == "statistics-target")
    }

    #[test]
    fn a_walk_for_rows_of_which_analyze_knows_nothing_is_told_of_the_target() {
        let of_all = found(walk(6700.0, 79_950.0), ONE);
        let of_all = one(&of_all, "statistics-target");
        assert!(
            of_all.saw.contains("default_statistics_target is 1"),
            "{of_all:?}"
        );
        assert_eq!(
            of_all.remedy[0].text,
            "ALTER SYSTEM SET default_statistics_target = 100; SELECT pg_reload_conf();"
        );
        assert!(of_all.remedy[1].text.starts_with("ANALYZE public.ticket;"));

        let mut own = walk(6700.0, 79_950.0);
        let facts = own.relations.get_mut("public.ticket").unwrap();
        facts.targets.insert("queue".to_owned(), 2);
        let own = found(own, USUAL);
        let own = one(&own, "statistics-target");
        assert_eq!(
            own.remedy[0].text,
            "ALTER TABLE public.ticket ALTER COLUMN queue SET STATISTICS -1;"
        );
    }

    #[test]
    fn a_column_without_statistics_is_judged_by_the_part_that_was_read() {
        let of = |expected: f64, target: u32| {
            let mut plan = walk(expected, 40_000.0);
            let facts = plan.relations.get_mut("public.ticket").unwrap();
            facts.targets.insert("queue".to_owned(), target);
            is_told(plan, USUAL)
        };
        assert!(of(600.0, 0));
        assert!(!of(60.0, 0));
        assert!(!of(600.0, 50));
    }

    #[test]
    fn a_target_is_not_blamed_for_what_it_does_not_cause() {
        assert!(!is_told(walk(6700.0, 79_950.0), USUAL));
        // What was expected.
        assert!(!is_told(walk(12.0, 79_950.0), ONE));
        // The scan was left early: the rest of the table may hold as many as were expected.
        assert!(!is_told(walk(6700.0, 30_000.0), ONE));
    }
}
