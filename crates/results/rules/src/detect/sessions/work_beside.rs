//! Work of others beside the load: sessions of other programs, workers of autovacuum, processes of replication, by what
//! they execute.

use crate::detect::common::statement_text::verb;
use crate::detect::common::wait_shares;
use crate::detect::prelude::*;
use crate::finding::FULL;
use pgassay_evidence::metrics;
use pgassay_evidence::observed::beside::Beside;

/// The part of the load's time that it must cost.
const NOTABLE: f64 = 0.1;
/// Sessions on average below which somebody only looked in.
const FEW: f64 = 0.15;
/// Statements that are named.
const NAMED: usize = 3;

/// What is done about work of a kind.
struct Kind {
    /// Words that a statement begins with, of which one must be there; or, where none are, what it must contain.
    begins: &'static [&'static str],
    contains: &'static [&'static str],
    what: &'static str,
    advice: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        begins: &["CHECKPOINT"],
        contains: &[],
        what: "checkpoints by command",
        advice: &[
            "take the CHECKPOINT out of the job: checkpoint_timeout and max_wal_size have them come, spread over time",
        ],
    },
    Kind {
        begins: &["VACUUM"],
        contains: &[],
        what: "VACUUM by a job",
        advice: &[
            "leave it to autovacuum, which comes when there is something to do; a job that is needed runs at night, and gives way: SET vacuum_cost_delay = '2ms' in its session",
            "without FULL and FREEZE, which write the whole table and its log anew",
        ],
    },
    Kind {
        begins: &["ANALYZE", "ANALYSE"],
        contains: &[],
        what: "ANALYZE by a job",
        advice: &[
            "analyse after changes in bulk only, and leave the rest to autovacuum: each ANALYZE also has all sessions plan their statements anew",
        ],
    },
    Kind {
        begins: &[
            "CREATE INDEX",
            "CREATE UNIQUE INDEX",
            "REINDEX",
            "CLUSTER",
            "REFRESH",
        ],
        contains: &[],
        what: "building tables and indexes",
        advice: &[
            "do it less often and at quiet times; SET max_parallel_maintenance_workers = 0 in its session leaves CPUs to the others",
        ],
    },
    Kind {
        begins: &["COPY", "FETCH"],
        contains: &[],
        what: "a dump or an export",
        advice: &[
            "take it from a standby or from a base backup, or at a quiet time and with one job; nice for the program that compresses it",
        ],
    },
    Kind {
        begins: &[
            "GRANT", "REVOKE", "ALTER", "COMMENT", "CREATE", "DROP", "TRUNCATE", "REASSIGN",
        ],
        contains: &[],
        what: "commands that change the catalogues",
        advice: &[
            "run it once, when something has changed, and not all the time (ALTER DEFAULT PRIVILEGES grants on what is created later): each such command has \
             all sessions drop what they keep of the catalogues and plan their statements anew",
        ],
    },
    Kind {
        begins: &["INSERT", "UPDATE", "DELETE", "MERGE", "CALL", "DO"],
        contains: &[],
        what: "a job that writes",
        advice: &[
            "run it at a quiet time, in small portions with pauses between them, each a transaction of its own",
        ],
    },
    Kind {
        begins: &[],
        contains: &["pg_logical_slot_get_", "pg_logical_slot_peek_"],
        what: "consumers of logical replication slots",
        advice: &[
            "let one consumer read the changes and hand them on (a message broker, a table of events): each slot decodes all of the log anew, whatever of it its consumer wants",
            "pg_drop_replication_slot('…') for each that is not needed any more; a publication of the tables that are needed (pgoutput) for the one that stays; from 16 on decoding on a standby",
        ],
    },
    Kind {
        begins: &[],
        contains: &[
            "pg_stat_",
            "pg_locks",
            "pg_buffercache",
            "pgstattuple",
            "pgstatindex",
            "pg_total_relation_size",
            "pg_database_size",
            "pg_relation_size",
            "pg_table_size",
            "pg_visibility",
            "pg_freespace",
            "pg_ls_",
            "information_schema",
        ],
        what: "monitoring that looks at the server all the time",
        advice: &[
            "ask once a minute instead, and what reads whole tables or the whole cache (pgstattuple, pg_buffercache, pg_locks, sizes of databases) once an hour or by hand",
        ],
    },
    Kind {
        begins: &["SELECT", "WITH", "DECLARE", "TABLE", "VALUES"],
        contains: &[],
        what: "reports or a dashboard",
        advice: &[
            "take reports to a standby or a copy, or keep their result (a materialized view, a summary table, the application's cache) and compute it less often",
            "limit how many run at once: a pool of one or two connections, ALTER ROLE … CONNECTION LIMIT for their role, max_parallel_workers_per_gather = 0 for it",
        ],
    },
];

