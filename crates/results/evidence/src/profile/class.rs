//! What a sample was spent on, in PostgreSQL's terms.
//!
//! A function is looked up by name; names are those of PostgreSQL's source
//! (src/backend, versions 9.6 to 18) and of Linux. Where the sampled function
//! says nothing by itself (`memcpy`, a static function of a stripped server) its
//! nearest caller that says something decides. What nothing decides stays
//! [`Class::Other`]; it is never guessed.

use std::sync::LazyLock;

use pgassay_readings::profile::Frame;
use serde::{Deserialize, Serialize};

use super::names::Names;

/// What a sample was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Waiting for or taking a spinlock.
    Spinlock,
    /// Lightweight locks: acquire, release, their wait lists.
    Lwlock,
    /// The heavyweight lock manager: relation, tuple, transaction locks.
    HeavyLock,
    /// Finding a block in the buffer mapping table, and replacing one.
    BufferMapping,
    /// Pinning and unpinning a buffer.
    Pin,
    /// A buffer's content lock.
    ContentLock,
    /// Taking snapshots and deciding what is visible.
    Snapshot,
    /// Plans being executed, expressions, access methods.
    Executor,
    /// Parsing, rewriting, planning, catalog look-ups.
    ParseAndPlan,
    /// Messages to and from the client, and the loop around statements.
    Protocol,
    /// Transactions: start, commit, resource owners.
    Transaction,
    /// Writing the log.
    Wal,
    /// Memory contexts and the C library's allocator.
    Memory,
    /// Compiled expressions.
    Jit,
    /// Sockets and network in the kernel.
    KernelNetwork,
    /// Sleeping, waking up, switching.
    KernelWakeUp,
    /// Page faults and page tables.
    PageFaults,
    /// Moving pages of memory together, so that larger ones become free.
    Compaction,
    /// Files and block devices.
    Io,
    /// System calls' entry and the rest of the kernel.
    KernelOther,
    /// Anything else.
    Other,
}

/// All classes in the order of reports.
pub const CLASSES: &[Class] = &[
    Class::Spinlock,
    Class::Lwlock,
    Class::HeavyLock,
    Class::BufferMapping,
    Class::Pin,
    Class::ContentLock,
    Class::Snapshot,
    Class::Executor,
    Class::ParseAndPlan,
    Class::Protocol,
    Class::Transaction,
    Class::Wal,
    Class::Memory,
    Class::Jit,
    Class::KernelNetwork,
    Class::KernelWakeUp,
    Class::PageFaults,
    Class::Compaction,
    Class::Io,
    Class::KernelOther,
    Class::Other,
];

impl Class {
    /// Its name in reports.
    pub fn title(self) -> &'static str {
        match self {
            Self::Spinlock => "spinlock",
            Self::Lwlock => "LWLock",
            Self::HeavyLock => "lock manager",
            Self::BufferMapping => "buffer mapping",
            Self::Pin => "buffer pin",
            Self::ContentLock => "content lock",
            Self::Snapshot => "snapshot",
            Self::Executor => "executor",
            Self::ParseAndPlan => "parse and plan",
            Self::Protocol => "protocol",
            Self::Transaction => "transaction",
            Self::Wal => "WAL",
            Self::Memory => "memory",
            Self::Jit => "JIT",
            Self::KernelNetwork => "kernel: network",
            Self::KernelWakeUp => "kernel: sleep and wake-up",
            Self::PageFaults => "kernel: page faults",
            Self::Compaction => "kernel: memory compaction",
            Self::Io => "kernel: files and devices",
            Self::KernelOther => "kernel: other",
            Self::Other => "other",
        }
    }
}

use Class::{
    BufferMapping, Compaction, ContentLock, Executor, HeavyLock, Io, Jit, KernelNetwork,
    KernelWakeUp, Lwlock, Memory, PageFaults, ParseAndPlan, Pin, Protocol, Snapshot, Spinlock,
    Transaction, Wal,
};

