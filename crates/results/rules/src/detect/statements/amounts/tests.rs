use super::*;
use std::collections::BTreeMap;

use crate::Finding;
use crate::detect::tests::made::{found_on_full_cpus, found_with, one};
use pgassay_evidence::observed::PointObserved;
use pgassay_evidence::observed::statements::{Counters, StatementAnalysis, StatementWait};
use pgassay_model::observed::growth::GrowthRecord;

fn found(
    text: &str,
    root: Node,
    facts: RelationFacts,
    rows: f64,
    (waits, at): (Vec<(&'static str, &'static str, f64)>, &str),
    grown: &[(&str, f64)],
) -> Vec<Finding> {
    found_beside(text, root, facts, rows, (waits, at), grown, &[])
}

/// The same with counters of another table, `public.u`.
fn found_beside(
    text: &str,
    root: Node,
    facts: RelationFacts,
    rows: f64,
    (waits, at): (Vec<(&'static str, &'static str, f64)>, &str),
    grown: &[(&str, f64)],
    other: &[(&str, f64)],
) -> Vec<Finding> {
    found_with(waits, beside(text, root, facts, (rows, at), grown, other))
}

/// Puts that into what was observed.
fn beside(
    text: &str,
    root: Node,
    facts: RelationFacts,
    (rows, at): (f64, &str),
    grown: &[(&str, f64)],
    other: &[(&str, f64)],
) -> impl FnOnce(&mut PointObserved) + use<> {
    let plan = Plan {
        root,
        relations: BTreeMap::from([("public.t".to_owned(), facts)]),
        ..Plan::default()
    };
    let statement = StatementTime {
        text: text.into(),
        sightings: 90,
        share: 0.9,
        cpu_share: 0.9,
        running: 1.0,
        sessions: 6.0,
        waits: vec![StatementWait {
            name: at.to_owned(),
            sessions: 4.0,
        }],
        counters: Some(Counters {
            calls: 100.0,
            execution_ms: Some(5.0),
            rows: Some(rows),
            ..Counters::default()
        }),
        plan: Some(plan),
        ..StatementTime::default()
    };
    let table = |name: &str, grown: &[(&str, f64)]| Grown {
        name: name.into(),
        grown: grown.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
        ..Grown::default()
    };
    let tables = vec![table("public.t", grown), table("public.u", other)];
    move |observed| {
        observed.statements = Some(StatementAnalysis {
            looks: 100,
            sightings: 100,
            statements: vec![statement],
            other_sessions: 0.0,
            elsewhere: None,
        });
        observed.growth = Some(GrowthRecord {
            tables,
            ..GrowthRecord::default()
        });
    }
}

fn scan(kind: &str, filter: &str) -> Node {
    let conditions = match filter {
        "" => BTreeMap::new(),
        filter => BTreeMap::from([(Clause::Filter, filter.into())]),
    };
    Node {
        kind: kind.into(),
        relation: Some("public.t".into()),
        index: Some("t_a".into()),
        conditions,
        rows: 10.0,
        cost: 9.0,
        ..Node::default()
    }
}

#[test]
fn workers_that_a_scan_brings_go_with_it() {
    let filtered = Node {
        cost: 3400.0,
        ..scan("Seq Scan", "(t.a = $1)")
    };
    let root = Node {
        kind: "Gather".into(),
        cost: 4400.0,
        nodes: vec![filtered],
        ..Node::default()
    };
    let facts = RelationFacts {
        rows: Some(200_000.0),
        columns: vec!["a".into()],
        ..RelationFacts::default()
    };
    let read = [("seq_scan", 100.0), ("seq_tup_read", 2e7)];
    let findings = found(
        "SELECT 1 FROM t WHERE a = $1",
        root,
        facts,
        1.0,
        NONE,
        &read,
    );
    let scan = one(&findings, "sequential-scan");
    assert!((scan.budget_share.unwrap() - 0.9).abs() < 1e-9, "{scan:#?}");
}

/// A table of these columns, with an index whose first is this one.
fn indexed(columns: &[&str], first: &str) -> RelationFacts {
    RelationFacts {
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        indexes: vec![IndexFacts {
            name: "public.t_a".into(),
            first: Some(first.to_owned()),
            valid: true,
            ..IndexFacts::default()
        }],
        ..RelationFacts::default()
    }
}

const NONE: (Vec<(&str, &str, f64)>, &str) = (Vec::new(), "");

#[test]
fn an_offset_that_passes_over_thousands_is_told_how_to_page() {
    let root = || Node {
        kind: "Limit".into(),
        rows: 20.0,
        nodes: vec![scan("Index Scan", "")],
        ..Node::default()
    };
    let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 5e6)];
    let text = "SELECT a FROM t ORDER BY a LIMIT $1 OFFSET $2";
    let findings = found(text, root(), RelationFacts::default(), 20.0, NONE, &counted);
    assert!(
        one(&findings, "rows-discarded").remedy[0]
            .text
            .contains("keyset")
    );
    let few = [("idx_scan", 100.0), ("idx_tup_fetch", 4000.0)];
    let findings = found(text, root(), RelationFacts::default(), 20.0, NONE, &few);
    assert!(findings.iter().all(|f| f.id != "rows-discarded"));
}

