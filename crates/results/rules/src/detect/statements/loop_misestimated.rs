//! Nested loops that read the same rows again for each row of a side of which one row was expected.

use crate::detect::common::conditions::{Compared, compared};
use crate::detect::common::scans::FEW_ROWS;
use crate::detect::common::shapes::{At, Shown, shape};
use crate::detect::{Detector, run};
use crate::finding::{Confidence, StepKind};
use pgassay_model::observed::plans::{Clause, Node, NodeType, RelationFacts};
use pgassay_plan::expr::unquoted;
use pgassay_text::quote::quote_ident;

pub const DETECTORS: &[Detector] = &[run("loop-misestimated", |e| shape(e, looped))];

/// Rows of a product from which on it is a burden.
const MANY: f64 = 0.1 * FEW_ROWS;
/// How often something is read again at least, where it was to be read once.
const AGAIN: f64 = 10.0;

/// Columns that a scan compares with values for equality.
fn equal(scan: &Node, facts: &RelationFacts) -> Vec<String> {
    let all = scan.all();
    let conditions = all.iter().flat_map(|(_, n)| n.conditions.iter());
    let once = |clause: &Clause| !matches!(clause, Clause::Output | Clause::RecheckCond);
    let parts = conditions
        .filter(|(clause, _)| once(clause))
        .flat_map(|(_, condition)| condition.conjuncts());
    let mut found: Vec<String> = Vec::new();
    for part in parts {
        if let Some(Compared::Column(column)) = compared(part, facts)
            && !found.contains(&unquoted(&column))
        {
            found.push(unquoted(&column));
        }
    }
    found
}

/// How often the plans of all statements scan a table.
fn mentioned(at: &At, table: &str) -> usize {
    let seen = at.run.observed.and_then(|o| o.statements.as_ref());
    let plans = seen
        .into_iter()
        .flat_map(|s| &s.statements)
        .filter_map(|s| s.plan.as_ref());
    let nodes = plans.flat_map(|plan| plan.root.all());
    nodes
        .filter(|(_, n)| n.relation.as_deref() == Some(table))
        .count()
}

/// A loop over a side of which one row was expected, that reads the same rows of the other each time.
fn looped(at: &At) -> Option<Shown> {
    let node = at.node;
    let (outer, inner) = (node.nodes.first()?, node.nodes.get(1)?);
    if node.kind != NodeType::NestedLoop {
        return None;
    }
    let (driving, driven) = (outer.relation.as_deref()?, inner.relation.as_deref()?);
    let alias = outer.alias.as_ref()?;
    let inside = inner.all().into_iter();
    let asks = inside
        .flat_map(|(_, n)| n.tests())
        .any(|of| of.aliases().contains(alias));
    // Nobody else's scans are counted.
    if asks || driving == driven || mentioned(at, driving) != 1 || mentioned(at, driven) != 1 {
        return None;
    }
    let (of_outer, of_inner) = (at.run.table(driving)?, at.run.table(driven)?);
    let again = of_inner.scans() / of_outer.scans().max(1.0);
    let each = of_inner.rows_read() / of_inner.scans().max(1.0);
    let expected = outer.rows.max(1.0);
    if of_outer.scans() < 1.0 || again < AGAIN * expected || again * each < MANY {
        return None;
    }
    let statistics = |name: &str, scan: &Node| -> Option<(StepKind, String)> {
        let columns = equal(scan, at.facts(scan)?);
        (columns.len() >= 2).then(|| {
            let listed: Vec<String> = columns.iter().map(|c| quote_ident(c)).collect();
            let own = format!(
                "{}_together",
                name.rsplit('.').next().unwrap_or(name).trim_matches('"')
            );
            (
                StepKind::Sql,
                format!(
                    "CREATE STATISTICS {} (dependencies) ON {} FROM {name}; ANALYZE {name};",
                    quote_ident(&own),
                    listed.join(", ")
                ),
            )
        })
    };
    let mut steps: Vec<(StepKind, String)> =
        [statistics(driving, outer), statistics(driven, inner)]
            .into_iter()
            .flatten()
            .collect();
    if steps.is_empty() {
        steps.push((
            StepKind::Sql,
            format!(
                "ANALYZE {driving}, {driven};   -- if that is not enough, with a higher statistics target"
            ),
        ));
    }
    let by = equal(outer, at.facts(outer)?);
    let (condition, independent) = match by.len() {
        0 => ("other conditions than equality".to_owned(), ""),
        1 => (by.join(", "), ""),
        _ => (
            by.join(", "),
            ", which the planner takes to be independent of each other",
        ),
    };
    Some(Shown {
        cost: at.cost(node),
        left: None,
        saw: format!(
            "A nested loop reads the same rows of {driven} about {again:.0} times: the planner expects {expected:.0} row{} of {driving}.",
            if expected > 1.5 { "s" } else { "" }
        ),
        steps,
        seen: [
            format!(
                "{:.0} scans of {driven} and {:.0} of {driving} in the measured time",
                of_inner.scans(),
                of_outer.scans()
            ),
            format!(
                "{each:.0} rows of {driven} a scan; {driving} is picked by {condition}{independent}"
            ),
        ]
        .into(),
        confidence: Confidence::High,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::statement;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_model::observed::growth::Grown;
    use pgassay_model::observed::plans::Plan;

    /// Returns the steps and the evidence about a loop over `public.p` that reads `public.s` a thousand times.
    fn found(condition: &str) -> (String, String) {
        let scan = |table: &str, alias: &str| Node {
            kind: "Index Scan".into(),
            relation: Some(format!("public.{table}")),
            alias: Some(alias.into()),
            conditions: [(Clause::IndexCond, condition.replace('t', alias).into())].into(),
            rows: 1.0,
            cost: 2.5,
            ..Node::default()
        };
        let facts = RelationFacts {
            rows: Some(100_000.0),
            columns: vec!["a".into(), "b".into()],
            ..RelationFacts::default()
        };
        let root = Node {
            kind: "Nested Loop".into(),
            rows: 1.0,
            cost: 5.0,
            nodes: vec![scan("p", "p"), scan("s", "s")],
            ..Node::default()
        };
        let plan = Plan {
            root,
            relations: ["public.p", "public.s"]
                .map(|table| (table.to_owned(), facts.clone()))
                .into(),
            ..Plan::default()
        };
        let grown = |table: &str, scans: f64| Grown {
            name: format!("public.{table}"),
            grown: [("idx_scan", scans), ("idx_tup_fetch", 3000.0 * scans)]
                .map(|(k, v)| (k.to_owned(), v))
                .into(),
            ..Grown::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement("SELECT 1", Some(plan)));
            let growth = observed.growth.get_or_insert_default();
            growth.tables = vec![grown("p", 10.0), grown("s", 10_000.0)];
        });
        let finding = one(&found, "loop-misestimated");
        let steps: Vec<&str> = finding.remedy.iter().map(|s| s.text.as_str()).collect();
        (steps.join(" | "), finding.evidence.join(" | "))
    }

    #[test]
    fn columns_that_depend_on_each_other_are_named_where_several_are_compared() {
        let (steps, seen) = found("((t.a = $1) AND (t.b = $2))");
        assert!(steps.starts_with("CREATE STATISTICS"), "{steps}");
        assert!(seen.contains("independent"), "{seen}");
        let (steps, seen) = found("(t.a = $1)");
        assert!(steps.starts_with("ANALYZE public.p, public.s;"), "{steps}");
        assert!(!seen.contains("independent"), "{seen}");
    }
}