/// Functions of the server: whole names, and patterns
/// with `*`. A whole name decides before a pattern, an earlier pattern before a later one.
const SERVER: &[(Class, &str)] = &[
    (
        Spinlock,
        "s_lock tas perform_spin_delay finish_spin_delay s_lock_stuck spin_delay",
    ),
    (Lwlock, "LWLock* ProcSendSignal PGSemaphore* proclist_*"),
    (
        HeavyLock,
        "LockAcquire* LockRelease* LockRelation* UnlockRelation* LockTuple* UnlockTuple* \
         ProcSleep ProcWakeup ProcLockWakeup DeadLockCheck* FastPath* GrantLock* SetupLockInTable \
         LockCheckConflicts RemoveLocalLock XactLock* VirtualXactLock* GrantAwaitedLock \
         LockWaitCancel ProcArrayGroupClear* LockTagHashCode CheckForSerializableConflict* \
         PredicateLock*",
    ),
    (
        BufferMapping,
        "BufTable* BufferAlloc ReadBuffer* StartReadBuffer* WaitReadBuffers AsyncReadBuffers \
         PrefetchBuffer PrefetchSharedBuffer StrategyGetBuffer ClockSweepTick GetVictimBuffer \
         InvalidateBuffer InvalidateVictimBuffer hash_search_with_hash_value ExtendBufferedRel* \
         smgropen FlushBuffer SyncOneBuffer BufferSync BgBufferSync StrategyFreeBuffer \
         ReadRecentBuffer ScheduleBufferTagForWriteback BufferGetTag TerminateBufferIO \
         StartBufferIO read_stream_* PinBufferForBlock",
    ),
    (
        Pin,
        "PinBuffer* UnpinBuffer* ReleaseBuffer ReleaseAndReadBuffer IncrBufferRefCount \
         *PrivateRefCount* LockBufHdr UnlockBufHdr WaitBufHdrUnlocked UnlockReleaseBuffer \
         TrackNewBufferPin BufferIsPermanent ResOwnerReleaseBuffer* BufferIsValid \
         GetPrivateRefCount*",
    ),
    (
        ContentLock,
        "LockBuffer* ConditionalLockBuffer* BufferLock* UnlockBuffers",
    ),
    (
        Snapshot,
        "GetSnapshotData* GetTransactionSnapshot GetLatestSnapshot GetCatalogSnapshot \
         PushActiveSnapshot* PopActiveSnapshot CopySnapshot RegisterSnapshot* UnregisterSnapshot* \
         SnapshotReset* XidInMVCC* HeapTupleSatisfies* TransactionIdIsInProgress \
         TransactionIdIsCurrent* TransactionIdDidCommit TransactionIdGetStatus \
         TransactionLogFetch GlobalVis* ProcArray* GetOldestXmin GetOldestNonRemovable* \
         ComputeXidHorizons SimpleLruReadPage* SubTransGet* SlruSelect* \
         InvalidateCatalogSnapshot* GetSnapshotDataReuse GetMaxSnapshot* HeapTupleHeaderGetC* \
         KnownAssignedXids*",
    ),
    (
        Wal,
        "XLog* xlog* CopyXLogRecord* ReserveXLog* GetXLogBuffer AdvanceXLInsertBuffer \
         WALInsertLock* pg_comp_crc32c* log_heap_* issue_xlog_fsync WaitXLogInsertionsToFinish \
         RecordTransactionCommit* UpdateFullPageWrites LogLogicalMessage GetFullPageWriteInfo \
         MarkBufferDirtyHint UpdateMinRecoveryPoint WalWriter* WalSnd* wal_*",
    ),
    (
        Memory,
        "AllocSet* MemoryContext* palloc* pfree repalloc* malloc free cfree realloc calloc \
         _int_malloc _int_free* _int_realloc malloc_consolidate sysmalloc unlink_chunk Slab* \
         Generation* Bump* pstrdup __libc_malloc __libc_free mm_* tcache_* systrim",
    ),
    (
        ParseAndPlan,
        "base_yy* core_yy* raw_parser pg_parse_query pg_analyze* parse_* transform* pg_rewrite* \
         QueryRewrite fireRIRrules pg_plan_quer* standard_planner planner* subquery_planner \
         grouping_planner query_planner make_* create_*path* create_*plan* build_* cost_* \
         add_path* set_*pathlist* set_*size* SearchCatCache* SearchSysCache* ReleaseCatCache* \
         ReleaseSysCache CatalogCache* RelationIdGetRelation get_relation_info GetCachedPlan \
         RevalidateCachedQuery CheckCachedPlan CreateCachedPlan CompleteCachedPlan \
         ReleaseCachedPlan ScanKeywordLookup expression_tree_* eval_const_* preprocess_* \
         simplify_* estimate_* clause* restriction_selectivity get_*type* func_get_detail \
         FuncnameGetCandidates lookup_type_cache AcquireExecutorLocks equal \
         copyObjectImpl _copy* _equal* match_* generate_* examine_* eqsel* eqjoinsel* \
         neqjoinsel scalarltsel scalargtsel scalarineqsel* scalararraysel* arraycontsel tsmatchsel var_eq_const \
         RangeVarGetRelid* relation_open* table_open index_open recomputeNamespacePath \
         addRangeTable* makeVar* fix_* JumbleQuery BuildCachedPlan choose_custom_plan ChoosePlan \
         oper coerce_* downcase_* truncate_identifier LookupFuncName*",
    ),
    (
        Protocol,
        "PostgresMain exec_*_message exec_simple_query pq_* internal_flush* internal_putbytes \
         secure_* socket_* ReadCommand SocketBackend printtup* EndCommand NullCommand \
         ReadyForQuery BeginCommand SendRowDescription* WaitEventSet* CreateDestReceiver int4send \
         int4out int8out textsend bpcharout pgstat_report_* set_ps_display* be_tls_* SSL_* ssl3_* \
         EVP_* aes* recv send epoll_wait __libc_recv __libc_send ProcessClient* pgstat_* \
         SetCurrentStatementStartTimestamp GetCurrentTimestamp enable_timeout* disable_timeout* \
         schedule_alarm start_xact_command finish_xact_command ModifyWaitEvent GetCommandTagName* \
         pg_ltoa pg_lltoa CreateCommandTag pg_server_to_client pg_client_to_server",
    ),
    (
        Transaction,
        "StartTransaction* CommitTransaction* AbortTransaction* AtEOXact_* AtStart_* AtCommit_* \
         ResourceOwner* ResourceArray* ResOwner* PreCommit_* GetNewTransactionId \
         AssignTransactionId AtEOSubXact_* CallXactCallbacks smgrDoPending* \
         ProcessInvalidationMessages* AcceptInvalidationMessages ReceiveShared* SIGet* \
         GetCurrentTransaction* IsTransaction* AfterTrigger* ExtendCLOG TransactionIdSet* \
         TransactionTreeSet* TransactionGroupUpdate*",
    ),
    (Jit, "llvm_* llvmjit_* evalexpr_* deform_* LLVM* _ZN4llvm*"),
    (
        Executor,
        "Exec* exec* standard_Executor* Portal* heap_* heapam_* heapgettup* heapget* index_* \
         _bt_* bt* hash_* int4* int8* slot_* tts_* nocachegetattr agg* advance_* tuplesort_* \
         comparetup_* qsort_* pg_qsort tuplehash_* FunctionCall* DirectFunctionCall* \
         OidFunctionCall* numeric_* text* bpchar* Sort* Modify* Index* BitmapHeap* tbm_* SeqNext \
         SeqRecheck CreateExecutorState FreeExecutorState CreateExprContext* FreeExprContext \
         InitResultRelInfo InitPlan EvalPlanQual* visibilitymap_* RelationGetBufferForTuple \
         RelationPutHeapTuple PageAddItem* PageIndex* PageRepair* compactify_tuples Trigger* RI_* \
         plpgsql_* SPI_* fmgr_* fmtint detoast* pglz_* toast_* varstr_* bcTruelen \
         BuildIndexValueDescription FormIndexDatum free_attstats* Copy* NextCopy* DoCopy* \
         ProcessQuery CreateQueryDesc FreeQueryDesc GetPerTuple* MakeTupleTableSlot Relation* \
         ReScanExprContext ShutdownExprContext TupleDesc* CreateTupleDesc* FreeTupleDesc \
         reduce_expanded* btint4cmp datumCopy getTypeOutputInfo pull_varattnos* lazy_* vac_*",
    ),
    (
        Io,
        "FileRead* FileWrite* FileSync* mdread* mdwrite* mdextend mdnblocks smgr* pg_pread* \
         pg_pwrite* mdstartreadv pgaio_* pg_fsync* pg_fdatasync",
    ),
];

