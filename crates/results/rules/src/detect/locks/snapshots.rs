//! CPU samples of taking snapshots.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples};
use crate::detect::prelude::*;
use pgassay_evidence::profile::Summary;
use pgassay_evidence::profile::lock::Lock;

/// What taking snapshots costs.
pub fn snapshots(profile: &Summary) -> Option<Observation> {
    let function = profile.function("GetSnapshotData")?;
    let of = profile.locks.iter().filter(|l| l.lock == Lock::ProcArray);
    let locking: f64 = of.map(|l| l.share).sum();
    let share = function.total_share.max(function.own_share + locking);
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!(
            "Taking snapshots takes {} (GetSnapshotData).",
            of_samples(share)
        );
        let own = tenths(function.own_share);
        let found = Observation::of_samples(share, saw)
            .of_functions(["GetSnapshotData"])
            .seen(format!("{own} of the samples in GetSnapshotData itself"));
        if locking > 0.0 {
            found.seen(format!("{} in locking ProcArray", tenths(locking)))
        } else {
            found
        }
    })
}
