//! Sessions that come and go, and who opens them.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples};
use crate::detect::common::{hits, wait_shares};
use crate::detect::prelude::*;
use pgassay_evidence::profile::{Class, Work};

/// Sessions a second from which on opening them is worth a look.
const MANY_SESSIONS: f64 = 5.0;
/// Transactions of a session below which it was opened for next to nothing.
const FEW_TRANSACTIONS: f64 = 10.0;

/// Transactions of a session up to which hardly anything but its executor's time is not its opening's.
const ONE_OR_TWO: f64 = 3.0;

/// Functions in which a process of a session begins: the rest is its statements.
const OPENING: &[&str] = &[
    "InitPostgres",
    "BackendStartup",
    "BackendInitialize",
    "PerformAuthentication",
];

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let (opened, done) = of_clients(&run).or_else(|| by_counters(&run))?;
    if opened < MANY_SESSIONS || done > FEW_TRANSACTIONS * opened {
        return None;
    }
    let share = evidence.profile.map(|profile| {
        let of = |name: &&str| profile.function(name).map_or(0.0, |f| f.total_share);
        let opening = OPENING.iter().map(of).fold(0.0, f64::max);
        // A session of a transaction or two does little but begin, fill its caches, and end.
        match done <= ONE_OR_TWO * opened {
            true => opening.max(1.0 - profile.class(Class::Executor)),
            false => opening,
        }
    });
    let saw = format!(
        "{opened:.0} sessions are opened each second, each for {:.1} transactions.",
        done / opened
    );
    let seen = match share {
        Some(share) if share >= 0.02 => {
            let seen = Observation::of_samples(share, saw);
            // Between their transactions our clients do nothing but open sessions.
            let seen = match !run.is_own_load() && done <= ONE_OR_TWO * opened {
                true => Observation {
                    basis: Basis::Counters,
                    ..seen.covers(share)
                },
                false => seen,
            };
            seen.seen(format!(
                "{} of the CPU samples are in starting and ending sessions rather than in statements",
                tenths(share)
            ))
        }
        _ => Observation::measured(Basis::Counters, None, saw),
    };
    let ended = run.budget().and_then(|budget| budget.ended_on_cpu);
    let seen = by_server(&run, seen);
    let seen = seen.severity(Severity::High).all_seen(ended.map(|cpus| {
        format!("processes that ended within the measured time kept {cpus:.2} CPUs busy")
    }));
    Some(seen)
}

/// Connections that our clients opened each second, and transactions that they completed: exact, where the server's
/// counts arrive late and have those of others. None where they kept theirs.
fn of_clients(run: &RunEvidence) -> Option<(f64, f64)> {
    let detail = run.point.detail.as_ref()?;
    let opened = detail.connect.as_ref()?.count as f64;
    (detail.seconds > 0.0).then(|| (opened / detail.seconds, run.point.throughput_tps.estimate))
}

/// The same as pg_stat_database counts them, from 14 on.
fn by_counters(run: &RunEvidence) -> Option<(f64, f64)> {
    let counters = run.observed?.counters.as_ref()?;
    let done = counters.database_rate("xact_commit")? + counters.database_rate("xact_rollback")?;
    Some((counters.database_rate("sessions")?, done))
}

/// Waits of a session for a server that it has called itself: dblink and postgres_fdw, by one name before 17.
fn calls_server(kind: &str, event: &str) -> bool {
    kind == "Extension"
        && (event == "Extension" || event.starts_with("Dblink") || event.starts_with("PostgresFdw"))
}

/// The share of the sessions' time in such waits from which on they open the sessions themselves.
const CALLING: f64 = 0.05;

/// Sessions that sessions of the server open are told apart from an application's: no pool stands between.
fn by_server(run: &RunEvidence, seen: Observation) -> Observation {
    let share = run.wait_share(calls_server).unwrap_or(0.0);
    if share < CALLING {
        return seen;
    }
    let written = hits::weighty(run).filter_map(|s| s.plan.as_ref());
    let triggers = written
        .flat_map(|plan| plan.relations.iter())
        .flat_map(|(table, facts)| {
            let of = facts.triggers.iter();
            of.map(move |t| format!("{} on {table} (function {})", t.name, t.function))
        });
    let triggers: Vec<String> = triggers.collect();
    let seen = seen
        .means(
            "A session that calls another server, or its own, by dblink or postgres_fdw opens a session there: a \
             process is forked, authenticated, fills its caches, and ends, while the first waits for it.",
        )
        .seen(format!(
            "sessions wait in an extension for {} of {}: they open sessions themselves (dblink, postgres_fdw)",
            tenths(share),
            run.whole()
        ))
        .all_seen(wait_shares::who(run, calls_server));
    let seen = match triggers.is_empty() {
        true => seen,
        false => seen.seen(format!("triggers of its tables: {}", triggers.join(", "))),
    };
    seen.advice(
        "do it in the same transaction with a plain statement where the other database is this one: an INSERT in the \
         place of dblink_exec",
    )
    .advice(
        "else keep the connection: a named one (dblink_connect once a session, then dblink_exec with its name), or a \
         foreign table, whose connection postgres_fdw keeps (keep_connections); PgBouncer does not help here",
    )
}

