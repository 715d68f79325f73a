//! WAL, checkpoints, durability: what costs, and what makes a measurement lie.

use crate::detect::common::waiting::waiting;
use crate::detect::wal::max_wal_size::{ENOUGH_WAL, MUCH_WAL, Needs, SECONDS};
use crate::detect::{Detector, facts, high_if, medium_if, percent, run, shown, tenths};
use crate::evidence::Evidence;
use crate::fact_view::{FactView, Row, number, word};
use crate::finding::{Confidence, Judged, NotJudged, Observation, Severity, could_not_see, passed};
use pgassay_evidence::checkpoints::forced_after;
use pgassay_evidence::number;
use pgassay_text::number::memory_bytes;

pub const DETECTORS: &[Detector] = &[
    facts("forced-checkpoints", checkpoints),
    facts("max-wal-size-small", max_wal_size),
    facts("wal-buffers-full", wal_buffers),
    run("wal-buffers-full", wal_buffers_in_a_run),
    facts("backend-writes", backend_writes),
];

/// Counters that cover less time say nothing of a rate.
const SHORTEST_SECONDS: f64 = 60.0;

/// Seconds that the counters of a row cover, by the server's clock; none where the server does not say since when it
/// counts, or counts for too short a time.
fn covered_seconds(row: &Row) -> Option<f64> {
    number(row, "since_reset_s").filter(|seconds| *seconds >= SHORTEST_SECONDS)
}

/// Bytes of WAL a second, over the time that their own counter covers.
fn wal_rate(seen: &FactView) -> Option<f64> {
    let row = seen.row("wal").ok()?;
    Some(number(&row, "wal_bytes")? / covered_seconds(&row)?)
}

/// What bears on the size of the WAL.
fn needs<'a>(seen: &FactView<'a>) -> Result<Needs<'a>, NotJudged> {
    Ok(Needs {
        now: Some(seen.bytes("max_wal_size")?),
        rate: wal_rate(seen),
        directories: seen.directories().unwrap_or_default(),
    })
}

fn checkpoints(seen: &FactView) -> Judged {
    let row = match seen.row("checkpointer") {
        Ok(row) => row,
        Err(_) => seen.row("bgwriter")?,
    };
    let either = |name, old| number(&row, name).or_else(|| number(&row, old));
    let (Some(timed), Some(forced)) = (
        either("num_timed", "checkpoints_timed"),
        either("num_requested", "checkpoints_req"),
    ) else {
        return could_not_see("the server counts no checkpoints under the names that are known");
    };
    let size = seen.bytes("max_wal_size")?;
    let timeout = seen.millis("checkpoint_timeout")?.unwrap_or(300_000) / 1000;
    let covered = covered_seconds(&row);
    let over = match covered {
        Some(seconds) => format!(
            "in the {} since these counters were reset, one requested every {} on average",
            number::duration(seconds),
            number::duration((seconds / forced.max(1.0)).round())
        ),
        None => "since a reset that is less than a minute ago, or not known".to_owned(),
    };
    let saw = format!(
        "{forced} checkpoints were requested and {timed} came by time {over} (max_wal_size {}, checkpoint_timeout {timeout} s)",
        shown(size)
    );
    // A few are requested by hand: backups, CREATE DATABASE, shutdown.
    if forced < 10.0 || forced < timed {
        return passed(saw);
    }
    let rate = wal_rate(seen);
    let target = seen.decimal("checkpoint_completion_target").ok();
    let after = target.and_then(|target| forced_after(size, target, seen.version().ok()));
    let each = covered
        .zip(rate)
        .map(|(seconds, rate)| rate * seconds / forced);
    let known = each.zip(after.filter(|after| *after > 0));
    let filled = known.map(|(each, after)| each / after as f64);
    let evidence = known.map(|(each, after)| {
        format!(
            "{} of WAL for each of them; max_wal_size requests one after {}",
            shown(each as u64),
            shown(after)
        )
    });
    if let Some(evidence) = evidence.as_ref().filter(|_| filled < Some(ENOUGH_WAL)) {
        return passed(format!(
            "{saw}; {evidence}: commands requested them (CHECKPOINT, backups, CREATE DATABASE)"
        ));
    }
    // Without the WAL of the same time it is not known whether that, or a command, requested them.
    let confidence = match filled {
        Some(filled) if filled >= MUCH_WAL => Confidence::High,
        Some(_) => Confidence::Medium,
        None => Confidence::Low,
    };
    let near = covered.is_some_and(|seconds| seconds / forced < SECONDS);
    let severity = medium_if(near && filled.is_some());
    let found = Observation::new(severity, confidence, format!("{saw}.")).all_seen(evidence);
    needs(seen)?.recommend(found).found()
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
    let found = Observation::new(severity, Confidence::Medium, format!("{saw}."));
    needs(seen)?.recommend(found).found()
}

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

fn wal_buffers(seen: &FactView) -> Judged {
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

fn wal_buffers_in_a_run(evidence: &Evidence) -> Option<Observation> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::Finding;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_evidence::observed::counters::ServerCounters;

    /// 4 sessions at the log, of which this many pages of 1000 were written for want of room.
    fn found(full: f64, at: (&'static str, &'static str)) -> Vec<Finding> {
        found_with(vec![(at.0, at.1, 4.0)], move |observed| {
            observed.counters = Some(ServerCounters {
                seconds: 4.0,
                wal: [("lsn", 8192e3), ("wal_buffers_full", full)]
                    .map(|(name, by)| (name.to_owned(), by))
                    .into_iter()
                    .collect::<BTreeMap<_, _>>(),
                ..ServerCounters::default()
            });
        })
    }

    #[test]
    fn buffers_that_run_full_are_the_cause_of_the_queue_for_the_log() {
        let findings = found(900.0, ("LWLock", "WALWrite"));
        let full = one(&findings, "wal-buffers-full");
        assert!(
            full.saw.contains("90.0 % of the log's pages"),
            "{}",
            full.saw
        );
        assert!(full.gain_expected.unwrap() > 0.85 * full.gain_at_most.unwrap());
        let flush = one(&findings, "wal-flush");
        assert_eq!(flush.cause.as_deref(), Some("wal-buffers-full"));
    }

    #[test]
    fn commits_that_wait_for_their_flush_do_not_want_room() {
        for findings in [
            found(3.0, ("LWLock", "WALWrite")),
            found(900.0, ("IO", "DataFileRead")),
        ] {
            assert!(
                findings.iter().all(|f| f.id != "wal-buffers-full"),
                "{findings:#?}"
            );
        }
    }
}
