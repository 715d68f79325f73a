//! Rules over CPU samples.

use super::Evidence;
use super::finding::{Finding, Sureness};
use super::known::{self, Change};
use super::run_rules::{percent, version as version_seen};
use crate::profile::lock::Lock;
use crate::profile::{Class, Summary};

/// A lock function's share from which it is worth a finding.
const NOTABLE: f64 = 0.05;

/// `32.1 % of the samples in s_lock, called by PinBuffer (20.0 %) and UnpinBuffer (12.1 %)`.
fn callers_in_words(profile: &Summary, lock: Lock, spins: bool) -> Vec<String> {
    let of = |function: &str| matches!(function, "s_lock" | "tas" | "perform_spin_delay");
    profile
        .locks
        .iter()
        .filter(|l| l.lock == lock && of(&l.function) == spins && l.share >= 0.002)
        .map(|l| {
            let callers: Vec<String> = l
                .callers
                .iter()
                .map(|(name, share)| format!("{name} ({})", percent(*share)))
                .collect();
            let by = match callers.as_slice() {
                [] => String::new(),
                [one] => format!(", called by {one}"),
                [all @ .., last] => format!(", called by {} and {last}", all.join(", ")),
            };
            format!("{} of the samples in {}{by}", percent(l.share), l.function)
        })
        .collect()
}

/// The share of spinning for a lock.
fn spinning(profile: &Summary, lock: Lock) -> f64 {
    let spins = |f: &str| matches!(f, "s_lock" | "tas" | "perform_spin_delay");
    let of = profile.locks.iter();
    of.filter(|l| l.lock == lock && spins(&l.function))
        .map(|l| l.share)
        .sum()
}

/// `upgrade: …` where the change is missing, `if it is older …` where the version is not known.
fn upgrade(change: &Change, version: Option<u32>) -> String {
    match change.lacking(version) {
        Some(true) => format!(
            "upgrade to PostgreSQL {} or later: {}",
            change.version, change.what
        ),
        _ => format!(
            "if the server is older than {}, upgrade: from {} on {}",
            change.version, change.version, change.what
        ),
    }
}

