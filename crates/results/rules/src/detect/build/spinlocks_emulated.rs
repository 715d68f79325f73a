//! Spinlocks or atomics emulated by semaphores.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    if seen.version()? >= 180_000 {
        return not_applicable("from 18 on a server cannot be built without them");
    }
    let configured = seen.built("CONFIGURE")?;
    let off: Vec<&str> = [
        "--disable-spinlocks",
        "--disable-atomics",
        "-Dspinlocks=false",
        "-Datomics=false",
    ]
    .into_iter()
    .filter(|o| configured.contains(o))
    .collect();
    if off.is_empty() {
        return passed("configured with both");
    }
    Observation::new(
        Severity::High,
        Confidence::High,
        format!("The server was configured with {}.", off.join(" ")),
    )
    .advice("rebuild without it")
    .found()
}
