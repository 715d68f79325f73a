//! Shapes of plans: each with a sound plan that looks alike.

use std::collections::BTreeMap;

use super::super::database::tests::statement;
use super::made::{found_with, one};
use crate::Finding;
use crate::finding::Confidence;
use pgassay_model::observed::plans::{IndexFacts, LeakyFacts, Node, Plan, RelationFacts};

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
            .extend(conditions.map(|(k, v)| (k.to_owned(), v.to_owned())));
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
fn one_row_of_each_key_is_found_by_the_key() {
    let unique = |keys: f64, condition: &str| {
        let mut sort = node(
            "Sort",
            (100_000.0, 9000.0),
            vec![scan("Seq Scan", "t", (100_000.0, 3000.0), condition)],
        );
        sort.sort_key = vec!["t.k".into(), "t.at DESC".into()];
        found(
            "SELECT",
            node("Unique", (keys, 9500.0), vec![sort]),
            facts(&["at"]),
        )
    };
    let seen = unique(60.0, "");
    let remedy = &one(&seen, "distinct-over-many").remedy;
    assert!(remedy[0].text.contains("LATERAL"), "{remedy:?}");
    assert!(
        remedy[1]
            .text
            .starts_with("CREATE INDEX CONCURRENTLY ON public.t (k, at DESC);"),
        "{remedy:?}"
    );
    // Nearly each row is a key of its own, or a condition picks rows.
    assert!(!has(&unique(90_000.0, ""), "distinct-over-many"));
    assert!(!has(
        &unique(60.0, "Filter: (t.v > $1)"),
        "distinct-over-many"
    ));
    // A sum needs every row, the largest value does not.
    let grouped = |output: &str| {
        let scan = scan("Seq Scan", "t", (100_000.0, 3000.0), "");
        let mut groups = node("Aggregate", (60.0, 3500.0), vec![scan]).with(output);
        groups.group_key = vec!["t.k".into()];
        has(
            &found("SELECT", groups, facts(&["k"])),
            "distinct-over-many",
        )
    };
    assert!(grouped("Output: k, max(at)"));
    assert!(!grouped("Output: k, sum(v)"));
}

#[test]
fn a_window_without_an_order_reads_all_for_a_page() {
    let page = |text: &str, rows: f64| {
        let window = node(
            "WindowAgg",
            (rows, 4000.0),
            vec![scan("Index Scan", "t", (rows, 3000.0), "")],
        )
        .with("Output: k, count(*) OVER (?)");
        has(
            &found(
                text,
                node("Limit", (25.0, 4000.0), vec![window]),
                facts(&["k"]),
            ),
            "window-below-limit",
        )
    };
    assert!(page("SELECT k, count(*) OVER () FROM t LIMIT $1", 10_000.0));
    assert!(page(
        "SELECT k, count(*) OVER (PARTITION BY v) FROM t LIMIT $1",
        10_000.0
    ));
    // It has its value with the first row; or there are few.
    assert!(!page(
        "SELECT k, row_number() OVER (ORDER BY k) FROM t LIMIT $1",
        10_000.0
    ));
    assert!(!page("SELECT k, count(*) OVER () FROM t LIMIT $1", 100.0));
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
        sort.sort_key = keys.iter().map(|key| (*key).to_owned()).collect();
        let mut facts = facts(&["k", "at"]);
        change(&mut facts.indexes[0]);
        let root = node("Limit", (10.0, 5000.0), vec![sort]);
        let seen = found("SELECT", root, facts);
        let finding = seen.into_iter().find(|f| f.id == "sort-below-limit");
        finding.map(|f| format!("{} {}", f.remedy[0].text, f.evidence.join(" ")))
    };
    let mixed = page(&["t.k", "t.at DESC"], |_| {}).unwrap();
    assert!(
        mixed.contains("ON public.t (k, at DESC);") && mixed.contains("in one direction"),
        "{mixed}"
    );
    assert!(page(&["t.k DESC", "t.at DESC"], |_| {}).is_none());
    let patterns = page(&["t.k"], |index| {
        index.operator_class = "text_pattern_ops".into()
    });
    assert!(patterns.unwrap().contains("has another order"));
    assert!(page(&["t.k"], |index| index.method = "hash".into()).is_some());
    assert!(page(&["t.k"], |index| index.method = "btree".into()).is_none());
}