pub fn buffer_header(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let change = &known::PIN_WITHOUT_LOCK;
    let named = spinning(profile, Lock::BufferHeader);
    if profile.shows(named, NOTABLE) {
        // Since 9.6 PinBuffer waits for a header but does not call s_lock.
        let by_pin = profile.locks.iter().any(|l| {
            l.function == "s_lock"
                && l.lock == Lock::BufferHeader
                && l.callers
                    .iter()
                    .any(|(c, _)| c == "PinBuffer" || c == "UnpinBuffer")
        });
        let old = change.lacking(evidence.version).unwrap_or(by_pin);
        let mut finding = Finding::new(
            "buffer-header-spinlock",
            format!(
                "Sessions wait for the buffer header spinlock: {} of the CPU samples.",
                percent(named)
            ),
        );
        for words in callers_in_words(profile, Lock::BufferHeader, true) {
            finding = finding.seen(words);
        }
        if evidence.version.is_none() && by_pin {
            finding =
                finding.seen("PinBuffer and UnpinBuffer call s_lock in PostgreSQL up to 9.5 only");
        }
        let finding = version_seen(finding, evidence.version).gain(named);
        return Some(if old {
            finding
                .means(
                    "Every pin and unpin of a buffer takes the spinlock of its header; sessions that \
                     read the same pages, the root of an index above all, stand in line for it.",
                )
                .remedy(upgrade(change, Some(evidence.version.unwrap_or(change.since - 100))))
                .source(change.source())
                .source("Scaling PostgreSQL at multicore Power8, 2015, https://postgrespro.com/blog/pgsql/2015/08/30/p8scaling")
        } else {
            finding
                .means(
                    "From 9.6 pins are lock-free, and a header's lock is held only to change its \
                     state: many sessions dirty, flush or replace the same few pages.",
                )
                .remedy("fewer sessions at once on the same pages (a connection pool), or a larger shared_buffers where pages are being replaced")
                .sure(Sureness::Likely)
                .source(change.source())
        });
    }
    // Without callers: only what else is hot, and the version, can point to the lock.
    let s_lock = profile.function("s_lock")?.own_share;
    let unknown = spinning(profile, Lock::Unknown);
    let pins = profile
        .functions
        .iter()
        .filter(|f| {
            matches!(
                f.symbol.as_str(),
                "PinBuffer" | "UnpinBuffer" | "ReadBuffer_common"
            )
        })
        .map(|f| format!("{} in {}", percent(f.own_share), f.symbol))
        .collect::<Vec<_>>();
    if !profile.shows(unknown, NOTABLE)
        || pins.is_empty()
        || change.lacking(evidence.version) == Some(false)
    {
        return None;
    }
    let old = change.lacking(evidence.version) == Some(true);
    let finding = Finding::new(
        "buffer-header-spinlock",
        format!("Sessions wait for a spinlock, by all signs the buffer header spinlock: {} of the CPU samples.", percent(s_lock)),
    )
    .seen(format!("{} of the samples in s_lock, without callers", percent(s_lock)))
    .seen(format!("buffers are being pinned: {}", pins.join(", ")));
    Some(
        version_seen(finding, evidence.version)
            .means(
                "Up to 9.5 every pin and unpin of a buffer takes the spinlock of its header, and a \
                 read-only load spins there. Call graphs would name the lock.",
            )
            .remedy(upgrade(change, evidence.version))
            .gain(s_lock)
            .sure(if old { Sureness::Likely } else { Sureness::Possible })
            .source(change.source())
            .source("Scaling PostgreSQL at multicore Power8, 2015, https://postgrespro.com/blog/pgsql/2015/08/30/p8scaling"),
    )
}

pub fn buffer_replacement(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let share = spinning(profile, Lock::BufferReplacement);
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let mut finding = Finding::new(
        "buffer-replacement-spinlock",
        format!(
            "Sessions wait for the spinlock of buffer replacement: {} of the CPU samples.",
            percent(share)
        ),
    );
    for words in callers_in_words(profile, Lock::BufferReplacement, true) {
        finding = finding.seen(words);
    }
    let faults = profile.class(Class::PageFaults);
    if faults >= 0.01 {
        finding = finding.seen(format!("{} of the samples in page faults", percent(faults)));
    }
    Some(
        version_seen(finding, evidence.version)
            .means(
                "Every block that is read takes a buffer from the free list under one spinlock. \
                 Where a page of shared memory is touched there for the first time, the page fault \
                 happens under the spinlock, and with a kernel that preempts lazily its holder is \
                 taken off the CPU.",
            )
            .remedy(format!(
                "use huge pages (huge_pages = on, vm.nr_hugepages reserved), so that there are few faults; {}",
                upgrade(&known::NO_FREE_LIST, evidence.version)
            ))
            .gain(share)
            .source(known::CLOCK_SWEEP.source())
            .source(known::NO_FREE_LIST.source())
            .source("Linux 7.0 and PostgreSQL 17 on a 96-vCPU Graviton4: 55 % in s_lock under StrategyGetBuffer without huge pages"),
    )
}

pub fn spinlock_unattributed(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let unknown = spinning(profile, Lock::Unknown);
    if !profile.shows(unknown, NOTABLE) || buffer_header(evidence).is_some() {
        return None;
    }
    let finding = Finding::new(
        "spinlock-unattributed",
        format!("Sessions wait for a spinlock: {} of the CPU samples; which one the samples do not say.", percent(unknown)),
    )
    .seen(format!("{} of the samples in s_lock, without a caller that names the lock", percent(unknown)));
    Some(
        version_seen(finding, evidence.version)
            .means("s_lock serves all spinlocks; only its caller says which.")
            .remedy("record again with call graphs, of a server that has frame pointers or debug symbols: perf record -g (or --call-graph dwarf)")
            .gain(unknown)
            .source("PostgreSQL source, src/backend/storage/lmgr/s_lock.c"),
    )
}

