//! Hundreds of idle sessions.

use crate::detect::prelude::*;
use crate::detect::sessions::clients::clients;

pub fn audit(seen: &FactView) -> Judged {
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
