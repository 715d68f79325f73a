//! What the busiest nodes and triggers of plans that ran are told to do.

use super::*;
use crate::detect::tests::made::{found_on_full_cpus, found_with, statement};
use pgassay_model::observed::plans::Execution;

fn ran(kind: &str, (loops, rows, removed): (f64, f64, f64), ms: f64, nodes: Vec<Node>) -> Node {
    Node {
        kind: kind.into(),
        relation: kind.ends_with("Scan").then(|| "public.file".to_owned()),
        conditions: [(Clause::Filter, "(f.a = $1)".into())].into(),
        rows: 1.0,
        actual_rows: Some(rows),
        work: Some(Work {
            loops,
            removed,
            ms,
            ..Work::default()
        }),
        nodes,
        ..Node::default()
    }
}

fn plan(root: Node) -> Plan {
    Plan {
        root,
        executed: Some(Execution {
            ms: 10.0,
            ..Execution::default()
        }),
        ..Plan::default()
    }
}

#[test]
fn the_busiest_node_is_named_with_what_it_did() {
    let outer = ran("Seq Scan", (1.0, 100.0, 0.0), 0.5, vec![]);
    let inner = ran("Index Scan", (100.0, 80.0, 5.0), 9.0, vec![]);
    let plan = plan(ran(
        "Nested Loop",
        (1.0, 8000.0, 0.0),
        0.5,
        vec![outer, inner],
    ));
    let text = busiest(&plan).unwrap();
    let expected = format!(
        "in an execution of 10.00 ms its plan's busiest nodes were: {} Index Scan on public.file, executed 100 times, \
         80 rows each, 5 more taken away by (f.a = $1); {}",
        tenths(0.9),
        tenths(0.05)
    );
    assert!(text.starts_with(&expected), "{text}");
    let all = busy(&plan).unwrap();
    assert_eq!(all[0].gone_through(), 8500.0);
    let step = step(&all[0], &plan);
    assert!(
        step.contains("for each row of Seq Scan on public.file"),
        "{step}"
    );
}

#[test]
fn what_to_look_at_goes_by_what_the_node_does() {
    let of = |root: Node| {
        let plan = plan(root);
        let all = busy(&plan).unwrap();
        step(&all[0], &plan)
    };
    let discards = of(ran("Seq Scan", (1.0, 3.0, 90_000.0), 9.0, vec![]));
    assert!(
        discards.contains("the rows which (f.a = $1) keeps"),
        "{discards}"
    );
    let sorts = of(Node {
        sort_key: vec!["f.b".into()],
        ..ran("Sort", (1.0, 50_000.0, 0.0), 9.0, vec![])
    });
    assert!(sorts.contains("in the order of f.b"), "{sorts}");
    let mut spills = ran("Sort", (1.0, 50_000.0, 0.0), 9.0, vec![]);
    spills.work.as_mut().unwrap().temporary_blocks = 700.0;
    assert!(of(spills).contains("700 blocks of temporary files"));
}

/// An update that found its rows by their key was told of an index for a LIMIT.
#[test]
fn a_node_that_only_finds_what_is_changed_is_no_finding() {
    let named = |removed: f64| {
        let scan = ran("Index Scan", (1.0, 99.0, removed), 8.0, vec![]);
        let root = ran("ModifyTable", (1.0, 0.0, 0.0), 1.0, vec![scan]);
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement("UPDATE file SET a = $1", Some(plan(root))));
        });
        found.into_iter().any(|f| f.id.starts_with(NODE))
    };
    assert!(!named(0.0));
    assert!(named(20_000.0));
}

