//! Which lock the lock functions were called for, by who called them.
//!
//! `s_lock` and `LWLockAcquire` serve every lock of their kind; only the caller
//! says which. Names are those of PostgreSQL's source, 9.4 to 18.

use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize};

use pgassay_readings::profile::Frame;

/// A lock, or a family of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Lock {
    /// A buffer's header: pins up to 9.5, its state since.
    BufferHeader,
    /// One of the partitions of the table that finds a block's buffer.
    MappingPartition,
    /// A buffer's content.
    BufferContent,
    /// The list of running transactions.
    ProcArray,
    /// One of the eight locks for inserting into the log, or the position in it.
    WalInsertion,
    /// The lock under which the log is written and flushed.
    WalWrite,
    /// The list of those who wait for an LWLock.
    WaitList,
    /// The free list and clock hand that find a buffer to replace.
    BufferReplacement,
    /// A partition of the lock manager.
    LockManager,
    /// The commit log and its relatives.
    Slru,
    /// Buffers of pg_subtrans, in which the parents of subtransactions stand.
    Subtransactions,
    /// Catalog invalidation messages.
    Invalidation,
    /// The chain holds no caller that says it.
    Unknown,
}

impl Lock {
    /// The lock of an id, such as `buffer-header`.
    pub fn parse(id: &str) -> Option<Self> {
        let id: StrDeserializer<'_, serde::de::value::Error> = id.into_deserializer();
        Self::deserialize(id).ok()
    }

    /// Its name in reports.
    pub fn title(self) -> &'static str {
        match self {
            Self::BufferHeader => "buffer header",
            Self::MappingPartition => "buffer mapping partition",
            Self::BufferContent => "buffer content",
            Self::ProcArray => "ProcArray",
            Self::WalInsertion => "WAL insertion",
            Self::WalWrite => "WAL write",
            Self::WaitList => "LWLock wait list",
            Self::BufferReplacement => "buffer replacement",
            Self::LockManager => "lock manager",
            Self::Slru => "commit log (SLRU)",
            Self::Subtransactions => "subtransactions (SLRU)",
            Self::Invalidation => "invalidation messages",
            Self::Unknown => "not known",
        }
    }
}

/// The functions that wait for or take a lock on behalf of another.
const TAKERS: &[&str] = &[
    "s_lock",
    "tas",
    "perform_spin_delay",
    "LWLockAcquire",
    "LWLockAcquireCommon",
    "LWLockAcquireOrWait",
    "LWLockRelease",
    "LWLockReleaseInternal",
    "LWLockAttemptLock",
    "LWLockConditionalAcquire",
    "LWLockQueueSelf",
    "LWLockDequeueSelf",
    "LWLockWakeup",
    "LWLockWaitListLock",
    "LWLockWaitForVar",
    "LWLockUpdateVar",
    "PGSemaphoreLock",
    "PGSemaphoreUnlock",
    "LWLockHeldByMe",
];

/// Callers by the lock that they take; a `*` ends a beginning.
const CALLERS: &[(Lock, &[&str])] = &[
    (
        Lock::BufferHeader,
        &[
            "PinBuffer*",
            "UnpinBuffer*",
            "LockBufHdr",
            "WaitBufHdrUnlocked",
            "MarkBufferDirty*",
            "BufferGetLSNAtomic",
            "InvalidateBuffer",
            "SyncOneBuffer",
            "FlushBuffer",
            "ConditionalLockBufferForCleanup",
            "LockBufferForCleanup",
            "StartBufferIO",
            "TerminateBufferIO",
        ],
    ),
    (
        Lock::BufferReplacement,
        &[
            "StrategyGetBuffer",
            "StrategyFreeBuffer",
            "StrategySyncStart",
            "ClockSweepTick",
            "GetVictimBuffer",
        ],
    ),
    (
        Lock::MappingPartition,
        &[
            "BufTable*",
            "BufferAlloc",
            "ReadBuffer_common",
            "ReadBufferExtended",
            "PrefetchSharedBuffer",
            "StartReadBuffer*",
            "InvalidateVictimBuffer",
            "PinBufferForBlock",
        ],
    ),
    (
        Lock::BufferContent,
        &["LockBuffer*", "ConditionalLockBuffer", "BufferLock*"],
    ),
    (
        Lock::ProcArray,
        &[
            "GetSnapshotData*",
            "ProcArray*",
            "GetOldestXmin",
            "ComputeXidHorizons",
            "TransactionIdIsInProgress",
            "GetNewTransactionId",
            "GetRunningTransactionData",
            "GetOldestActiveTransactionId",
            "CommitTransaction",
        ],
    ),
    (
        Lock::WalInsertion,
        &[
            "XLogInsert*",
            "WALInsertLock*",
            "ReserveXLog*",
            "WaitXLogInsertionsToFinish",
            "GetXLogBuffer",
            "GetXLogInsertRecPtr",
            "GetInsertRecPtr",
        ],
    ),
    (
        Lock::WalWrite,
        &[
            "XLogFlush",
            "XLogWrite",
            "XLogBackgroundFlush",
            "AdvanceXLInsertBuffer",
            "GetFlushRecPtr",
            "GetRedoRecPtr",
            "XLogNeedsFlush",
        ],
    ),
    (
        Lock::LockManager,
        &[
            "LockAcquire*",
            "LockRelease*",
            "FastPath*",
            "ProcSleep",
            "ProcLockWakeup",
            "VirtualXactLock*",
            "LockRelation*",
            "LockHasWaiters*",
        ],
    ),
    (
        Lock::Slru,
        &[
            "SimpleLru*",
            "TransactionIdSet*",
            "TransactionIdGetStatus",
            "TransactionGroupUpdateXidStatus",
            "ExtendCLOG",
            "MultiXact*",
            "GetMultiXact*",
        ],
    ),
    (Lock::Subtransactions, &["SubTrans*", "ExtendSUBTRANS"]),
    (
        Lock::Invalidation,
        &[
            "SIGetDataEntries",
            "SIInsertDataEntries",
            "ReceiveSharedInvalidMessages",
            "AcceptInvalidationMessages",
        ],
    ),
];

