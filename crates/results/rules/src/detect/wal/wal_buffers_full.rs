//! WAL buffers run full.

use crate::detect::common::waiting::waiting;
use crate::detect::prelude::*;
use pgassay_text::number::memory_bytes;

/// The most that the server takes by itself, a segment of the log (XLOGChooseNumBuffers, xlog.c).
const SEGMENT: u64 = 16 << 20;

/// Where somebody set it to a fraction of what the server would take by itself: how it says so, with that size.
fn small_by_hand(seen: &FactView) -> Result<Option<(u64, u64)>, NotJudged> {
    let source = seen
        .setting("wal_buffers")?
        .source
        .as_deref()
        .unwrap_or("default");
    let by_hand = !matches!(source, "default" | "override");
    let size = seen.bytes("wal_buffers")?;
    let by_itself = (seen.bytes("shared_buffers")? / 32).min(SEGMENT);
    Ok((by_hand && size < 1 << 20 && size * 4 <= by_itself).then_some((size, by_itself)))
}

/// Back to what the server takes by itself.
const BY_ITSELF: &str =
    "ALTER SYSTEM SET wal_buffers = -1;   -- then restart: 1/32 of shared_buffers, up to 16 MB";

pub fn audit(seen: &FactView) -> Judged {
    if let Some((size, by_itself)) = small_by_hand(seen)? {
        let saw = format!(
            "wal_buffers = {}, set by hand; by itself the server would take {}: a transaction's log does not fit, and \
             sessions write it out while they insert.",
            shown(size),
            shown(by_itself)
        );
        let row = seen.row("wal").ok();
        let full = row.and_then(|row| number(&row, "wal_buffers_full"));
        return Observation::new(Severity::Medium, Confidence::High, saw)
            .all_seen(
                full.map(|full| format!("they were full {full:.0} times since the counters began")),
            )
            .sql(BY_ITSELF)
            .found();
    }
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

/// The share of the sessions' time at the log's buffers from which on it is worth a finding.
const NOTABLE: f64 = 0.1;

/// The part of the log's pages that was written for want of room, from which on that is why they wait.
const FOR_ROOM: f64 = 0.1;

/// The size of the log's pages, unless the server was built with another (XLOG_BLCKSZ).
const PAGE: f64 = 8192.0;

/// Waits of sessions that want room in the log's buffers, or for those that make some.
fn for_room(kind: &str, event: &str) -> bool {
    let event = event.to_ascii_lowercase();
    let lock = kind.starts_with("LWLock")
        && ["walbufmapping", "walwrite", "walinsert"]
            .iter()
            .any(|l| event.starts_with(l));
    lock || (kind == "IO" && event == "walwrite")
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let wal = &run.observed?.counters.as_ref()?.wal;
    let full = *wal.get("wal_buffers_full")?;
    let bytes = *wal.get("lsn").or_else(|| wal.get("wal_bytes"))?;
    let page = run
        .setting("wal_block_size")
        .and_then(|size| size.parse().ok())
        .unwrap_or(PAGE);
    let part = (full * page / bytes.max(1.0)).min(1.0);
    let share = run.wait_share(for_room)?;
    if part < FOR_ROOM || share < NOTABLE {
        return None;
    }
    let saw = format!(
        "Sessions write the log out themselves, since its buffers are full: {} of the log's pages, and {} of {} is spent \
         waiting for that.",
        tenths(part),
        tenths(share),
        run.whole()
    );
    let (value, source) = evidence.value_and_source("wal_buffers").unzip();
    let by_hand = source.is_some_and(|source| !matches!(source, "default" | "override"));
    let small = value
        .and_then(memory_bytes)
        .is_some_and(|bytes| bytes < 1 << 20);
    let seen = waiting(evidence, &run, (share, saw), for_room)
        .expects(
            part,
            "the part of the log's pages that was written for want of room",
        )
        .severity(Severity::Medium)
        .confidence(Confidence::High)
        .seen(format!("wal_buffers_full grew by {full:.0} (pg_stat_wal)"))
        .all_seen(value.map(|value| format!("wal_buffers = {value}")));
    Some(match by_hand && small {
        true => seen.sql(BY_ITSELF),
        false => seen.sql("ALTER SYSTEM SET wal_buffers = '128MB';   -- then restart"),
    })
}
