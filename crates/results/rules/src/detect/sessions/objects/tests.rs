//! What stands in tables and what holds their dead rows.

use super::*;
use std::collections::BTreeMap;

use crate::Finding;
use crate::detect::tests::made::{found_with, found_with_settings, one};
use pgassay_evidence::observed::counters::ServerCounters;
use pgassay_evidence::observed::statements::StatementAnalysis;

fn grown(name: &str, of: Option<&str>, counters: &[(&str, f64)], dead: f64) -> Grown {
    Grown {
        name: name.into(),
        of: of.map(str::to_owned),
        grown: counters
            .iter()
            .map(|(k, v)| ((*k).to_owned(), *v))
            .collect(),
        state: BTreeMap::from([
            ("n_dead_tup".to_owned(), dead),
            ("n_live_tup".to_owned(), 4000.0),
        ]),
    }
}

/// `public.job` is scanned by an index, which takes these blocks; another is only written.
fn found(scanned: f64, written: f64, horizon: Vec<HoldsHorizon>) -> Vec<Finding> {
    let table = grown(
        "public.job",
        None,
        &[
            ("idx_scan", 2760.0),
            ("idx_tup_fetch", 2760.0),
            ("idx_blks_hit", scanned + written),
            ("heap_blks_hit", 6994.0),
            ("n_tup_upd", 2474.0),
        ],
        2474.0,
    );
    let of = Some("public.job");
    let read = [("idx_scan", 2760.0), ("idx_blks_hit", scanned)];
    let indexes = vec![
        grown("public.job_pkey", of, &read, 0.0),
        grown("public.job_text", of, &[("idx_blks_hit", written)], 0.0),
    ];
    found_with(vec![], move |observed| {
        observed.statements = Some(StatementAnalysis {
            statements: vec![StatementTime {
                text: "UPDATE job SET v = $1 WHERE id = $2".into(),
                sightings: 90,
                share: 0.9,
                cpu_share: 0.9,
                running: 1.0,
                ..StatementTime::default()
            }],
            ..StatementAnalysis::default()
        });
        observed.growth = Some(GrowthRecord {
            tables: vec![table],
            indexes,
            horizon,
            ..GrowthRecord::default()
        });
    })
}

#[test]
fn an_index_that_is_only_written_meets_no_dead_rows() {
    let written = found(8800.0, 1_390_000.0, vec![]);
    assert!(
        written.iter().all(|f| f.id != "autovacuum-behind"),
        "{written:#?}"
    );
    let scanned = found(1_390_000.0, 2000.0, vec![]);
    let step = &one(&scanned, "autovacuum-behind").remedy[0];
    assert!(step.text.starts_with("VACUUM"), "{step:?}");
}

/// `public.online` has 200 rows on so many pages, of which vacuum left so many clean, and is read whole.
fn read_whole(pages: f64, clean: f64, dead: f64) -> Vec<Finding> {
    let scans = 50.0;
    let mut table = grown(
        "public.online",
        None,
        &[
            ("seq_scan", scans),
            ("seq_tup_read", 200.0 * scans),
            ("heap_blks_hit", pages * scans),
        ],
        dead,
    );
    for (name, value) in [
        ("n_live_tup", 200.0),
        ("relpages", pages),
        ("reltuples", 200.0),
        ("relallvisible", clean),
    ] {
        table.state.insert(name.into(), value);
    }
    found_with(vec![], move |observed| {
        observed.statements = Some(StatementAnalysis {
            statements: vec![StatementTime {
                text: "SELECT who FROM online WHERE app = $1".into(),
                sightings: 90,
                share: 0.9,
                cpu_share: 0.9,
                running: 1.0,
                ..StatementTime::default()
            }],
            ..StatementAnalysis::default()
        });
        observed.growth = Some(GrowthRecord {
            tables: vec![table],
            ..GrowthRecord::default()
        });
    })
}

#[test]
fn a_table_whose_pages_are_empty_is_rewritten_and_not_vacuumed() {
    // Its counters may still tell of the rows that the last vacuum removed.
    for dead in [0.0, 499_800.0] {
        let findings = read_whole(9000.0, 9000.0, dead);
        let swollen = one(&findings, "swollen-table");
        assert!(swollen.remedy[0].text.contains("FULL"), "{swollen:#?}");
        assert!(swollen.gain_expected.unwrap() > 0.8 * swollen.gain_at_most.unwrap());
        assert!(findings.iter().all(|f| f.id != "autovacuum-behind"));
    }
    // Pages that vacuum has not left clean may hold dead rows; whoever reads them whole still has to when these are gone.
    let dirty = read_whole(9000.0, 100.0, 499_800.0);
    let steps = &one(&dirty, "autovacuum-behind").remedy;
    assert!(steps[0].text.starts_with("VACUUM (ANALYZE"), "{steps:#?}");
    assert!(steps[1].text.starts_with("VACUUM (FULL"), "{steps:#?}");
    // Rows that fill their pages, or hardly any page.
    for sound in [
        read_whole(4.0, 4.0, 0.0),
        read_whole(90.0, 90.0, 0.0),
        dirty,
    ] {
        assert!(sound.iter().all(|f| f.id != "swollen-table"), "{sound:#?}");
    }
}

