//! What the CPU time was spent within: the functions that begin some work, with all that they call.
//!
//! Of such a function hardly any time is its own, so that it stands far down in a list of the hottest,
//! or not in it; a sample belongs to it wherever in the chain it stands. Names are those of
//! PostgreSQL's source (versions 9.6 to 18) and of its libraries.

use std::sync::LazyLock;

use pgassay_readings::profile::Frame;
use serde::{Deserialize, Serialize};

use super::names::Names;

/// Work that rules ask for as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Compiling expressions, and what the compiler's memory and code cost.
    Compiling,
    /// Reading large values from where they lie out of line, and unpacking them.
    Detoasting,
    /// Ending a process: giving back its memory and its page tables.
    Exits,
    /// Checks of foreign keys.
    ForeignKeys,
    /// Faults that are served with transparent huge pages, with the compaction that makes room for them.
    HugeFaults,
    /// Entries of indexes, with their log.
    IndexEntries,
    /// Waiting for row, table and other heavyweight locks: queueing, falling asleep, and waking the next one.
    LockQueues,
    /// Writing the log out and flushing it, with what that wakes.
    LogFlush,
    /// Statements within functions, triggers and constraints.
    Nested,
    /// Parsing statements, and looking up what their names mean.
    Parsing,
    /// Planning statements, with what the planner reads and allocates.
    Planning,
    /// Faults on memory of a process' own: what was taken from the kernel anew, or copied on writing.
    PrivateFaults,
    /// Functions in interpreted languages, with what they execute.
    Procedural,
    /// Sleeping at a lock's semaphore, and waking who sleeps there.
    Semaphores,
    /// Faults on memory that processes have in common: shared buffers, files.
    SharedFaults,
    /// Waiting for synchronous standbys.
    Standbys,
    /// Looking up the parents of subtransactions.
    Subtransactions,
    /// Writing temporary files and reading them again.
    TemporaryFiles,
    /// Triggers other than those of foreign keys.
    Triggers,
    /// Starting and ending parallel workers, or other processes, and giving them their work.
    Workers,
}

use Work::{
    Compiling, Detoasting, Exits, ForeignKeys, HugeFaults, IndexEntries, LockQueues, LogFlush,
    Nested, Parsing, Planning, PrivateFaults, Procedural, Semaphores, SharedFaults, Standbys,
    Subtransactions, TemporaryFiles, Triggers, Workers,
};

