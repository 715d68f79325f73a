//! Subtransactions beyond what snapshots hold.

use crate::detect::common::cpu_samples::{NOTABLE, inlined, of_samples, own_shares};
use crate::detect::prelude::*;
use pgassay_evidence::profile::lock::Lock;
use pgassay_evidence::profile::{Class, Work};

/// Functions in which a session is while it looks up the parent of a subtransaction, apart from
/// those that look up the commit log, too.
const LOOKUPS: &[&str] = &["SubTransGetTopmostTransaction", "SubTransGetParent"];

/// What reads a page of any of these logs, and what replaces one.
const SLRU: &[&str] = &[
    "SimpleLruReadPage_ReadOnly",
    "SimpleLruReadPage",
    "SlruSelectLRUPage",
];

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let seen = |share: f64, saw: String| {
        Observation::of_samples(share, saw).of_functions(LOOKUPS.iter().copied())
    };
    if let Some(share) = profile.within(Work::Subtransactions) {
        let locking = profile.lock(Lock::Subtransactions);
        return profile.shows(share, NOTABLE).then(|| {
            let saw = format!(
                "Sessions look up the parents of subtransactions: {}.",
                of_samples(share)
            );
            let found = seen(share, saw).seen(format!(
                "{} of the samples in SubTransGetTopmostTransaction and what it calls",
                tenths(share)
            ));
            match locking > 0.0 {
                true => found.seen(format!("{} at the locks of pg_subtrans", tenths(locking))),
                false => found,
            }
        });
    }
    // Without callers the pages that are read may be the commit log's, which hardly ever costs as much.
    let (own, mut words): (Vec<f64>, Vec<String>) = own_shares(profile, LOOKUPS).unzip();
    let (pages, of_pages): (Vec<f64>, Vec<String>) = own_shares(profile, SLRU).unzip();
    let (own, pages): (f64, f64) = (own.iter().sum(), pages.iter().sum());
    words.extend(of_pages);
    let replaces = profile.function("SlruSelectLRUPage").is_some();
    // Whoever only looks the commit log up hardly queues for its pages.
    let locks = profile.class(Class::Lwlock) + inlined(profile);
    let shown = profile.shows(own, 0.01) && profile.shows(own + pages, 0.02)
        || replaces && profile.shows(pages, 0.01)
        || profile.shows(pages, 0.005) && profile.shows(locks, 0.2);
    shown.then(|| {
        let share = own + pages;
        let of = match own > 0.0 {
            true => "the parents of subtransactions",
            false => "the states of transactions, in the commit log or in pg_subtrans,",
        };
        let saw = format!(
            "Sessions look up {of} page by page: at least {}, and the locks that go with it.",
            of_samples(share)
        );
        seen(share, saw)
            .all_seen(words)
            .confidence(match own > 0.0 {
                true => Confidence::Medium,
                false => Confidence::Low,
            })
    })
}
