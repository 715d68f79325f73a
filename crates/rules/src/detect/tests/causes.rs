//! What plans tell together with counters and the catalogues: each with a sound one that looks alike.

use std::collections::BTreeMap;

use super::super::database::tests::statement;
use super::made::{found_with, one};
use crate::Finding;
use pgassay_evidence::observed::statements::Counters;
use pgassay_model::observed::growth::{Grown, GrowthRecord};
use pgassay_model::observed::plans::{IndexFacts, Node, Plan, RelationFacts, Work};

fn node(kind: &str, rows: f64, conditions: &[(&str, &str)], nodes: Vec<Node>) -> Node {
    let conditions = conditions.iter();
    Node {
        kind: kind.into(),
        rows,
        cost: 1000.0,
        conditions: conditions
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        nodes,
        ..Node::default()
    }
}

fn by_index(rows: f64, conditions: &[(&str, &str)]) -> Node {
    Node {
        relation: Some("public.t".into()),
        alias: Some("t".into()),
        index: Some("t_idx".into()),
        ..node("Index Scan", rows, conditions, vec![])
    }
}

/// An index of `public.t`.
fn index(method: &str, columns: &[&str]) -> IndexFacts {
    IndexFacts {
        name: "public.t_idx".into(),
        method: method.into(),
        first: columns.first().map(|c| (*c).to_owned()),
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        valid: true,
        ..IndexFacts::default()
    }
}

fn facts(index: IndexFacts) -> RelationFacts {
    let types = [
        ("a", "bigint"),
        ("b", "bigint"),
        ("c", "integer"),
        ("doc", "tsvector"),
    ];
    RelationFacts {
        rows: Some(100_000.0),
        pages: Some(2000.0),
        columns: types.iter().map(|(name, _)| (*name).to_owned()).collect(),
        types: types
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
            .collect(),
        indexes: vec![index],
        ..RelationFacts::default()
    }
}

fn grown(name: &str, of: Option<&str>, by: &[(&str, f64)], pages: f64) -> Grown {
    Grown {
        name: name.into(),
        of: of.map(str::to_owned),
        grown: by.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
        state: [("relpages".to_owned(), pages)].into(),
    }
}

/// What is found where the index has 500 pages and each of 100 scans reads so many blocks and entries.
fn walked(root: Node, facts: RelationFacts, (blocks, entries): (f64, f64)) -> Vec<Finding> {
    let by = [
        ("idx_scan", 100.0),
        ("idx_blks_hit", 100.0 * blocks),
        ("idx_tup_read", 100.0 * entries),
    ];
    let plan = Plan {
        root,
        relations: BTreeMap::from([("public.t".to_owned(), facts)]),
        ..Plan::default()
    };
    found_with(vec![], |observed| {
        let mut seen = statement("SELECT", Some(plan));
        seen.statements[0].counters = Some(Counters {
            calls: 100.0,
            rows: Some(5.0),
            ..Counters::default()
        });
        observed.statements = Some(seen);
        observed.growth = Some(GrowthRecord {
            indexes: vec![grown("public.t_idx", Some("public.t"), &by, 500.0)],
            ..GrowthRecord::default()
        });
    })
}

fn steps(findings: &[Finding]) -> Vec<&str> {
    let finding = one(findings, "index-walked");
    finding.remedy.iter().map(|s| s.text.as_str()).collect()
}

fn is_walked(findings: &[Finding]) -> bool {
    findings.iter().any(|f| f.id == "index-walked")
}

