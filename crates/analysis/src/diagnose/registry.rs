//! All rules, by name: adding one is a function in one of the files beside this one
//! and a line here.

use super::finding::Finding;
use super::{Evidence, checkpoint_rules, profile_rules, run_rules, scaling_rules, wait_rules};

/// A rule of the registry.
pub struct Rule {
    /// Stable name.
    pub id: &'static str,
    /// What it recognises, in few words.
    pub about: &'static str,
    /// What it looks at.
    pub looks_at: &'static str,
    pub(super) apply: fn(&Evidence) -> Option<Finding>,
}

/// All rules.
pub const RULES: &[Rule] = &[
    Rule {
        id: "buffer-header-spinlock",
        about: "sessions spin on the spinlock of a buffer's header to pin it",
        looks_at: "CPU samples: s_lock and who called it; the version",
        apply: profile_rules::buffer_header,
    },
    Rule {
        id: "buffer-replacement-spinlock",
        about: "sessions spin on the lock of the free list and clock hand",
        looks_at: "CPU samples: s_lock below StrategyGetBuffer, page faults; the version",
        apply: profile_rules::buffer_replacement,
    },
    Rule {
        id: "spinlock-unattributed",
        about: "sessions spin, and the samples do not say for which lock",
        looks_at: "CPU samples: s_lock without callers",
        apply: profile_rules::spinlock_unattributed,
    },
    Rule {
        id: "snapshot-scalability",
        about: "taking a snapshot costs by the number of connections",
        looks_at: "CPU samples: GetSnapshotData; the version",
        apply: profile_rules::snapshot,
    },
    Rule {
        id: "lwlock-wait-list",
        about: "the list of an LWLock's waiters is itself contended",
        looks_at: "CPU samples: wait-list functions of the LWLock",
        apply: profile_rules::wait_list,
    },
    Rule {
        id: "wal-insertion",
        about: "inserting into the log is contended",
        looks_at: "CPU samples: lock functions called for WAL insertion; the version",
        apply: profile_rules::wal_insertion,
    },
    Rule {
        id: "buffer-mapping",
        about: "the buffer mapping partitions are contended",
        looks_at: "CPU samples: lock functions called for the mapping table",
        apply: profile_rules::buffer_mapping,
    },
    Rule {
        id: "lock-manager",
        about: "the lock manager's partitions are contended",
        looks_at: "CPU samples: lock functions called by the lock manager; the version",
        apply: profile_rules::lock_manager,
    },
    Rule {
        id: "page-faults",
        about: "page faults take the CPU's time",
        looks_at: "CPU samples in the kernel's fault handling",
        apply: profile_rules::page_faults,
    },
    Rule {
        id: "parse-and-plan",
        about: "statements are parsed and planned again and again",
        looks_at: "CPU samples in parser, planner and catalog look-ups",
        apply: profile_rules::parse_and_plan,
    },
    Rule {
        id: "round-trips",
        about: "messages, sockets and wake-ups cost more than the statements",
        looks_at: "CPU samples: network, wake-up, protocol, against the executor",
        apply: profile_rules::round_trips,
    },
    Rule {
        id: "assertions-enabled",
        about: "the server checks its own assertions",
        looks_at: "CPU samples: functions that only such a build has",
        apply: profile_rules::assertions,
    },
    Rule {
        id: "software-crc",
        about: "checksums of the log are computed without the CPU's instruction",
        looks_at: "CPU samples: pg_comp_crc32c_sb8; the version",
        apply: profile_rules::software_crc,
    },
    Rule {
        id: "jit-compilation",
        about: "compiling expressions costs more than it brings",
        looks_at: "CPU samples: LLVM",
        apply: profile_rules::jit,
    },
    Rule {
        id: "statement-logging",
        about: "writing statements to the server's log costs time",
        looks_at: "CPU samples: EmitErrorReport and what it calls",
        apply: profile_rules::statement_logging,
    },
    Rule {
        id: "hot-row",
        about: "sessions queue for the same rows",
        looks_at: "wait events Lock:tuple and Lock:transactionid",
        apply: wait_rules::hot_row,
    },
    Rule {
        id: "relation-lock-queue",
        about: "sessions queue for a lock on a table",
        looks_at: "wait event Lock:relation",
        apply: wait_rules::relation_lock,
    },
    Rule {
        id: "wal-flush",
        about: "commits wait for the log to reach the disk",
        looks_at: "wait events LWLock:WALWrite and IO:WALSync",
        apply: wait_rules::wal_flush,
    },
    Rule {
        id: "standby-wait",
        about: "commits wait for a synchronous standby",
        looks_at: "wait event IPC:SyncRep, synchronous_standby_names and synchronous_commit",
        apply: wait_rules::standby,
    },
    Rule {
        id: "predicate-locks",
        about: "sessions queue for the locks of serializable transactions",
        looks_at: "wait events of the predicate locks' LWLocks",
        apply: wait_rules::predicate_locks,
    },
    Rule {
        id: "forced-checkpoints",
        about: "checkpoints forced by the volume of the log fall into the measured windows",
        looks_at: "the server's counters over the windows, looks at the checkpointer, throughput",
        apply: checkpoint_rules::forced,
    },
    Rule {
        id: "buffer-misses",
        about: "blocks are read and replaced; also buffer-mapping-contention",
        looks_at: "wait events of buffer mapping and reads, blocks read a transaction",
        apply: wait_rules::buffer_misses,
    },
    Rule {
        id: "hot-page",
        about: "sessions queue for the content of the same pages",
        looks_at: "wait event LWLock:BufferContent, class Buffer from 19",
        apply: wait_rules::content_lock,
    },
    Rule {
        id: "relation-extension",
        about: "sessions queue to extend a table",
        looks_at: "wait event Lock:extend",
        apply: wait_rules::extension_lock,
    },
    Rule {
        id: "wal-insert-wait",
        about: "sessions queue to insert into the log",
        looks_at: "wait event LWLock:WALInsert; the version",
        apply: wait_rules::wal_insert_wait,
    },
    Rule {
        id: "proc-array-wait",
        about: "sessions queue for the list of running transactions",
        looks_at: "wait event LWLock:ProcArray; the version",
        apply: wait_rules::proc_array_wait,
    },
    Rule {
        id: "lock-manager-wait",
        about: "sessions queue for the lock manager",
        looks_at: "wait event LWLock:LockManager; the version",
        apply: wait_rules::lock_manager_wait,
    },
    Rule {
        id: "client-bound",
        about: "the load's own client is the limit",
        looks_at: "busy load threads, sessions that wait for the client",
        apply: run_rules::client_bound,
    },
    Rule {
        id: "old-version-many-connections",
        about: "many connections on a version whose snapshots cost by their number",
        looks_at: "sessions counted, the version, GetSnapshotData where CPU was sampled",
        apply: run_rules::many_connections,
    },
    Rule {
        id: "scaling-contention",
        about: "the curve over clients bends by what one at a time can do, and which lock that is",
        looks_at: "the scaling law's fit, wait events and CPU samples over client counts",
        apply: scaling_rules::contention,
    },
    Rule {
        id: "stolen-time",
        about: "the hypervisor gives the CPUs to others",
        looks_at: "steal",
        apply: run_rules::stolen,
    },
    Rule {
        id: "cpu-quota",
        about: "a control group's quota holds the server back",
        looks_at: "the quota and the CPU time used",
        apply: run_rules::cpu_quota,
    },
    Rule {
        id: "swapping",
        about: "the machine swaps under the load",
        looks_at: "pages swapped, memory pressure",
        apply: run_rules::swapping,
    },
    Rule {
        id: "exclusive-loops",
        about: "locks by exclusive loops on a CPU with LSE",
        looks_at: "the inspected binary and the CPU",
        apply: run_rules::exclusive_loops,
    },
    Rule {
        id: "debug-build",
        about: "a build with assertions or without optimisation",
        looks_at: "settings and the inspected binary",
        apply: run_rules::debug_build,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_names_of_their_own() {
        let mut ids: Vec<&str> = RULES.iter().map(|r| r.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
    }
}
