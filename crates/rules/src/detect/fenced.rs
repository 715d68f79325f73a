//! Views that keep the planner out: a condition, or what a join asks for, does not reach their tables.

use pgassay_model::observed::declared::ViewFacts;
use pgassay_model::observed::plans::{Node, Plan};

use super::hits::{Hit, Part, joined, with_plans};
use super::plans::by_index;
use super::{Detector, run};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};

pub(super) const DETECTORS: &[Detector] = &[run("view-fenced", fenced)];

/// Rows that a view gives below which it does not matter what becomes of them.
const FEW: f64 = 1000.0;
/// The part of them that is wanted at most.
const WANTED: f64 = 0.1;
/// The part of an execution below which a node does not matter.
const MINOR: f64 = 0.3;

/// Where a plan makes a view whole for a few of its rows.
struct Made<'p> {
    node: &'p Node,
    entering: f64,
    leaving: f64,
    by: Option<&'p str>,
}

fn fenced(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let views = plan.views.iter();
        let made = views.filter_map(|(name, facts)| Some((name, facts, made(plan, name, facts)?)));
        let (name, facts, made) = made.max_by(|a, b| a.2.entering.total_cmp(&b.2.entering))?;
        let part = plan.part(made.node);
        let (why, steps) = told(name, facts, made.by)?;
        (part >= MINOR).then(|| Hit {
            statement,
            part: Part::of_work(evidence, statement, part),
            left: by_index(made.entering, made.leaving),
            saw: format!(
                "{:.0} rows of the view {name} are made for {:.0} that are wanted: {why}.",
                made.entering, made.leaving
            ),
            confidence: match (plan.executed.is_some(), made.by) {
                (true, Some(_)) => Confidence::High,
                _ => Confidence::Medium,
            },
            evidence: made
                .by
                .map(|by| format!("looked at when the view's rows are there: {by}"))
                .into_iter()
                .collect(),
            steps,
        })
    });
    joined(&run, hits)
}

fn bare(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name).trim_matches('"')
}

/// Rows of a node, as they were counted, or are expected.
fn given(node: &Node) -> f64 {
    let loops = node.work.map_or(1.0, |work| work.loops.max(1.0));
    node.actual_rows.map_or(node.rows, |rows| rows * loops)
}

fn made<'p>(plan: &'p Plan, name: &str, view: &ViewFacts) -> Option<Made<'p>> {
    let reads = |node: &Node| {
        let relation = node.relation.as_deref();
        relation.is_some_and(|relation| view.reads.iter().any(|read| bare(read) == bare(relation)))
    };
    let all = plan.root.all();
    let filtered = all.iter().copied().filter_map(|(_, node)| {
        let by = node
            .conditions
            .get("Filter")
            .filter(|_| node.kind == "Subquery Scan")?;
        let below = node.all();
        let of_view = node
            .alias
            .as_deref()
            .is_some_and(|alias| alias.trim_matches('"') == bare(name))
            || below.iter().any(|(_, n)| reads(n));
        let leaving = given(node);
        let removed = node.work.map(|work| work.removed * work.loops);
        let entering =
            removed.map_or_else(|| node.nodes.first().map_or(0.0, given), |r| r + leaving);
        (of_view && entering >= FEW && leaving <= WANTED * entering).then_some(Made {
            node,
            entering,
            leaving,
            by: Some(by.as_str()),
        })
    });
    let filtered = filtered.max_by(|a, b| a.entering.total_cmp(&b.entering));
    // A join that asks for a few of its rows, and gets them all.
    filtered.or_else(|| {
        let joins = all.iter().copied().filter(|(_, node)| node.join.is_some());
        let scanned = joins.filter_map(|(_, join)| {
            let leaving = given(join);
            let side = join.nodes.iter().find_map(|side| {
                let below = side.all().into_iter().map(|(_, n)| n);
                let mut whole = below.filter(|n| {
                    n.kind == "Seq Scan" && reads(n) && !n.conditions.contains_key("Filter")
                });
                whole.next()
            })?;
            let entering = given(side);
            (entering >= FEW && leaving <= WANTED * entering).then_some(Made {
                node: join,
                entering,
                leaving,
                by: None,
            })
        });
        scanned.max_by(|a, b| a.entering.total_cmp(&b.entering))
    })
}

