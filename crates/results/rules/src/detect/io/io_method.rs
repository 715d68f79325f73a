//! Synchronous reads, or few I/O workers.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let method = seen.value("io_method")?;
    let workers = seen.number("io_workers").unwrap_or(3);
    let cpus = seen.cpus().unwrap_or(1);
    match method {
        "sync" => Observation::new(
            Severity::Low,
            Confidence::Medium,
            "io_method = sync: each read waits.",
        )
        .sql("ALTER SYSTEM SET io_method = 'worker';   -- then restart")
        .found(),
        "worker" if cpus >= 32 && workers <= 3 => Observation::new(
            Severity::Info,
            Confidence::Low,
            format!("io_method = worker with {workers} workers for {cpus} CPUs."),
        )
        .sql(format!(
            "ALTER SYSTEM SET io_workers = {}; SELECT pg_reload_conf();",
            (cpus / 4).min(32)
        ))
        .found(),
        other => passed(format!("io_method = {other}")),
    }
}
