//! Contention on buffer headers.

use crate::detect::locks::lock_samples::{WAIT_FOR_HEADER, pins_take_the_lock, spinlock};
use crate::detect::prelude::*;
use pgassay_evidence::profile::lock::Lock;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    if evidence.version.is_none() && pins_take_the_lock(profile) {
        return None;
    }
    // PinBuffer waits for a header but does not call s_lock.
    let named = spinlock(profile, Lock::BufferHeader, WAIT_FOR_HEADER)?;
    Some(named.confidence(Confidence::Medium))
}
