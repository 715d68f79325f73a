//! What the server's counters of its database show: statements sent one by one, sessions that come and go,
//! deadlocks, temporary tables; and tables whose statistics are missing or old.

use crate::detect::common::cpu_samples::messages;
use crate::detect::common::hits::{Hit, Part, joined, with_plans};
use crate::detect::{Detector, run, samples, tenths};
use crate::evidence::Evidence;
use crate::finding::{Basis, Confidence, Observation, Severity, StepKind};
use pgassay_evidence::metrics;
use pgassay_evidence::profile::Work;

pub const DETECTORS: &[Detector] = &[
    run("round-trips", between_statements),
    run("deadlocks", deadlocks),
    run("temporary-tables", temporary_tables),
    run("statistics-missing", statistics),
    samples("detoasting", detoasting),
    run("detoasting", out_of_line),
];

/// The share of their time in transactions that sessions wait for their client from which on it is named.
const BETWEEN: f64 = 0.25;
/// The share from which on it decides how fast the load is.
const MOSTLY_BETWEEN: f64 = 0.4;
/// Statements of a transaction that could go together.
const SEVERAL: f64 = 3.0;

/// Sessions that wait for the next statement of an open transaction again and again. One that is idle for
/// long is a client that does something else, which no pipelining mends.
fn between_statements(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let observed = run.observed?;
    let budget = run.budget()?;
    let client = budget.share(budget.off.as_ref()?.client);
    let counters = observed.counters.as_ref()?;
    let transactions =
        counters.database_rate("xact_commit")? + counters.database_rate("xact_rollback")?;
    let seconds = observed.growth_seconds().unwrap_or(counters.seconds);
    let statements = observed.statements.as_ref()?.statements.iter();
    let calls: f64 = statements
        .filter_map(|s| Some(s.counters.as_ref()?.calls))
        .sum();
    let each = calls / (transactions * seconds).max(1.0);
    if client < BETWEEN || each < SEVERAL {
        return None;
    }
    // With each message goes what the server itself does for it, by CPU samples.
    let messages = evidence.profile.map_or(0.0, |profile| {
        messages(profile).iter().map(|(_, share)| share).sum()
    });
    let saw = format!(
        "Sessions wait for their client between the statements of a transaction: {} of {}.",
        tenths(client),
        run.whole()
    );
    let share = (client + budget.running() * messages).min(1.0);
    Some(
        Observation::measured(Basis::Statements, Some(share), saw)
            .of_cpu(messages)
            .expects(1.0 - 1.0 / each, format!("one round trip for {each:.0}"))
            .severity(match client {
                MOSTLY_BETWEEN.. => Severity::High,
                _ => Severity::Medium,
            })
            .confidence(Confidence::High)
            .covers(client)
            .seen(format!(
                "{each:.0} statements a transaction, by pg_stat_statements"
            ))
            .all_seen((messages > 0.0).then(|| {
                format!(
                    "{} of the CPU samples in the protocol, the network and wake-ups",
                    tenths(messages)
                )
            })),
    )
}

fn deadlocks(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let counters = run.observed?.counters.as_ref()?;
    let number = counters.database.get("deadlocks").copied().unwrap_or(0.0);
    if number < 1.0 {
        return None;
    }
    let locks = run
        .wait_share(|kind, event| kind == "Lock" && event != "extend")
        .unwrap_or(0.0);
    let saw = format!(
        "{number:.0} deadlocks in {:.0} s: in each, sessions wait for deadlock_timeout until one transaction is \
         cancelled.",
        counters.seconds
    );
    // What waits for locks is theirs in part: how much of it nobody knows.
    let seen = match locks >= 0.1 {
        true => Observation::measured(Basis::WaitTime, Some(locks), saw).severity(Severity::High),
        false => Observation::measured(Basis::Counters, None, saw).severity(Severity::Medium),
    };
    Some(
        seen.confidence(Confidence::High).all_seen(
            run.setting("deadlock_timeout")
                .map(|v| format!("deadlock_timeout = {v}")),
        ),
    )
}

/// Rows of pg_attribute written for each transaction from which on the catalogues are worked hard.
const ATTRIBUTES: f64 = 1.0;

