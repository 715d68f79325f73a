//! max_wal_size too small for a measurement.

use crate::detect::prelude::*;
use crate::detect::wal::rate::needs;

pub fn audit(seen: &FactView) -> Judged {
    let size = seen.bytes("max_wal_size")?;
    let target = seen.decimal("checkpoint_completion_target").unwrap_or(0.5);
    let between = (size as f64 / (1.0 + target)) as u64;
    let saw = format!(
        "max_wal_size = {}: a checkpoint after {} of WAL at the latest",
        shown(size),
        shown(between)
    );
    if size >= 1 << 29 {
        return passed(saw);
    }
    // 64 MiB are written in a few seconds by any server that writes at all.
    let severity = high_if(between < 1 << 26);
    let found = Observation::new(severity, Confidence::Medium, format!("{saw}."));
    needs(seen)?.recommend(found).found()
}