/// Settings that have autovacuum work more, or without a pause.
const EAGER: &[&str] = &[
    "autovacuum_naptime",
    "autovacuum_vacuum_cost_delay",
    "autovacuum_vacuum_cost_limit",
    "autovacuum_vacuum_threshold",
    "autovacuum_vacuum_scale_factor",
    "autovacuum_analyze_threshold",
    "autovacuum_analyze_scale_factor",
    "autovacuum_vacuum_insert_threshold",
    "autovacuum_vacuum_insert_scale_factor",
    "autovacuum_freeze_max_age",
    "autovacuum_multixact_freeze_max_age",
    "autovacuum_max_workers",
    "vacuum_freeze_min_age",
    "vacuum_freeze_table_age",
    "vacuum_cost_limit",
];

/// How the texts of autovacuum's workers begin.
const AUTOVACUUM: &str = "autovacuum:";

/// Roles of processes that work beside the load, with what is done about them. Checkpointer and the writers work for it.
const ROLES: &[(&str, &str)] = &[
    (
        "walsender",
        "see who reads the log: SELECT application_name, state FROM pg_stat_replication, and pg_replication_slots; each logical slot decodes all of it once more: \
         drop logical ones that nobody needs, let consumers share one, and publish fewer tables; of standbys, which only read it, let some read from another (cascading)",
    ),
    (
        "logical replication worker",
        "see what the subscription applies (pg_stat_subscription): an UPDATE or DELETE of a table without a key reads it whole for each row; give it a primary key or \
         REPLICA IDENTITY USING INDEX on both sides",
    ),
    (
        "autovacuum launcher",
        "a longer autovacuum_naptime: the launcher wakes so often for each database",
    ),
    (
        "archiver",
        "a cheaper archive_command (zstd or lz4 in the place of xz, or none), or an archive that is fed by pg_receivewal on another machine",
    ),
];

/// What is known of a statement of others; none for a worker of autovacuum.
fn kind(text: &str) -> Option<&'static Kind> {
    let verb = verb(text);
    let upper = text.to_ascii_uppercase();
    let lower = text.to_ascii_lowercase();
    let reads = matches!(verb.as_str(), "SELECT" | "WITH");
    KINDS.iter().find(|kind| {
        let begins = kind.begins.iter().any(|words| {
            upper.starts_with(words)
                && !upper[words.len()..].starts_with(|c: char| c.is_ascii_alphabetic())
        });
        begins || reads && kind.contains.iter().any(|part| lower.contains(part))
    })
}