#[test]
fn the_nearest_by_an_operator_are_told_the_index_of_its_type() {
    let first = |kind: &str| {
        let scan = scan("Seq Scan", "t", (100_000.0, 3000.0), "");
        let mut sort = node("Sort", (100_000.0, 4000.0), vec![scan]);
        sort.sort_key = vec!["((t.v <-> $1::text))".into()];
        let mut facts = facts(&["k"]);
        facts.types = [("v".to_owned(), kind.to_owned())].into();
        let seen = found("SELECT", node("Limit", (5.0, 4000.0), vec![sort]), facts);
        one(&seen, "sort-by-expression").remedy[0].text.clone()
    };
    assert!(first("text").contains("USING gist (v gist_trgm_ops)"));
    assert!(first("point").contains("USING gist (v);"));
    assert!(!first("integer").contains("USING gist (v"));
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

#[test]
fn a_bitmap_beyond_work_mem_is_lossy() {
    let bitmap = |matching: f64| {
        let index = node("Bitmap Index Scan", (matching, 50.0), vec![]);
        let mut heap = scan(
            "Bitmap Heap Scan",
            "t",
            (matching, 3000.0),
            "Recheck Cond: (t.tsv @@ $1)",
        );
        heap.nodes = vec![index];
        found("SELECT", heap, facts(&["k"]))
    };
    // 64 kB hold 1024 pages.
    let seen = bitmap(8000.0);
    let finding = one(&seen, "bitmap-lossy");
    assert!(
        finding.saw.contains("a bitmap of 1024 pages"),
        "{}",
        finding.saw
    );
    assert!(
        finding.remedy[0].text.starts_with("SET work_mem = '4MB'"),
        "{finding:#?}"
    );
    assert!(!has(&bitmap(900.0), "bitmap-lossy"));
}

#[test]
fn an_operator_that_must_not_see_hidden_rows_names_its_policy() {
    let searched = |leaky: bool, policies: bool| {
        let mut of = facts(&["k"]);
        of.indexes.push(IndexFacts {
            name: "t_tsv".into(),
            first: Some("tsv".into()),
            columns: vec!["tsv".into()],
            valid: true,
            ..IndexFacts::default()
        });
        if policies {
            of.policies.insert("own".into(), "(k = $1)".into());
        }
        if leaky {
            of.leaky.push(LeakyFacts {
                column: "tsv".into(),
                operator: "@@".into(),
                function: "ts_match_vq(tsvector,tsquery)".into(),
            });
        }
        let filter = "Filter: ((t.k = $1) AND (t.tsv @@ $2))";
        found("SELECT", scan("Seq Scan", "t", (50.0, 4000.0), filter), of)
    };
    let seen = searched(true, true);
    let finding = one(&seen, "security-barrier");
    assert!(
        finding.saw.contains("t_tsv can't serve it"),
        "{}",
        finding.saw
    );
    assert!(
        finding.remedy[1]
            .text
            .starts_with("ALTER FUNCTION ts_match_vq(tsvector,tsquery) LEAKPROOF"),
        "{finding:#?}"
    );
    // It is no matter of an index that is lacking or broken.
    assert!(!has(&seen, "sequential-scan"));
    assert!(!has(&searched(false, true), "security-barrier"));
    assert!(!has(&searched(true, false), "security-barrier"));
}

#[test]
fn a_recursion_over_a_tree_reaches_each_row_once() {
    let walk = |text: &str, unique: &[&str]| {
        let link = scan(
            "Index Only Scan",
            "i",
            (2.0, 1.0),
            "Index Cond: (i.k = g.at)",
        );
        let step = node(
            "Nested Loop",
            (80.0, 80.0),
            vec![node("WorkTable Scan", (20.0, 0.2), vec![]), link],
        );
        let first = scan("Index Only Scan", "t", (2.0, 1.0), "Index Cond: (t.k = $1)");
        let union = node("Recursive Union", (800.0, 900.0), vec![first, step]);
        has(&found(text, union, facts(unique)), "recursion-repeats")
    };
    let all = "WITH RECURSIVE g AS (SELECT at FROM t UNION ALL SELECT i.at FROM g JOIN t i ON i.k = g.at) SELECT 1";
    assert!(walk(all, &["k", "at"]));
    assert!(!walk(&all.replace("UNION ALL", "UNION"), &["k", "at"]));
    assert!(!walk(all, &["k"]));
}

#[test]
fn branches_that_read_a_table_again_are_one_pass() {
    let branches = |many: usize, rows: f64| {
        let branch = || {
            let scan = scan("Index Scan", "t", (rows, 2000.0), "Index Cond: (t.k > $1)");
            node("Aggregate", (1.0, 2100.0), vec![scan])
        };
        let append = node(
            "Append",
            (4.0, 2100.0 * many as f64),
            (0..many).map(|_| branch()).collect(),
        );
        has(
            &found("SELECT", append, facts(&["k"])),
            "same-table-repeatedly",
        )
    };
    assert!(branches(4, 60_000.0));
    assert!(!branches(2, 60_000.0));
    // By index, for a few rows each.
    assert!(!branches(4, 20.0));
}

#[test]
fn attributes_as_rows_are_no_look_ups_by_key() {
    let joined = |many: usize, unique: &[&str]| {
        let look = || Node {
            index: Some("t_key".into()),
            ..scan("Index Scan", "w", (1.0, 8.0), "Index Cond: (w.k = p.k)")
        };
        let first = node("Seq Scan", (500.0, 20.0), vec![]);
        let root = (0..many).fold(first, |outer, _| {
            let cost = outer.cost + 4000.0;
            node("Nested Loop", (500.0, cost), vec![outer, look()])
        });
        has(
            &found("SELECT", root, facts(unique)),
            "same-table-repeatedly",
        )
    };
    assert!(joined(7, &["k", "at"]));
    assert!(!joined(3, &["k", "at"]));
    assert!(!joined(7, &["k"]));
}

#[test]
fn a_function_in_the_place_of_an_operator_is_told_the_operator() {
    let filtered = |filter: &str, rows: f64| {
        let scan = scan("Seq Scan", "t", (rows, 4000.0), filter);
        found("SELECT", scan, facts(&["k"]))
    };
    let seen = filtered("Filter: (similarity(t.v, $1) > $2)", 33_333.0);
    let remedy = &one(&seen, "sequential-scan").remedy;
    assert!(remedy[0].text.contains("column % value"), "{remedy:?}");
    let of_day = filtered("Filter: (date_trunc($1::text, t.at) = $2)", 500.0);
    let remedy = &one(&of_day, "sequential-scan").remedy;
    assert!(
        remedy[0]
            .text
            .starts_with("compare at itself with the bounds"),
        "{remedy:?}"
    );
    // Any other function that lets a third through is none that searches.
    let other = filtered("Filter: (score(t.v, $1) > $2)", 33_333.0);
    assert!(!has(&other, "sequential-scan"));
}

#[test]
fn what_is_counted_only_to_be_compared_is_asked_for_by_exists() {
    let counted = |condition: &str, output: &str, each: f64| {
        let inner = scan(
            "Index Only Scan",
            "x",
            (each, 20.0),
            "Index Cond: (x.k = o.k)",
        );
        let inner = Node {
            relationship: Some("SubPlan".into()),
            subplan: Some("SubPlan 1".into()),
            ..node("Aggregate", (1.0, 22.0), vec![inner])
        };
        let inner = inner.with(output);
        let root = scan("Seq Scan", "o", (30.0, 700.0), condition);
        let root = Node {
            nodes: vec![inner],
            ..root
        };
        found("SELECT", root, facts(&["at"]))
    };
    let compared = "Filter: ((SubPlan $1) > $2)";
    let seen = counted(compared, "Output: count(*)", 1000.0);
    let finding = one(&seen, "count-for-existence");
    assert!(
        finding.saw.starts_with("1000 rows of public.t are counted"),
        "{finding:#?}"
    );
    assert!(finding.remedy[0].text.contains("EXISTS"), "{finding:#?}");
    for (condition, output, each) in [
        ("Filter: (o.k = (SubPlan 1))", "Output: count(*)", 1000.0),
        (compared, "Output: sum(x.k)", 1000.0),
        (compared, "Output: count(*)", 2.0),
    ] {
        assert!(!has(
            &counted(condition, output, each),
            "count-for-existence"
        ));
    }
}

#[test]
fn the_nearest_by_a_formula_are_told_from_what_an_index_could_have_in_order() {
    let first = |key: &str, rows: f64| {
        let scan = scan("Seq Scan", "t", (rows, 3000.0), "");
        let mut sort = node("Sort", (rows, 4000.0), vec![scan]);
        sort.sort_key = vec![key.into()];
        let root = node("Limit", (5.0, 4000.0), vec![sort]);
        found("SELECT", root, facts(&["k"]))
    };
    let near = first(
        "(sqrt((((t.k - $1) ^ $2) + ((t.at - $3) ^ $2))))",
        100_000.0,
    );
    let remedy = &one(&near, "sort-by-expression").remedy;
    assert!(
        remedy[0].text.contains("<->") && remedy[1].text.contains("box"),
        "{remedy:?}"
    );
    let own = first("(lower(t.v)) DESC", 100_000.0);
    let remedy = &one(&own, "sort-by-expression").remedy;
    assert!(
        remedy[0]
            .text
            .starts_with("CREATE INDEX CONCURRENTLY ON public.t ((lower(v)));"),
        "{remedy:?}"
    );
    for (key, rows) in [
        ("t.k", 100_000.0),
        ("(random())", 100_000.0),
        ("(lower(t.v))", 50.0),
    ] {
        assert!(!has(&first(key, rows), "sort-by-expression"), "{key}");
    }
}

#[test]
fn a_default_partition_with_the_rows_of_others_is_named() {
    let read = |default: bool, wanted: f64, filter: &str| {
        let facts = RelationFacts {
            partition_of: Some(("public.sale".into(), 4)),
            partition_key: vec!["at".into()],
            default_partition: default,
            ..facts(&["k"])
        };
        let root = scan("Seq Scan", "t", (wanted, 3000.0), filter);
        has(&found("SELECT", root, facts), "default-partition")
    };
    assert!(read(true, 4000.0, "Filter: ((t.at >= $1) AND (t.at < $2))"));
    assert!(!read(false, 4000.0, "Filter: (t.at >= $1)"));
    assert!(!read(true, 90_000.0, "Filter: (t.at >= $1)"));
    assert!(!read(true, 4000.0, "Filter: (t.v = $1)"));
}