/// The lock function nearest to the sample, who called it, and for which lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken<'a> {
    /// The lock function, such as `s_lock`.
    pub function: &'a str,
    /// Its nearest caller that is no lock function itself.
    pub caller: Option<&'a str>,
    /// The lock.
    pub lock: Lock,
}

/// What lock a chain's sample was about, where it was about one. Chains stand from
/// the outermost caller.
pub fn of<'a>(chain: &[&'a Frame]) -> Option<Taken<'a>> {
    let server: Vec<&'a str> = chain
        .iter()
        .filter(|f| !f.is_kernel())
        .map(|f| f.symbol.as_str())
        .collect();
    let taker = server.iter().rposition(|s| TAKERS.contains(s))?;
    // Only what the lock function does or calls is its cost.
    if server.len() - taker > 3 {
        return None;
    }
    let function = server[taker];
    let spins = matches!(function, "s_lock" | "tas" | "perform_spin_delay");
    let outer = server[..taker].iter().rev();
    // The spinlock within an LWLock guards its wait list (up to 9.4 its state, too).
    if spins
        && outer
            .clone()
            .next()
            .is_some_and(|c| c.starts_with("LWLock"))
    {
        return Some(Taken {
            function,
            caller: outer.clone().next().copied(),
            lock: Lock::WaitList,
        });
    }
    if matches!(
        function,
        "LWLockWaitListLock" | "LWLockQueueSelf" | "LWLockDequeueSelf"
    ) {
        return Some(Taken {
            function,
            caller: outer.clone().next().copied(),
            lock: Lock::WaitList,
        });
    }
    let callers: Vec<&'a str> = outer
        .copied()
        .filter(|c| !TAKERS.contains(c))
        .take(3)
        .collect();
    let mut locks = callers.iter().filter_map(|caller| lock_of(caller));
    let lock = match locks.next() {
        // The commit log's functions serve its relatives, too.
        Some(Lock::Slru) => locks
            .find(|lock| *lock == Lock::Subtransactions)
            .or(Some(Lock::Slru)),
        lock => lock,
    };
    Some(Taken {
        function,
        caller: callers.first().copied(),
        lock: lock.unwrap_or(Lock::Unknown),
    })
}

fn lock_of(caller: &str) -> Option<Lock> {
    let fits = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => caller.starts_with(start),
        None => caller == *pattern,
    };
    CALLERS
        .iter()
        .find(|(_, names)| names.iter().any(fits))
        .map(|(lock, _)| *lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_says_which_lock() {
        for (chain, function, caller, lock) in [
            (
                "ReadBuffer_common PinBuffer s_lock",
                "s_lock",
                Some("PinBuffer"),
                Lock::BufferHeader,
            ),
            (
                "UnpinBuffer s_lock",
                "s_lock",
                Some("UnpinBuffer"),
                Lock::BufferHeader,
            ),
            (
                "GetSnapshotData LWLockAcquire",
                "LWLockAcquire",
                Some("GetSnapshotData"),
                Lock::ProcArray,
            ),
            (
                "GetSnapshotData LWLockAcquire s_lock",
                "s_lock",
                Some("LWLockAcquire"),
                Lock::WaitList,
            ),
            (
                "XLogInsertRecord WALInsertLockAcquire LWLockAcquire LWLockAttemptLock",
                "LWLockAttemptLock",
                Some("WALInsertLockAcquire"),
                Lock::WalInsertion,
            ),
            (
                "BufferAlloc LWLockAcquire",
                "LWLockAcquire",
                Some("BufferAlloc"),
                Lock::MappingPartition,
            ),
            (
                "BufferAlloc StrategyGetBuffer s_lock",
                "s_lock",
                Some("StrategyGetBuffer"),
                Lock::BufferReplacement,
            ),
            (
                "XLogFlush LWLockAcquireOrWait PGSemaphoreLock",
                "PGSemaphoreLock",
                Some("XLogFlush"),
                Lock::WalWrite,
            ),
            (
                "SubTransGetParent SimpleLruReadPage_ReadOnly LWLockAcquire",
                "LWLockAcquire",
                Some("SimpleLruReadPage_ReadOnly"),
                Lock::Subtransactions,
            ),
            (
                "TransactionIdGetStatus SimpleLruReadPage_ReadOnly LWLockAcquire",
                "LWLockAcquire",
                Some("SimpleLruReadPage_ReadOnly"),
                Lock::Slru,
            ),
            ("LWLockAcquire", "LWLockAcquire", None, Lock::Unknown),
            (
                "mystery LWLockAcquire",
                "LWLockAcquire",
                Some("mystery"),
                Lock::Unknown,
            ),
        ] {
            let frames: Vec<Frame> = chain
                .split(' ')
                .map(|s| Frame::new(s, "postgres"))
                .collect();
            let chain: Vec<&Frame> = frames.iter().collect();
            assert_eq!(
                of(&chain),
                Some(Taken {
                    function,
                    caller,
                    lock
                })
            );
        }
    }

    #[test]
    fn work_under_no_lock_function_is_about_none() {
        let frames = ["main", "ExecScan"].map(|s| Frame::new(s, "postgres"));
        assert_eq!(of(&frames.iter().collect::<Vec<_>>()), None);
        assert_eq!(of(&[]), None);
    }
}
