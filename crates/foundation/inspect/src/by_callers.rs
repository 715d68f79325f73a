//! Names for static functions of a stripped PostgreSQL, where its call structure leaves one choice.
//!
//! Debian's server exports its global functions, for extensions, but `PinBuffer`, `UnpinBuffer` and
//! `LWLockAttemptLock` are static. Each is the only nameless function with a compare-and-swap that
//! certain exported functions call directly (bufmgr.c, lwlock.c of 13 to 19). Where there are two such,
//! or none, nothing is named.

use std::collections::{BTreeMap, BTreeSet};

use crate::bounds::Bounds;
use crate::calls;
use crate::elf::Image;
use crate::model::{Atomics, Class};

/// A static function and how its callers give it away.
struct Role {
    name: &'static str,
    /// All of these call it, as far as they are there; the first must be.
    callers: &'static [&'static str],
    /// This one does not.
    unlike: Option<&'static str>,
}

const ROLES: &[Role] = &[
    Role {
        name: "LWLockAttemptLock",
        callers: &["LWLockAcquire", "LWLockConditionalAcquire"],
        unlike: None,
    },
    Role {
        name: "PinBuffer",
        callers: &["ReadRecentBuffer"],
        unlike: Some("ReleaseBuffer"),
    },
    Role {
        name: "UnpinBuffer",
        callers: &["ReleaseBuffer"],
        unlike: None,
    },
];

/// Names by start address.
pub fn names(image: &Image<'_>, bounds: &Bounds<'_>, atomics: &Atomics) -> BTreeMap<u64, String> {
    let mut swapping: BTreeSet<u64> = BTreeSet::new();
    for function in &atomics.functions {
        let by_helper = function.outline_calls.keys().any(|h| h.contains("_cas"));
        let inline = function.counts.keys().any(|c| swaps(*c));
        if function.name.is_none() && (by_helper || inline) {
            swapping.insert(function.address);
        }
    }
    let called_by = |name: &str| -> Option<BTreeSet<u64>> {
        let function = bounds.functions.iter().find(|f| f.name == Some(name))?;
        Some(calls::callees(image, bounds, function))
    };
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    for role in ROLES {
        // The one of the name itself is there: nothing to find.
        if bounds.functions.iter().any(|f| f.name == Some(role.name)) {
            continue;
        }
        let Some(mut candidates) = called_by(role.callers[0]) else {
            continue;
        };
        candidates.retain(|c| swapping.contains(c));
        for caller in &role.callers[1..] {
            if let Some(theirs) = called_by(caller) {
                candidates.retain(|c| theirs.contains(c));
            }
        }
        if let Some(theirs) = role.unlike.and_then(called_by) {
            candidates.retain(|c| !theirs.contains(c));
        }
        if let (Some(only), 1) = (candidates.first(), candidates.len()) {
            names.insert(*only, role.name.to_string());
        }
    }
    names
}

/// Instructions that compare and swap, or the loads of loops that may.
fn swaps(class: Class) -> bool {
    matches!(
        class,
        Class::LoadExclusive
            | Class::LseCas
            | Class::LockCmpxchg
            | Class::LoadReserved
            | Class::AmoCas
            | Class::CompareAndSwap
    )
}
