//! CPU samples: which functions and locks the server's time goes to.

use crate::detect::common::cpu_samples::{
    NOTABLE, inlined, is_inline, messages, of_samples, own_shares,
};
use crate::detect::common::message_log::{sent, trees, with_settings};
use crate::detect::common::wait_shares;
use crate::detect::{Detector, samples, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, Severity};
use pgassay_evidence::profile::lock::Lock;
use pgassay_evidence::profile::{Class, Summary, Work};

pub const DETECTORS: &[Detector] = &[
    samples("buffer-header-spinlock", buffer_header),
    samples("buffer-header-lock", buffer_header_state),
    samples("buffer-pin-retries", pin_retries),
    samples("buffer-replacement-spinlock", buffer_replacement),
    samples("spinlock-unattributed", spinlock_unattributed),
    samples("wal-position-spinlock", wal_position),
    samples("shared-buffers-small", misses),
    samples("round-trips", round_trips),
    samples("assertions", assertions),
    samples("unoptimised-server", not_inlined),
    samples("crc32c-by-table", software_crc),
    samples("statement-logging", statement_logging),
    samples("jit-small-queries", jit),
];

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
fn spinning(profile: &Summary, lock: Lock) -> f64 {
    let of = profile.locks.iter();
    of.filter(|l| l.lock == lock && is_spinning(&l.function))
        .map(|l| l.share)
        .sum()
}

/// A spinlock that callers name, if it is notable.
fn spinlock(profile: &Summary, lock: Lock, saw: &str) -> Option<Observation> {
    let share = spinning(profile, lock);
    profile.shows(share, NOTABLE).then(|| {
        Observation::of_samples(share, format!("{saw}: {}.", of_samples(share)))
            .of_functions(lock_functions(profile, lock))
            .all_seen(callers(profile, lock, true))
    })
}

/// Whether PinBuffer or UnpinBuffer call s_lock: in PostgreSQL up to 9.5 only.
fn pins_take_the_lock(profile: &Summary) -> bool {
    profile.locks.iter().any(|l| {
        l.function == "s_lock"
            && l.lock == Lock::BufferHeader
            && l.callers
                .iter()
                .any(|(c, _)| c == "PinBuffer" || c == "UnpinBuffer")
    })
}

const WAIT_FOR_HEADER: &str = "Sessions wait for the buffer header spinlock";

fn buffer_header(evidence: &Evidence) -> Option<Observation> {
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

fn buffer_header_state(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    if evidence.version.is_none() && pins_take_the_lock(profile) {
        return None;
    }
    // PinBuffer waits for a header but does not call s_lock.
    let named = spinlock(profile, Lock::BufferHeader, WAIT_FOR_HEADER)?;
    Some(named.confidence(Confidence::Medium))
}

fn pin_retries(evidence: &Evidence) -> Option<Observation> {
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

fn buffer_replacement(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let saw = "Sessions wait for the spinlock of buffer replacement";
    let found = spinlock(profile, Lock::BufferReplacement, saw)?;
    let faults = profile.class(Class::PageFaults);
    Some(if faults >= 0.01 {
        found.seen(format!("{} of the samples in page faults", tenths(faults)))
    } else {
        found
    })
}

fn spinlock_unattributed(evidence: &Evidence) -> Option<Observation> {
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

fn wal_position(evidence: &Evidence) -> Option<Observation> {
    // ReserveXLogInsertLocation is compiled into its caller, XLogInsertRecord.
    let saw = "Sessions wait for the spinlock that reserves positions in the log";
    spinlock(evidence.profile?, Lock::WalInsertion, saw)
}

/// Misses that cost CPU time rather than waits: blocks copied from the kernel's cache.
fn misses(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let run = evidence.run?;
    let missed = wait_shares::missed(&run)?;
    let share = profile.class(Class::Io);
    (profile.shows(share, 0.1) && missed >= 0.05).then(|| {
        let saw = format!(
            "Reading blocks that are not in shared buffers takes {}.",
            of_samples(share)
        );
        Observation::of_samples(share, saw)
            .seen(format!(
                "{} of the samples in the kernel's file and device code",
                tenths(share)
            ))
            .seen(wait_shares::blocks_read(&run))
            .confidence(Confidence::Medium)
    })
}

fn round_trips(evidence: &Evidence) -> Option<Observation> {
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

fn assertions(evidence: &Evidence) -> Option<Observation> {
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

fn not_inlined(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let called = profile.functions.iter();
    let called: Vec<_> = called.filter(|f| is_inline(&f.symbol)).collect();
    let share = inlined(profile);
    profile.shows(share, 0.01).then(|| {
        let saw = format!(
            "The server was compiled without inlining functions, as -O0 does: {} are in functions that an \
             optimising compiler leaves no trace of.",
            of_samples(share)
        );
        let words = called.iter().take(3);
        let words = words.map(|f| format!("{} in {}", tenths(f.own_share), f.symbol));
        Observation::of_samples(share, saw)
            .of_functions(called.iter().map(|f| f.symbol.as_str()))
            .all_seen(words)
            .seen("these are the operations of LWLocks and buffer headers")
            .confidence(Confidence::Medium)
    })
}

fn software_crc(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let share = profile.function("pg_comp_crc32c_sb8")?.own_share;
    profile.shows(share, 0.01).then(|| {
        let saw = format!(
            "Checksums of the log are computed by table: {}.",
            of_samples(share)
        );
        Observation::of_samples(share, saw)
            .of_functions(["pg_comp_crc32c_sb8"])
            .seen(format!("{} in pg_comp_crc32c_sb8", tenths(share)))
    })
}

fn statement_logging(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let sent = sent(profile);
    let trees = trees(evidence);
    let share = (sent + trees).min(1.0);
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!(
            "Writing messages, to the server's log or to clients, takes {}.",
            of_samples(share)
        );
        let seen = Observation::of_samples(share, saw)
            .of_functions((sent > 0.0).then_some("EmitErrorReport"))
            .all_seen((sent > 0.0).then(|| {
                format!(
                    "{} of the samples in EmitErrorReport and what it calls",
                    tenths(sent)
                )
            }))
            .all_seen((trees > 0.0).then(|| {
                format!(
                    "{} in making texts of parse trees and plans for it, or in counting what each node does",
                    tenths(trees)
                )
            }));
        match evidence.run {
            Some(run) => with_settings(&run, seen),
            None => seen,
        }
    })
}

fn jit(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    // The functions of libLLVM are many and each is short, and much of what they cost is memory.
    let within = profile.within(Work::Compiling).unwrap_or(0.0);
    let share = profile.class(Class::Jit).max(within);
    profile.shows(share, NOTABLE).then(|| {
        let saw = format!("Compiling expressions takes {}.", of_samples(share));
        Observation::of_samples(share, saw).seen(format!(
            "{} of the samples in the compiler of expressions",
            tenths(share)
        ))
    })
}
