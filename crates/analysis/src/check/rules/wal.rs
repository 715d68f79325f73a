//! WAL, checkpoints, durability: what costs, and what makes a measurement lie.

use super::{percent, shown};
use crate::check::rule::{
    Aside, Family, Finding, Judged, Need, Rule, Severity, Sure, could_not_see, passed,
};
use crate::check::seen::{Row, Seen, number, word};
use crate::server::LONG_COMMIT_DELAY_US;

const MANUAL_WAL: &str = "PostgreSQL manual, \"Write Ahead Log\"";

/// Durability that is switched off.
pub static FSYNC: Rule = Rule {
    id: "fsync-off",
    title: "A commit is on disk",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "Without fsync nothing is ever waited for: a crash of the machine may lose or corrupt everything.",
    effect: "Commits become as fast as memory; any figure of writes from such a server says nothing about a durable one.",
    remedy: "On, except for a server whose data can be made again.",
    sources: &[MANUAL_WAL],
    judge: fsync,
};

fn fsync(seen: &Seen) -> Judged {
    if seen.on("fsync")? {
        return passed("fsync is on");
    }
    Finding::new(Severity::High, Sure::Certain, "fsync is off: a crash can corrupt the data, and figures of writes are not those of a durable server.")
        .sql("ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();   -- then sync the disks once")
        .found()
}

/// Torn pages.
pub static FULL_PAGES: Rule = Rule {
    id: "full-page-writes-off",
    title: "Pages torn by a crash can be mended",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "Without full_page_writes a page that was half written at a crash stays so. It also takes most of the WAL away after each checkpoint, so writes look cheaper than they are.",
    effect: "Up to several times less WAL in the first minutes after a checkpoint.",
    remedy: "On, unless the file system writes 8 KiB atomically (ZFS does).",
    sources: &[MANUAL_WAL],
    judge: full_pages,
};

fn full_pages(seen: &Seen) -> Judged {
    if seen.on("full_page_writes")? {
        return passed("full_page_writes is on");
    }
    if seen
        .text("mountinfo of the data")
        .is_ok_and(|line| line.contains(" - zfs "))
    {
        return passed("full_page_writes is off, on ZFS, which writes whole records");
    }
    Finding::new(
        Severity::High,
        Sure::Certain,
        "full_page_writes is off: a crash can leave torn pages.",
    )
    .sql("ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();")
    .found()
}

/// Commits that do not wait.
pub static COMMIT: Rule = Rule {
    id: "synchronous-commit-off",
    title: "A commit waits for its WAL",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "With synchronous_commit = off a commit returns before its WAL is on disk. Data stay whole after a crash, the last transactions may be lost.",
    effect: "Commits without the device's latency; figures of writes are not comparable with those of a server that waits.",
    remedy: "A choice, not a mistake: make it by transaction, and name it beside every figure.",
    sources: &[MANUAL_WAL],
    judge: commit,
};

fn commit(seen: &Seen) -> Judged {
    let value = seen.value("synchronous_commit")?;
    if value != "off" {
        return passed(format!("synchronous_commit = {value}"));
    }
    Finding::new(Severity::Low, Sure::Certain, "synchronous_commit is off for all: the last commits are lost in a crash, and figures of writes leave the device out.")
        .sql("ALTER SYSTEM RESET synchronous_commit; SELECT pg_reload_conf();   -- and SET LOCAL synchronous_commit = off where it is meant")
        .found()
}

/// Commits that wait for company.
pub static COMMIT_DELAY: Rule = Rule {
    id: "commit-delay",
    title: "Commits do not wait for others to join them",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "With commit_delay the session that is about to flush WAL for a group of commits first sleeps that long, where at least commit_siblings other transactions are open. On a device that flushes faster than that, every commit of a busy server pays for the sleep.",
    effect: "Up to commit_delay in each commit's latency, and as much less throughput of a few sessions that write.",
    remedy: "0; where a flush is slow and many commit, half of what pg_test_fsync measures for one, in microseconds.",
    sources: &[
        "PostgreSQL manual, \"WAL Configuration\"",
        "PostgreSQL's source, xlog.c: XLogFlush",
    ],
    judge: commit_delay,
};

fn commit_delay(seen: &Seen) -> Judged {
    let delay = seen.decimal("commit_delay")?;
    let siblings = seen.number("commit_siblings")?;
    let saw = format!(
        "commit_delay = {delay} microseconds where {siblings} other transactions are open (commit_siblings)"
    );
    if delay < LONG_COMMIT_DELAY_US {
        return passed(saw);
    }
    Finding::new(
        Severity::Medium,
        Sure::Likely,
        format!("{saw}: commits sleep."),
    )
    .sql("ALTER SYSTEM RESET commit_delay; SELECT pg_reload_conf();")
    .found()
}

/// Checkpoints by the amount of WAL instead of by time.
pub static CHECKPOINTS: Rule = Rule {
    id: "checkpoints-forced",
    title: "Checkpoints come by time, not by the amount of WAL",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "When max_wal_size is reached a checkpoint starts at once. After each one every page that is changed goes whole into WAL, so frequent checkpoints make more WAL, which makes more checkpoints.",
    effect: "Several times the WAL, and the writes of each checkpoint; within a measurement it comes and goes.",
    remedy: "max_wal_size for at least what checkpoint_timeout produces, and a longer timeout.",
    sources: &["PostgreSQL manual, \"WAL Configuration\""],
    judge: checkpoints,
};

