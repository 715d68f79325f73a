//! Functions in interpreted languages that plans call for each row.

use crate::detect::common::hits::{Hit, Part, joined, with_plans};
use crate::detect::common::message_log::within_functions;
use crate::detect::common::scans::stable;
use crate::detect::{Detector, run, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Work;
use pgassay_model::observed::plans::{Clause, NodeType, Plan};

pub const DETECTORS: &[Detector] = &[run("function-per-row", functions)];

/// A function called for fewer rows is no burden.
const FEW_CALLS: f64 = 100.0;
/// Nodes that read ahead of what they return: a LIMIT above does not stop their input.
const BLOCKING: &[NodeType] = &[
    NodeType::Aggregate,
    NodeType::Group,
    NodeType::Hash,
    NodeType::Sort,
    NodeType::WindowAgg,
];

/// How often a plan calls a function, as the planner expects, and whether that is for what it selects.
fn calls_of(plan: &Plan, function: &str) -> Option<(f64, bool)> {
    let mut most: Option<(f64, bool)> = None;
    // Above a node a LIMIT may stop it early.
    let mut left = vec![(&plan.root, f64::INFINITY)];
    while let Some((node, stops)) = left.pop() {
        let inputs = node.nodes.iter().map(|child| child.rows);
        let entering = inputs.fold(node.rows, f64::max);
        for (clause, expr) in &node.conditions {
            // `(f(x)).*` calls it once for each column.
            let calls = expr.calls().iter().filter(|name| *name == function).count();
            if calls == 0 {
                continue;
            }
            let facts = node.relation.as_ref().and_then(|t| plan.relations.get(t));
            let selects = *clause == Clause::Output;
            let rows = match clause {
                Clause::Output
                    if matches!(node.kind, NodeType::Aggregate | NodeType::WindowAgg) =>
                {
                    entering
                }
                Clause::Output => node.rows.min(stops),
                Clause::Filter if node.kind == NodeType::SeqScan => {
                    facts.and_then(|f| f.rows).unwrap_or(node.rows)
                }
                _ => entering,
            };
            let times = node.work.map(|work| work.loops);
            let rows = rows * times.or_else(|| plan.root.times(node)).unwrap_or(1.0);
            let rows = rows * calls as f64;
            if most.is_none_or(|(most, _)| rows > most) {
                most = Some((rows, selects));
            }
        }
        for child in &node.nodes {
            let stops = match &node.kind {
                NodeType::Limit => stops.min(node.rows),
                kind if BLOCKING.contains(kind) => f64::INFINITY,
                _ => stops,
            };
            left.push((child, stops));
        }
    }
    most
}

fn functions(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let called = plan.functions.iter().filter_map(|(function, language)| {
            Some((function, language, calls_of(plan, function)?))
        });
        let (function, language, (reach, selects)) =
            called.max_by(|a, b| a.2.0.total_cmp(&b.2.0))?;
        if reach < FEW_CALLS {
            return None;
        }
        let share = evidence.profile.and_then(|profile| {
            let mut objects = profile.objects.iter();
            let found = objects.find(|o| o.object.starts_with(language.as_str()))?;
            Some(found.share)
        });
        // With its callees: what is executed inside it.
        let within = match language.as_str() {
            "sql" => Work::Nested,
            _ => Work::Procedural,
        };
        let inside = evidence.profile.and_then(|p| p.within(within));
        // The log's part of it is gone with the log.
        let inside = inside.map(|share| (share - within_functions(evidence)).max(0.0));
        let part = inside.map_or(Part::of_all(1.0), |share| {
            Part::of_samples(statement, share)
        });
        let mut evidence: Vec<String> = Vec::new();
        evidence.extend(
            share.map(|share| format!("{} of the CPU samples in {language}", tenths(share))),
        );
        evidence.extend(inside.map(|share| {
            format!(
                "{} of the CPU samples in such functions and in what they execute",
                tenths(share)
            )
        }));
        let mut steps = Vec::new();
        if let Some(signature) = plan.volatile.get(function) {
            steps.push((StepKind::Sql, stable(function, signature)));
        }
        if selects {
            steps.push((
                StepKind::Advice,
                format!(
                    "have {function} done in the statement: a join with the table that it reads, or an expression, in \
                     the place of a query for each row"
                ),
            ));
        }
        steps.push((
            StepKind::Advice,
            "write it as an SQL expression or an SQL function that can be inlined; let an index or another condition \
             reduce the rows first; wrap what does not depend on the row into a scalar subquery, which is evaluated \
             once: (SELECT f())"
                .to_owned(),
        ));
        Some(Hit {
            statement,
            part,
            left: None,
            saw: format!(
                "{function}, written in {language}, is called for each of about {reach:.0} rows."
            ),
            confidence: match inside.into_iter().chain(share).reduce(f64::max) {
                Some(share) if share >= 0.02 => Confidence::High,
                _ => Confidence::Medium,
            },
            evidence,
            steps,
        })
    });
    joined(&run, hits)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_evidence::observed::statements::{StatementAnalysis, StatementTime};
    use pgassay_model::observed::plans::Node;

    fn found(root: Node, language: &str, volatile: bool) -> Vec<Finding> {
        let volatile = volatile.then(|| ("f".to_owned(), "public.f(numeric)".to_owned()));
        let plan = Plan {
            root,
            functions: BTreeMap::from([("f".to_owned(), language.to_owned())]),
            volatile: volatile.into_iter().collect(),
            ..Plan::default()
        };
        found_with(vec![], move |observed| {
            observed.statements = Some(StatementAnalysis {
                statements: vec![StatementTime {
                    sightings: 90,
                    share: 0.9,
                    cpu_share: 0.9,
                    running: 1.0,
                    plan: Some(plan),
                    ..StatementTime::default()
                }],
                ..StatementAnalysis::default()
            });
        })
    }

    fn node(kind: &str, rows: f64, conditions: &[(&str, &str)], nodes: Vec<Node>) -> Node {
        Node {
            kind: kind.into(),
            rows,
            conditions: conditions
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            nodes,
            ..Node::default()
        }
    }

    #[test]
    fn what_an_aggregate_calls_it_calls_for_each_row_that_goes_in() {
        let scan = node("Bitmap Heap Scan", 3000.0, &[], vec![]);
        let sums = node(
            "Aggregate",
            5.0,
            &[("Output", "c, sum(f(amount))")],
            vec![scan],
        );
        let findings = found(sums.clone(), "plpgsql", false);
        let called = one(&findings, "function-per-row");
        assert!(called.saw.contains("about 3000 rows"), "{}", called.saw);
        assert!(
            called.remedy[0].text.contains("a join with the table"),
            "{:#?}",
            called.remedy
        );
        // One in SQL that stands in a plan was not inlined.
        one(&found(sums, "sql", false), "function-per-row");
    }

    #[test]
    fn a_limit_stops_what_is_below_it_unless_that_needs_all_rows() {
        let scan = node("Index Scan", 3000.0, &[("Output", "f(a)")], vec![]);
        let limited = |below: Node| node("Limit", 10.0, &[("Output", "(f(a))")], vec![below]);
        let has = |root: Node| {
            found(root, "plpgsql", false)
                .iter()
                .any(|f| f.id == "function-per-row")
        };
        assert!(!has(limited(scan.clone())));
        assert!(has(limited(node("Sort", 3000.0, &[], vec![scan.clone()]))));
        assert!(has(scan));
    }

    #[test]
    fn a_volatile_function_is_told_of_stable() {
        let scan = node("Index Scan", 3000.0, &[("Filter", "(t.a = f($1))")], vec![]);
        let findings = found(scan, "plpgsql", true);
        let step = &one(&findings, "function-per-row").remedy[0].text;
        assert!(
            step.starts_with("ALTER FUNCTION public.f(numeric) STABLE;"),
            "{step}"
        );
    }
}
