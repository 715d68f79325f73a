//! More active sessions than CPUs and devices can serve.

use crate::detect::prelude::*;
use crate::detect::sessions::clients::clients;

pub fn audit(seen: &FactView) -> Judged {
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
