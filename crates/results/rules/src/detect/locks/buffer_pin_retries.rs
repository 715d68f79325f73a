//! Pins of the same page by compare-and-swap.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples, own_shares};
use crate::detect::prelude::*;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    // A spinlock that nobody names may be the header's, of a version before 9.6.
    if evidence.version.is_none() && profile.function("s_lock").is_some() {
        return None;
    }
    let names = [
        "PinBuffer",
        "PinBuffer_Locked",
        "UnpinBuffer",
        "UnpinBufferNoOwner",
    ];
    let (shares, words): (Vec<f64>, Vec<String>) = own_shares(profile, &names).unzip();
    let share: f64 = shares.iter().sum();
    // Pins without contention are a few percent of short statements.
    profile.shows(share, 2.0 * NOTABLE).then(|| {
        let saw = format!("Pinning and unpinning buffers takes {}.", of_samples(share));
        Observation::of_samples(share, saw)
            .of_functions(names)
            .all_seen(words)
            .confidence(Confidence::Medium)
    })
}
