//! Little or no prefetching.

use crate::detect::io::queue::queue;
use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let ahead = seen.number("effective_io_concurrency")?;
    let saw = format!("effective_io_concurrency = {ahead}");
    let rotates = queue(seen, "rotational").is_ok_and(|r| r == "1");
    match ahead {
        0 => Observation::new(
            Severity::Low,
            Confidence::Medium,
            format!("{saw}: bitmap scans do not prefetch."),
        ),
        1 if !rotates => Observation::new(
            Severity::Info,
            Confidence::Low,
            format!("{saw}, the default up to 17, meant for one disk."),
        ),
        _ => return passed(saw),
    }
    .sql("ALTER SYSTEM SET effective_io_concurrency = 16; SELECT pg_reload_conf();")
    .found()
}
