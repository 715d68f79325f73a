//! Relation locks beyond the fast path.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let version = seen.version()?;
    let row = seen.row("relation locks")?;
    let fast = number(&row, "fast").unwrap_or(0.0);
    let shared = number(&row, "shared").unwrap_or(0.0);
    let backends = number(&row, "backends").unwrap_or(0.0);
    let saw = format!(
        "At this moment {fast} weak relation locks are held by the fast path and {shared} in the shared table, by {backends} backends"
    );
    if shared < 50.0 || backends < 4.0 || shared < fast {
        return passed(saw);
    }
    let found = Observation::new(
        Severity::Low,
        Confidence::Low,
        format!("{saw}: statements touch more relations than the fast path holds."),
    );
    if version >= 180_000 {
        found.sql(
            "ALTER SYSTEM SET max_locks_per_transaction = 256;   -- then restart; on standbys first, as a standby must not have less than \
             its primary",
        )
    } else {
        found.advice("touch fewer partitions and indexes per statement")
    }
    .found()
}
