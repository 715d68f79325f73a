//! The functions of PostgreSQL's hot paths by name, over its major versions.

/// A path's definition.
pub struct Path {
    /// Stable name for scripts.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// Its functions, the first of them its core.
    pub functions: &'static [&'static str],
    /// How many of them, from the first, do the path's atomics themselves in one version or another.
    pub core: usize,
    /// Functions without which the account of the path is not whole, in every version that has it.
    pub essential: &'static [&'static str],
}

/// Function names per path, over the versions 9.6 to 19; sources: src/backend/storage/lmgr/s_lock.c,
/// lwlock.c, src/backend/storage/buffer/bufmgr.c, freelist.c, src/backend/storage/ipc/procarray.c,
/// src/backend/access/transam/xlog.c.
pub const PATHS: &[Path] = &[
    Path {
        id: "spinlock",
        title: "spinlock (contended)",
        functions: &["s_lock", "tas", "tas_sema"],
        core: 1,
        essential: &[],
    },
    Path {
        id: "lwlock",
        title: "LWLock acquire and release",
        functions: &[
            "LWLockAttemptLock",
            "LWLockAcquire",
            "LWLockConditionalAcquire",
            "LWLockAcquireOrWait",
            "LWLockRelease",
            "LWLockReleaseInternal",
            "LWLockWaitListLock",
            "LWLockWaitListUnlock",
            "LWLockQueueSelf",
            "LWLockDequeueSelf",
            "LWLockWakeup",
        ],
        core: 5,
        essential: &["LWLockAttemptLock"],
    },
    Path {
        id: "buffer-pin",
        title: "buffer pin",
        functions: &[
            "PinBuffer",
            "PinBuffer_Locked",
            "PinBufferForBlock",
            "ReadRecentBuffer",
        ],
        core: 2,
        essential: &["PinBuffer"],
    },
    Path {
        id: "buffer-unpin",
        title: "buffer unpin",
        functions: &["UnpinBuffer", "UnpinBufferNoOwner", "ReleaseBuffer"],
        core: 2,
        essential: &[],
    },
    Path {
        id: "buffer-header",
        title: "buffer header lock, clock sweep",
        functions: &[
            "LockBufHdr",
            "WaitBufHdrUnlocked",
            "StrategyGetBuffer",
            "MarkBufferDirty",
            "MarkBufferDirtyHint",
        ],
        core: 3,
        essential: &[],
    },
    Path {
        id: "buffer-content-lock",
        title: "buffer content lock (19 and later; an LWLock before)",
        functions: &[
            "BufferLockAcquire",
            "BufferLockAttempt",
            "BufferLockConditional",
            "BufferLockUnlock",
            "BufferLockDisown",
            "BufferLockQueueSelf",
            "BufferLockDequeueSelf",
            "BufferLockWakeup",
            "LockBufferInternal",
            "ConditionalLockBuffer",
            "UnlockBuffer",
        ],
        core: 11,
        essential: &[],
    },
    Path {
        id: "snapshot",
        title: "snapshot and ProcArray",
        functions: &[
            "GetSnapshotData",
            "ProcArrayEndTransaction",
            "ProcArrayEndTransactionInternal",
            "ProcArrayGroupClearXid",
            "TransactionIdIsInProgress",
        ],
        core: 5,
        essential: &[],
    },
    Path {
        id: "wal-insert",
        title: "WAL insertion",
        functions: &[
            "XLogInsertRecord",
            "ReserveXLogInsertLocation",
            "CopyXLogRecordToWAL",
            "WALInsertLockAcquire",
            "WALInsertLockAcquireExclusive",
            "WALInsertLockRelease",
            "WALInsertLockUpdateInsertingAt",
            "WaitXLogInsertionsToFinish",
            "AdvanceXLInsertBuffer",
            "GetXLogBuffer",
            "LWLockWaitForVar",
            "LWLockUpdateVar",
            "LWLockReleaseClearVar",
            "LWLockConflictsWithVar",
        ],
        core: 14,
        essential: &[],
    },
];

/// Functions that wait on a spinlock: `SPIN_DELAY()` is inlined into the first two; the third is what it
/// calls where nothing is inlined.
pub const DELAY_FUNCTIONS: &[&str] = &["perform_spin_delay", "s_lock", "spin_delay"];
