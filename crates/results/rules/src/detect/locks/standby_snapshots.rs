//! Snapshots on a standby walk through the primary's transactions.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples, own_shares};
use crate::detect::prelude::*;

/// Functions that walk through the transactions that a standby knows to run on its primary.
const KNOWN_XIDS: &[&str] = &[
    "KnownAssignedXidsGetAndSetXmin",
    "KnownAssignedXidsGet",
    "KnownAssignedXidsGetOldestXmin",
    "KnownAssignedXidsSearch",
    "KnownAssignedXidExists",
];

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let (shares, words): (Vec<f64>, Vec<String>) = own_shares(profile, KNOWN_XIDS).unzip();
    let share: f64 = shares.iter().sum();
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!(
            "Taking snapshots on the standby takes {}: each walks through the transactions that may run on the primary.",
            of_samples(share)
        );
        Observation::of_samples(share, saw)
            .of_functions(KNOWN_XIDS.iter().copied())
            .all_seen(words)
    })
}
