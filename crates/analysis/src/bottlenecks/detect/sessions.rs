//! Sessions: how many, and what the idle ones hold.

use super::{Detector, facts, high_if};
use crate::bottlenecks::fact_view::{FactView, number, word};
use crate::bottlenecks::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, could_not_see, passed,
};

pub(super) const DETECTORS: &[Detector] = &[
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
    .sql(format!(
        "ALTER SYSTEM SET max_connections = {};   -- then restart",
        ((used * 2.0) as i64).max(200)
    ))
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
    Observation::new(
        match (old, clients.idle >= 1000.0) {
            (true, _) => Severity::High,
            (false, true) => Severity::Medium,
            (false, false) => Severity::Low,
        },
        Confidence::Medium,
        format!("{saw}."),
    )
    .advice("put PgBouncer in transaction mode in front of the server")
    .sql(
        "ALTER SYSTEM SET idle_session_timeout = '30min'; SELECT pg_reload_conf();   -- from 14 on",
    )
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

pub(super) fn horizon(seen: &FactView) -> Judged {
    let rows = seen.rows("horizon")?;
    let mut finding: Option<(Severity, String, String)> = None;
    let kept = seen.value("vacuum_defer_cleanup_age").ok();
    let kept = kept.and_then(|kept| kept.parse::<f64>().ok());
    if let Some(kept) = kept.filter(|kept| *kept >= 1e4) {
        finding = Some((
            high_if(kept >= 1e6),
            format!(
                "vacuum_defer_cleanup_age = {kept:.0} holds dead rows back: no VACUUM removes what died in the last \
                 {kept:.0} transactions."
            ),
            "ALTER SYSTEM RESET vacuum_defer_cleanup_age; SELECT pg_reload_conf();   -- hot_standby_feedback on the \
             standby instead"
                .to_owned(),
        ));
    }
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
                    "SELECT pg_drop_replication_slot('{literal}');   -- if it is no longer read"
                ),
            ),
            "standby" => (
                age >= 1e5,
                age >= 1e7,
                format!(
                    "SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xmin IS NOT NULL ORDER BY \
                     xact_start;   -- on the standby {name}: end the oldest; statement_timeout, or hot_standby_feedback \
                     = off, there"
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
        let severity = high_if(weighty);
        let since = match kind {
            "replication slot" | "standby" => String::new(),
            _ => format!(" has been open for {seconds:.0} s and"),
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
        Some((severity, text, end)) => Observation::new(severity, Confidence::Medium, text)
            .sql(end)
            .found(),
    }
}
