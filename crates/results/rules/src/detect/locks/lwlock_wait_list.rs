//! Contention on the wait lists of LWLocks.

use crate::detect::common::sessions::sessions;
use crate::detect::prelude::*;
use crate::find;
use crate::version::written;

pub fn audit(seen: &FactView) -> Judged {
    let version = seen.version()?;
    let release = written(version);
    let changes = find("lwlock-wait-list").map_or(&[][..], |entry| entry.changes);
    if changes.iter().all(|change| change.is_in(version)) {
        return passed(format!("{release}: leaving a wait list is not quadratic"));
    }
    let (all, _) = sessions(seen)?;
    if all < 200.0 {
        return passed(format!(
            "{release} lacks the change, but {all} sessions cannot form long lists"
        ));
    }
    Observation::new(
        Severity::Medium,
        Confidence::Low,
        format!("PostgreSQL {release} with {all} sessions: an LWLock's long wait lists are left in quadratic time."),
    )
    .found()
}
