//! What a finding says is won: the bound, and the expectation where more is known.

use std::collections::BTreeMap;

use super::made::{found_with, one};
use crate::detect::tests::made::statement;
use crate::finding::{Basis, Circumstances, Finding, Observation, Severity};
use pgassay_model::observed::plans::{Clause, Node, Plan, RelationFacts};

/// A finding of statements that take 90 % of the time and 30 % of the CPU time, of which half is won.
fn of_statements(under: Circumstances) -> Finding {
    let entry = crate::find("sequential-scan").unwrap();
    let seen = Observation::measured(Basis::Statements, Some(0.9), "seen")
        .of_cpu(0.3)
        .expects(0.5, "what is known");
    Finding::new(entry, seen, under)
}

fn near(seen: Option<f64>, expected: f64) -> bool {
    seen.is_some_and(|seen| (seen - expected).abs() < 1e-9)
}

#[test]
fn on_full_cpus_statements_that_wait_give_back_their_cpu_time_alone() {
    let at = |busy: f64| {
        of_statements(Circumstances {
            busy: Some(busy),
            server_of_busy: Some(1.0),
            ..Circumstances::default()
        })
    };
    let full = at(0.95);
    assert!(near(full.gain_at_most, 0.3) && near(full.gain_expected, 0.15));
    assert!(full.limited_by_cpus);
    // What is freed of CPUs that have room counts, too.
    let half = at(0.5);
    assert!(near(half.gain_at_most, 1.0 - 0.5 * 0.7));
    assert!(near(half.gain_expected, 0.45));
    let unknown = of_statements(Circumstances::default());
    assert!(near(unknown.gain_at_most, 0.9) && near(unknown.gain(), 0.45));
    assert_eq!(unknown.gain_rests_on.as_deref(), Some("what is known"));
    let words = unknown.gain_in_words().unwrap();
    assert!(words.contains("about 1.82 times"), "{words}");
}

#[test]
fn flushes_are_sooner_done_where_the_work_that_fills_the_cpus_is_gone() {
    let at = |busy: f64, flushing: f64| {
        let entry = crate::find("sequential-scan").unwrap();
        let seen = Observation::measured(Basis::Statements, Some(0.7), "seen").of_cpu(0.9);
        let under = Circumstances {
            busy: Some(busy),
            server_of_busy: Some(1.0),
            flushing: Some(flushing),
            ..Circumstances::default()
        };
        Finding::new(entry, seen, under).gain_at_most
    };
    // As far as the CPU time goes that kept them waiting, and no further than CPUs leave room for.
    assert!(near(at(0.95, 0.1), 0.7 + 0.1 * 0.9));
    assert!(near(at(0.95, 0.29), 0.9));
    // With CPUs that had room they took as long as the device.
    assert!(near(at(0.5, 0.29), 0.7));
    // What stands in the share already is not there twice.
    assert!(near(at(0.95, 0.9), 0.9));
}

#[test]
fn flushes_that_are_sooner_done_make_no_little_cause_a_limited_one() {
    let entry = crate::find("sequential-scan").unwrap();
    let seen = Observation::measured(Basis::Statements, Some(0.05), "seen").of_cpu(0.05);
    let under = Circumstances {
        busy: Some(0.95),
        server_of_busy: Some(1.0),
        flushing: Some(0.3),
        ..Circumstances::default()
    };
    let finding = Finding::new(entry, seen, under);
    assert!(!finding.limited_by_cpus && near(finding.gain_at_most, 0.05));
    assert_eq!(finding.severity, Severity::Low);
}

#[test]
fn an_index_leaves_the_rows_that_match() {
    let found = |matching: f64| {
        let scan = Node {
            kind: "Seq Scan".into(),
            relation: Some("public.t".into()),
            conditions: BTreeMap::from([(Clause::Filter, "(t.id = $1)".into())]),
            rows: matching,
            cost: 4000.0,
            ..Node::default()
        };
        let facts = RelationFacts {
            rows: Some(100_000.0),
            columns: vec!["id".into()],
            ..RelationFacts::default()
        };
        let plan = Plan {
            root: scan,
            relations: BTreeMap::from([("public.t".to_owned(), facts)]),
            ..Plan::default()
        };
        let text = "SELECT v FROM t WHERE id = $1";
        found_with(vec![], move |observed| {
            observed.statements = Some(statement(text, Some(plan)));
        })
    };
    let expected = |matching: f64| {
        let findings = found(matching);
        let scan = one(&findings, "sequential-scan");
        assert!(
            scan.gain_rests_on
                .as_deref()
                .unwrap()
                .contains("100000 rows")
        );
        scan.gain_expected.unwrap() / scan.gain_at_most.unwrap()
    };
    assert!(expected(1.0) > 0.99);
    let many = expected(900.0);
    assert!((0.85..0.95).contains(&many), "{many}");
}
