//! WAL, checkpoints, durability: what costs, and what makes a measurement lie.

use super::{Detector, facts, high_if, percent, shown};
use crate::bottlenecks::fact_view::{FactView, Row, number, word};
use crate::bottlenecks::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, could_not_see, passed,
};

pub(super) const DETECTORS: &[Detector] = &[
    facts("forced-checkpoints", checkpoints),
    facts("max-wal-size-small", max_wal_size),
    facts("wal-buffers-full", wal_buffers),
    facts("backend-writes", backend_writes),
];

fn checkpoints(seen: &FactView) -> Judged {
    let (timed, forced) = match seen.row("checkpointer") {
        Ok(row) => (number(&row, "num_timed"), number(&row, "num_requested")),
        Err(_) => {
            let row = seen.row("bgwriter")?;
            (
                number(&row, "checkpoints_timed"),
                number(&row, "checkpoints_req"),
            )
        }
    };
    let (Some(timed), Some(forced)) = (timed, forced) else {
        return could_not_see("the server counts no checkpoints under the names that are known");
    };
    let size = seen.bytes("max_wal_size")?;
    let timeout = seen.millis("checkpoint_timeout")?.unwrap_or(300_000) / 1000;
    let saw = format!(
        "{forced} checkpoints were requested and {timed} came by time (max_wal_size {}, checkpoint_timeout {timeout} s)",
        shown(size)
    );
    // A few are requested by hand: backups, CREATE DATABASE, shutdown.
    if forced < 10.0 || forced < timed {
        return passed(saw);
    }
    let wal = seen
        .row("wal")
        .ok()
        .and_then(|row| number(&row, "wal_bytes"));
    let uptime = seen
        .row("role")
        .ok()
        .and_then(|row| number(&row, "uptime_s"));
    let wanted = match (wal, uptime) {
        (Some(bytes), Some(seconds)) if seconds > 60.0 => {
            // Twice what a timeout's WAL comes to, rounded up to whole GiB.
            (bytes / seconds * timeout as f64 * 2.0 / (1u64 << 30) as f64)
                .ceil()
                .max(1.0) as u64
        }
        _ => (size >> 30).max(1) * 4,
    };
    let wanted = wanted.max((size >> 30) + 1).min(1024);
    Observation::new(Severity::Medium, Confidence::High, format!("{saw}."))
        .sql(format!(
            "ALTER SYSTEM SET max_wal_size = '{wanted}GB'; SELECT pg_reload_conf();"
        ))
        .found()
}

fn max_wal_size(seen: &FactView) -> Judged {
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
    Observation::new(severity, Confidence::Medium, format!("{saw}."))
        .sql("ALTER SYSTEM SET max_wal_size = '4GB'; SELECT pg_reload_conf();")
        .found()
}

fn wal_buffers(seen: &FactView) -> Judged {
    let row = seen.row("wal")?;
    let (Some(full), Some(records)) = (
        number(&row, "wal_buffers_full"),
        number(&row, "wal_records"),
    ) else {
        return could_not_see("the server does not count full WAL buffers");
    };
    let size = seen.bytes("wal_buffers")?;
    let bytes = number(&row, "wal_bytes").unwrap_or(0.0);
    // Each time round the buffers there is one that can't be helped.
    let rounds = bytes / size.max(1) as f64;
    let saw = format!(
        "wal_buffers ({}) were full {full} times for {records} records",
        shown(size)
    );
    if full < 1000.0 || full < rounds * 4.0 || full / records.max(1.0) < 0.001 {
        return passed(saw);
    }
    Observation::new(
        Severity::Low,
        Confidence::Medium,
        format!("{saw} ({}).", percent(full / records)),
    )
    .sql("ALTER SYSTEM SET wal_buffers = '128MB';   -- then restart")
    .found()
}

fn backend_writes(seen: &FactView) -> Judged {
    let (own, others) = written(seen)?;
    let total = own + others;
    let saw = format!(
        "backends wrote {own:.0} of {total:.0} blocks themselves ({})",
        percent(own / total.max(1.0))
    );
    if total < 100_000.0 || own / total < 0.5 {
        return passed(saw);
    }
    Observation::new(Severity::Low, Confidence::Medium, format!("{saw}."))
        .sql("ALTER SYSTEM SET bgwriter_lru_maxpages = 1000; ALTER SYSTEM SET bgwriter_delay = '50ms'; SELECT pg_reload_conf();")
        .shell("pgassay check --explain shared-buffers-small")
        .found()
}

/// Blocks that backends wrote, and those that the checkpointer and the background
/// writer did. Bulk writes through rings are left out where they are told apart.
fn written(seen: &FactView) -> Result<(f64, f64), NotJudged> {
    if let Ok(rows) = seen.rows("io") {
        let sum = |pick: &dyn Fn(&Row) -> bool| -> f64 {
            rows.iter()
                .filter(|r| {
                    word(r, "object") == Some("relation") && word(r, "context") == Some("normal")
                })
                .filter(|r| pick(r))
                .filter_map(|r| number(r, "writes"))
                .sum()
        };
        let clients = |r: &Row| {
            matches!(
                word(r, "backend_type"),
                Some("client backend" | "background worker")
            )
        };
        let writers = |r: &Row| {
            matches!(
                word(r, "backend_type"),
                Some("checkpointer" | "background writer")
            )
        };
        return Ok((sum(&clients), sum(&writers)));
    }
    let row = seen.row("bgwriter")?;
    let get = |key| number(&row, key);
    match (
        get("buffers_backend"),
        get("buffers_checkpoint"),
        get("buffers_clean"),
    ) {
        (Some(backend), Some(checkpoint), Some(clean)) => Ok((backend, checkpoint + clean)),
        _ => could_not_see("the server does not report who wrote its blocks"),
    }
}
