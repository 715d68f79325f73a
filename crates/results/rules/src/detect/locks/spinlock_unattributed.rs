//! Contention on an unknown spinlock.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples};
use crate::detect::locks::lock_samples::{buffer_header, spinning};
use crate::detect::prelude::*;
use pgassay_evidence::profile::lock::Lock;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let unknown = spinning(profile, Lock::Unknown);
    let of_headers = evidence.version.is_none_or(|v| v < 90_600);
    if !profile.shows(unknown, NOTABLE) || (of_headers && buffer_header(evidence).is_some()) {
        return None;
    }
    let saw = format!(
        "Sessions wait for a spinlock that the samples do not name: {}.",
        of_samples(unknown)
    );
    Some(
        Observation::of_samples(unknown, saw)
            .seen(format!(
                "{} of the samples in s_lock, without a caller that names the lock",
                tenths(unknown)
            ))
            .of_functions(["s_lock"]),
    )
}