/// Functions of the kernel, likewise.
const KERNEL: &[(Class, &str)] = &[
    (
        KernelWakeUp,
        "try_to_wake_up ttwu_* __wake_up* wake_up_* autoremove_wake_function \
         default_wake_function ep_poll_callback sock_def_readable schedule* __schedule \
         finish_task_switch* pick_next_* enqueue_* dequeue_* update_curr* futex_* do_futex \
         __x64_sys_futex __arm64_sys_futex hrtimer_nanosleep do_nanosleep ep_poll do_epoll_wait \
         ep_send_events* select_task_rq* update_load_avg* psi_* __x64_sys_epoll_* resched_curr \
         smp_call_* reschedule_* update_rq_clock* set_next_* put_prev_* preempt_schedule* \
         native_smp_send* do_select do_semtimedop check_preempt* wakeup_preempt* \
         available_idle_cpu ep_item_poll*",
    ),
    (
        KernelNetwork,
        "unix_* tcp_* __tcp_* ip_* __ip_* ip6_* sock_* __sock_* sk_* skb_* __skb_* __alloc_skb \
         alloc_skb* net_rx_* __netif_* process_backlog __dev_queue_xmit dev_* nf_* __sys_sendto \
         __sys_recvfrom __x64_sys_sendto __x64_sys_recvfrom __arm64_sys_sendto \
         __arm64_sys_recvfrom consume_skb kfree_skb* loopback_xmit inet_* ____sys_sendmsg \
         simple_copy_to_iter __napi_* virtnet_* lock_sock* release_sock security_socket_* \
         sockfd_lookup* __skb_datagram* napi_*",
    ),
    (
        Compaction,
        "compact_zone* compaction_* try_to_compact_pages __alloc_pages_direct_compact \
         isolate_freepages* isolate_migratepages* fast_isolate_freepages fast_find_migrateblock \
         pageblock_pfn_to_page __pageblock_pfn_to_page set_pageblock_flags_mask \
         set_pfnblock_flags_mask get_pageblock_flags_mask get_pfnblock_flags_mask \
         update_pageblock_skip kcompactd* proactive_compact_node isolate_and_split_free_page \
         split_map_pages release_freepages",
    ),
    (
        PageFaults,
        "handle_mm_fault __handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault \
         do_fault* do_anonymous_page clear_page* clear_huge_page filemap_map_pages do_page_fault \
         do_translation_fault do_mem_abort wp_page_copy do_wp_page do_shared_fault shmem_fault \
         __do_fault finish_fault alloc_pages_vma unmap_page_range zap_* copy_pte_range \
         flush_tlb_* khugepaged* do_huge_pmd_* mmu_* tlb_* do_numa_page migrate_* copy_page \
         copy_user_highpage",
    ),
    (
        Io,
        "ext4_* xfs_* btrfs_* nfs_* jbd2_* blk_* bio_* submit_bio* __submit_bio* vfs_read \
         vfs_write vfs_fsync* do_fsync vfs_fallocate filemap_* generic_file_* \
         generic_perform_write io_schedule* nvme_* scsi_* virtblk_* virtio_queue_* page_cache_* \
         iomap_* balance_dirty_pages* writeback_* file_update_time shmem_file_* \
         copy_page_to_iter* copy_folio_* __x64_sys_pread64 __x64_sys_pwrite64 __x64_sys_fdatasync \
         ksys_pread64 ksys_pwrite64 fuse_* ovl_* overlay* io_uring_* mark_page_accessed \
         folio_mark_accessed lookup_* path_*",
    ),
];