pub fn snapshot(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let function = profile.function("GetSnapshotData")?;
    let procarray: f64 = profile
        .locks
        .iter()
        .filter(|l| l.lock == Lock::ProcArray)
        .map(|l| l.share)
        .sum();
    let share = function.total_share.max(function.own_share + procarray);
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let change = &known::SCALABLE_SNAPSHOTS;
    let mut finding = Finding::new(
        "snapshot-scalability",
        format!(
            "Taking snapshots costs {} of the CPU samples (GetSnapshotData).",
            percent(share)
        ),
    )
    .seen(format!(
        "{} of the samples in GetSnapshotData itself",
        percent(function.own_share)
    ));
    if procarray > 0.0 {
        finding = finding.seen(format!("{} in locking ProcArray", percent(procarray)));
    }
    let finding = version_seen(finding, evidence.version)
        .gain(share)
        .source(change.source());
    Some(match change.lacking(evidence.version) {
        Some(false) => finding
            .means(
                "From 14 an unchanged snapshot is reused; it is built anew after every commit that \
                 wrote, and that costs by the number of sessions with a transaction.",
            )
            .remedy("fewer statements a transaction take fewer snapshots; a connection pool lowers the number of sessions")
            .sure(Sureness::Likely),
        lacking => finding
            .means(
                "Up to 13 every snapshot visits every connection, idle ones too, and its cost grows \
                 with their number.",
            )
            .remedy(format!(
                "{}; until then a connection pool, so that fewer connections are open",
                upgrade(change, evidence.version)
            ))
            .sure(if lacking.is_some() { Sureness::Sure } else { Sureness::Likely }),
    })
}

pub fn wait_list(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let share = profile.lock(Lock::WaitList);
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let mut finding = Finding::new(
        "lwlock-wait-list",
        format!(
            "The lists of LWLocks' waiters are contended: {} of the CPU samples.",
            percent(share)
        ),
    );
    for spins in [true, false] {
        for words in callers_in_words(profile, Lock::WaitList, spins) {
            finding = finding.seen(words);
        }
    }
    Some(
        version_seen(finding, evidence.version)
            .means("So many sessions queue for the same LWLocks that entering and leaving the queue has become the work.")
            .remedy(format!(
                "fewer active sessions (a connection pool near the number of CPUs); {}",
                upgrade(&known::WAIT_LIST_REMOVAL, evidence.version)
            ))
            .gain(share)
            .source(known::WAIT_LIST_REMOVAL.source()),
    )
}

/// A finding on LWLocks of one kind, by the callers of the lock functions.
fn lwlocks(evidence: &Evidence, lock: Lock, id: &str, title: &str) -> Option<Finding> {
    let profile = evidence.profile?;
    let share = profile.lock(lock);
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let mut finding = Finding::new(
        id,
        format!("{title}: {} of the CPU samples.", percent(share)),
    );
    for spins in [true, false] {
        for words in callers_in_words(profile, lock, spins) {
            finding = finding.seen(words);
        }
    }
    Some(version_seen(finding, evidence.version).gain(share))
}

pub fn wal_insertion(evidence: &Evidence) -> Option<Finding> {
    let finding = lwlocks(
        evidence,
        Lock::WalInsertion,
        "wal-insertion",
        "Inserting into the log is contended",
    )?;
    Some(
        finding
            .means("There are eight locks for inserting into the log, and up to 16 their positions are read under their wait lists.")
            .remedy(upgrade(&known::WAL_POSITIONS, evidence.version))
            .source(known::WAL_POSITIONS.source()),
    )
}

