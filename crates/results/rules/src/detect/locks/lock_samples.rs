//! Locks in CPU samples: LWLocks that callers name, one row each, and spinlocks.

use crate::detect::common::cpu_samples::{NOTABLE, of_samples, own_shares};
use crate::detect::common::wait_shares;
use crate::detect::prelude::*;
use pgassay_evidence::profile::Summary;
use pgassay_evidence::profile::lock::Lock;

/// An LWLock that the samples name by its callers.
pub struct LockRow {
    /// The entry.
    pub entry: &'static str,
    lock: Lock,
    /// What it looks like, before the share.
    saw: &'static str,
    when: fn(&Evidence) -> bool,
    /// The waits for it, by type and names.
    waits: &'static [(&'static str, &'static [&'static str])],
}

/// The share of the sessions' time at a lock's waits below which nobody queues for it.
const QUEUED: f64 = 0.005;

/// CPUs that the server keeps busy below which its processes do not take a lock's cache line from each other often
/// enough to make taking it dear.
const FEW_CPUS: f64 = 4.0;

/// All of these.
pub const LOCKS: &[LockRow] = &[
    LockRow {
        entry: "wal-insertion-locks",
        lock: Lock::WalInsertion,
        saw: "Inserting into the log is contended",
        when: |_| true,
        waits: &[("LWLock", &["WALInsert"])],
    },
    LockRow {
        entry: "buffer-mapping-locks",
        lock: Lock::MappingPartition,
        saw: "The buffer mapping partitions are contended",
        when: |_| true,
        waits: &[("LWLock", &["BufferMapping"])],
    },
    LockRow {
        entry: "fast-path-locks",
        lock: Lock::LockManager,
        saw: "The lock manager's partitions are contended",
        when: |_| true,
        waits: &[("LWLock", &["LockManager", "LockFastPath"])],
    },
    LockRow {
        entry: "lwlock-wait-list",
        lock: Lock::WaitList,
        saw: "The wait lists of LWLocks are contended",
        when: |_| true,
        // Who waits for a wait list spins, whatever the lock.
        waits: &[("LWLock", &[])],
    },
    LockRow {
        entry: "proc-array-lock",
        lock: Lock::ProcArray,
        saw: "The lock of the list of running transactions is contended",
        // Before it is a part of what a snapshot costs.
        when: |evidence| !evidence.is_before(140_000),
        waits: &[("LWLock", &["ProcArray"])],
    },
];

impl LockRow {
    /// Whether it is seen that nobody queues for it: the samples are of taking it, which costs little each time.
    fn is_only_taken(&self, evidence: &Evidence, profile: &Summary) -> bool {
        let Some(run) = evidence.run.filter(|run| run.waits().is_some()) else {
            return false;
        };
        let queued = run.wait_share(|kind, event| wait_shares::is_of(kind, event, self.waits));
        let server = run.server_cpus();
        queued.is_some_and(|share| share < QUEUED)
            && spinning(profile, self.lock) < QUEUED
            && server > 0.0
            && server < FEW_CPUS
    }

    /// What the samples say of the lock.
    pub fn look(&self, evidence: &Evidence) -> Option<Observation> {
        let profile = evidence.profile?;
        let mut share = profile.lock(self.lock);
        if self.lock == Lock::WalInsertion {
            // That spinlock has an entry of its own.
            share -= spinning(profile, self.lock);
        }
        (profile.shows(share, NOTABLE) && (self.when)(evidence)).then(|| {
            let only_taken = self.is_only_taken(evidence, profile);
            let saw = match only_taken {
                false => format!("{}: {}.", self.saw, of_samples(share)),
                true => format!(
                    "Taking the lock {:?} costs {}, and hardly anybody waits for it.",
                    self.lock.title(),
                    of_samples(share)
                ),
            };
            let seen = Observation::of_samples(share, saw)
                .of_functions(lock_functions(profile, self.lock))
                .all_seen(callers(profile, self.lock, true))
                .all_seen(callers(profile, self.lock, false));
            let seen = match self.lock == Lock::MappingPartition && !replaces(evidence) {
                // Their number does not go down with larger buffers.
                true => seen.advice(
                    "have the statements look up fewer blocks; a larger shared_buffers changes nothing where no block is \
                     replaced",
                ),
                false => seen,
            };
            match only_taken {
                false => seen,
                // What costs little and keeps nobody waiting is worth a line, and no headline.
                true => seen
                    .severity(Severity::Info)
                    .confidence(Confidence::Low)
                    .symptom_of(
                        "statements that take it very many times: for each block, row or record",
                    ),
            }
        })
    }
}

