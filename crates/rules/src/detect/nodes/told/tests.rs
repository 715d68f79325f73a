//! What is done about busy nodes of known kinds.

use pgassay_model::observed::plans::{Execution, RelationFacts, Work};

use super::super::{busy, steps};
use super::*;

fn node(
    kind: &str,
    conditions: &[(&str, &str)],
    (rows, removed, ms): (f64, f64, f64),
    nodes: Vec<Node>,
) -> Node {
    Node {
        kind: kind.into(),
        conditions: conditions
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        actual_rows: Some(rows),
        work: Some(Work {
            loops: 1.0,
            removed,
            ms,
            ..Work::default()
        }),
        nodes,
        ..Node::default()
    }
}

fn told(root: Node, text: &str) -> String {
    let facts = RelationFacts {
        columns: vec!["id".into(), "items".into()],
        types: [("items".to_owned(), "jsonb".to_owned())].into(),
        ..RelationFacts::default()
    };
    let plan = Plan {
        root,
        executed: Some(Execution::default()),
        relations: [("public.cart".to_owned(), facts)].into(),
        ..Plan::default()
    };
    let all = busy(&plan).unwrap();
    let told = steps(&all[0], &plan, text)
        .into_iter()
        .map(|(_, text)| text);
    told.collect::<Vec<_>>().join(" | ")
}

fn scan(table: &str, conditions: &[(&str, &str)], did: (f64, f64, f64)) -> Node {
    Node {
        relation: Some(table.to_owned()),
        ..node("Seq Scan", conditions, did, vec![])
    }
}

#[test]
fn what_is_counted_distinct_and_what_is_counted_at_all() {
    let rows = || scan("public.cart", &[], (50_000.0, 0.0, 3.0));
    let distinct = node(
        "Aggregate",
        &[("Output", "count(DISTINCT visitor)")],
        (1.0, 0.0, 90.0),
        vec![rows()],
    );
    assert!(told(distinct, "").contains("SELECT DISTINCT x"));
    let count = node(
        "Aggregate",
        &[("Output", "count(*)")],
        (1.0, 0.0, 1.0),
        vec![rows()],
    );
    assert!(told(count, "").contains("LIMIT 1001"));
    let sum = node(
        "Aggregate",
        &[("Output", "sum(cart.id)")],
        (1.0, 0.0, 1.0),
        vec![rows()],
    );
    assert!(!told(sum, "").contains("LIMIT 1001"));
}

#[test]
fn elements_that_are_searched_row_by_row_are_told_of_containment() {
    let elements = Node {
        function: Some("jsonb_array_elements".into()),
        relationship: Some("SubPlan".into()),
        subplan: Some("SubPlan 1".into()),
        ..node(
            "Function Scan",
            &[("Filter", "((e.value ->> $1) = $2)")],
            (0.0, 5.0, 90.0),
            vec![],
        )
    };
    let mut outer = scan(
        "public.cart",
        &[("Filter", "(SubPlan 1)")],
        (3.0, 20_000.0, 9.0),
    );
    outer.nodes = vec![elements];
    let told = told(outer, "");
    assert!(
        told.contains("items @> '[{") && told.contains("USING gin (items)"),
        "{told}"
    );
}

#[test]
fn fences_and_wildcards_are_told_by_their_nodes() {
    let fenced = node(
        "Subquery Scan",
        &[("Filter", "(live.customer = $1)")],
        (5.0, 90_000.0, 9.0),
        vec![],
    );
    assert!(told(fenced, "").contains("OFFSET 0"));
    let mut bounded = node(
        "Index Scan",
        &[
            ("Filter", "(o.ref ~~ $1)"),
            ("Index Cond", "((o.ref ~>=~ $1) AND (o.ref ~<~ $2))"),
        ],
        (9.0, 9_000.0, 9.0),
        vec![],
    );
    bounded.relation = Some("public.orders".into());
    assert!(told(bounded, "").contains("AB\\_1%"));
}

#[test]
fn functions_that_are_dear_by_nature_are_told_what_is_cheap() {
    let zones = Node {
        function: Some("pg_timezone_names".into()),
        ..node("Function Scan", &[], (1198.0, 0.0, 50.0), vec![])
    };
    assert!(told(zones, "").contains("CREATE TABLE time_zone"));
    let powers = |column: &str| {
        let facts = RelationFacts {
            types: [("rate".to_owned(), "numeric".to_owned())].into(),
            ..RelationFacts::default()
        };
        let output = format!("sum((cents * power(($1 + loan.{column}), 2)))");
        let plan = Plan {
            root: node("Aggregate", &[("Output", &output)], (1.0, 0.0, 4.0), vec![]),
            executed: Some(Execution::default()),
            relations: [("public.loan".to_owned(), facts)].into(),
            ..Plan::default()
        };
        let all = busy(&plan).unwrap();
        steps(&all[0], &plan, "")
            .iter()
            .any(|(_, text)| text.contains("::float8"))
    };
    assert!(powers("rate"));
    assert!(!powers("months"));
}