pub fn buffer_mapping(evidence: &Evidence) -> Option<Finding> {
    let finding = lwlocks(
        evidence,
        Lock::MappingPartition,
        "buffer-mapping",
        "The buffer mapping partitions are contended",
    )?;
    Some(
        finding
            .means("Looking a block up takes a shared lock on a partition of the table; replacing one takes two exclusively, and everybody else waits.")
            .remedy("raise shared_buffers so that fewer blocks are replaced; where it does not help, fewer sessions at once")
            .source(known::MAPPING_PARTITIONS.source()),
    )
}

pub fn lock_manager(evidence: &Evidence) -> Option<Finding> {
    let finding = lwlocks(
        evidence,
        Lock::LockManager,
        "lock-manager",
        "The lock manager's partitions are contended",
    )?;
    Some(
        finding
            .means("A session has few fast-path slots for relation locks (16 up to 17); statements over more tables, partitions or indexes go to the shared table.")
            .remedy(format!(
                "fewer partitions and indexes per statement (prune, drop unused ones), prepared statements; {}",
                upgrade(&known::FAST_PATH, evidence.version)
            ))
            .source(known::FAST_PATH.source()),
    )
}

pub fn page_faults(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let share = profile.class(Class::PageFaults);
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let mut finding = Finding::new(
        "page-faults",
        format!("Page faults take {} of the CPU samples.", percent(share)),
    );
    for function in profile
        .functions
        .iter()
        .filter(|f| f.class == Class::PageFaults)
        .take(3)
    {
        finding = finding.seen(format!(
            "{} in {}",
            percent(function.own_share),
            function.symbol
        ));
    }
    Some(
        finding
            .means("Memory is mapped page by page: each session maps all of shared_buffers for itself as it touches it, and memory freshly taken from the kernel is cleared.")
            .remedy("use huge pages for shared_buffers (huge_pages = on, vm.nr_hugepages by shared_memory_size_in_huge_pages); keep sessions longer instead of connecting anew")
            .gain(share)
            .sure(Sureness::Likely)
            .source("PostgreSQL documentation, 19.4.5 Linux Huge Pages"),
    )
}

pub fn parse_and_plan(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let share = profile.class(Class::ParseAndPlan);
    if !profile.shows(share, 0.15) || share < profile.class(Class::Executor) {
        return None;
    }
    Some(
        Finding::new(
            "parse-and-plan",
            format!("Parsing and planning take {} of the CPU samples, more than executing.", percent(share)),
        )
        .seen(format!("{} in parser, planner and catalog look-ups", percent(share)))
        .seen(format!("{} in the executor", percent(profile.class(Class::Executor))))
        .means("Short statements are parsed and planned each time they are sent.")
        .remedy("use prepared statements (the extended protocol with named statements; PgBouncer from 1.21 carries them in transaction mode)")
        .gain(share)
        .source("PostgreSQL documentation, PREPARE"),
    )
}

pub fn round_trips(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let parts = [Class::KernelNetwork, Class::KernelWakeUp, Class::Protocol];
    let share: f64 = parts.iter().map(|c| profile.class(*c)).sum();
    let kernel = profile.class(Class::KernelNetwork) + profile.class(Class::KernelWakeUp);
    if !profile.shows(share, 0.4) || !profile.shows(kernel, 0.2) {
        return None;
    }
    // A short query's way is always long; a finding is where it is long beside its work.
    if share < 3.0 * profile.class(Class::Executor) {
        return None;
    }
    let mut finding = Finding::new(
        "round-trips",
        format!(
            "The way to the client and back takes {} of the server's CPU samples.",
            percent(share)
        ),
    );
    for class in parts {
        finding = finding.seen(format!(
            "{} in {}",
            percent(profile.class(class)),
            class.title()
        ));
    }
    Some(
        finding
            .seen(format!("{} in the executor", percent(profile.class(Class::Executor))))
            .means("Each statement is so short that its messages, system calls and wake-ups cost more than its work.")
            .remedy("send more at a time: pipelining, several rows a statement, work in functions; over TCP on one machine use the Unix socket")
            .gain(share)
            .source("PostgreSQL documentation, 34.5 Pipeline Mode"),
    )
}