/// What a chain's sample was spent on; the chain stands from the outermost caller.
pub fn of(chain: &[&Frame]) -> Class {
    // What a spinlock's waiter does, sleeping included, is the spinlock's cost.
    if chain
        .iter()
        .any(|f| !f.is_kernel() && matches!(f.symbol.as_str(), "s_lock" | "perform_spin_delay"))
    {
        return Spinlock;
    }
    let Some(sampled) = chain.last() else {
        return Class::Other;
    };
    if sampled.is_kernel() {
        let kernel = chain.iter().rev().take_while(|f| f.is_kernel());
        // Faults, switches and system calls are counted for whoever asked for events of them: that is no cost of theirs.
        if kernel.clone().any(|f| is_of_perf(&f.symbol)) {
            return Class::KernelOther;
        }
        // Whose pages a process that ends gives back says nothing of what it did.
        if kernel.clone().any(|f| f.symbol == "exit_mmap") {
            return PageFaults;
        }
        return kernel
            .filter_map(|f| KERNEL_TABLE.find(&f.symbol))
            .next()
            .unwrap_or(Class::KernelOther);
    }
    if sampled.object.starts_with("llvmjit") || sampled.object.starts_with("libLLVM") {
        return Jit;
    }
    chain
        .iter()
        .rev()
        .find_map(|f| SERVER_TABLE.find(&f.symbol))
        .unwrap_or(Class::Other)
}

