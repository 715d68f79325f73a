//! Sessions: how many, and what the idle ones hold.

use crate::check::rule::{
    Aside, Family, Finding, Judged, Need, Rule, Severity, Sure, could_not_see, passed,
};
use crate::check::seen::{Seen, number, word};

/// Clients' sessions by state; none where other users' states are hidden.
struct Clients {
    all: f64,
    idle: f64,
    active: f64,
    in_transaction: f64,
    oldest_idle_in_transaction_s: f64,
    hidden: f64,
}

fn clients(seen: &Seen) -> Result<Clients, Aside> {
    let mut clients = Clients {
        all: 0.0,
        idle: 0.0,
        active: 0.0,
        in_transaction: 0.0,
        oldest_idle_in_transaction_s: 0.0,
        hidden: 0.0,
    };
    for row in seen.rows("sessions")? {
        let n = number(&row, "sessions").unwrap_or(0.0);
        match (word(&row, "backend_type"), word(&row, "state")) {
            (Some("client backend"), Some(state)) => {
                clients.all += n;
                match state {
                    "idle" => clients.idle += n,
                    "active" => clients.active += n,
                    "idle in transaction" | "idle in transaction (aborted)" => {
                        clients.in_transaction += n;
                        let age = number(&row, "oldest_change_s").unwrap_or(0.0);
                        clients.oldest_idle_in_transaction_s =
                            clients.oldest_idle_in_transaction_s.max(age);
                    }
                    "" => clients.hidden += n,
                    _ => {}
                }
            }
            // Who may not look sees neither type nor state of others' sessions.
            (Some(""), _) => {
                clients.all += n;
                clients.hidden += n;
            }
            _ => {}
        }
    }
    Ok(clients)
}

/// Room for connections that never come.
pub static MAX_CONNECTIONS: Rule = Rule {
    id: "max-connections-unused",
    title: "max_connections is near to what is used",
    family: Family::Sessions,
    needs: &[Need::Sql],
    why: "Arrays for each possible connection (proc array, lock table, predicate locks, semaphores) are made at start and walked by some code; and a high limit lets a storm of connections through that then starves all.",
    effect: "Some kilobytes of shared memory each; up to 13 also time in every snapshot for those that are connected. The harm is what the limit lets happen.",
    remedy: "A pooler, and a limit of a small multiple of the CPUs.",
    sources: &["PostgreSQL manual, \"Connections and Authentication\": max_connections"],
    judge: max_connections,
};

fn max_connections(seen: &Seen) -> Judged {
    let limit = seen.number("max_connections")?;
    let used = clients(seen)?.all;
    let saw = format!("max_connections = {limit}, {used} in use at this moment");
    if limit < 500 || used > limit as f64 * 0.2 {
        return passed(saw);
    }
    Finding::new(
        if limit >= 2000 {
            Severity::Low
        } else {
            Severity::Info
        },
        Sure::Possible,
        format!("{saw}."),
    )
    .sql(format!(
        "ALTER SYSTEM SET max_connections = {};   -- then restart",
        ((used * 2.0) as i64).max(200)
    ))
    .found()
}

/// Sessions that wait for their clients.
pub static IDLE: Rule = Rule {
    id: "idle-sessions",
    title: "Few sessions stand idle",
    family: Family::Sessions,
    needs: &[Need::SqlAsMonitor, Need::Host],
    why: "Each session is a process with caches, page tables and, up to 13, a place that each snapshot visits. When a burst wakes them they run all at once, many more than CPUs.",
    effect: "5 to 20 MiB each by experience, more with many relations in its caches; in snapshots see version-snapshots.",
    remedy: "PgBouncer in transaction mode, with a pool of two to four times the CPUs.",
    sources: &[
        "PostgreSQL wiki, \"Number Of Database Connections\"",
        "A. Freund, \"Improving Postgres Connection Scalability: Snapshots\", 2020",
    ],
    judge: idle,
};

fn idle(seen: &Seen) -> Judged {
    let clients = clients(seen)?;
    let saw = format!(
        "{} of {} sessions are idle, {} active",
        clients.idle, clients.all, clients.active
    );
    if clients.hidden > clients.all / 2.0 {
        return could_not_see(format!(
            "the states of {} of {} sessions are hidden from this role (GRANT pg_monitor)",
            clients.hidden, clients.all
        ));
    }
    if clients.idle < 200.0 || clients.idle < clients.active * 5.0 {
        return passed(saw);
    }
    let old = seen.version().is_ok_and(|v| v < 140_000);
    Finding::new(
        match (old, clients.idle >= 1000.0) {
            (true, _) => Severity::High,
            (false, true) => Severity::Medium,
            (false, false) => Severity::Low,
        },
        Sure::Likely,
        format!("{saw}."),
    )
    .advice("put PgBouncer in transaction mode before the server")
    .sql(
        "ALTER SYSTEM SET idle_session_timeout = '30min'; SELECT pg_reload_conf();   -- from 14 on",
    )
    .found()
}

/// Transactions that nobody goes on with.
pub static IN_TRANSACTION: Rule = Rule {
    id: "idle-in-transaction",
    title: "No transaction stands open without working",
    family: Family::Sessions,
    needs: &[Need::SqlAsMonitor],
    why: "An open transaction holds its locks and its snapshot: dead rows that it might see can't be removed, indexes and tables grow, hot rows get long version chains.",
    effect: "Grows with its age: queries on hot rows walk all versions since.",
    remedy: "Commit in the application; idle_in_transaction_session_timeout as a net.",
    sources: &[
        "PostgreSQL manual, \"Routine Vacuuming\"; \"Client Connection Defaults\": idle_in_transaction_session_timeout",
    ],
    judge: in_transaction,
};