fn temporary_tables(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let observed = run.observed?;
    let counters = observed.counters.as_ref()?;
    let growth = observed.growth.as_ref()?;
    let attributes = growth.catalogs.iter().find(|c| c.name == "pg_attribute")?;
    let written = attributes.by("n_tup_ins") + attributes.by("n_tup_del");
    let seconds = observed.growth_seconds().unwrap_or(counters.seconds);
    let transactions = counters.database_rate("xact_commit").unwrap_or(0.0) * seconds;
    if written < 1000.0 || written < ATTRIBUTES * transactions {
        return None;
    }
    let makes = |text: &str| {
        let text = text.to_ascii_lowercase();
        (text.starts_with("create") && (text.contains(" temp ") || text.contains(" temporary ")))
            || text.contains(" into temp ")
            || text.starts_with("drop table")
    };
    let statements = observed.statements.as_ref();
    let (share, cpu) = statements
        .into_iter()
        .flat_map(|s| &s.statements)
        .filter(|s| makes(&s.text))
        .fold((0.0, 0.0), |(time, cpu), s| {
            (time + s.share, cpu + s.cpu_share)
        });
    let share = (share >= 0.02).then(|| share.min(1.0));
    let saw = match share {
        Some(_) => "Tables are created and dropped all the time, mostly temporary ones.",
        None => {
            "Tables are created, dropped, or made anew all the time (temporary tables, also within functions; REFRESH MATERIALIZED VIEW; VACUUM FULL)."
        }
    };
    let basis = if share.is_some() {
        Basis::Statements
    } else {
        Basis::Counters
    };
    let mut seen = Observation::measured(basis, share, saw)
        .severity(Severity::High)
        .confidence(if share.is_some() {
            Confidence::High
        } else {
            // Who makes them was not seen.
            Confidence::Low
        })
        .seen(format!(
            "{written:.0} rows of pg_attribute written in {:.0} s, {:.1} for each transaction",
            seconds,
            written / transactions.max(1.0)
        ))
        .advice(
            "create it once for a session with ON COMMIT DELETE ROWS, or do without: a WITH query, an array, \
             unnest, VALUES",
        );
    if let Some(share) = share {
        seen = seen.of_cpu(f64::min(cpu, 1.0)).seen(format!(
            "{} of {} goes to creating and dropping them",
            tenths(share),
            run.whole()
        ));
    }
    if let (Some(dead), Some(live)) = (
        attributes.stands("n_dead_tup"),
        attributes.stands("n_live_tup"),
    ) && dead >= 10_000.0
    {
        seen = seen
            .seen(format!("pg_attribute has {dead:.0} dead rows beside {live:.0}"))
            .advice("then VACUUM pg_catalog.pg_attribute, pg_catalog.pg_class, pg_catalog.pg_type, pg_catalog.pg_depend");
    }
    Some(seen)
}

/// A table of fewer rows is planned for rightly enough without statistics.
const FEW_ROWS: f64 = 10_000.0;

fn statistics(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let (name, live, changed, known) = plan.relations.iter().find_map(|(name, facts)| {
            let seen = run.table(name)?;
            let live = seen.stands("n_live_tup")?;
            let changed = seen.stands("n_mod_since_analyze")?;
            // Never analysed, or so that the number of rows is another by far.
            let known = facts.rows.unwrap_or(0.0);
            let old = changed >= FEW_ROWS
                && (known < 0.2 * live || (changed >= live && known > 5.0 * live));
            (live.max(known) >= FEW_ROWS && old).then_some((name, live, changed, known))
        })?;
        // What only inserts needs no statistics.
        let reads = plan
            .root
            .all()
            .iter()
            .any(|(_, node)| node.relation.as_ref() == Some(name) && !node.writes());
        reads.then(|| Hit {
            statement,
            part: Part::UNKNOWN,
            left: None,
            saw: match known {
                0.0 => format!("{name} was never analysed, and has {live:.0} rows: the planner guesses."),
                known => format!("The planner takes {name} for {known:.0} rows, and it has {live:.0}."),
            },
            confidence: Confidence::Medium,
            evidence: vec![format!("{changed:.0} rows of {name} changed since it was analysed")],
            steps: vec![
                (StepKind::Sql, format!("ANALYZE {name};")),
                (
                    StepKind::Advice,
                    "see that autovacuum analyses it: it is on for the table, and what loads it in bulk ends with ANALYZE"
                        .to_owned(),
                ),
            ],
        })
    });
    joined(&run, hits).map(|seen| seen.severity(Severity::Medium))
}

