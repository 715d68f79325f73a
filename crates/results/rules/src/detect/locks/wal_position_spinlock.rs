//! Contention on the spinlock that reserves WAL positions.

use crate::detect::locks::lock_samples::spinlock;
use crate::detect::prelude::*;
use pgassay_evidence::profile::lock::Lock;

pub const DETECTORS: &[Detector] = &[samples("wal-position-spinlock", wal_position)];

fn wal_position(evidence: &Evidence) -> Option<Observation> {
    // ReserveXLogInsertLocation is compiled into its caller, XLogInsertRecord.
    let saw = "Sessions wait for the spinlock that reserves positions in the log";
    spinlock(evidence.profile?, Lock::WalInsertion, saw)
}