fn checkpoints(seen: &Seen) -> Judged {
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
    Finding::new(Severity::Medium, Sure::Certain, format!("{saw}."))
        .sql(format!(
            "ALTER SYSTEM SET max_wal_size = '{wanted}GB'; SELECT pg_reload_conf();"
        ))
        .found()
}

/// Room for so little WAL that a measurement meets several checkpoints.
pub static MAX_WAL_SIZE: Rule = Rule {
    id: "max-wal-size-small",
    title: "A measurement is not cut up by checkpoints",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "A checkpoint begins when about max_wal_size / (1 + checkpoint_completion_target) of WAL was written since the last one, so that the WAL of two fits (up to version 10 three).",
    effect: "Checkpoints every few seconds: each page is written whole into WAL again and again, and trials differ by how many of them they met.",
    remedy: "At least the default of 1 GB; for a measurement of writes what several of its trials produce.",
    sources: &[
        "PostgreSQL manual, \"WAL Configuration\"",
        "PostgreSQL's source, xlog.c: CalculateCheckpointSegments",
    ],
    judge: max_wal_size,
};

fn max_wal_size(seen: &Seen) -> Judged {
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
    let severity = if between < 1 << 26 {
        Severity::High
    } else {
        Severity::Medium
    };
    Finding::new(severity, Sure::Likely, format!("{saw}."))
        .sql("ALTER SYSTEM SET max_wal_size = '4GB'; SELECT pg_reload_conf();")
        .found()
}

/// Checkpoints in quick succession, or all at once.
pub static CHECKPOINT_SPREAD: Rule = Rule {
    id: "checkpoint-spread",
    title: "A checkpoint has time to write",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "checkpoint_completion_target spreads a checkpoint's writes over that share of the time until the next; a short checkpoint_timeout makes every page go whole into WAL more often.",
    effect: "With 0.5 the writes come at nearly twice the rate and then pause: throughput goes in waves, and a trial shorter than the timeout sees one side of them.",
    remedy: "0.9, the default from 14 on, and 15 to 60 minutes.",
    sources: &[
        "PostgreSQL manual, \"WAL Configuration\"; the default of checkpoint_completion_target went from 0.5 to 0.9 with 14",
    ],
    judge: checkpoint_spread,
};

fn checkpoint_spread(seen: &Seen) -> Judged {
    let target = seen.decimal("checkpoint_completion_target")?;
    let timeout = seen.millis("checkpoint_timeout")?.unwrap_or(300_000) / 1000;
    let saw = format!("checkpoint_timeout = {timeout} s, checkpoint_completion_target = {target}");
    let mut finding = Finding::new(Severity::Low, Sure::Possible, format!("{saw}."));
    if target < 0.7 {
        finding = finding
            .sql("ALTER SYSTEM SET checkpoint_completion_target = 0.9; SELECT pg_reload_conf();");
    }
    if timeout < 180 {
        finding =
            finding.sql("ALTER SYSTEM SET checkpoint_timeout = '15min'; SELECT pg_reload_conf();");
    }
    if finding.remedy.is_empty() {
        return passed(saw);
    }
    finding.found()
}

/// WAL buffers that are full.
pub static WAL_BUFFERS: Rule = Rule {
    id: "wal-buffers-full",
    title: "WAL buffers do not run full",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "A backend that finds no room in the WAL buffers writes them out itself, holding WALWriteLock, before it may insert its record.",
    effect: "A write's latency in the middle of statements; no general figure.",
    remedy: "wal_buffers 64MB to 256MB where much WAL is written at once.",
    sources: &["PostgreSQL manual, pg_stat_wal: wal_buffers_full"],
    judge: wal_buffers,
};

fn wal_buffers(seen: &Seen) -> Judged {
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
    Finding::new(
        Severity::Low,
        Sure::Likely,
        format!("{saw} ({}).", percent(full / records)),
    )
    .sql("ALTER SYSTEM SET wal_buffers = '128MB';   -- then restart")
    .found()
}

/// Backends that must write pages themselves.
pub static BACKEND_WRITES: Rule = Rule {
    id: "backend-writes",
    title: "Backends find clean buffers",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "A backend that needs a buffer and finds only dirty ones writes one out itself, and flushes WAL up to that page first, in the middle of its statement.",
    effect: "A write's latency, and sometimes a flush's, inside of reads.",
    remedy: "Larger shared_buffers; a background writer that does more (bgwriter_lru_maxpages, bgwriter_delay).",
    sources: &["PostgreSQL manual, pg_stat_bgwriter (up to 16), pg_stat_io (from 16 on)"],
    judge: backend_writes,
};

fn backend_writes(seen: &Seen) -> Judged {
    let (own, others) = written(seen)?;
    let total = own + others;
    let saw = format!(
        "backends wrote {own:.0} of {total:.0} blocks themselves ({})",
        percent(own / total.max(1.0))
    );
    if total < 100_000.0 || own / total < 0.5 {
        return passed(saw);
    }
    Finding::new(Severity::Low, Sure::Likely, format!("{saw}."))
        .sql("ALTER SYSTEM SET bgwriter_lru_maxpages = 1000; ALTER SYSTEM SET bgwriter_delay = '50ms'; SELECT pg_reload_conf();")
        .shell("pgassay check --explain shared-buffers-small")
        .found()
}

/// Blocks that backends wrote, and those that the checkpointer and the background
/// writer did. Bulk writes through rings are left out where they are told apart.
fn written(seen: &Seen) -> Result<(f64, f64), Aside> {
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
        _ => could_not_see("the server does not tell who wrote its blocks"),
    }
}
