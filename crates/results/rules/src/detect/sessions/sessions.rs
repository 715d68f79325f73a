//! Sessions: how many, and what the idle ones hold.

use crate::detect::common::horizon::horizon;
use crate::detect::{Detector, facts, high_if};
use crate::fact_view::{FactView, number, word};
use crate::finding::{Confidence, Judged, NotJudged, Observation, Severity, could_not_see, passed};

pub const DETECTORS: &[Detector] = &[
    facts("max-connections-unused", max_connections),
    facts("idle-sessions", idle),
    facts("idle-in-transaction", in_transaction),
    facts("active-sessions", active),
    facts("horizon-held", horizon),
];

/// Clients' sessions by state; none where other users' states are hidden.
struct Clients {
    all: f64,
    idle: f64,
    active: f64,
    in_transaction: f64,
    oldest_idle_in_transaction_s: f64,
    hidden: f64,
}

fn clients(seen: &FactView) -> Result<Clients, NotJudged> {
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

fn max_connections(seen: &FactView) -> Judged {
    let limit = seen.number("max_connections")?;
    let used = clients(seen)?.all;
    let saw = format!("max_connections = {limit}, {used} in use at this moment");
    let role = seen.row("role").unwrap_or_default();
    let in_recovery = role.get("in_recovery") == Some(&true.into());
    if limit < 500 || used > limit as f64 * 0.2 {
        return passed(saw);
    }
    Observation::new(
        if limit >= 2000 {
            Severity::Low
        } else {
            Severity::Info
        },
        Confidence::Low,
        format!("{saw}."),
    )
    .sql("SELECT sum(numbackends) FROM pg_stat_database;   -- at the busiest hours: what was seen is one moment")
    .advice(match in_recovery {
        true => "a standby must have max_connections at least as large as its primary, else it does not start: lower it there first",
        false => "then set max_connections to twice the most that was seen, and restart; on standbys after this server, as a standby \
                  must not have less",
    })
    .found()
}

fn idle(seen: &FactView) -> Judged {
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
    let found = Observation::new(
        match (old, clients.idle >= 1000.0) {
            (true, _) => Severity::High,
            (false, true) => Severity::Medium,
            (false, false) => Severity::Low,
        },
        Confidence::Medium,
        format!("{saw}."),
    )
    .advice("put PgBouncer in transaction mode in front of the server");
    match old {
        true => found,
        false => found.advice(
            "or end sessions that are idle for long: ALTER ROLE … SET idle_session_timeout = '30min', for roles whose clients connect \
             again when they are disconnected; not for those of a connection pool",
        ),
    }
    .found()
}

fn in_transaction(seen: &FactView) -> Judged {
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
    Observation::new(
        high_if(age > 3600.0),
        Confidence::High,
        format!("{saw}."),
    )
    .sql("SELECT pid, xact_start, query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' ORDER BY xact_start;")
    .sql("ALTER SYSTEM SET idle_in_transaction_session_timeout = '1min'; SELECT pg_reload_conf();")
    .found()
}

fn active(seen: &FactView) -> Judged {
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
    Observation::new(Severity::Low, Confidence::Low, format!("{saw}."))
        .shell("pgassay run select-only --clients 1..64*2   # shows where the peak is")
        .advice("put a connection pooler in front of the server, with a pool near that number")
        .found()
}
