//! Wait events in our own words: what a session at one of them waits for, and what usually is
//! behind it. An event that no row names is described by its type.
//!
//! Names are those of PostgreSQL 13 and later; older spellings (`WALWriteLock`, `buffer_mapping`,
//! `clog`) are recognised by [`same_name`] and the further names of a row.

/// What is known of wait events.
#[derive(Debug, PartialEq, Eq)]
pub struct Meaning {
    /// `wait_event_type`.
    kind: &'static str,
    /// Names of the event in any version; without names all other events of the type.
    events: &'static [&'static str],
    /// What a session there waits for: completes "sessions wait".
    pub what: &'static str,
    /// What it usually is a symptom of.
    pub symptom_of: &'static str,
}

const fn row(
    kind: &'static str,
    events: &'static [&'static str],
    what: &'static str,
    symptom_of: &'static str,
) -> Meaning {
    Meaning {
        kind,
        events,
        what,
        symptom_of,
    }
}

/// The row of an event; the type's own where none names it. None for a type that is not known.
pub fn meaning(kind: &str, event: &str) -> Option<&'static Meaning> {
    let of_kind = || MEANINGS.iter().filter(|row| same_kind(row.kind, kind));
    of_kind()
        .find(|row| row.events.iter().any(|name| same_name(name, event)))
        .or_else(|| of_kind().find(|row| row.events.is_empty()))
}

/// The setting that makes sessions wait at an event.
pub(super) fn setting(kind: &str, event: &str) -> Option<&'static str> {
    let is = |names: &[&str]| is(kind, event, "Timeout", names);
    match () {
        () if is(&["VacuumDelay", "VacuumTruncate"]) => Some("vacuum_cost_delay"),
        () if is(&["CommitDelay"]) => Some("commit_delay"),
        () => None,
    }
}

/// Whether a type is another's older name: `LWLockNamed` and `LWLockTranche` in 9.6.
pub fn same_kind(kind: &str, written: &str) -> bool {
    match kind {
        "LWLock" => written.starts_with("LWLock"),
        "Buffer" => written == "Buffer" || written == "BufferPin",
        kind => kind == written,
    }
}

/// Whether two names are one event's in different versions: `WALWriteLock` and
/// `buffer_mapping` up to 12 are `WALWrite` and `BufferMapping` from 13 on.
pub fn same_name(name: &str, written: &str) -> bool {
    let plain = |name: &str| {
        let name = name.to_ascii_lowercase().replace('_', "");
        name.strip_suffix("lock").unwrap_or(&name).to_owned()
    };
    plain(name) == plain(written)
}

/// Whether an event is one of these.
pub(super) fn is_of(kind: &str, event: &str, events: &[(&str, &[&str])]) -> bool {
    let mut events = events.iter();
    events.any(|(of, names)| is(kind, event, of, names))
}

/// Whether an event has one of these names in any version. Without names every event of the
/// kind has.
pub(super) fn is(kind: &str, event: &str, of: &str, names: &[&str]) -> bool {
    let named = || names.iter().any(|name| same_name(name, event));
    same_kind(of, kind) && (names.is_empty() || named())
}

/// Waits for blocks that are read.
pub(super) const READS: &[(&str, &[&str])] = &[
    ("LWLock", &["BufferMapping", "BufferIO"]),
    ("IO", &["DataFileRead", "AioIoCompletion"]),
    ("IPC", &["BufferIO"]),
];
/// Waits for the log to be flushed.
pub(super) const WAL_FLUSH: &[(&str, &[&str])] = &[
    ("LWLock", &["WALWrite"]),
    ("IO", &["WALSync", "WALWrite", "WalSync", "WalWrite"]),
];

/// LWLocks of serializable transactions, under their names in all versions.
pub(super) const SERIALIZABLE: &[&str] = &[
    "SerializableXactHash",
    "SerializableFinishedList",
    "SerializablePredicateList",
    "SerializablePredicateLockList",
    "PredicateLockManager",
    "PerXactPredicateList",
    "serializable_xact",
    "SerialBuffer",
    "SerialSLRU",
    "SerialControl",
    "OldSerXid",
];
/// LWLocks of the cache of subtransactions' parents.
pub(super) const SUBTRANSACTIONS: &[&str] = &[
    "SubtransSLRU",
    "SubtransBuffer",
    "SubtransControl",
    "subtrans",
];
/// LWLocks of the caches of multixacts: transactions that share a row lock.
pub(super) const MULTIXACTS: &[&str] = &[
    "MultiXactGen",
    "MultiXactOffsetSLRU",
    "MultiXactMemberSLRU",
    "MultiXactOffsetBuffer",
    "MultiXactMemberBuffer",
    "MultiXactOffsetControl",
    "MultiXactMemberControl",
    "multixact_offset",
    "multixact_member",
    "MultiXactTruncation",
];

