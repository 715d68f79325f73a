//! Spinlocks on Arm without a pause or a test before the write.

use crate::detect::prelude::*;
use crate::version::written;

pub fn audit(seen: &FactView) -> Judged {
    let machine = seen.machine()?;
    if machine != "aarch64" {
        return not_applicable(format!("the machine is {machine}"));
    }
    let version = seen.version()?;
    let release = written(version);
    let cpus = seen.cpus()?;
    if cpus < 16 {
        return passed(format!("{release} on {cpus} CPUs: too few for the effect"));
    }
    let (severity, lacks) = if version < 150_000 {
        (
            Severity::Medium,
            "neither pauses (15) nor tests before it writes (18)",
        )
    } else {
        (Severity::Low, "writes without testing first (18 tests)")
    };
    Observation::new(
        severity,
        Confidence::Low,
        format!("PostgreSQL {release} on {cpus} Arm cores: a spinning backend {lacks}."),
    )
    .shell("pgassay run spinlock --clients 1..64*2   # on both versions")
    .found()
}