/// Processes that end. Of a run, statistics say more surely how many sessions ended.
pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    if evidence.run.is_some() {
        return None;
    }
    let share = profile.within(Work::Exits)?;
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!(
            "Processes of the server end, sessions or parallel workers: giving back the page tables of their shared memory takes {}.",
            of_samples(share)
        );
        let seen = Observation::of_samples(share, saw)
            .of_functions(["exit_mmap", "do_exit"])
            .seen(format!(
                "{} of the samples within exit_mmap, do_exit and what they call",
                tenths(share)
            ));
        seen.confidence(Confidence::Medium).advice(
            "keep sessions open (a pool), start fewer parallel workers, and map shared_buffers with huge pages: a \
             process that ends gives back each page that it has touched",
        )
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
    use pgassay_model::reading::{Reading, Sample};
    use pgassay_model::samplers::PG_STAT_DATABASE;

    use crate::detect::tests::made::counters;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_analysis::analyse;
    use pgassay_evidence::fixtures;
    use pgassay_evidence::observed::PointObserved;

    #[test]
    fn sessions_for_one_transaction_each_are_found_and_lasting_ones_are_not() {
        let of = |sessions: f64| {
            found_with(vec![], move |observed: &mut PointObserved| {
                observed.counters = counters(&[("sessions", sessions), ("xact_commit", 4000.0)]);
            })
        };
        let found = of(4000.0);
        assert!(
            one(&found, "connections-opened")
                .saw
                .contains("1000 sessions")
        );
        assert!(of(4.0).iter().all(|f| f.id != "connections-opened"));
    }

    /// Of a load of ours at 100 transactions a second the server counted 300 sessions and four times as many commits.
    #[test]
    fn connections_of_our_own_clients_are_counted_by_them() {
        let counted = |sessions: u64, commits: u64| {
            let row = format!(r#"{{"sessions": {sessions}, "xact_commit": {commits}}}"#);
            Reading::Text(row)
        };
        let mut opened = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        opened.record_n(5_000_000, 100).unwrap();
        let mut bytes = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        serializer.serialize(&opened, &mut bytes).unwrap();
        let opened = BASE64_STANDARD.encode(bytes);
        let found = |connects: Option<String>, counted_s: Option<u64>| {
            let mut run = fixtures::run(0.0, |_| 0.0);
            for trial in &mut run.trials {
                trial.transactions = 100;
                trial.connects.clone_from(&connects);
                let sample = Sample {
                    before: counted(0, 0),
                    after: counted(300, 1200),
                    elapsed_ns: counted_s.unwrap_or(0) * 1_000_000_000,
                };
                if counted_s.is_some() {
                    trial.samples.insert(PG_STAT_DATABASE.to_owned(), sample);
                }
            }
            let diagnosis = analyse(&run).stages.remove(0).diagnosis.unwrap();
            let mut findings = diagnosis.findings.into_iter();
            findings.find(|f| f.id == "connections-opened").unwrap().saw
        };
        // Windows of a second, whatever time the counters cover.
        for counted_s in [Some(1), Some(3), None] {
            let saw = found(Some(opened.clone()), counted_s);
            assert!(
                saw.contains("100 sessions are opened each second, each for 1.0 transactions"),
                "{counted_s:?}: {saw}"
            );
        }
        assert!(
            found(None, Some(1)).contains("300 sessions"),
            "what the server counts else"
        );
    }

    #[test]
    fn sessions_that_the_server_opens_itself_need_no_pool() {
        let of = |waits| {
            let findings = found_with(waits, |observed: &mut PointObserved| {
                observed.counters = counters(&[("sessions", 1000.0), ("xact_commit", 2000.0)]);
            });
            one(&findings, "connections-opened").remedy[0].text.clone()
        };
        let by_dblink = of(vec![("Extension", "Extension", 2.0)]);
        assert!(by_dblink.contains("same transaction"), "{by_dblink}");
        assert!(of(vec![("Extension", "DblinkConnect", 2.0)]).contains("same transaction"));
        assert!(of(vec![]).contains("pool"));
    }
}