#[test]
fn dead_rows_that_something_old_holds_are_its_and_no_vacuums() {
    let session = |transactions: f64, catalogs_only: bool| HoldsHorizon {
        kind: "session".into(),
        name: "4711".into(),
        transactions,
        seconds: Some(12.0),
        state: "active".into(),
        application: "report".into(),
        statement: "SELECT pg_sleep($1)".into(),
        catalogs_only,
        from_before: true,
        own_transaction: false,
    };
    let findings = found(1_390_000.0, 0.0, vec![session(9000.0, false)]);
    let held = one(&findings, "horizon-held");
    assert!(
        held.saw.contains("session 4711, application report"),
        "{}",
        held.saw
    );
    assert!(held.remedy[1].text.contains("pid = 4711 AND xact_start"));
    assert!(held.gain_expected.is_some());
    assert!(
        findings.iter().all(|f| f.id != "autovacuum-behind"),
        "{findings:#?}"
    );
    // A prepared transaction that nobody ends holds them, however few transactions write.
    let prepared = |seconds: f64| HoldsHorizon {
        kind: "prepared transaction".into(),
        seconds: Some(seconds),
        ..session(5.0, false)
    };
    let findings = found(1_390_000.0, 0.0, vec![prepared(9.0)]);
    assert!(
        one(&findings, "horizon-held").remedy[2]
            .text
            .contains("ROLLBACK PREPARED")
    );
    let findings = found(1_390_000.0, 0.0, vec![prepared(0.1)]);
    one(&findings, "autovacuum-behind");
    // So does a slot that nobody reads any more, and one that is read moves on.
    let slot = |state: &str, from_before: bool| HoldsHorizon {
        kind: "replication slot".into(),
        name: "standby_old".into(),
        seconds: None,
        state: state.into(),
        from_before,
        ..session(5.0, false)
    };
    let findings = found(1_390_000.0, 0.0, vec![slot("inactive", true)]);
    let steps = &one(&findings, "horizon-held").remedy;
    assert!(
        steps[1]
            .text
            .contains("pg_drop_replication_slot('standby_old')"),
        "{steps:#?}"
    );
    for other in [slot("active", true), slot("inactive", false)] {
        let findings = found(1_390_000.0, 0.0, vec![other]);
        one(&findings, "autovacuum-behind");
    }
    // One that has just begun, and one that keeps rows of the catalogues alone, hold nothing of these.
    for other in [session(3.0, false), session(9000.0, true)] {
        let findings = found(1_390_000.0, 0.0, vec![other]);
        one(&findings, "autovacuum-behind");
        assert!(findings.iter().all(|f| f.id != "horizon-held"));
    }
}

/// `watch` advised pg_terminate_backend of a worker whose snapshot shared the xmin of the import that held it.
#[test]
fn a_session_that_shares_the_xmin_of_the_holder_is_not_ended() {
    let session = |name: &str, seconds: f64, own_transaction: bool| HoldsHorizon {
        kind: "session".into(),
        name: name.into(),
        transactions: 21_608.0,
        seconds: Some(seconds),
        state: "idle in transaction".into(),
        application: "app".into(),
        from_before: true,
        own_transaction,
        ..HoldsHorizon::default()
    };
    let of = |horizon: Vec<HoldsHorizon>| {
        let findings = found(1_390_000.0, 0.0, horizon);
        one(&findings, "horizon-held");
        let all = findings.iter().flat_map(|f| {
            let steps = f.remedy.iter().map(|step| step.text.clone());
            [f.saw.clone()]
                .into_iter()
                .chain(f.evidence.clone())
                .chain(steps)
        });
        all.collect::<Vec<_>>().join("\n")
    };
    let all = of(vec![
        session("12512", 0.0, false),
        session("900", 30.0, true),
    ]);
    assert!(
        all.contains("pg_terminate_backend") && all.contains("pid = 900"),
        "{all}"
    );
    assert!(!all.contains("12512"), "{all}");
    let tie = of(vec![
        session("901", 30.0, false),
        session("900", 30.0, false),
    ]);
    assert!(!tie.contains("pg_terminate_backend"), "{tie}");
    assert!(
        tie.contains("session 900") && tie.contains("session 901"),
        "{tie}"
    );
}