#[test]
fn a_foreign_key_is_searched_on_the_side_that_has_an_index_or_on_the_other() {
    let found = |operation: &str, calls: f64| {
        let mut root = ran("ModifyTable", (1.0, 0.0, 0.0), 1.0, vec![]);
        root.operation = Some(operation.into());
        let mut plan = plan(root);
        plan.executed = Some(Execution {
            ms: 10.0,
            triggers: vec![TriggerRun {
                trigger: None,
                constraint: Some("purchase_customer_id_fkey".into()),
                relation: "purchase".into(),
                ms: 9.0,
                calls,
            }],
            ..Execution::default()
        });
        let found = found_on_full_cpus(|observed| {
            observed.statements = Some(statement("INSERT INTO purchase", Some(plan)));
        });
        let found = found.into_iter().find(|f| f.id.starts_with(NODE)).unwrap();
        (found.remedy[0].text.clone(), found.severity)
    };
    let (told, severity) = found("Insert", 1.0);
    assert!(told.contains("FOR UPDATE"), "{told}");
    assert_eq!(severity, Severity::Medium);
    // A look-up by a key that takes no millisecond is what a foreign key costs.
    assert_eq!(found("Insert", 300.0).1, Severity::Low);
    let (told, severity) = found("Delete", 300.0);
    assert!(told.starts_with("an index on the columns of the foreign key"));
    assert_eq!(severity, Severity::Medium);
}

#[test]
fn a_plan_that_was_not_executed_names_nothing() {
    let mut planned = plan(ran("Seq Scan", (1.0, 1.0, 0.0), 1.0, vec![]));
    planned.executed = None;
    assert_eq!(busiest(&planned), None);
}

#[test]
fn questions_to_the_catalogues_are_named_as_such_whatever_their_plans_do() {
    let found = |text: &str, table: &str| {
        let mut scan = ran("Seq Scan", (1.0, 9.0, 90_000.0), 9.0, vec![]);
        scan.relation = Some(table.to_owned());
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement(text, Some(plan(scan))));
        });
        found.into_iter().map(|f| f.id).collect::<Vec<_>>()
    };
    let asked = format!("{NODE}/catalogues-asked");
    let of = found(
        "SELECT column_name FROM information_schema.columns WHERE table_name = $1",
        "pg_catalog.pg_attribute",
    );
    assert!(of.contains(&asked), "{of:?}");
    // No index or statistics of the catalogues are advised beside it.
    assert!(
        !of.iter()
            .any(|id| id == "sequential-scan" || id == "rows-misestimated")
    );
    let own = found("SELECT * FROM file WHERE a = $1", "public.file");
    assert!(!own.contains(&asked), "{own:?}");
    let counters = found("SELECT * FROM pg_stat_user_tables", "pg_catalog.pg_class");
    assert!(!counters.contains(&asked), "{counters:?}");
}

/// Two queries of an object mapper: the same long list of columns, and another condition.
#[test]
fn a_rule_about_one_statement_says_nothing_of_another_that_begins_alike() {
    use crate::detect::tests::made::{QUIET, looked_at};
    use crate::find;
    use crate::finding::{Circumstances, Confidence, Observation};

    let columns: Vec<String> = (0..20).map(|n| format!("o.column_{n:02}")).collect();
    let head = format!("SELECT {} FROM orders o WHERE ", columns.join(", "));
    assert!(head.len() > 200);
    let scanned = plan(ran("Seq Scan", (1.0, 1.0, 90_000.0), 9.0, vec![]));
    let mut seen = statement(&format!("{head}o.a = $1"), Some(scanned));
    let mut other = seen.statements[0].clone();
    other.text = format!("{head}o.b = $1");
    seen.statements[0].id = "1".to_owned();
    other.id = "2".to_owned();
    assert_eq!(other.named(), seen.statements[0].named());
    seen.statements.push(other);
    let about = |id: &str| {
        let found = Observation::measured(Basis::Statements, Some(0.8), "A scan is too long.")
            .severity(Severity::High)
            .confidence(Confidence::High)
            .of_statements(seen.statements.iter().filter(|s| s.id == id));
        Finding::new(
            find("sequential-scan").unwrap(),
            found,
            Circumstances::default(),
        )
    };
    let left = |findings: &[Finding]| -> Vec<String> {
        let edit = |observed: &mut pgassay_evidence::observed::PointObserved| {
            observed.statements = Some(seen.clone());
        };
        looked_at(&QUIET, edit, |evidence| {
            let named = look(evidence, findings).into_iter();
            named
                .flat_map(|named| named.seen.subjects.statements)
                .collect()
        })
    };
    assert_eq!(left(&[]), ["1", "2"]);
    assert_eq!(left(&[about("1")]), ["2"]);
    assert_eq!(left(&[about("2")]), ["1"]);
}