/// All rows, the events of a type before what is said of the type.
static MEANINGS: &[Meaning] = &[
    row(
        "Lock",
        &["relation"],
        "for a lock on a table or an index that another session holds in a conflicting mode",
        "a transaction that keeps a strong lock: DDL, LOCK TABLE, VACUUM FULL, or one left open after it",
    ),
    row(
        "Lock",
        &["transactionid"],
        "for another transaction to end, which has changed a row that they want to change",
        "many transactions on the same rows, or one that stays open after its change",
    ),
    row(
        "Lock",
        &["tuple"],
        "for their turn at a row for which others queue already",
        "many transactions on the same row",
    ),
    row(
        "Lock",
        &["extend"],
        "for their turn to make a table or an index longer",
        "many sessions that insert into one table",
    ),
    row(
        "Lock",
        &["advisory"],
        "for an advisory lock, which the application takes by itself",
        "the application's own serialization: pg_advisory_lock and its like",
    ),
    row(
        "Lock",
        &["virtualxid"],
        "for another session's transaction to end",
        "a command that must outlast all older transactions, such as CREATE INDEX CONCURRENTLY",
    ),
    row(
        "Lock",
        &[
            "object",
            "frozenid",
            "userlock",
            "spectoken",
            "applytransaction",
        ],
        "for a lock on something other than a table or a row",
        "DDL, or conflicting INSERT ... ON CONFLICT, in other sessions",
    ),
    row(
        "Lock",
        &[],
        "for a lock that another session holds",
        "a transaction that holds locks for long (pg_blocking_pids names it)",
    ),
    row(
        "LWLock",
        &["WALWrite"],
        "for another session to write or flush the log",
        "many small commits, or a slow device under pg_wal",
    ),
    row(
        "LWLock",
        &["WALInsert"],
        "for one of the locks under which records are put into the log's buffers",
        "much log from many sessions: whole pages after checkpoints, many indexes, wide rows",
    ),
    row(
        "LWLock",
        &["WALBufMapping"],
        "for room in the log's buffers",
        "wal_buffers too small for the log that is written, or a slow device under pg_wal",
    ),
    row(
        "LWLock",
        &["BufferContent"],
        "to read or change a page that another session has locked",
        "many sessions on one page: a small table, the newest page of an index, a root",
    ),
    row(
        "LWLock",
        &["BufferMapping"],
        "for a part of the table that says where in shared buffers a block is",
        "blocks that are replaced all the time: shared buffers smaller than what is in use",
    ),
    row(
        "LWLock",
        &["BufferIO", "BufferIOLock"],
        "for a block that another session is reading",
        "sessions that read the same blocks from outside shared buffers at the same time",
    ),
    row(
        "LWLock",
        &["LockManager", "lock_manager"],
        "for a part of the table of heavyweight locks",
        "statements that lock many relations: partitions, many indexes, more than fast-path locking holds",
    ),
    row(
        "LWLock",
        &["LockFastPath", "lwlock_fastpath", "backend", "fast_path"],
        "for their own or another session's list of fast-path locks",
        "strong table locks among many weak ones",
    ),
    row(
        "LWLock",
        &["ProcArray"],
        "for the list of running transactions",
        "many sessions that begin, commit or take snapshots at once",
    ),
    row(
        "LWLock",
        &["XidGen"],
        "for a transaction number",
        "very many short writing transactions, or subtransactions",
    ),
    row(
        "LWLock",
        &[
            "XactSLRU",
            "XactBuffer",
            "CLogControl",
            "clog",
            "XactTruncation",
            "CLogTruncation",
        ],
        "for the cache of transactions' outcomes",
        "rows whose transactions are long past and not frozen, read at random",
    ),
    row(
        "LWLock",
        SUBTRANSACTIONS,
        "for the cache of subtransactions' parents",
        "more than 64 subtransactions in one transaction (savepoints, EXCEPTION blocks) beside a long one",
    ),
    row(
        "LWLock",
        MULTIXACTS,
        "for the cache of rows that several transactions have locked",
        "row locks shared by many: foreign keys to few rows, SELECT ... FOR SHARE",
    ),
    row(
        "LWLock",
        &[
            "CommitTsSLRU",
            "CommitTsBuffer",
            "CommitTs",
            "CommitTsControl",
            "commit_timestamp",
        ],
        "for the cache of commit times",
        "track_commit_timestamp",
    ),
    row(
        "LWLock",
        &[
            "NotifyQueue",
            "NotifySLRU",
            "NotifyBuffer",
            "AsyncQueue",
            "AsyncCtl",
            "async",
        ],
        "for the queue of notifications",
        "NOTIFY in many transactions, or a listener that is behind",
    ),
    row(
        "LWLock",
        SERIALIZABLE,
        "for the locks of serializable transactions",
        "serializable isolation",
    ),
    row(
        "LWLock",
        &[
            "ParallelHashJoin",
            "ParallelQueryDSA",
            "SharedTupleStore",
            "parallel_query_dsa",
            "shared_tuplestore",
            "ParallelAppend",
            "PerSessionDSA",
        ],
        "for memory that the workers of one statement share",
        "parallel plans",
    ),
    row(
        "LWLock",
        &[
            "RelationMapping",
            "RelCacheInit",
            "SInvalRead",
            "SInvalWrite",
        ],
        "for messages about changed catalogues",
        "DDL, temporary tables, or TRUNCATE at a high rate",
    ),
    row(
        "LWLock",
        &[
            "pg_stat_statements",
            "PgStatsHash",
            "PgStatsDSA",
            "PgStatsData",
        ],
        "for statistics that all sessions share",
        "very many different statements or objects, counted one by one",
    ),
    row(
        "LWLock",
        &[
            "ReplicationSlotIO",
            "ReplicationSlotControl",
            "ReplicationSlotAllocation",
            "ReplicationOrigin",
            "ReplicationOriginState",
        ],
        "for the state of replication slots",
        "many slots or subscribers",
    ),
    row(
        "LWLock",
        &["OidGen", "OidGenLock"],
        "for an object number",
        "many large objects, TOAST values or DDL commands at once",
    ),
    row(
        "LWLock",
        &[],
        "for a short lock on memory that all sessions share",
        "many sessions that use the same part of the server at once, or an extension's own lock",
    ),
    row(
        "IO",
        &[
            "DataFileRead",
            "AioIoCompletion",
            "AioIoUringExecution",
            "AioIoUringSubmit",
        ],
        "for blocks of tables and indexes that are not in shared buffers",
        "a cache smaller than what is read, or statements that read more than they need: a missing \
         index, dead rows, bloat",
    ),
    row(
        "IO",
        &["DataFilePrefetch"],
        "for the kernel to begin reading blocks ahead",
        "a cache smaller than what is read",
    ),
    row(
        "IO",
        &[
            "DataFileWrite",
            "DataFileFlush",
            "DataFileSync",
            "DataFileExtend",
            "DataFileTruncate",
        ],
        "for a data file to be written, synced or made longer",
        "dirty pages that sessions must write themselves, checkpoints, or a device at its limit",
    ),
    row(
        "IO",
        &["DataFileImmediateSync"],
        "for a file that was made anew to reach the disk",
        "tables and indexes that are made, truncated or rewritten all the time",
    ),
    row(
        "IO",
        &["WALSync", "WalSync", "WALWrite", "WalWrite"],
        "for the log to reach the disk",
        "many small commits, or a slow device under pg_wal",
    ),
    row(
        "IO",
        &["WALInitWrite", "WALInitSync", "WalInitWrite", "WalInitSync"],
        "for a new file of the log to be filled",
        "more log between checkpoints than wal files are kept for reuse (min_wal_size)",
    ),
    row(
        "IO",
        &["WALRead", "WalRead"],
        "for the log to be read again",
        "replication or decoding that is behind",
    ),
    row(
        "IO",
        &["BufFileRead", "BufFileWrite", "BufFileTruncate"],
        "for temporary files",
        "sorts, hashes or materialized results larger than work_mem",
    ),
    row(
        "IO",
        &[
            "SLRURead",
            "SLRUWrite",
            "SlruRead",
            "SlruWrite",
            "SLRUSync",
            "SLRUFlushSync",
        ],
        "for pages of transactions' outcomes and their like on disk",
        "very old unfrozen rows, many subtransactions or shared row locks",
    ),
    row(
        "IO",
        &[
            "LogicalRewriteWrite",
            "ReorderBufferRead",
            "ReorderBufferWrite",
            "ReorderLogicalMappingRead",
        ],
        "for files of logical decoding",
        "large transactions decoded with little logical_decoding_work_mem",
    ),
    row(
        "IO",
        &["VersionFileSync", "CopyFileRead", "CopyFileWrite"],
        "for a file that a statement reads or writes",
        "COPY to or from a file of the server",
    ),
    row(
        "IO",
        &[],
        "for a file",
        "a device at its limit, or more I/O than the statements need",
    ),
    row(
        "IPC",
        &["SyncRep"],
        "for a synchronous standby to confirm the commit",
        "synchronous replication to a distant or slow standby",
    ),
    row(
        "IPC",
        &["ProcArrayGroupUpdate", "XactGroupUpdate", "ClogGroupUpdate"],
        "for another session that ends their transaction together with its own",
        "many commits at once",
    ),
    row(
        "IPC",
        &[
            "ParallelFinish",
            "ExecuteGather",
            "MessageQueueReceive",
            "MessageQueueSend",
            "MessageQueueInternal",
            "MessageQueuePutMessage",
            "ParallelBitmapScan",
            "ParallelCreateIndexScan",
            "BgWorkerStartup",
            "BgworkerStartup",
            "BgWorkerShutdown",
            "BgworkerShutdown",
        ],
        "for the other processes of a parallel plan",
        "parallel plans for small statements, workers that are started for little, or CPUs that are full",
    ),
    row(
        "IPC",
        &[
            "HashBatchAllocate",
            "HashBatchElect",
            "HashBatchLoad",
            "HashBuildAllocate",
            "HashBuildElect",
            "HashBuildHashInner",
            "HashBuildHashOuter",
            "HashGrowBatchesAllocate",
            "HashGrowBatchesDecide",
            "HashGrowBatchesElect",
            "HashGrowBatchesFinish",
            "HashGrowBatchesRepartition",
            "HashGrowBucketsAllocate",
            "HashGrowBucketsElect",
            "HashGrowBucketsReinsert",
        ],
        "for the other processes of a parallel hash join",
        "an uneven parallel hash join, or one with little hash_mem",
    ),
    row(
        "IPC",
        &["BufferIO", "BufferIo"],
        "for a block that another session is reading",
        "sessions that read the same blocks from outside shared buffers at the same time",
    ),
    row(
        "IPC",
        &["SafeSnapshot"],
        "for a snapshot that needs no serializable checks",
        "SERIALIZABLE READ ONLY DEFERRABLE transactions",
    ),
    row(
        "IPC",
        &[
            "CheckpointStart",
            "CheckpointDone",
            "CheckpointDelayStart",
            "CheckpointDelayComplete",
        ],
        "for a checkpoint",
        "commands that force a checkpoint: CREATE DATABASE, base backups, CHECKPOINT",
    ),
    row(
        "IPC",
        &[],
        "for another process of the server",
        "work that several processes do together",
    ),
    row(
        "Timeout",
        &["PgSleep"],
        "in pg_sleep, which the statement calls itself",
        "the statement's own pg_sleep",
    ),
    row(
        "Timeout",
        &["SpinDelay"],
        "for a spinlock, asleep between attempts",
        "a contended spinlock, or sessions that lose the CPU while they hold one",
    ),
    row(
        "Timeout",
        &["VacuumDelay", "VacuumTruncate"],
        "in a cost-based delay of vacuum",
        "vacuum_cost_delay",
    ),
    row(
        "Timeout",
        &["CommitDelay"],
        "before a commit, for others to join it",
        "commit_delay",
    ),
    row(
        "Timeout",
        &["RegisterSyncRequest", "CheckpointWriteDelay"],
        "for the checkpointer",
        "a checkpointer that is behind",
    ),
    row(
        "Timeout",
        &[],
        "for a time to pass",
        "a delay that a setting or a statement asks for",
    ),
    row(
        "Buffer",
        &[],
        "for others to let go of a page",
        "many sessions on one page, or a cursor that stays on a page which vacuum or an update wants",
    ),
    row(
        "Extension",
        &[],
        "in an extension",
        "what an extension of the server does (shared_preload_libraries, \\dx)",
    ),
    row(
        "Activity",
        &[],
        "for something to do",
        "nothing: a process without work",
    ),
    row(
        "InjectionPoint",
        &[],
        "at a point that a test of the server stops at",
        "a server built for tests",
    ),
];

#[cfg(test)]
mod tests;