const BEGUN_BY: &[(Work, &str)] = &[
    (Compiling, "llvm_*"),
    (
        Detoasting,
        "detoast_attr* heap_tuple_untoast_attr* heap_tuple_fetch_attr pg_detoast_datum* \
         toast_decompress_datum* toast_fetch_datum* heap_fetch_toast_slice pglz_decompress \
         LZ4_decompress_safe*",
    ),
    // Checks are compiled into tail calls; nobody else in the server executes plans under a snapshot of
    // their own.
    (ForeignKeys, "RI_FKey_* SPI_execute_snapshot"),
    (
        IndexEntries,
        "ExecInsertIndexTuples index_insert btinsert _bt_doinsert hashinsert gininsert gistinsert \
         brininsert spginsert",
    ),
    (
        LockQueues,
        "ProcSleep ProcLockWakeup ProcWakeup CheckDeadLock",
    ),
    (LogFlush, "XLogFlush"),
    (Nested, "SPI_execute* SPI_cursor_* fmgr_sql"),
    (
        Parsing,
        "pg_parse_query raw_parser parse_analyze* pg_analyze_and_rewrite* pg_rewrite_query",
    ),
    (
        Planning,
        "pg_plan_query pg_plan_queries standard_planner planner subquery_planner",
    ),
    (
        Semaphores,
        "PGSemaphoreLock PGSemaphoreTimedLock PGSemaphoreUnlock ProcSleep ProcWakeup",
    ),
    (
        PrivateFaults,
        "alloc_anon_folio do_anonymous_page do_cow_fault do_huge_pmd_anonymous_page do_wp_page wp_page_copy",
    ),
    (
        SharedFaults,
        "do_read_fault do_shared_fault filemap_map_pages next_uptodate_folio shmem_fault",
    ),
    (Standbys, "SyncRepWaitForLSN SyncRepReleaseWaiters"),
    (
        Subtransactions,
        "SubTransGetTopmostTransaction SubTransGetParent",
    ),
    (
        TemporaryFiles,
        "BufFile* LogicalTape* sts_puttuple sts_parallel_scan_next",
    ),
    (
        Triggers,
        "ExecCallTriggerFunc ExecBR*Triggers* ExecIR*Triggers ExecBS*Triggers \
         AfterTriggerEndQuery AfterTriggerFireDeferred plpgsql_exec_trigger",
    ),
    (
        Workers,
        "StartBackgroundWorker BackgroundWorkerMain InitializeParallelDSM LaunchParallelWorkers \
         ExecInitParallelPlan ExecParallelReinitialize ExecParallelFinish ExecParallelCleanup \
         DestroyParallelContext WaitForParallelWorkers* maybe_start_bgworker* do_start_bgworker \
         fork_process postmaster_child_launch",
    ),
];
/// What the kernel does to start and end a process. By its end its stack is gone, and so are its callers.
const OF_PROCESSES: &[&str] = &[
    "copy_process",
    "do_exit",
    "do_group_exit",
    "dup_mm",
    "dup_mmap",
    "exit_mmap",
    "kernel_clone",
    "ret_from_fork",
    "ret_from_fork_asm",
];
/// Those of them that end one.
const EXITS: &[&str] = &[
    "__mmput",
    "do_exit",
    "do_group_exit",
    "exit_mm",
    "exit_mmap",
    "mmput",
];
/// What the kernel does to give a process a transparent huge page.
const HUGE_FAULTS: &[&str] = &[
    "__do_huge_pmd_anonymous_page",
    "clear_huge_page",
    "collapse_huge_page",
    "do_huge_pmd_anonymous_page",
    "do_huge_pmd_wp_page",
    "khugepaged",
    "vma_alloc_anon_folio_pmd",
];
/// Functions in which a worker begins, and those in which it does what it is there for.
const WORKER: &[&str] = &["StartBackgroundWorker", "BackgroundWorkerMain"];
const EXECUTION: &[&str] = &["standard_ExecutorRun", "ExecutorRun"];
/// Libraries of interpreted languages.
const LANGUAGES: &[&str] = &["plpgsql.so", "plperl.so", "plpython", "pltcl.so"];
/// The compiler of expressions. What it has compiled runs in no file.
const COMPILER: &str = "libLLVM";

static TABLE: LazyLock<Names<Work>> = LazyLock::new(|| Names::new(BEGUN_BY));

fn begun_by(frame: &Frame) -> Option<Work> {
    if frame.is_kernel() {
        let is_of_processes = OF_PROCESSES.contains(&frame.symbol.as_str());
        // A listing as text takes all callers of a kernel function for the kernel's.
        return match is_of_processes {
            true => Some(Workers),
            false => TABLE.find(&frame.symbol),
        };
    }
    if LANGUAGES.iter().any(|name| frame.object.starts_with(name)) {
        // Its functions have names that say nothing beyond it.
        return Some(match frame.symbol.as_str() {
            "plpgsql_exec_trigger" => Triggers,
            _ => Procedural,
        });
    }
    if frame.object.starts_with(COMPILER) {
        return Some(Compiling);
    }
    TABLE.find(&frame.symbol)
}

/// What a function with all that it calls is.
pub(super) fn of_function(frame: &Frame) -> Vec<Work> {
    of(&[frame])
}