#[test]
fn a_range_in_two_columns_is_a_range_type() {
    let of = |condition: &str, columns: &[&str], read| {
        let scan = by_index(900.0, &[("Index Cond", condition)]);
        walked(scan, facts(index("btree", columns)), read)
    };
    let between = "((t.a <= $1) AND (t.b >= $2))";
    let seen = of(between, &["a", "b"], (250.0, 1.0));
    let steps = steps(&seen);
    assert!(
        steps[0].contains("WHERE a <= value ORDER BY a DESC LIMIT 1) r WHERE b >= value"),
        "{steps:?}"
    );
    assert!(
        steps[1].starts_with(
            "CREATE INDEX CONCURRENTLY ON public.t USING gist (int8range(a, b, '[]'));"
        ),
        "{steps:?}"
    );
    // Within each value of a column before them; from the other end.
    let booked = "((t.c = $1) AND (t.b > $2) AND (t.a < $3))";
    let seen = of(booked, &["c", "b", "a"], (250.0, 1.0));
    let steps = self::steps(&seen);
    assert!(
        steps[0].contains("WHERE c = … AND b > value ORDER BY b LIMIT 1) r WHERE a < value"),
        "{steps:?}"
    );
    assert!(
        steps[1].contains("btree_gist") && steps[1].contains("(c, int8range(a, b, '()'))"),
        "{steps:?}"
    );
    // It reads what it gives; both bounds are of one column; both ranges go the same way.
    assert!(!is_walked(&of(between, &["a", "b"], (20.0, 3000.0))));
    assert!(!is_walked(&of(between, &["a", "b"], (4.0, 1.0))));
    let of_one = "((t.a >= $1) AND (t.a <= $2) AND (t.b >= $3))";
    assert!(!is_walked(&of(of_one, &["a", "b"], (250.0, 1.0))));
    let same = "((t.a >= $1) AND (t.b >= $2))";
    assert!(!is_walked(&of(same, &["a", "b"], (250.0, 1.0))));
}

#[test]
fn a_next_page_is_a_comparison_of_rows() {
    let page = |filter: &str, condition: &[(&str, &str)], entries: f64| {
        let mut conditions = vec![("Filter", filter)];
        conditions.extend(condition);
        let scan = by_index(50_000.0, &conditions);
        let root = node("Limit", 20.0, &[], vec![scan]);
        walked(
            root,
            facts(index("btree", &["c", "a", "b"])),
            (250.0, entries),
        )
    };
    let led = [("Index Cond", "(t.c = $1)")];
    let seen = page(
        "((t.a < $2) OR ((t.a = $3) AND (t.b < $4)))",
        &led,
        40_000.0,
    );
    assert!(
        steps(&seen)[0].starts_with("compare rows: (a, b) < (…, …)"),
        "{:?}",
        steps(&seen)
    );
    let mixed = page(
        "((t.a < $2) OR ((t.a = $3) AND (t.b > $4)))",
        &led,
        40_000.0,
    );
    assert!(steps(&mixed)[0].contains("a <= …"), "{:?}", steps(&mixed));
    // Other alternatives, a short way, columns that the index does not come to.
    assert!(!is_walked(&page(
        "((t.a < $2) OR (t.b < $3))",
        &led,
        40_000.0
    )));
    assert!(!is_walked(&page(
        "((t.a < $2) OR ((t.a = $3) AND (t.b < $4)))",
        &led,
        30.0
    )));
    assert!(!is_walked(&page(
        "((t.a < $2) OR ((t.a = $3) AND (t.b < $4)))",
        &[],
        40_000.0
    )));
}

#[test]
fn a_condition_on_a_later_column_needs_an_index_of_its_own() {
    let of = |condition: &str, blocks: f64| {
        let scan = by_index(9.0, &[("Index Cond", condition)]);
        walked(scan, facts(index("btree", &["a", "b", "c"])), (blocks, 9.0))
    };
    let seen = of("((t.c > $1) AND (t.b = $2))", 480.0);
    assert_eq!(
        steps(&seen),
        ["CREATE INDEX CONCURRENTLY ON public.t (b, c);"]
    );
    // From 18 on a scan may skip.
    assert!(!is_walked(&of("(t.b = $1)", 12.0)));
    assert!(!is_walked(&of("((t.a = $1) AND (t.c = $2))", 480.0)));
}

