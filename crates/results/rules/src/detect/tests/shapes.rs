//! Shapes of plans: each with a sound plan that looks alike.

use std::collections::BTreeMap;

use super::made::{found_with, one};
use crate::Finding;
use crate::detect::tests::made::statement;
use crate::finding::Confidence;
use pgassay_model::observed::plans::{IndexFacts, Node, Plan, RelationFacts};

fn node(kind: &str, (rows, cost): (f64, f64), nodes: Vec<Node>) -> Node {
    Node {
        kind: kind.into(),
        rows,
        cost,
        nodes,
        ..Node::default()
    }
}

fn scan(kind: &str, alias: &str, figures: (f64, f64), condition: &str) -> Node {
    Node {
        relation: Some("public.t".into()),
        alias: Some(alias.into()),
        ..node(kind, figures, vec![]).with(condition)
    }
}

/// What tests change of a node.
trait With {
    fn with(self, condition: &str) -> Self;
}

impl With for Node {
    fn with(mut self, condition: &str) -> Self {
        let conditions = condition.split_once(": ");
        self.conditions
            .extend(conditions.map(|(k, v)| (k.into(), v.into())));
        self
    }
}

/// `public.t` of 100000 rows in 2000 pages, with a unique index on these columns.
fn facts(unique: &[&str]) -> RelationFacts {
    RelationFacts {
        rows: Some(100_000.0),
        pages: Some(2000.0),
        columns: ["k", "at", "v", "tsv"].map(str::to_owned).to_vec(),
        indexes: vec![IndexFacts {
            name: "t_key".into(),
            first: unique.first().map(|c| (*c).to_owned()),
            columns: unique.iter().map(|c| (*c).to_owned()).collect(),
            valid: true,
            constraint: true,
            ..IndexFacts::default()
        }],
        ..RelationFacts::default()
    }
}

fn found(text: &str, root: Node, facts: RelationFacts) -> Vec<Finding> {
    let plan = Plan {
        root,
        relations: BTreeMap::from([("public.t".to_owned(), facts)]),
        work_mem_bytes: Some(65_536.0),
        ..Plan::default()
    };
    found_with(vec![], |observed| {
        observed.statements = Some(statement(text, Some(plan)));
        observed.growth = Some(Default::default());
    })
}

fn has(findings: &[Finding], id: &str) -> bool {
    findings.iter().any(|f| f.id == id)
}

#[test]
fn an_order_that_an_index_lacks_is_sorted() {
    let page = |condition: &str, key: &str, unique: &[&str]| {
        let mut sort = node(
            "Sort",
            (50_000.0, 5000.0),
            vec![scan("Seq Scan", "t", (50_000.0, 3000.0), condition)],
        );
        sort.sort_key = vec![key.into()];
        found(
            "SELECT",
            node("Limit", (10.0, 5000.0), vec![sort]),
            facts(unique),
        )
    };
    let seen = page("Filter: (t.k = $1)", "t.at DESC", &["v"]);
    assert_eq!(
        one(&seen, "sort-below-limit").remedy[0].text,
        "CREATE INDEX CONCURRENTLY ON public.t (k, at DESC);"
    );
    let has = |seen: Vec<Finding>| has(&seen, "sort-below-limit");
    assert!(!has(page("Filter: (t.k = $1)", "t.at DESC", &["k", "at"])));
    // Half of the rows are left: in the wanted order the first few come soon.
    let seen = page("Filter: (t.k > $1)", "t.at DESC", &["v"]);
    assert_eq!(
        one(&seen, "sort-below-limit").remedy[0].text,
        "CREATE INDEX CONCURRENTLY ON public.t (at DESC);"
    );
    assert!(!has(page("", "(similarity(t.v, $1)) DESC", &["v"])));
}

#[test]
fn an_index_in_another_order_gives_none() {
    let page = |keys: &[&str], change: fn(&mut IndexFacts)| {
        let mut sort = node(
            "Sort",
            (50_000.0, 5000.0),
            vec![scan("Seq Scan", "t", (50_000.0, 3000.0), "")],
        );
        sort.sort_key = keys.iter().map(|key| (*key).into()).collect();
        let mut facts = facts(&["k", "at"]);
        change(&mut facts.indexes[0]);
        let root = node("Limit", (10.0, 5000.0), vec![sort]);
        let seen = found("SELECT", root, facts);
        let finding = seen.into_iter().find(|f| f.id == "sort-below-limit");
        finding.map(|f| format!("{} {}", f.remedy[0].text, f.evidence.join(" ")))
    };
    let mixed = page(&["t.k", "t.at DESC"], |_| {}).unwrap();
    assert!(
        mixed.contains("ON public.t (k, at DESC);") && mixed.contains("in another order"),
        "{mixed}"
    );
    assert!(page(&["t.k DESC", "t.at DESC"], |_| {}).is_none());
}

#[test]
fn a_list_that_is_gone_through_for_each_row_is_no_hashed_one() {
    let listed = |condition: &str| {
        let list = Node {
            relationship: Some("SubPlan".into()),
            subplan: Some("SubPlan 1".into()),
            ..node(
                "Materialize",
                (100_000.0, 3000.0),
                vec![scan("Seq Scan", "x", (100_000.0, 2000.0), "")],
            )
        };
        let root = node("Seq Scan", (50.0, 300_000.0), vec![list]).with(condition);
        found("SELECT", root, facts(&["k"]))
    };
    let seen = listed("Filter: (NOT (SubPlan 1))");
    let finding = one(&seen, "subplan-per-row");
    assert!(
        finding.remedy[0].text.starts_with("NOT EXISTS"),
        "{finding:#?}"
    );
    assert_eq!(finding.confidence, Confidence::High);
    assert!(finding.remedy[1].text.contains("NULL"), "{finding:#?}");
    let newer = listed("Filter: (NOT (ANY (r.k = (SubPlan 1).col1)))");
    assert!(has(&newer, "subplan-per-row"));
    // The number in its name is taken away with the literals: the result was turned round.
    let first = |condition: &str| {
        let seen = listed(condition);
        one(&seen, "subplan-per-row").remedy[0].text.clone()
    };
    assert!(first("Filter: (NOT (SubPlan $1))").starts_with("NOT EXISTS"));
    assert!(first("Filter: (ALL (r.k <> (SubPlan $1).col1))").starts_with("NOT EXISTS"));
    assert!(first("Filter: ((SubPlan $1))").starts_with("EXISTS"));
    assert!(!has(
        &listed("Filter: (NOT (hashed SubPlan $1))"),
        "subplan-per-row"
    ));
    assert!(!has(
        &listed("Filter: (NOT (hashed SubPlan 1))"),
        "subplan-per-row"
    ));
}

#[test]
fn a_subquery_for_thousands_of_rows_is_a_join() {
    let selected = |rows: f64| {
        let inner = scan("Index Scan", "x", (10.0, 8.0), "Index Cond: (x.k = o.k)");
        let inner = Node {
            relationship: Some("SubPlan".into()),
            subplan: Some("SubPlan 1".into()),
            ..node("Aggregate", (1.0, 8.5), vec![inner])
        };
        let root = node("Seq Scan", (rows, 8.6 * rows), vec![inner]);
        has(&found("SELECT", root, facts(&["at"])), "subplan-per-row")
    };
    assert!(selected(50_000.0));
    // A page of them goes by the index.
    assert!(!selected(50.0));
}
