//! max_connections far above what is used.

use crate::detect::prelude::*;
use crate::detect::sessions::clients::clients;

pub fn audit(seen: &FactView) -> Judged {
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