/// What keeps the planner out, and what lets it in.
fn told(
    name: &str,
    view: &ViewFacts,
    by: Option<&str>,
) -> Option<(String, Vec<(StepKind, String)>)> {
    let sql = |text: String| (StepKind::Sql, text);
    let advice = |text: String| (StepKind::Advice, text);
    if !view.ends.is_empty() {
        let ends = view.ends.join(" and ");
        return Some((
            format!("its query ends with {ends}, below which no condition is moved"),
            vec![sql(format!(
                "CREATE OR REPLACE VIEW {name} AS …;   -- the same query without {ends}: then conditions and joins reach its tables and their indexes; a \
                 LIMIT belongs into the statement"
            ))],
        ));
    }
    if let Some((column, kind, table, there)) = view.differs.first() {
        return Some((
            format!(
                "it unites tables in which a column has different types ({column} is {there} in {table}, and {kind} in the view), and a condition is not moved below \
                 that"
            ),
            vec![sql(format!(
                "DROP VIEW {name}; ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind}; CREATE VIEW {name} AS …;   -- the same type everywhere (the table is \
                 rewritten); then a condition on {column} reaches the index of each table"
            ))],
        ));
    }
    if view.barrier && by.is_some() {
        let by = by.unwrap_or_default();
        return Some((
            "it is a security barrier, and functions and operators that are not leakproof must not see a row before its own conditions have".to_owned(),
            vec![
                sql(format!(
                    "ALTER VIEW {name} RESET (security_barrier);   -- if it is not there to hide rows from those who may ask it"
                )),
                advice(format!(
                    "where it must hide rows: compare a column with = in the types' own operators, which are leakproof; or ALTER FUNCTION … LEAKPROOF, as \
                     superuser, for the functions in {by}; or search in a SECURITY DEFINER function"
                )),
            ],
        ));
    }
    let function = view.volatile.first()?;
    let instead = match function.as_str() {
        "clock_timestamp" | "timeofday" => {
            "now() or statement_timestamp(), which are STABLE, in the place of it"
        }
        "random" | "gen_random_uuid" | "uuid_generate_v4" => {
            "draw it in the statement that needs it"
        }
        "nextval" => "number the rows in the statement that needs it",
        _ => "ALTER FUNCTION … STABLE, if it changes nothing",
    };
    by.is_none().then(|| {
        (
            format!("its select list calls {function}(), which is VOLATILE: it is computed apart, and a join can't ask its tables for single rows"),
            vec![sql(format!(
                "CREATE OR REPLACE VIEW {name} AS …;   -- without {function}() in the select list ({instead}); DROP VIEW first, where a type changes"
            ))],
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::statement;
    use super::super::tests::made::found_with;
    use super::*;
    use crate::Finding;
    use pgassay_model::observed::plans::{Execution, Work};

    fn found(view: ViewFacts, removed: f64, filter: bool) -> Option<Finding> {
        let work = |removed| Work {
            loops: 1.0,
            removed,
            ms: 10.0,
            ..Work::default()
        };
        let scan = Node {
            kind: "Seq Scan".into(),
            relation: Some("public.orders".into()),
            actual_rows: Some(50_000.0),
            work: Some(work(0.0)),
            ..Node::default()
        };
        let mut root = Node {
            kind: if filter { "Subquery Scan" } else { "Hash Join" }.into(),
            join: (!filter).then(|| "Inner".to_owned()),
            alias: filter.then(|| "order_list".to_owned()),
            actual_rows: Some(10.0),
            work: Some(work(removed)),
            nodes: vec![scan],
            ..Node::default()
        };
        if filter {
            root.conditions
                .insert("Filter".into(), "(order_list.customer = $1)".into());
        }
        let plan = Plan {
            root,
            executed: Some(Execution {
                ms: 20.0,
                ..Execution::default()
            }),
            views: [("order_list".to_owned(), view)].into(),
            ..Plan::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement("SELECT 1 FROM order_list", Some(plan)));
        });
        found.into_iter().find(|f| f.id == "view-fenced")
    }

    fn reading() -> ViewFacts {
        ViewFacts {
            reads: vec!["public.orders".into()],
            ..ViewFacts::default()
        }
    }

    #[test]
    fn a_view_that_ends_with_offset_keeps_a_condition_outside() {
        let view = || ViewFacts {
            ends: vec!["OFFSET".into()],
            ..reading()
        };
        let seen = found(view(), 49_990.0, true).unwrap();
        assert!(
            seen.saw.contains("50000 rows of the view order_list") && seen.saw.contains("OFFSET"),
            "{seen:#?}"
        );
        assert!(
            seen.remedy[0]
                .text
                .starts_with("CREATE OR REPLACE VIEW order_list"),
            "{seen:#?}"
        );
        // A condition that leaves most of it has lost nothing.
        assert!(found(view(), 5.0, true).is_none());
    }

    #[test]
    fn each_fence_has_its_own_remedy() {
        let barrier = ViewFacts {
            barrier: true,
            ..reading()
        };
        let seen = found(barrier, 49_990.0, true).unwrap();
        assert_eq!(
            seen.remedy[0].text.split(';').next(),
            Some("ALTER VIEW order_list RESET (security_barrier)")
        );
        let differs = ViewFacts {
            differs: vec![(
                "account".into(),
                "bigint".into(),
                "booking".into(),
                "integer".into(),
            )],
            ..reading()
        };
        let seen = found(differs, 49_990.0, true).unwrap();
        assert!(
            seen.remedy[0]
                .text
                .contains("ALTER TABLE booking ALTER COLUMN account TYPE bigint"),
            "{seen:#?}"
        );
        let volatile = || ViewFacts {
            volatile: vec!["clock_timestamp".into()],
            ..reading()
        };
        let seen = found(volatile(), 0.0, false).unwrap();
        assert!(seen.remedy[0].text.contains("now()"), "{seen:#?}");
        // Conditions that don't look at what it calls are moved below it.
        assert!(found(volatile(), 49_990.0, true).is_none());
    }
}
