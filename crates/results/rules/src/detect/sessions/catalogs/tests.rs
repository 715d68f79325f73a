//! What holds dead rows of the catalogues, and what going through them is told.

use super::*;
use std::collections::BTreeMap;

use crate::Finding;
use crate::detect::tests::made::{found_with, one, statement};
use pgassay_model::observed::growth::GrowthRecord;
use pgassay_model::observed::plans::{Execution, Node, Plan, Work};

/// `pg_class` with so many dead rows, of which so many died meanwhile.
fn catalog(dead: f64, died: f64) -> Grown {
    Grown {
        name: "pg_class".into(),
        of: None,
        grown: BTreeMap::from([("n_tup_upd".to_owned(), died)]),
        state: BTreeMap::from([
            ("n_dead_tup".to_owned(), dead),
            ("n_live_tup".to_owned(), 418.0),
            ("relpages".to_owned(), 900.0),
            ("reltuples".to_owned(), 418.0),
            ("relallvisible".to_owned(), 890.0),
        ]),
    }
}

fn slot(transactions: f64) -> HoldsHorizon {
    HoldsHorizon {
        kind: "replication slot".into(),
        name: "old".into(),
        transactions,
        catalogs_only: true,
        ..HoldsHorizon::default()
    }
}

/// Findings beside a statement whose scan of the catalogue looks up so many blocks for two rows.
fn found(catalog: Grown, horizon: Vec<HoldsHorizon>, blocks: f64) -> Vec<Finding> {
    let plan = Plan {
        root: Node {
            kind: "Index Scan".into(),
            relation: Some("pg_catalog.pg_class".into()),
            actual_rows: Some(2.0),
            work: Some(Work {
                loops: 1.0,
                ms: 8.0,
                blocks,
                ..Work::default()
            }),
            ..Node::default()
        },
        executed: Some(Execution {
            ms: 8.0,
            ..Execution::default()
        }),
        ..Plan::default()
    };
    found_with(vec![], move |observed| {
        observed.statements = Some(statement(
            "SELECT relname FROM pg_class WHERE relkind = $1",
            Some(plan),
        ));
        observed.growth = Some(GrowthRecord {
            catalogs: vec![catalog],
            horizon,
            ..GrowthRecord::default()
        });
    })
}

const ASKED: &str = "plan-node/catalogues-asked";

#[test]
fn a_slot_that_holds_rows_of_the_catalogues_is_named() {
    let findings = found(catalog(6417.0, 417.0), vec![slot(3069.0)], 4.0);
    let held = one(&findings, "horizon-held");
    assert!(held.saw.contains("6417 in pg_class"), "{}", held.saw);
    assert_eq!(held.gain_expected, None, "what it costs was not seen");
    assert!(
        held.remedy[1]
            .text
            .contains("pg_drop_replication_slot('old')")
    );
    for findings in [
        found(catalog(300.0, 417.0), vec![slot(3069.0)], 4.0),
        found(catalog(6417.0, 417.0), vec![slot(10.0)], 4.0),
        found(catalog(6417.0, 3.0), vec![slot(3069.0)], 4.0),
    ] {
        assert!(
            findings.iter().all(|f| f.id != "horizon-held"),
            "{findings:#?}"
        );
    }
}

#[test]
fn who_goes_through_held_rows_of_the_catalogues_has_that_as_the_cause() {
    let findings = found(catalog(6417.0, 0.0), vec![slot(3069.0)], 2200.0);
    let held = one(&findings, "horizon-held");
    assert!(held.saw.contains("6417 in pg_class"), "{}", held.saw);
    assert!(held.gain().is_some(), "{held:#?}");
    let asked = one(&findings, ASKED);
    let of = asked.symptom_of.as_deref().unwrap_or_default();
    assert!(of.contains("horizon-held"), "{of}");
    // Without them it is the questions themselves.
    let findings = found(catalog(10.0, 0.0), vec![slot(3069.0)], 4.0);
    assert!(findings.iter().all(|f| f.id != "horizon-held"));
    assert_eq!(one(&findings, ASKED).symptom_of, None);
}