/// Waits for a disk.
fn at_disk(kind: &str, event: &str) -> bool {
    kind == "IO" || wait_shares::is_of(kind, event, wait_shares::WAL_FLUSH)
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    if run.is_own_load() {
        return None;
    }
    let observed = run.observed?;
    let budget = run.budget()?;
    let others = &observed.beside;
    let sampled: f64 = others.iter().map(|b| b.running).sum();
    let by_role = |role: &str| {
        let roles = observed.backends.iter().flat_map(|b| &b.roles);
        let of = roles.filter(|r| r.role == role);
        of.map(|r| r.cpus).sum::<f64>()
    };
    let helpers: Vec<(&str, f64, &str)> = ROLES
        .iter()
        .map(|(role, advice)| (*role, by_role(role), *advice))
        .filter(|(_, cpus, _)| *cpus >= FEW)
        .collect();
    let of_helpers: f64 = helpers.iter().map(|(_, cpus, _)| cpus).sum();
    let own = budget.on_cpu + budget.ready;
    let running = sampled + of_helpers;
    let busy = run.point.estimate(metrics::MACHINE_CPUS)?.estimate;
    let full = busy >= FULL * f64::from(run.host.cpus?);
    // Of CPUs that are full each who wants one has a like part.
    let of_cpus = match full && running >= FEW {
        true => run.of_cycle(budget.running()) * running / (running + own),
        false => 0.0,
    };
    let io: f64 = others.iter().map(|b| b.at(at_disk)).sum();
    let own_io = budget.at(at_disk).unwrap_or(0.0);
    let of_disk = match io >= FEW && own_io > 0.0 {
        true => run.of_cycle(budget.share(own_io)) * io / (io + own_io),
        false => 0.0,
    };
    let gain = of_cpus + of_disk;
    if gain < NOTABLE {
        return None;
    }
    let mut named: Vec<&Beside> = others.iter().filter(|b| b.sessions >= 0.05).collect();
    named.sort_by(|a, b| {
        let weight = |b: &Beside| b.running + b.at(at_disk);
        weight(b).total_cmp(&weight(a))
    });
    named.truncate(NAMED);
    let first = named.first().copied();
    let does = match (first, helpers.first()) {
        (Some(first), None) => does(&first.text),
        (Some(first), Some((_, cpus, _))) if first.running >= *cpus => does(&first.text),
        (_, Some((role, ..))) => format!("the server's {role}"),
        (None, None) => return None,
    };
    let mut parts = Vec::new();
    if of_cpus > 0.0 {
        parts.push(format!(
            "{running:.2} want the CPUs, which are full, beside {own:.2} of the load"
        ));
    }
    if of_disk > 0.0 {
        parts.push(format!(
            "{io:.2} wait for the disk, beside {own_io:.2} of the load"
        ));
    }
    let saw = format!(
        "Beside the load others work in the server, most of them at {does}: on average {}.",
        parts.join("; ")
    );
    let seen = Observation::measured(Basis::MachineTime, Some(gain.min(1.0)), saw)
        .severity(Severity::High)
        .confidence(if of_cpus >= of_disk {
            Confidence::High
        } else {
            Confidence::Medium
        })
        .all_seen(named.iter().map(|b| {
            format!(
                "{:.2} sessions on average in: {}",
                b.sessions,
                short(&b.text)
            )
        }))
        .all_seen(
            helpers
                .iter()
                .map(|(role, cpus, _)| format!("the {role} keeps {cpus:.2} CPUs busy")),
        )
        .seen(format!(
            "that is worth {} of the load's time",
            tenths(gain.min(1.0))
        ));
    let seen = helpers
        .iter()
        .fold(seen, |seen, (_, _, advice)| seen.advice(*advice));
    Some(
        named
            .into_iter()
            .fold(seen, |seen, b| with_advice(evidence, seen, b)),
    )
}

pub fn short(text: &str) -> String {
    const MOST: usize = 160;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text[..end].trim_end_matches('…')),
        None => text.to_owned(),
    }
}

/// What a statement of others is, in a sentence.
fn does(text: &str) -> String {
    if text.starts_with(AUTOVACUUM) {
        return "autovacuum".to_owned();
    }
    kind(text).map_or_else(
        || "a statement of their own".to_owned(),
        |kind| kind.what.to_owned(),
    )
}

