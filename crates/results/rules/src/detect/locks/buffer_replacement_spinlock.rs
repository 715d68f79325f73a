//! Contention on the spinlock of buffer replacement.

use crate::detect::locks::lock_samples::spinlock;
use crate::detect::prelude::*;
use pgassay_evidence::profile::Class;
use pgassay_evidence::profile::lock::Lock;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let saw = "Sessions wait for the spinlock of buffer replacement";
    let found = spinlock(profile, Lock::BufferReplacement, saw)?;
    let faults = profile.class(Class::PageFaults);
    Some(if faults >= 0.01 {
        found.seen(format!("{} of the samples in page faults", tenths(faults)))
    } else {
        found
    })
}
