//! Snapshots rebuilt after every commit.

use crate::detect::locks::snapshots::snapshots;
use crate::detect::prelude::*;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    // Of an unknown version the older cause is the likelier.
    evidence.version?;
    Some(snapshots(evidence.profile?)?.confidence(Confidence::Medium))
}
