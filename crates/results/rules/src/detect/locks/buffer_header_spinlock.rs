//! Buffer pins take the buffer header spinlock.

use crate::detect::locks::lock_samples::buffer_header;
use crate::detect::prelude::*;
use crate::version::written;

pub const DETECTORS: &[Detector] = &[
    facts("buffer-header-spinlock", pins),
    samples("buffer-header-spinlock", buffer_header),
];

fn pins(seen: &FactView) -> Judged {
    let version = written(seen.version()?);
    let severity = match seen.cpus() {
        Ok(1..8) => Severity::Medium,
        _ => Severity::High,
    };
    Observation::new(
        severity,
        Confidence::Medium,
        format!("PostgreSQL {version}: every pin of a buffer takes a spinlock."),
    )
    .found()
}
