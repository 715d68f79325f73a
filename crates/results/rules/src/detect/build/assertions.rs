//! Server built with assertions.

use crate::detect::common::cpu_samples::{of_samples, own_shares};
use crate::detect::prelude::*;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let on = evidence.run?.setting("debug_assertions") == Some("on");
    on.then(|| {
        Observation::measured(Basis::State, None, "The server was built with assertions.")
            .seen("debug_assertions = on")
    })
}

/// Functions that are compiled in with USE_ASSERT_CHECKING or MEMORY_CONTEXT_CHECKING only.
const OF_ASSERTIONS: &[&str] = &[
    "AllocSetCheck",
    "wipe_mem",
    "sentinel_ok",
    "set_sentinel",
    "AssertCouldGetRelation",
    "AssertPendingSyncs_RelationCache",
    "AssertChangeLayout",
    "CheckForBufferLeaks",
    "AssertTransactionIdInAllowableRange",
];

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let (shares, words): (Vec<f64>, Vec<String>) = own_shares(profile, OF_ASSERTIONS).unzip();
    let share: f64 = shares.iter().sum();
    profile.shows(share, 0.005).then(|| {
        let saw = format!(
            "The server was built with assertions: at least {} check them.",
            of_samples(share)
        );
        Observation::of_samples(share, saw)
            .of_functions(OF_ASSERTIONS.iter().copied())
            .all_seen(words)
    })
}