pub fn assertions(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    // Functions that are compiled in with USE_ASSERT_CHECKING or MEMORY_CONTEXT_CHECKING only.
    let only = [
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
    let seen: Vec<_> = profile
        .functions
        .iter()
        .filter(|f| only.contains(&f.symbol.as_str()))
        .collect();
    let share: f64 = seen.iter().map(|f| f.own_share).sum();
    if !profile.shows(share, 0.005) {
        return None;
    }
    let mut finding = Finding::new(
        "assertions-enabled",
        format!(
            "The server was built with assertions: at least {} of the CPU samples check them.",
            percent(share)
        ),
    );
    for function in seen {
        finding = finding.seen(format!(
            "{} in {}",
            percent(function.own_share),
            function.symbol
        ));
    }
    Some(
        finding
            .means("A build with --enable-cassert is for developing PostgreSQL; its checks stand in nearly every function, so that the cost is far more than these.")
            .remedy("use a build without --enable-cassert (debug_assertions shows it)")
            .gain(share)
            .source("PostgreSQL documentation, 17.3.3 configure options, --enable-cassert"),
    )
}

pub fn software_crc(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let function = profile.function("pg_comp_crc32c_sb8")?;
    if !profile.shows(function.own_share, 0.01) {
        return None;
    }
    Some(
        version_seen(
            Finding::new(
                "software-crc",
                format!("Checksums of the log are computed by table: {} of the CPU samples.", percent(function.own_share)),
            )
            .seen(format!("{} in pg_comp_crc32c_sb8", percent(function.own_share))),
            evidence.version,
        )
        .means("pg_comp_crc32c_sb8 is the way for CPUs without an instruction for CRC-32C; x86-64 has had it since SSE 4.2, ARM since v8 as an option. POWER and RISC-V have no code of their own in PostgreSQL.")
        .remedy(format!("take a build that detects the instruction; on ARM: {}", upgrade(&known::ARM_CRC, evidence.version)))
        .gain(function.own_share)
        .source(known::ARM_CRC.source()),
    )
}

pub fn statement_logging(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    let share = ["EmitErrorReport", "errfinish"]
        .iter()
        .filter_map(|name| profile.function(name))
        .map(|f| f.total_share)
        .fold(0.0, f64::max);
    profile.shows(share, NOTABLE).then(|| {
        Finding::new(
            "statement-logging",
            format!(
                "Writing to the server's log takes {} of the CPU samples.",
                percent(share)
            ),
        )
        .seen(format!(
            "{} of the samples in EmitErrorReport and what it calls",
            percent(share)
        ))
        .means(
            "Every statement, or every error, is put into words and written to the log by the \
             session itself, which waits for it.",
        )
        .remedy(
            "log_statement = 'none' or 'ddl', log_duration = off, log_min_duration_statement of the \
             statements that are worth it, or a sample of them by log_min_duration_sample; the same \
             for auto_explain; where it is errors, mend what causes them",
        )
        .gain(share)
        .source("PostgreSQL documentation, 20.8 Error Reporting and Logging")
    })
}

pub fn jit(evidence: &Evidence) -> Option<Finding> {
    let profile = evidence.profile?;
    // The functions of libLLVM are many and each is short: the class has them all.
    let compiling = profile.class(Class::Jit);
    if !profile.shows(compiling, NOTABLE) {
        return None;
    }
    Some(
        Finding::new(
            "jit-compilation",
            format!("Compiling expressions takes {} of the CPU samples.", percent(compiling)),
        )
        .seen(format!("{} of the samples in the compiler of expressions", percent(compiling)))
        .means("Each session compiles each such statement anew; for a statement of milliseconds that costs more than it brings.")
        .remedy("raise jit_above_cost, or jit = off for this load")
        .gain(compiling)
        .source("PostgreSQL documentation, 32.2 When to JIT?"),
    )
}