fn detoasting(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let share = profile.within(Work::Detoasting)?;
    if share < 0.1 || !profile.shows(share, 0.0) {
        return None;
    }
    let saw = format!(
        "{} of the server's CPU time goes into unpacking large values and reading them from their TOAST table.",
        tenths(share)
    );
    let mut seen = Observation::of_samples(share, saw).severity(if share >= 0.3 {
        Severity::High
    } else {
        Severity::Medium
    });
    let growth = evidence.run.and_then(|run| run.observed?.growth.as_ref());
    let toast = |t: &&pgassay_model::observed::growth::Grown| {
        t.by("toast_blks_hit") + t.by("toast_blks_read")
    };
    let worst = growth.and_then(|g| g.tables.iter().max_by(|a, b| toast(a).total_cmp(&toast(b))));
    // Short values, which are copied, and not unpacked.
    let compresses = profile
        .functions
        .iter()
        .any(|f| f.symbol.contains("decompress"));
    if worst.is_some_and(|table| toast(&table) < 1.0) && !compresses {
        return None;
    }
    if let Some(table) = worst.filter(|t| toast(t) > 0.0) {
        seen = seen.seen(format!(
            "{:.0} blocks of the TOAST table of {} were read or hit",
            toast(&table),
            table.name
        ));
    }
    if let Some(run) = evidence.run
        && let Some(misses) = run.point.estimate(metrics::BUFFER_MISSES)
    {
        seen = seen.seen(format!(
            "{:.2} blocks read per transaction",
            misses.estimate
        ));
    }
    let top = evidence
        .run
        .and_then(|run| run.observed?.statements.as_ref()?.statements.first());
    Some(
        seen.of_statements(top).all_seen(
            top.map(|s| format!("{} of the time goes to: {}", tenths(s.share), s.named())),
        ),
    )
}

/// Blocks of TOAST tables below which they are no matter.
const FEW_BLOCKS: f64 = 1000.0;

/// By the blocks that were looked up: most of them in the TOAST table of what a statement reads.
fn out_of_line(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let growth = run.observed?.growth.as_ref()?;
    let hits = with_plans(&run, |statement, plan| {
        let (table, toast, part) = growth.tables.iter().find_map(|table| {
            plan.relations.get(&table.name)?;
            let both = |of: &str| {
                table.by(&format!("{of}_blks_hit")) + table.by(&format!("{of}_blks_read"))
            };
            // The index of the TOAST table is counted apart, and as much again.
            let toast = both("toast");
            let part = toast / (toast + both("heap") + both("idx")).max(1.0);
            (toast >= FEW_BLOCKS && part >= 0.5).then_some((table, toast, part))
        })?;
        // What only writes large values must.
        let reads = plan
            .root
            .all()
            .iter()
            .any(|(_, n)| !n.writes() && n.relation.is_some());
        reads.then(|| Hit {
            statement,
            part: Part::of_cpu(statement, part),
            left: None,
            saw: format!(
                "Most of the blocks that are looked up are in the TOAST table of {}: large values are fetched whole.",
                table.name
            ),
            confidence: Confidence::High,
            evidence: vec![format!(
                "{toast:.0} blocks of its TOAST table in the measured time, {} of all of its blocks",
                tenths(part)
            )],
            steps: Vec::new(),
        })
    });
    joined(&run, hits)
}

#[cfg(test)]
mod tests {
    use crate::Severity;
    use crate::detect::tests::made::{counters, found_with, one, statement};
    use pgassay_evidence::observed::PointObserved;

    use pgassay_evidence::observed::statements::Counters;
    use pgassay_model::observed::growth::{Grown, GrowthRecord};
    use pgassay_model::observed::plans::{Node, Plan, RelationFacts};
    use std::collections::BTreeMap;

    #[test]
    fn statements_sent_one_by_one_are_found_and_few_are_not() {
        let of = |calls: f64, client: f64| {
            found_with(vec![], move |observed: &mut PointObserved| {
                observed.counters = counters(&[("xact_commit", 100.0)]);
                let mut statements = statement("SELECT 1", None);
                statements.statements[0].counters = Some(Counters {
                    calls,
                    ..Counters::default()
                });
                observed.statements = Some(statements);
                let budget = observed.budget.as_mut().unwrap();
                budget.sessions += client;
                budget.off_cpu += client;
                budget.off.as_mut().unwrap().client = client;
            })
        };
        let found = of(4000.0, 1.4);
        let trips = one(&found, "round-trips");
        // Beside 0.6 that run or want to.
        assert!(
            (trips.budget_share.unwrap() - 0.7).abs() < 1e-9,
            "{trips:#?}"
        );
        assert_eq!(trips.severity, Severity::High);
        assert!(trips.evidence[0].contains("40 statements a transaction"));
        for none in [of(200.0, 1.4), of(4000.0, 0.1)] {
            assert!(none.iter().all(|f| f.id != "round-trips"), "{none:#?}");
        }
    }

