//! Messages cost more than the statements.

use crate::detect::common::cpu_samples::messages;
use crate::detect::prelude::*;
use pgassay_evidence::profile::Class;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let parts = messages(profile);
    let share: f64 = parts.iter().map(|(_, share)| share).sum();
    let of_kernel = parts.iter().filter(|(class, _)| *class != Class::Protocol);
    let kernel: f64 = of_kernel.map(|(_, share)| share).sum();
    let executor = profile.class(Class::Executor);
    // A short query's way is always long; a finding is one that is long compared to its work.
    let long = share >= 3.0 * executor;
    (profile.shows(share, 0.4) && profile.shows(kernel, 0.2) && long).then(|| {
        let saw = format!(
            "The way to the client and back takes {} of the server's CPU samples.",
            tenths(share)
        );
        let parts = parts.map(|(class, share)| format!("{} in {}", tenths(share), class.title()));
        Observation::of_samples(share, saw)
            .all_seen(parts)
            .seen(format!("{} in the executor", tenths(executor)))
    })
}
