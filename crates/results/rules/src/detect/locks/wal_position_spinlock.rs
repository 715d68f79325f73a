//! Contention on the spinlock that reserves WAL positions.

use crate::detect::locks::lock_samples::spinlock;
use crate::detect::prelude::*;
use pgassay_evidence::profile::lock::Lock;

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    // ReserveXLogInsertLocation is compiled into its caller, XLogInsertRecord.
    let saw = "Sessions wait for the spinlock that reserves positions in the log";
    spinlock(evidence.profile?, Lock::WalInsertion, saw)
}
