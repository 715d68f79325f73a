//! The running executable was replaced.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let path = seen.process("executable")?;
    match path.strip_suffix(" (deleted)") {
        None => passed(path),
        Some(path) => Observation::new(
            Severity::Medium,
            Confidence::High,
            format!("{path} was replaced while the server ran: it still runs the old one."),
        )
        .shell("systemctl restart postgresql   # or as your server is restarted")
        .found(),
    }
}