/// The same with what is done about one of those statements, where that is not said yet.
fn with_advice(evidence: &Evidence, seen: Observation, b: &Beside) -> Observation {
    if let Some(work) = b.text.strip_prefix(AUTOVACUUM) {
        let mut seen = seen;
        let mut set = false;
        for name in EAGER {
            let Some((value, source)) = evidence.value_and_source(name) else {
                continue;
            };
            if matches!(source, "default" | "override") {
                continue;
            }
            set = true;
            seen = seen.seen(format!("{name} = {value}")).sql(format!(
                "ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();"
            ));
        }
        let table = work.split_whitespace().find(|word| word.contains('.'));
        let own =
            |table: &&str| !table.starts_with("pg_toast.") && !table.starts_with("pg_catalog.");
        // A table's own delay is slower than what releases come with: 20 ms up to 11, 2 ms since.
        let delay = if evidence.is_before(120_000) { 50 } else { 10 };
        return match (set, table.filter(own)) {
            (true, _) => seen,
            _ if work.contains("to prevent wraparound") => seen.advice(
                "let it end: it freezes rows before their transactions' numbers come round, and comes back at once where it is stopped; VACUUM (FREEZE) in quiet hours has it find less to do",
            ),
            (false, Some(table)) => seen
                .sql(format!(
                    "ALTER TABLE {table} SET (autovacuum_vacuum_cost_delay = {delay});   -- or see whether its own parameters have it come too often (\\d+)"
                )),
            (false, None) => seen.advice("a longer autovacuum_vacuum_cost_delay, or higher thresholds"),
        };
    }
    let Some(kind) = kind(&b.text) else {
        return seen.advice("see whose it is (pg_stat_activity: application_name, usename, client_addr), and run it elsewhere or at another time");
    };
    kind.advice.iter().fold(seen, |seen, advice| {
        match seen.remedy.iter().any(|step| step.text == *advice) {
            true => seen,
            false => seen.advice(*advice),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::{found_on_full_cpus, found_with, one};
    use pgassay_evidence::observed::statements::StatementWait;

    fn session(text: &str, running: f64) -> Beside {
        Beside {
            text: text.into(),
            sessions: running,
            running,
            waits: Vec::new(),
        }
    }

    fn found(those: Vec<Beside>) -> Option<Finding> {
        let found = found_on_full_cpus(move |observed| observed.beside = those);
        found.into_iter().find(|f| f.id == "work-beside")
    }

    #[test]
    fn a_report_beside_the_load_is_named_with_what_it_takes() {
        let seen = found(vec![session(
            "SELECT region, sum(v) FROM fact GROUP BY region",
            2.0,
        )])
        .unwrap();
        assert!(seen.saw.contains("reports or a dashboard"), "{}", seen.saw);
        // Two of 7.9 that want a CPU.
        assert!(
            (seen.gain_at_most.unwrap() - 2.0 / 7.9).abs() < 0.02,
            "{seen:?}"
        );
        assert!(seen.remedy[0].text.contains("standby"), "{seen:?}");
    }

    #[test]
    fn work_is_told_by_what_it_is() {
        for (text, what) in [
            ("VACUUM FREEZE t", "VACUUM by a job"),
            ("create index on t (a)", "building tables and indexes"),
            (
                "SELECT count(*) FROM pg_buffercache",
                "monitoring that looks at the server all the time",
            ),
            ("COPY public.t (a) TO stdout", "a dump or an export"),
            ("autovacuum: VACUUM public.t", "autovacuum"),
            ("WITH a AS (SELECT $1) SELECT a", "reports or a dashboard"),
            ("SELECTED", "a statement of their own"),
        ] {
            assert_eq!(does(text), what, "{text}");
        }
        let seen = found(vec![session("autovacuum: VACUUM public.line", 2.0)]).unwrap();
        assert!(
            seen.remedy[0]
                .text
                .starts_with("ALTER TABLE public.line SET"),
            "{seen:?}"
        );
    }

    #[test]
    fn who_looks_in_now_and_then_or_waits_is_none() {
        assert!(found(vec![]).is_none());
        assert!(found(vec![session("SELECT 1", 0.1)]).is_none());
        // CPUs that are free.
        let others = vec![session("SELECT sum(v) FROM fact", 1.0)];
        let quiet = found_with(vec![], move |observed| observed.beside = others);
        assert!(quiet.iter().all(|f| f.id != "work-beside"));
    }

    #[test]
    fn who_writes_on_the_same_disk_takes_of_it() {
        let copy = Beside {
            text: "COPY t FROM stdin".into(),
            sessions: 2.0,
            running: 0.0,
            waits: vec![StatementWait {
                name: "IO:WALWrite".into(),
                sessions: 2.0,
            }],
        };
        let found = found_with(vec![("IO", "WALSync", 4.0)], move |observed| {
            observed.beside = vec![copy];
        });
        let seen = one(&found, "work-beside");
        assert!(
            seen.saw.contains("2.00 wait for the disk, beside 4.00"),
            "{}",
            seen.saw
        );
        assert_eq!(seen.confidence, Confidence::Medium);
    }
}