/// Whether the kernel counts an event for perf there.
fn is_of_perf(symbol: &str) -> bool {
    ["perf_", "__perf_", "___perf_"]
        .iter()
        .any(|start| symbol.starts_with(start))
}

static SERVER_TABLE: LazyLock<Names<Class>> = LazyLock::new(|| Names::new(SERVER));
static KERNEL_TABLE: LazyLock<Names<Class>> = LazyLock::new(|| Names::new(KERNEL));

#[cfg(test)]
mod tests {
    use super::*;

    fn class(chain: &str) -> Class {
        let frames: Vec<Frame> = chain
            .split_ascii_whitespace()
            .map(|name| match name.strip_prefix("k:") {
                Some(name) => Frame::new(name, "[kernel.kallsyms]"),
                None => Frame::new(name, "postgres"),
            })
            .collect();
        of(&frames.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_classes_of_known_chains() {
        for (chain, expected) in [
            (
                "main PostgresMain ReadBuffer_common PinBuffer s_lock",
                Class::Spinlock,
            ),
            (
                "LockBufHdr perform_spin_delay k:do_syscall_64 k:hrtimer_nanosleep",
                Class::Spinlock,
            ),
            ("PinBuffer", Class::Pin),
            (
                "ReadBuffer_common BufTableLookup hash_search_with_hash_value",
                Class::BufferMapping,
            ),
            ("LockBuffer", Class::ContentLock),
            ("LockBuffer LWLockAcquire", Class::Lwlock),
            (
                "LockAcquireExtended hash_search_with_hash_value",
                Class::BufferMapping,
            ),
            ("GetSnapshotData", Class::Snapshot),
            ("ExecProcNode ExecIndexScan", Class::Executor),
            ("exec_bind_message", Class::Protocol),
            ("exec_simple_query", Class::Protocol),
            ("base_yyparse", Class::ParseAndPlan),
            ("create_index_path", Class::ParseAndPlan),
            ("XLogInsertRecord pg_comp_crc32c_sse42", Class::Wal),
            ("ExecInitNode palloc0", Class::Memory),
            ("ExecScan memcpy", Class::Executor),
            (
                "secure_write k:do_syscall_64 k:unix_stream_sendmsg k:skb_copy_datagram",
                Class::KernelNetwork,
            ),
            (
                "k:unix_stream_sendmsg k:sock_def_readable k:__wake_up_sync_key",
                Class::KernelWakeUp,
            ),
            (
                "ReadBuffer k:asm_exc_page_fault k:do_user_addr_fault k:up_read",
                Class::PageFaults,
            ),
            (
                "FileRead k:vfs_read k:ext4_file_read_iter k:copy_page_to_iter",
                Class::Io,
            ),
            (
                "ExecScan k:page_fault k:handle_mm_fault k:do_huge_pmd_anonymous_page k:compact_zone k:_spin_lock_irq",
                Class::Compaction,
            ),
            ("k:isolate_freepages_block", Class::Compaction),
            (
                "k:do_exit k:exit_mmap k:zap_pte_range k:mark_page_accessed",
                Class::PageFaults,
            ),
            ("k:entry_SYSCALL_64", Class::KernelOther),
            (
                "palloc k:asm_exc_page_fault k:do_user_addr_fault k:__perf_sw_event k:perf_swevent_event",
                Class::KernelOther,
            ),
            // Text is built for whoever asks for it.
            (
                "ExecInterpExpr json_lex appendStringInfoChar",
                Class::Executor,
            ),
            ("printtup appendBinaryStringInfo", Class::Protocol),
            ("ExecInterpExpr check_stack_depth", Class::Executor),
            ("mystery", Class::Other),
            (
                "CommitTransaction ResourceOwnerReleaseInternal",
                Class::Transaction,
            ),
            ("", Class::Other),
        ] {
            assert_eq!(class(chain), expected, "{chain}");
        }
    }

    #[test]
    fn every_class_has_a_place_in_reports() {
        for (class, _) in SERVER.iter().chain(KERNEL) {
            assert!(CLASSES.contains(class), "{class:?}");
        }
        let mut sorted = CLASSES.to_vec();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), CLASSES.len());
    }
}