/// Whether blocks are replaced in shared buffers, or nobody knows.
fn replaces(evidence: &Evidence) -> bool {
    let missed = evidence.run.as_ref().and_then(wait_shares::missed);
    missed.is_none_or(|missed| missed >= wait_shares::SOME_MISSES)
}

fn is_spinning(function: &str) -> bool {
    matches!(function, "s_lock" | "tas" | "perform_spin_delay")
}

/// The functions that take a lock or spin for it, and those that call them for it.
fn lock_functions(profile: &Summary, lock: Lock) -> impl Iterator<Item = &str> {
    let of = profile.locks.iter().filter(move |l| l.lock == lock);
    of.flat_map(|l| {
        let callers = l.callers.iter().map(|(name, _)| name.as_str());
        callers.chain([l.function.as_str()])
    })
}

/// `32.1 % of the samples in s_lock, called by PinBuffer (20.0 %) and UnpinBuffer (12.1 %)`.
fn callers(profile: &Summary, lock: Lock, spins: bool) -> Vec<String> {
    profile
        .locks
        .iter()
        .filter(|l| l.lock == lock && is_spinning(&l.function) == spins && l.share >= 0.002)
        .map(|l| {
            let callers: Vec<String> = l
                .callers
                .iter()
                .map(|(name, share)| format!("{name} ({})", tenths(*share)))
                .collect();
            let by = match callers.as_slice() {
                [] => String::new(),
                [one] => format!(", called by {one}"),
                [all @ .., last] => format!(", called by {} and {last}", all.join(", ")),
            };
            format!("{} of the samples in {}{by}", tenths(l.share), l.function)
        })
        .collect()
}

/// The share of spinning for a lock.
pub fn spinning(profile: &Summary, lock: Lock) -> f64 {
    let of = profile.locks.iter();
    of.filter(|l| l.lock == lock && is_spinning(&l.function))
        .map(|l| l.share)
        .sum()
}

/// A spinlock that callers name, if it is notable.
pub fn spinlock(profile: &Summary, lock: Lock, saw: &str) -> Option<Observation> {
    let share = spinning(profile, lock);
    profile.shows(share, NOTABLE).then(|| {
        Observation::of_samples(share, format!("{saw}: {}.", of_samples(share)))
            .of_functions(lock_functions(profile, lock))
            .all_seen(callers(profile, lock, true))
    })
}

/// Whether PinBuffer or UnpinBuffer call s_lock: in PostgreSQL up to 9.5 only.
pub fn pins_take_the_lock(profile: &Summary) -> bool {
    profile.locks.iter().any(|l| {
        l.function == "s_lock"
            && l.lock == Lock::BufferHeader
            && l.callers
                .iter()
                .any(|(c, _)| c == "PinBuffer" || c == "UnpinBuffer")
    })
}

pub const WAIT_FOR_HEADER: &str = "Sessions wait for the buffer header spinlock";

pub fn buffer_header(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let by_pin = pins_take_the_lock(profile);
    if by_pin || evidence.version.is_some() {
        let named = spinlock(profile, Lock::BufferHeader, WAIT_FOR_HEADER);
        if let (Some(mut named), None) = (named.clone(), evidence.version) {
            named.version_at_most = Some(90_500);
            return Some(
                named.seen("PinBuffer and UnpinBuffer call s_lock in PostgreSQL up to 9.5 only"),
            );
        }
        if named.is_some() {
            return named;
        }
    }
    // Without callers only what else is hot, and the version, can point to the lock.
    let share = profile.function("s_lock")?.own_share;
    let names = ["PinBuffer", "UnpinBuffer", "ReadBuffer_common"];
    let pins: Vec<String> = own_shares(profile, &names)
        .map(|(_, words)| words)
        .collect();
    if !profile.shows(spinning(profile, Lock::Unknown), NOTABLE) || pins.is_empty() {
        return None;
    }
    Some(
        Observation::of_samples(
            share,
            format!(
                "Sessions wait for a spinlock, by all signs the buffer header spinlock: {}.",
                of_samples(share)
            ),
        )
        .seen(format!(
            "{} of the samples in s_lock, without callers",
            tenths(share)
        ))
        .seen(format!("buffers are being pinned: {}", pins.join(", ")))
        .of_functions(names)
        .of_functions(["s_lock"])
        .confidence(match evidence.version {
            Some(_) => Confidence::Medium,
            None => Confidence::Low,
        }),
    )
}
