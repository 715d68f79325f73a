//! Snapshots cost by the number of connections.

use crate::detect::common::sessions::sessions;
use crate::detect::locks::snapshots::snapshots as sampled;
use crate::detect::prelude::*;
use crate::version::written;

pub fn audit(seen: &FactView) -> Judged {
    let version = written(seen.version()?);
    let (all, active) = sessions(seen)?;
    let saw = format!("PostgreSQL {version} with {all} sessions, {active} of them active");
    if all < 100.0 {
        return passed(format!("{saw}: too few for the effect"));
    }
    let severity = high_if(all >= 300.0);
    Observation::new(
        severity,
        Confidence::Medium,
        format!("{saw}: up to 13 each snapshot visits all of them, idle ones too."),
    )
    .found()
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    if !evidence.is_before(140_000) {
        return None;
    }
    let waits = evidence.run?.waits()?;
    let sessions = waits.active_sessions + waits.idle_sessions;
    let snapshots = evidence
        .profile
        .map(|p| p.function("GetSnapshotData").map_or(0.0, |f| f.total_share));
    // Seen, and not there: then it is not that.
    if sessions < 200.0 || snapshots.is_some_and(|share| share < 0.02) {
        return None;
    }
    let saw = format!(
        "{sessions:.0} connections are open on a version whose snapshots cost by their number."
    );
    let found = match snapshots {
        Some(share) => Observation::of_samples(share, saw).seen(format!(
            "{} of the CPU samples in GetSnapshotData",
            tenths(share)
        )),
        None => Observation::measured(Basis::Counters, None, saw).confidence(Confidence::Medium),
    };
    Some(found.seen(format!(
        "{sessions:.0} client sessions on average, {:.0} of them idle",
        waits.idle_sessions
    )))
}

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let found = sampled(evidence.profile?)?;
    Some(match evidence.version {
        Some(_) => found,
        None => found.confidence(Confidence::Medium),
    })
}