/// `public.online` with dead rows and its last vacuum and analyze so many seconds ago.
fn vacuumed(
    vacuum: f64,
    analyze: f64,
    changed: f64,
    horizon: Vec<HoldsHorizon>,
    deferred: &'static str,
) -> Vec<Finding> {
    let mut table = grown(
        "public.online",
        None,
        &[
            ("seq_scan", 50.0),
            ("seq_tup_read", 10_000.0),
            ("heap_blks_hit", 21_700.0),
        ],
        80_000.0,
    );
    for (name, value) in [
        ("n_live_tup", 200.0),
        ("relpages", 434.0),
        ("reltuples", 200.0),
        ("relallvisible", 0.0),
        ("n_mod_since_analyze", changed),
        ("since_vacuum", vacuum),
        ("since_analyze", analyze),
    ] {
        table.state.insert(name.into(), value);
    }
    let settings = vec![("vacuum_defer_cleanup_age", deferred, "configuration file")];
    found_with_settings(settings.leak(), move |observed| {
        observed.statements = Some(StatementAnalysis {
            statements: vec![StatementTime {
                text: "SELECT who FROM online WHERE app = $1".into(),
                sightings: 90,
                share: 0.9,
                cpu_share: 0.9,
                running: 1.0,
                ..StatementTime::default()
            }],
            ..StatementAnalysis::default()
        });
        observed.counters = Some(ServerCounters {
            seconds: 4.0,
            ..ServerCounters::default()
        });
        observed.growth = Some(GrowthRecord {
            tables: vec![table],
            horizon,
            ..GrowthRecord::default()
        });
    })
}

fn standby(from_before: bool) -> Vec<HoldsHorizon> {
    vec![HoldsHorizon {
        kind: "standby".into(),
        name: "walreceiver".into(),
        transactions: 1.0,
        from_before,
        ..HoldsHorizon::default()
    }]
}

#[test]
fn a_standby_whose_snapshot_outlived_a_vacuum_holds_what_that_left() {
    let findings = vacuumed(30.0, 29.9, 0.0, standby(true), "0");
    let held = one(&findings, "horizon-held");
    assert!(
        held.saw.contains("The standby walreceiver") && held.saw.contains("one transaction"),
        "{}",
        held.saw
    );
    let steps: Vec<&str> = held.remedy.iter().map(|step| step.text.as_str()).collect();
    assert!(
        steps.join(" ").contains("hot_standby_feedback = off"),
        "{steps:?}"
    );
    assert!(findings.iter().all(|f| f.id != "autovacuum-behind"));
    // One that moves on, and rows that no vacuum has met yet.
    for other in [
        vacuumed(30.0, 29.9, 0.0, standby(false), "0"),
        vacuumed(9000.0, 29.9, 0.0, standby(true), "0"),
    ] {
        one(&other, "autovacuum-behind");
        assert!(other.iter().all(|f| f.id != "horizon-held"));
    }
}

/// A session that deleted rows and sent the vacuum told of the deletions last.
#[test]
fn rows_that_hardly_die_now_died_before_the_last_vacuum() {
    let standby = |transactions: f64, from_before: bool| {
        let mut standby = standby(from_before);
        standby[0].transactions = transactions;
        standby
    };
    let findings = vacuumed(9.0, 8.9, 240_000.0, standby(465.0, true), "0");
    one(&findings, "horizon-held");
    assert!(findings.iter().all(|f| f.id != "autovacuum-behind"));
    for other in [standby(12.0, true), standby(465.0, false)] {
        one(
            &vacuumed(9.0, 8.9, 240_000.0, other, "0"),
            "autovacuum-behind",
        );
    }
}

#[test]
fn dead_rows_that_a_setting_keeps_are_no_vacuums() {
    let findings = vacuumed(30.0, 29.9, 0.0, standby(true), "1000000");
    let held = one(&findings, "horizon-held");
    assert!(
        held.saw.contains("vacuum_defer_cleanup_age"),
        "{}",
        held.saw
    );
    assert!(
        held.remedy[0]
            .text
            .contains("SET vacuum_defer_cleanup_age = 0")
    );
    assert!(held.remedy[1].text.starts_with("VACUUM"));
    assert!(findings.iter().all(|f| f.id != "autovacuum-behind"));
    // Nothing says that they died lately.
    one(
        &vacuumed(9000.0, 29.9, 0.0, vec![], "1000000"),
        "autovacuum-behind",
    );
    one(&vacuumed(30.0, 29.9, 0.0, vec![], "0"), "autovacuum-behind");
}