#[test]
fn a_generated_column_that_a_trigger_has_computed_is_told_of() {
    use pgassay_model::observed::plans::TriggerFacts;
    let of = |text: &str, triggers: Vec<TriggerFacts>| {
        let mut facts = RelationFacts {
            triggers,
            ..RelationFacts::default()
        };
        let expression = "to_tsvector($1::regconfig, body)".to_owned();
        facts.declared.generated = [("tsv".to_owned(), expression)].into();
        let mut root = node("ModifyTable", &[], (0.0, 0.0, 20.0), vec![]);
        root.operation = Some("Update".into());
        root.relation = Some("public.art".into());
        let plan = Plan {
            root,
            executed: Some(Execution::default()),
            relations: [("public.art".to_owned(), facts)].into(),
            ..Plan::default()
        };
        let all = busy(&plan).unwrap();
        steps(&all[0], &plan, text)[0].1.clone()
    };
    let touch = || TriggerFacts {
        name: "touch".into(),
        function: "touch".into(),
        for_each_row: true,
        before: true,
        events: vec!["Update".into()],
        ..TriggerFacts::default()
    };
    let hits = "UPDATE art SET hits = hits + 1 WHERE id = $1";
    assert!(of(hits, vec![touch()]).contains("FOR EACH ROW, here touch,"));
    assert!(!of(hits, vec![]).contains("GENERATED"));
    let body = of("UPDATE art SET body = $1 WHERE id = $2", vec![touch()]);
    assert!(body.contains("a cheaper expression"), "{body}");
}

#[test]
fn a_table_that_is_sent_whole_is_told_conditions() {
    let whole = scan("public.voucher", &[], (15_000.0, 0.0, 2.0));
    assert!(told(whole, "").contains("into WHERE"));
    let some = scan(
        "public.voucher",
        &[("Filter", "(voucher.cents > 5)")],
        (15_000.0, 10.0, 2.0),
    );
    assert!(!told(some, "").contains("into WHERE"));
}

#[test]
fn rows_strewn_over_a_table_are_told_an_index_with_their_columns() {
    let of = |blocks: f64, output: &str| {
        let mut pay = node(
            "Bitmap Heap Scan",
            &[("Recheck Cond", "(pay.customer = $1)")],
            (1000.0, 0.0, 9.0),
            vec![],
        );
        pay.relation = Some("public.pay".into());
        pay.work = pay.work.map(|work| Work { blocks, ..work });
        let facts = RelationFacts {
            columns: ["customer", "amount", "note"].map(str::to_owned).to_vec(),
            ..RelationFacts::default()
        };
        let plan = Plan {
            root: node(
                "Aggregate",
                &[("Output", output)],
                (1.0, 0.0, 0.1),
                vec![pay],
            ),
            executed: Some(Execution::default()),
            relations: [("public.pay".to_owned(), facts)].into(),
            ..Plan::default()
        };
        let all = busy(&plan).unwrap();
        steps(&all[0], &plan, "")[0].1.clone()
    };
    assert!(
        of(990.0, "sum(amount)")
            .starts_with("CREATE INDEX CONCURRENTLY ON public.pay (customer) INCLUDE (amount);")
    );
    // Rows that lie together, and a count that needs no other column.
    assert!(!of(20.0, "sum(amount)").contains("INCLUDE"));
    assert!(!of(990.0, "count(*)").contains("INCLUDE"));
}

#[test]
fn groupings_set_operations_and_pairs_of_rows_are_told_what_to_write() {
    let rows = |table: &str| scan(table, &[], (50_000.0, 0.0, 3.0));
    let group = node(
        "Aggregate",
        &[("Output", "a, b, sum(c)")],
        (900.0, 0.0, 90.0),
        vec![rows("public.t")],
    );
    let text = "SELECT a, b, sum(c) FROM t GROUP BY CUBE (a, b)";
    assert!(told(group, text).contains("GROUPING SETS"));
    let sets = node(
        "SetOp",
        &[],
        (9.0, 0.0, 90.0),
        vec![rows("public.a"), rows("public.b")],
    );
    assert!(told(sets, "SELECT id FROM a\n EXCEPT\n SELECT id FROM b").contains("NOT EXISTS"));
    let pairs = |one: &str, other: &str| {
        let join = node(
            "Hash Join",
            &[("Join Filter", "(b.at < a.at)")],
            (900.0, 400_000.0, 90.0),
            vec![rows(one), rows(other)],
        );
        told(join, "SELECT a.id, max(b.at) FROM t a JOIN t b USING (k)")
    };
    assert!(pairs("public.t", "public.t").contains("lag(x) OVER"));
    assert!(!pairs("public.t", "public.u").contains("lag(x) OVER"));
}
