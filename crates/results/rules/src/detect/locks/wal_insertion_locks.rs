//! Contention on the WAL insertion locks.

use crate::detect::common::sessions::sessions;
use crate::detect::prelude::*;
use crate::version::written;

pub fn audit(seen: &FactView) -> Judged {
    let version = seen.version()?;
    let release = written(version);
    if version >= 170_000 {
        return passed(format!(
            "{release}: insertingAt is atomic from 17 on; the eight locks are seen under load"
        ));
    }
    let cpus = seen.cpus()?;
    let (_, active) = sessions(seen)?;
    let row = seen.row("databases")?;
    let (commits, rows) = (number(&row, "commits"), number(&row, "tup_written"));
    let (Some(commits), Some(rows)) = (commits, rows) else {
        return could_not_see("the server's counters of rows written are empty");
    };
    let writes = rows / commits.max(1.0);
    let saw = format!(
        "{release} with {active} active sessions on {cpus} CPUs and {writes:.1} rows written per transaction"
    );
    if cpus < 32 || active < 64.0 || writes < 0.2 {
        return passed(format!(
            "{saw}: the effect was seen with hundreds of writers only"
        ));
    }
    Observation::new(
        Severity::Medium,
        Confidence::Low,
        format!("PostgreSQL {saw}: who inserts and who flushes meet at the wait-list locks of eight locks."),
    )
    .shell("pgassay run wal-insert --clients 1..64*2   # on both versions")
    .found()
}