#[test]
fn an_index_that_finds_far_more_than_the_filter_leaves_is_completed() {
    let facts = indexed(&["a", "b"], "a");
    let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 4e6)];
    let findings = found(
        "SELECT",
        scan("Index Scan", "(t.b = $1)"),
        facts,
        1.0,
        NONE,
        &counted,
    );
    let text = &one(&findings, "rows-discarded").remedy[0].text;
    assert_eq!(text, "CREATE INDEX CONCURRENTLY ON public.t (b, a);");
}

/// One more index was told where one stood ready that the costs kept the planner from.
#[test]
fn an_index_that_is_there_and_not_taken_is_no_index_that_lacks() {
    let under = |first: &str, above: fn(Node) -> Node| {
        let mut facts = indexed(&["id", "a"], "id");
        let mut other = facts.indexes[0].clone();
        other.name = "public.t_other".into();
        other.first = Some(first.into());
        other.columns = vec![first.into()];
        facts.indexes.push(other);
        let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 4e6)];
        let scan = scan("Index Scan", "(t.a = $1)");
        let findings = found("SELECT", above(scan), facts, 1.0, NONE, &counted);
        one(&findings, "rows-discarded").clone()
    };
    let with = |first: &str| under(first, |scan| scan);
    let steps = |finding: &Finding| -> String {
        let texts = finding.remedy.iter().map(|step| step.text.as_str());
        texts.collect::<Vec<_>>().join("; ")
    };
    let ready = with("a");
    assert!(!steps(&ready).contains("CREATE INDEX"), "{ready:#?}");
    // For the first few in an order it does not have both.
    let first_few = under("a", |scan| Node {
        kind: "Limit".into(),
        rows: 1.0,
        nodes: vec![scan],
        ..Node::default()
    });
    assert!(
        steps(&first_few).contains("ON public.t (a, id);"),
        "{first_few:#?}"
    );
    assert!(
        steps(&ready).contains("public.t_other (a) finds them")
            && steps(&ready).contains("random_page_cost"),
        "{ready:#?}"
    );
    assert!(
        ready.saw.contains("gone through without a condition")
            && ready.saw.contains("public.t_other not used"),
        "{ready:#?}"
    );
    let lacks = with("id");
    assert!(steps(&lacks).contains("CREATE INDEX"), "{lacks:#?}");
    assert!(!lacks.why.contains("two conditions"), "{lacks:#?}");
}

/// Of three workers each goes through a third of the index, and gives a third of what matches.
#[test]
fn workers_that_share_a_scan_are_added_up() {
    use pgassay_model::observed::plans::{Execution, Work};
    let root = || {
        let shared = Node {
            actual_rows: Some(240.0),
            work: Some(Work {
                loops: 3.0,
                removed: 50_000.0,
                ms: 20.0,
                ..Work::default()
            }),
            relationship: Some("Outer".into()),
            ..scan("Index Scan", "(t.a = $1)")
        };
        Node {
            kind: "Gather".into(),
            nodes: vec![shared],
            ..Node::default()
        }
    };
    let of = |root: Node| {
        found_with(Vec::new(), |observed| {
            beside(
                "SELECT",
                root,
                indexed(&["a", "id"], "id"),
                (720.0, ""),
                &[],
                &[],
            )(observed);
            let seen = observed.statements.as_mut().unwrap();
            seen.statements[0].plan.as_mut().unwrap().executed = Some(Execution {
                ms: 21.0,
                ..Execution::default()
            });
        })
    };
    let findings = of(root());
    let saw = &one(&findings, "rows-discarded").saw;
    assert!(saw.contains("150720 rows of public.t"), "{saw}");
    assert!(saw.contains("720 match"), "{saw}");
}

/// A guess of the planner's is no count, and no index can be made on a column of type json.
#[test]
fn what_a_filter_leaves_is_counted_or_not_told() {
    let facts = || indexed(&["doc", "carrier"], "carrier");
    let filter = "(((t.doc ->> $1::text) = $2::text) AND (NOT ((t.doc ->> $3::text))::boolean))";
    let scan = || Node {
        rows: 1.0,
        ..scan("Bitmap Heap Scan", filter)
    };
    let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 40_000.0)];
    let grouped = Node {
        kind: "Aggregate".into(),
        rows: 1.0,
        nodes: vec![scan()],
        ..Node::default()
    };
    let findings = found("SELECT", grouped, facts(), 1.5, NONE, &counted);
    assert!(
        findings.iter().all(|f| f.id != "rows-discarded"),
        "{findings:#?}"
    );
    let findings = found("SELECT", scan(), facts(), 2.0, NONE, &counted);
    let discarded = one(&findings, "rows-discarded");
    assert!(discarded.saw.contains("of which 2 match"), "{discarded:#?}");
    assert!(
        !discarded.remedy[0].text.contains("CREATE INDEX"),
        "{discarded:#?}"
    );
}