#[test]
fn a_text_search_goes_by_gin() {
    let of = |method: &str, condition: &str| {
        let below = Node {
            index: Some("t_idx".into()),
            ..node(
                "Bitmap Index Scan",
                30.0,
                &[("Index Cond", condition)],
                vec![],
            )
        };
        let heap = Node {
            relation: Some("public.t".into()),
            ..node("Bitmap Heap Scan", 30.0, &[], vec![below])
        };
        walked(heap, facts(index(method, &["doc"])), (450.0, 90.0))
    };
    let seen = of("gist", "(t.doc @@ $1::tsquery)");
    assert_eq!(
        steps(&seen)[0],
        "CREATE INDEX CONCURRENTLY ON public.t USING gin (doc);"
    );
    assert!(!is_walked(&of("gin", "(t.doc @@ $1::tsquery)")));
    assert!(!is_walked(&of("gist", "(t.doc && $1::box)")));
}

/// Of two children that are joined like this.
fn joined(condition: &str) -> bool {
    let scan = |table: &str| Node {
        relation: Some(format!("public.{table}")),
        alias: Some(table.into()),
        ..node("Seq Scan", 100.0, &[], vec![])
    };
    let join = node(
        "Hash Join",
        8000.0,
        &[("Hash Cond", condition)],
        vec![scan("task"), scan("file")],
    );
    let output = "p.name, count(DISTINCT task.id), count(DISTINCT file.id)";
    let root = node("Aggregate", 1.0, &[("Output", output)], vec![join]);
    let facts = |columns: &[&str]| RelationFacts {
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        indexes: vec![IndexFacts {
            constraint: true,
            ..index("btree", &["id"])
        }],
        ..RelationFacts::default()
    };
    let plan = Plan {
        root,
        relations: BTreeMap::from([
            ("public.task".to_owned(), facts(&["id", "project"])),
            (
                "public.file".to_owned(),
                facts(&["id", "project", "task_id"]),
            ),
        ]),
        ..Plan::default()
    };
    let found = found_with(vec![], |observed| {
        observed.statements = Some(statement("SELECT", Some(plan)));
        observed.growth = Some(GrowthRecord::default());
    });
    found.iter().any(|f| f.id == "children-joined")
}

#[test]
fn a_child_of_a_child_is_no_product() {
    assert!(joined("(file.project = task.project)"));
    assert!(!joined("(file.task_id = task.id)"));
    assert!(!joined("(task.id = file.task_id)"));
}

#[test]
fn a_brin_index_over_rows_in_its_order_that_leads_to_all_is_summarized() {
    let found = |follows: f64, removed: f64| {
        let mut facts = facts(index("brin", &["a"]));
        facts.declared.correlations.insert("a".into(), follows);
        let scan = Node {
            index: Some("t_idx".into()),
            ..node("Bitmap Index Scan", 200.0, &[], vec![])
        };
        let root = Node {
            relation: Some("public.t".into()),
            actual_rows: Some(200.0),
            work: Some(Work {
                loops: 1.0,
                removed,
                ms: 30.0,
                ..Work::default()
            }),
            ..node(
                "Bitmap Heap Scan",
                200.0,
                &[("Recheck Cond", "(t.a > $1)")],
                vec![scan],
            )
        };
        let plan = Plan {
            root,
            relations: BTreeMap::from([("public.t".to_owned(), facts)]),
            ..Plan::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement("SELECT 1 FROM t", Some(plan)));
        });
        found.into_iter().find(|f| f.id == "brin-unsummarized")
    };
    let seen = found(0.99, 90_000.0).unwrap();
    assert!(
        seen.remedy[0]
            .text
            .contains("brin_summarize_new_values('public.t_idx')"),
        "{seen:#?}"
    );
    // Where the values lie anywhere no summary helps; and a range has rows that don't match.
    assert!(found(0.1, 90_000.0).is_none());
    assert!(found(0.99, 1500.0).is_none());
}