/// All that a sample was spent within, each once; the chain stands from the outermost caller.
pub(super) fn of(chain: &[&Frame]) -> Vec<Work> {
    let mut found: Vec<Work> = Vec::new();
    let mut put = |work: Work| {
        if !found.contains(&work) {
            found.push(work);
        }
    };
    for frame in chain {
        match begun_by(frame) {
            Some(Triggers) if frame.symbol == "plpgsql_exec_trigger" => {
                put(Procedural);
                put(Triggers);
            }
            Some(ForeignKeys) => {
                put(ForeignKeys);
                put(Nested);
            }
            Some(work) => put(work),
            None => {}
        }
        if frame.is_kernel() {
            let is_one = |names: &[&str]| names.contains(&frame.symbol.as_str());
            for (work, names) in [(Exits, EXITS), (HugeFaults, HUGE_FAULTS)] {
                if is_one(names) {
                    put(work);
                }
            }
        }
    }
    // What workers execute would have to be executed without them, too.
    let named = |frame: &&Frame, names: &[&str]| names.contains(&frame.symbol.as_str());
    let mut of_worker = chain.iter().skip_while(|frame| !named(frame, WORKER));
    if of_worker.any(|frame| named(frame, EXECUTION)) {
        found.retain(|work| *work != Workers);
    }
    // A foreign key is checked by a trigger of the server's own.
    if found.contains(&ForeignKeys) {
        found.retain(|work| *work != Triggers);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn works(chain: &str) -> Vec<Work> {
        let frames: Vec<Frame> = chain
            .split_ascii_whitespace()
            .map(|name| match name.split_once('@') {
                Some((name, object)) => Frame::new(name, object),
                None => Frame::new(name, "postgres"),
            })
            .collect();
        of(&frames.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_sample_belongs_to_all_that_called_it() {
        for (chain, expected) in [
            ("PostgresMain ExecModifyTable heap_update", vec![]),
            (
                "ExecModifyTable ExecInsertIndexTuples btinsert XLogInsert",
                vec![IndexEntries],
            ),
            (
                "CommitTransaction XLogFlush LWLockAcquireOrWait PGSemaphoreLock",
                vec![LogFlush, Semaphores],
            ),
            (
                "heap_update XactLockTableWait LockAcquire ProcSleep WaitLatch",
                vec![LockQueues],
            ),
            (
                "ExecSort palloc asm_exc_page_fault@[kernel] do_anonymous_page@[kernel] clear_page_erms@[kernel]",
                vec![PrivateFaults],
            ),
            (
                "ReadBuffer asm_exc_page_fault@[kernel] do_shared_fault@[kernel] shmem_fault@[kernel]",
                vec![SharedFaults],
            ),
            (
                "CommitTransaction SyncRepWaitForLSN WaitLatch",
                vec![Standbys],
            ),
            (
                "AfterTriggerEndQuery RI_FKey_noaction_del SPI_execute_snapshot heap_getnextslot",
                vec![ForeignKeys, Nested],
            ),
            (
                "ExecBRInsertTriggers plpgsql_call_handler@plpgsql.so plpgsql_exec_trigger@plpgsql.so \
                 SPI_execute_plan_with_paramlist heap_getnextslot",
                vec![Triggers, Procedural, Nested],
            ),
            (
                "ExecInterpExpr jsonb_object_field_text pg_detoast_datum memcpy@libc.so.6",
                vec![Detoasting],
            ),
            (
                "llvm_compile_expr@llvmjit.so getLazyIRCompileLayer@libLLVM-14.so.1 clear_page@[kernel.kallsyms]",
                vec![Compiling],
            ),
            (
                "ServerLoop StartBackgroundWorker ParallelWorkerMain standard_ExecutorRun ExecScan",
                vec![],
            ),
            (
                "ServerLoop StartBackgroundWorker proc_exit do_exit@[kernel.kallsyms]",
                vec![Workers, Exits],
            ),
            (
                "PostgresMain exec_simple_query pg_plan_queries standard_planner eqjoinsel clear_page@[kernel.kallsyms]",
                vec![Planning],
            ),
            (
                "do_group_exit@[kernel] exit_mmap@[kernel]",
                vec![Workers, Exits],
            ),
            (
                "ExecSort page_fault@[kernel] do_huge_pmd_anonymous_page@[kernel] compact_zone@[kernel]",
                vec![PrivateFaults, HugeFaults],
            ),
            (
                "XidInMVCCSnapshot SubTransGetTopmostTransaction SubTransGetParent LWLockAcquire",
                vec![Subtransactions],
            ),
            (
                "AfterTriggerEndQuery SPI_execute_snapshot standard_ExecutorRun",
                vec![ForeignKeys, Nested],
            ),
            (
                "PostgresMain standard_ExecutorRun ExecGather LaunchParallelWorkers",
                vec![Workers],
            ),
            (
                "ExecSort puttuple_common LogicalTapeWrite BufFileWrite vfs_write@[kernel.kallsyms]",
                vec![TemporaryFiles],
            ),
        ] {
            assert_eq!(works(chain), expected, "{chain}");
        }
    }
}