    #[test]
    fn deadlocks_cost_what_waits_for_locks() {
        let found = found_with(vec![("Lock", "transactionid", 5.0)], |observed| {
            observed.counters = counters(&[("deadlocks", 3.0), ("xact_commit", 40.0)]);
        });
        assert!(one(&found, "deadlocks").gain_at_most.unwrap() > 0.3);
    }

    #[test]
    fn tables_that_come_and_go_are_named_with_the_statement_that_makes_them() {
        let found = found_with(vec![], |observed| {
            observed.counters = counters(&[("xact_commit", 400.0)]);
            observed.statements = Some(statement("CREATE TEMP TABLE w AS SELECT $1", None));
            observed.growth = Some(GrowthRecord {
                catalogs: vec![Grown {
                    name: "pg_attribute".into(),
                    grown: BTreeMap::from([("n_tup_ins".to_owned(), 4000.0)]),
                    state: BTreeMap::from([
                        ("n_dead_tup".to_owned(), 20_000.0),
                        ("n_live_tup".to_owned(), 3000.0),
                    ]),
                    ..Grown::default()
                }],
                ..GrowthRecord::default()
            });
        });
        let tables = one(&found, "temporary-tables");
        // What is to be cleaned up comes behind what makes it.
        assert!(tables.remedy[0].text.contains("ON COMMIT DELETE ROWS"));
        assert!(tables.remedy[1].text.contains("VACUUM pg_catalog"));
        assert!(tables.budget_share.unwrap() > 0.7, "{tables:#?}");
    }

    #[test]
    fn blocks_of_a_toast_table_tell_of_large_values() {
        let of = |toast: f64| {
            let plan = Plan {
                root: Node {
                    kind: "Index Scan".into(),
                    relation: Some("public.doc".into()),
                    ..Node::default()
                },
                relations: BTreeMap::from([("public.doc".to_owned(), RelationFacts::default())]),
                ..Plan::default()
            };
            found_with(vec![], move |observed: &mut PointObserved| {
                observed.statements = Some(statement("SELECT body ->> $1 FROM doc", Some(plan)));
                observed.growth = Some(GrowthRecord {
                    tables: vec![Grown {
                        name: "public.doc".into(),
                        grown: BTreeMap::from([
                            ("toast_blks_hit".to_owned(), toast),
                            ("heap_blks_hit".to_owned(), 900.0),
                        ]),
                        ..Grown::default()
                    }],
                    ..GrowthRecord::default()
                });
            })
        };
        assert!(one(&of(9000.0), "detoasting").saw.contains("public.doc"));
        assert!(of(500.0).iter().all(|f| f.id != "detoasting"));
    }

    #[test]
    fn a_table_without_statistics_is_found_and_an_analysed_one_is_not() {
        let of = |rows: Option<f64>| {
            let plan = Plan {
                root: Node {
                    kind: "Nested Loop".into(),
                    nodes: vec![Node {
                        kind: "Seq Scan".into(),
                        relation: Some("public.t".into()),
                        ..Node::default()
                    }],
                    ..Node::default()
                },
                relations: BTreeMap::from([(
                    "public.t".to_owned(),
                    RelationFacts {
                        rows,
                        ..RelationFacts::default()
                    },
                )]),
                ..Plan::default()
            };
            found_with(vec![], move |observed: &mut PointObserved| {
                observed.statements = Some(statement("SELECT", Some(plan)));
                observed.growth = Some(GrowthRecord {
                    tables: vec![Grown {
                        name: "public.t".into(),
                        state: BTreeMap::from([
                            ("n_live_tup".to_owned(), 1e5),
                            ("n_mod_since_analyze".to_owned(), 1e5),
                        ]),
                        ..Grown::default()
                    }],
                    ..GrowthRecord::default()
                });
            })
        };
        assert_eq!(
            one(&of(None), "statistics-missing").remedy[0].text,
            "ANALYZE public.t;"
        );
        one(&of(Some(10.0)), "statistics-missing");
        assert!(of(Some(9e4)).iter().all(|f| f.id != "statistics-missing"));
    }
}
