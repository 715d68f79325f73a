//! Settings waiting for a restart.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let waiting = seen.waiting_for_restart()?;
    if waiting.is_empty() {
        return passed("no setting waits for a restart");
    }
    Observation::new(
        Severity::Low,
        Confidence::High,
        format!(
            "Changed and not in force until a restart: {}.",
            waiting.join(", ")
        ),
    )
    .shell("systemctl restart postgresql   # or as your server is restarted")
    .found()
}