fn in_transaction(seen: &Seen) -> Judged {
    let clients = clients(seen)?;
    if clients.hidden > clients.all / 2.0 {
        return could_not_see(
            "the states of other sessions are hidden from this role (GRANT pg_monitor)",
        );
    }
    let age = clients.oldest_idle_in_transaction_s;
    let saw = format!(
        "{} sessions idle in a transaction, the longest for {age:.0} s",
        clients.in_transaction
    );
    if age < 60.0 {
        return passed(saw);
    }
    Finding::new(
        if age > 3600.0 { Severity::High } else { Severity::Medium },
        Sure::Certain,
        format!("{saw}."),
    )
    .sql("SELECT pid, xact_start, query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' ORDER BY xact_start;")
    .sql("ALTER SYSTEM SET idle_in_transaction_session_timeout = '1min'; SELECT pg_reload_conf();")
    .found()
}

/// More runners than lanes.
pub static ACTIVE: Rule = Rule {
    id: "active-sessions",
    title: "No more sessions are active than CPUs and devices can serve",
    family: Family::Sessions,
    needs: &[Need::SqlAsMonitor, Need::Host],
    why: "Beyond what CPUs and devices can do more sessions only wait: in the run queue, while they hold locks that others spin for.",
    effect: "Throughput falls beyond its peak and latency grows with the number; pgassay run shows where the peak is here.",
    remedy: "A pooler with a pool near the peak.",
    sources: &[
        "PostgreSQL wiki, \"Number Of Database Connections\"",
        "N. Gunther, the universal scalability law",
    ],
    judge: active,
};

fn active(seen: &Seen) -> Judged {
    let clients = clients(seen)?;
    let cpus = f64::from(seen.cpus()?);
    let quota = seen
        .of_host("a quota", |h| h.cpu_quota)
        .unwrap_or(cpus)
        .min(cpus);
    let saw = format!(
        "{} sessions are active at this moment, on {quota} CPUs",
        clients.active
    );
    if clients.active <= quota.max(1.0) * 4.0 || clients.active < 16.0 {
        return passed(saw);
    }
    Finding::new(Severity::Low, Sure::Possible, format!("{saw}."))
        .shell("pgassay run select-only --clients 1..64*2   # where the peak is")
        .advice("put a pooler before the server, its pool near that number")
        .found()
}

/// What keeps dead rows from being removed.
pub static HORIZON: Rule = Rule {
    id: "horizon-held",
    title: "Nothing old keeps dead rows from being removed",
    family: Family::Sessions,
    needs: &[Need::SqlAsMonitor],
    why: "Dead rows stay as long as any transaction might still see them: a session with an old snapshot, a replication slot's xmin, or a prepared transaction, which no list of sessions shows and which outlives restarts. Rows that are changed often grow chains of versions that every visitor walks.",
    effect: "Grows with the transactions since: under tpcb-like, whose few branches are changed by all, throughput fell by 45 % in a trial, and on.",
    remedy: "End what is forgotten: ROLLBACK PREPARED (or COMMIT PREPARED), pg_drop_replication_slot, pg_terminate_backend.",
    sources: &[
        "PostgreSQL manual, \"Routine Vacuuming\"; PREPARE TRANSACTION, Caution; pg_replication_slots: xmin",
    ],
    judge: horizon,
};

fn horizon(seen: &Seen) -> Judged {
    let rows = seen.rows("horizon")?;
    let mut finding: Option<(Severity, String, String)> = None;
    for row in &rows {
        let (Some(kind), Some(name)) = (word(row, "kind"), word(row, "name")) else {
            continue;
        };
        let age = number(row, "transactions").unwrap_or(0.0);
        let seconds = number(row, "seconds").unwrap_or(0.0);
        let literal = name.replace('\'', "''");
        // A prepared transaction waits milliseconds for its second half; a report may take minutes.
        let (noted, weighty, end) = match kind {
            "prepared transaction" => (
                seconds >= 1.0,
                seconds >= 3600.0 || age >= 1e5,
                format!("ROLLBACK PREPARED '{literal}';   -- in its database; or COMMIT PREPARED"),
            ),
            "replication slot" => (
                age >= 1e5,
                age >= 1e7,
                format!(
                    "SELECT pg_drop_replication_slot('{literal}');   -- if nobody reads it any more"
                ),
            ),
            _ => (
                seconds >= 600.0 || (seconds >= 60.0 && age >= 1e5),
                seconds >= 3600.0,
                format!(
                    "SELECT query FROM pg_stat_activity WHERE pid = {name};   -- then pg_terminate_backend({name})"
                ),
            ),
        };
        if !noted {
            continue;
        }
        let severity = if weighty {
            Severity::High
        } else {
            Severity::Medium
        };
        let since = match kind {
            "replication slot" => String::new(),
            _ => format!(" has stood for {seconds:.0} s and"),
        };
        let newer = match age {
            1.0 => "one transaction".to_owned(),
            age => format!("{age} transactions"),
        };
        let text = format!("The {kind} {name}{since} holds dead rows back: {newer} began since.");
        if finding.as_ref().is_none_or(|(most, ..)| severity > *most) {
            finding = Some((severity, text, end));
        }
    }
    match finding {
        None => passed("no old snapshot, prepared transaction or slot holds dead rows back"),
        Some((severity, text, end)) => Finding::new(severity, Sure::Likely, text).sql(end).found(),
    }
}