/// A nested loop's scans of its inner side say how many rows of the outer the filter left.
#[test]
fn a_loop_counts_what_the_filter_leaves() {
    let facts = || RelationFacts {
        columns: vec!["a".into(), "b".into()],
        ..RelationFacts::default()
    };
    let of = |matching: f64| {
        let outer = Node {
            rows: 1.0,
            ..scan("Bitmap Heap Scan", "(t.b = $1)")
        };
        let inner = Node {
            relation: Some("public.u".into()),
            ..scan("Index Scan", "")
        };
        let root = Node {
            kind: "Aggregate".into(),
            rows: 1.0,
            nodes: vec![Node {
                kind: "Nested Loop".into(),
                nodes: vec![outer, inner],
                rows: 1.0,
                ..Node::default()
            }],
            ..Node::default()
        };
        let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 20_000.0)];
        let more = [("idx_scan", 100.0 * matching)];
        found_beside("SELECT", root, facts(), 1.0, NONE, &counted, &more)
    };
    let all = of(200.0);
    assert!(all.iter().all(|f| f.id != "rows-discarded"), "{all:#?}");
    let estimate = one(&all, "rows-misestimated");
    assert!(
        estimate.saw.contains("1 rows where 200 come"),
        "{estimate:#?}"
    );
    let few = of(2.0);
    assert!(one(&few, "rows-discarded").saw.contains("of which 2 match"));
}

/// The side that is read most is the one that the evidence names, by the counters and not by the plan.
#[test]
fn the_busiest_nodes_are_counted() {
    let side = |name: &str, rows: f64| Node {
        relation: Some(name.into()),
        rows,
        ..scan("Index Scan", "")
    };
    let root = || Node {
        kind: "Nested Loop".into(),
        nodes: vec![side("public.t", 500.0), side("public.u", 80.0)],
        rows: 1.0,
        cost: 200.0,
        ..Node::default()
    };
    let of = |t: f64, u: f64| {
        let counted = |rows: f64| [("idx_scan", 1000.0), ("idx_tup_fetch", rows)];
        let edit = beside(
            "SELECT",
            root(),
            RelationFacts::default(),
            (1.0, ""),
            &counted(t),
            &counted(u),
        );
        let found = found_on_full_cpus(edit);
        one(&found, "cpu-saturated").evidence.join("; ")
    };
    let told = of(100_000.0, 800_000.0);
    assert!(
        told.contains("as counted: Index Scan on public.u 8000, Index Scan on public.t 1000"),
        "{told}"
    );
    // What was counted and is little is not replaced by a guess.
    assert!(
        !of(1000.0, 2000.0).contains("busiest"),
        "{}",
        of(1000.0, 2000.0)
    );
}

#[test]
fn indexes_that_are_only_written_are_listed() {
    let index = |name: &str, scans: f64, constraint: bool| IndexFacts {
        name: name.into(),
        valid: true,
        constraint,
        scans: Some(scans),
        ..IndexFacts::default()
    };
    let of = |read: f64| {
        let facts = RelationFacts {
            indexes: vec![
                index("t_pkey", 0.0, true),
                index("t_b", read, false),
                index("t_c", 0.0, false),
                index("t_d", 0.0, false),
            ],
            ..RelationFacts::default()
        };
        let root = Node {
            kind: "ModifyTable".into(),
            operation: Some("Insert".into()),
            relation: Some("public.t".into()),
            ..Node::default()
        };
        found("INSERT", root, facts, 1.0, NONE, &[])
    };
    let findings = of(0.0);
    let text = &one(&findings, "indexes-unread").remedy[0].text;
    assert!(text.contains("t_b") && !text.contains("t_pkey"), "{text}");
    assert!(of(7.0).iter().all(|f| f.id != "indexes-unread"));
}

#[test]
fn workers_for_a_few_milliseconds_are_not_worth_it() {
    let root = Node {
        kind: "Gather".into(),
        nodes: vec![scan("Seq Scan", "")],
        ..Node::default()
    };
    let waits = (
        vec![("IPC", "BgworkerShutdown", 4.0)],
        "IPC:BgworkerShutdown",
    );
    let findings = found("SELECT", root, RelationFacts::default(), 1.0, waits, &[]);
    assert!(
        one(&findings, "parallel-for-little").remedy[0]
            .text
            .contains("max_parallel_workers_per_gather")
    );
}
